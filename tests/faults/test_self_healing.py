"""What the process mends by itself, and when it gives up and ends for a new one to begin."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from service.domain.schedule import Rules
from service.errors import SupervisionError
from service.ingest.apply import ApplyOptions
from service.ingest.consumer import STALLS_MAX, Ingest
from service.ingest.options import IngestOptions, KafkaOptions
from service.lifecycle import Condition, Supervised, supervise
from service.observe.metrics import Metrics
from service.sandbox.postgres import EmbeddedPostgres
from service.store.pool import PoolOptions, open_pool
from tests.faults.house import (
    INSERT_JOB,
    INSERT_PAYMENT,
    House,
    logged,
    until,
    until_health,
)
from tests.support.events import erp_event
from tests.support.postgres import Database
from tests.support.processes import ServiceProcess

WORKER = "reconcile,watch"
OUTAGE_SECONDS = 60.0
SUPERVISION_EXIT_CODE = 5
SLOW = {"PSP__TIMEOUT_SECONDS": "2", "RECONCILE__SWEEP_SECONDS": "0.2"}
ANSWER_SECONDS = 1.5
# Only the sweeper reads it.
BREAK_SWEEPER = "ALTER TABLE controls RENAME COLUMN orders_swept_log_id TO gone"
MEND_SWEEPER = "ALTER TABLE controls RENAME COLUMN gone TO orders_swept_log_id"


async def test_database_restart_after_a_minute_is_survived_and_polling_goes_on(
    own_postgres: EmbeddedPostgres, worker_house: House
) -> None:
    """Reported as procrastinate 1591, procrastinate 1116, pgqueuer 224, good_job 303 and
    pg-boss 850.
    """
    house = worker_house
    house.know("before", "after")
    service = house.start(WORKER, DATABASE__URL=own_postgres.url)
    await until_health(service, "/readyz", 200)
    async with connected(own_postgres) as connection:
        await add_job(connection, "before")
        await until_healed(connection, "before")
    await own_postgres.stop()
    await until_health(service, "/readyz", 503)
    await asyncio.sleep(OUTAGE_SECONDS)
    assert (await service.health("/livez"))[0] == 200
    await own_postgres.start()
    async with connected(own_postgres) as connection:
        # Nobody tells the service of it.
        await add_job(connection, "after")
        await until_healed(connection, "after")
    await until_health(service, "/readyz", 200)
    assert not logged(service, "coroutine.crashed")
    service.terminate()
    assert await service.wait(30) == 0


async def test_part_that_crashes_is_started_again(worker_house: House) -> None:
    service = worker_house.start(WORKER, **SLOW)
    await until_health(service, "/readyz", 200)
    await worker_house.connection.execute(BREAK_SWEEPER)
    await until(lambda: len(logged(service, "coroutine.crashed")) >= 2, "two crashes")
    await worker_house.connection.execute(MEND_SWEEPER)
    await until(lambda: is_running_again(service), "the sweeper runs again")
    crashed = logged(service, "coroutine.crashed")
    assert {line["name"] for line in crashed} == {"sweeper"}
    _, text = await service.health("/metrics")
    assert f'reconciler_restarts_total{{name="sweeper"}} {len(crashed)}.0' in text
    assert (await service.health("/readyz"))[0] == 200
    assert service.running


async def test_part_that_is_dead_fails_liveness_and_ends_the_process_after_a_drain(
    worker_house: House,
) -> None:
    house = worker_house
    house.slow_down(ANSWER_SECONDS)
    service = house.start(WORKER, LEASE__CONCURRENCY="1", **SLOW)
    await until_health(service, "/readyz", 200)
    names = [f"pay-{number}" for number in range(40)]
    house.know(*names)
    for name in names:
        await house.add_job(name)
    await house.connection.execute(BREAK_SWEEPER)
    body = await until_health(service, "/livez", 503)
    parts = {row["componentId"]: row["status"] for row in body["checks"]["runtime:tasks"]}
    assert parts == {
        "sweeper": "fail",
        "watcher": "pass",
        "worker": "pass",
        "scheduler": "pass",
    } | {"samplers": "pass"}
    assert (await service.health("/readyz"))[0] == 503
    assert await service.wait(30) == SUPERVISION_EXIT_CODE

    assert [line["name"] for line in logged(service, "coroutine.dead")] == ["sweeper"]
    assert "sweeper crashed" in logged(service, "process.failed")[0]["error"]
    # The job in the worker's hands has had its end, and nothing waits for a lease to run out.
    outcomes = [outcome for _, outcome in await house.attempts()]
    assert set(outcomes) <= {"healed", "released"}
    assert not await house.rows("SELECT FROM reconciliation_jobs WHERE status = 'processing'")


async def test_supervision_ends_at_once_for_what_a_new_process_must_mend() -> None:
    """Such an error is found within the group of a part's own coroutines too."""
    hopeless = SupervisionError("nothing here helps")

    async def run() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(fail())

    async def fail() -> None:
        raise hopeless

    states: list[Supervised] = []
    with pytest.raises(SupervisionError, match="nothing here helps"):
        await supervise("part", run, stop=asyncio.Event(), on_state=states.append)
    assert [state.condition for state in states] == [Condition.RUNNING, Condition.DEAD]


@pytest.mark.kafka
async def test_consumer_that_stopped_to_fetch_is_rebuilt_and_loses_nothing(
    kafka_house: House,
) -> None:
    """Reported as aiokafka 1154, aiokafka 983 and aiokafka 625."""
    house = kafka_house
    async with open_ingest(house) as ingest, asyncio.TaskGroup() as group:
        stop = asyncio.Event()
        running = group.create_task(ingest.run(stop))
        await house.send(*(erp_event(f"first-{number}", 1) for number in range(20)))
        await house.until_count("SELECT count(*) FROM payments", 20)
        for rebuilds in (1, 2):
            # Records come between two stalls: they do not add up.
            stop_fetching(ingest)
            prefix = f"later-{rebuilds}"
            await house.send(*(erp_event(f"{prefix}-{number}", 1) for number in range(20)))
            await house.until_count("SELECT count(*) FROM payments", 20 + 20 * rebuilds)
            assert ingest.status().rebuilds == rebuilds
        assert not running.done()
        stop.set()
    rows = await house.rows("SELECT count(*), count(DISTINCT payment_id) FROM payment_events")
    assert rows == [(60, 60)]


@pytest.mark.kafka
async def test_consumer_that_stalls_again_after_its_rebuilding_ends_the_process(
    kafka_house: House,
) -> None:
    """Reported as aiokafka 1154, aiokafka 983 and aiokafka 625."""
    house = kafka_house
    async with open_ingest(house) as ingest:
        await house.send(*(erp_event(f"pay-{number}", 1) for number in range(20)))
        running = asyncio.create_task(ingest.run(asyncio.Event()))
        stalled: list[Any] = []

        def next_stalls() -> bool:
            consumer = consumer_of(ingest)
            if consumer is not None and consumer not in stalled:
                stop_fetching(ingest)
                stalled.append(consumer)
            return running.done()

        await until(next_stalls, "ingest gives up")
        with pytest.raises(SupervisionError, match="stalled again with a new consumer"):
            await running
    assert len(stalled) == 1 + STALLS_MAX == 2
    assert await house.rows("SELECT count(*) FROM payments") == [(0,)]


@asynccontextmanager
async def open_ingest(house: House) -> AsyncIterator[Ingest]:
    """Ingest in this process, with little patience."""
    topics = house.topics
    options = IngestOptions(
        apply=ApplyOptions(
            group=topics.group_id,
            outcome_topic=topics.outcome,
            dead_letter_topic=None,
            rules=Rules(),
        ),
        poll_seconds=0.1,
        commit_seconds=0.1,
        sample_seconds=0.2,
        backoff_max_seconds=0.2,
        stall_seconds=2,
    )
    kafka = KafkaOptions(
        bootstrap_servers=house.servers,
        group_id=topics.group_id,
        topics=(topics.erp, topics.psp),
        session_timeout_seconds=6,
        heartbeat_seconds=1,
    )
    pool = await open_pool(PoolOptions(url=house.url))
    try:
        metrics = Metrics("test").ingest
        yield Ingest(pool, kafka=kafka, options=options, metrics=metrics)
    finally:
        await pool.close()


def consumer_of(ingest: Ingest) -> Any:
    """The consumer that is in use now, once it has a fetcher."""
    session = ingest._session
    consumer = session._consumer if session else None
    return consumer if consumer is not None and consumer._fetcher is not None else None


def stop_fetching(ingest: Ingest) -> None:
    """End the coroutines of the driver that fetch, which the driver does not notice."""
    fetcher = consumer_of(ingest)._fetcher
    for fetching in (fetcher._fetch_task, *fetcher._pending_tasks):
        fetching.cancel()


@asynccontextmanager
async def connected(postgres: EmbeddedPostgres) -> AsyncIterator[Any]:
    connection = await Database(postgres.url).connect()
    try:
        yield connection
    finally:
        await connection.close()


async def add_job(connection: Any, payment_id: str) -> None:
    await connection.execute(INSERT_PAYMENT, payment_id)
    await connection.execute(INSERT_JOB, payment_id)


async def until_healed(connection: Any, payment_id: str) -> None:
    async def is_healed() -> bool:
        query = "SELECT outcome FROM reconciliation_jobs WHERE payment_id = $1"
        return bool(await connection.fetchval(query, payment_id) == "healed")

    await until(is_healed, f"{payment_id} is healed")


async def is_running_again(service: ServiceProcess) -> bool:
    _, body = await service.health("/health")
    rows = body["checks"]["runtime:tasks"]
    return all(row["status"] == "pass" for row in rows)
