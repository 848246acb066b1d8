"""Database, broker or process away in the midst of it: nothing is lost, nothing is done twice."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition

from service.sandbox.postgres import EmbeddedPostgres
from service.sandbox.psp_server import PspServer
from tests.faults.house import (
    House,
    logged,
    until,
    until_health,
    until_started,
)
from tests.support.events import erp_event
from tests.support.kafka import ApacheKafka
from tests.support.postgres import Database
from tests.support.processes import ServiceProcess, ServiceProcesses

OUTAGE_SECONDS = 20.0
PROBE_SECONDS = 0.25
LOGGED_TWICE = """
SELECT count(*) FROM (
    SELECT FROM payment_events WHERE topic IS NOT NULL
    GROUP BY topic, partition, "offset" HAVING count(*) > 1
) AS twice
"""
PAYMENTS = "SELECT count(*) FROM payments WHERE erp_version = 1"


@contextlib.asynccontextmanager
async def livez_watched(process: ServiceProcess) -> AsyncIterator[list[int]]:
    """Probe liveness all the while; gives the status codes."""
    codes: list[int] = []

    async def probe() -> None:
        while True:
            code, _ = await process.health("/livez")
            codes.append(code)
            await asyncio.sleep(PROBE_SECONDS)

    probing = asyncio.create_task(probe())
    try:
        yield codes
    finally:
        probing.cancel()


async def test_database_outage_fails_readiness_alone_and_loses_no_event(
    own_postgres: EmbeddedPostgres, house: House
) -> None:
    service = house.start(DATABASE__URL=own_postgres.url)
    await until_health(service, "/readyz", 200)
    await house.send(*(erp_event(f"before-{number}", 1) for number in range(50)))
    await until_rows(own_postgres, PAYMENTS, 50)
    pid = service.pid

    async with livez_watched(service) as codes:
        await own_postgres.stop()
        loop = asyncio.get_running_loop()
        away_until = loop.time() + OUTAGE_SECONDS
        await until_health(service, "/readyz", 503)
        await house.send(*(erp_event(f"meanwhile-{number}", 1) for number in range(50)))
        await asyncio.sleep(away_until - loop.time())
        await own_postgres.start()
        await until_health(service, "/readyz", 200)
        await until_rows(own_postgres, PAYMENTS, 100)

    assert set(codes) == {200}
    assert len(codes) > OUTAGE_SECONDS / PROBE_SECONDS / 2
    assert (service.pid, service.returncode) == (pid, None)
    assert not logged(service, "coroutine.crashed")
    assert await value_of(own_postgres, LOGGED_TWICE) == 0


async def test_database_away_at_the_start_is_waited_for(
    own_postgres: EmbeddedPostgres, worker_house: House
) -> None:
    await own_postgres.stop()
    service = worker_house.start("reconcile,watch", DATABASE__URL=own_postgres.url)
    await until_health(service, "/livez", 200)
    code, body = await service.health("/readyz")
    assert (code, body["status"]) == (503, "fail")
    await own_postgres.start()
    await until_health(service, "/readyz", 200)
    assert service.running


@pytest.mark.kafka
async def test_broker_away_at_the_start_and_later_only_warns_and_events_flow_when_it_is_back(
    database: Database,
    psp: PspServer,
    services: ServiceProcesses,
    apache_kafka: ApacheKafka,
    kafka_house: House,
) -> None:
    house = kafka_house
    await apache_kafka.stop()
    service = house.start()
    await until_started(service)
    async with livez_watched(service) as codes:
        await until(lambda: warns_of_kafka(service), "a warning while the broker is away")
        await apache_kafka.start()
        await house.send(*(erp_event(f"first-{number}", 1) for number in range(20)))
        await house.until_count(PAYMENTS, 20)

        await apache_kafka.stop()
        await until(lambda: warns_of_kafka(service), "a warning while the broker is away again")
        await apache_kafka.start()
        await house.send(*(erp_event(f"second-{number}", 1) for number in range(20)))
        await house.until_count(PAYMENTS, 40)
        await until(lambda: passes(service), "no warning is left")
    assert set(codes) == {200}
    assert service.running
    assert not logged(service, "coroutine.crashed")
    assert await house.rows(LOGGED_TWICE) == [(0,)]


async def test_killed_between_the_commit_to_the_database_and_the_one_to_kafka(
    house: House,
) -> None:
    first = house.start("ingest")
    await until_started(first)
    await house.send(*(erp_event(f"pay-{number}", 1) for number in range(40)))
    await house.until_count("SELECT count(*) FROM payments", 40)
    first.kill()
    await first.wait(10)
    stored = dict(
        await house.rows(
            "SELECT partition, next_offset FROM consumer_offsets WHERE topic = $1", house.topics.erp
        )
    )
    in_kafka = await committed(house, house.topics.erp, list(stored))
    assert sum(stored.values()) == 40
    assert sum(in_kafka.values()) < 40, "it was killed too late for this test"

    second = house.start("ingest")
    await until_started(second)
    await house.send(*(erp_event(f"late-{number}", 1) for number in range(8)))
    await house.until_count("SELECT count(*) FROM payments", 48)
    assert await house.rows(LOGGED_TWICE) == [(0,)]
    assert await house.rows("SELECT count(*), count(DISTINCT payment_id) FROM payment_events") == [
        (48, 48)
    ]
    assert await house.rows("SELECT DISTINCT row_version FROM payments") == [(1,)]


@pytest.mark.kafka
async def test_member_that_is_killed_leaves_its_partitions_to_the_other(
    kafka_house: House,
) -> None:
    house = kafka_house
    first, second = house.start("ingest"), house.start("ingest")
    await until(lambda: shared(first, second), "both have partitions")
    sending = asyncio.create_task(send_slowly(house, 400))
    await until(lambda: has_payments(house, 100), "100 payments")
    first.kill()
    await sending
    await house.until_count("SELECT count(*) FROM payments", 400)
    await until(lambda: assigned(second, 8), "the other has all partitions")
    assert await house.rows(LOGGED_TWICE) == [(0,)]
    assert await house.rows("SELECT count(*) FROM payment_events WHERE outcome = 'applied'") == [
        (400,)
    ]
    assert await house.rows("SELECT DISTINCT row_version FROM payments") == [(1,)]


async def send_slowly(house: House, number: int) -> None:
    """In portions, so that a death falls between two of them."""
    for start in range(0, number, 20):
        await house.send(*(erp_event(f"pay-{each}", 1) for each in range(start, start + 20)))


async def has_payments(house: House, number: int) -> bool:
    count: int = await house.connection.fetchval("SELECT count(*) FROM payments")
    return count >= number


async def shared(first: ServiceProcess, second: ServiceProcess) -> bool:
    return await assigned(first, 4) and await assigned(second, 4)


async def assigned(process: ServiceProcess, partitions: int) -> bool:
    """Whether the health body says that it has so many partitions."""
    _, body = await process.health("/health")
    rows = body["checks"].get("kafka:assignment", []) if body else []
    return [row["observedValue"] for row in rows] == [partitions]


async def warns_of_kafka(process: ServiceProcess) -> bool:
    """Whether readiness is 200 and says `warn` because of the broker."""
    code, body = await process.health("/readyz")
    rows = body["checks"].get("kafka:connection", [])
    return code == 200 and body["status"] == "warn" and [row["status"] for row in rows] == ["warn"]


async def passes(process: ServiceProcess) -> bool:
    code, body = await process.health("/readyz")
    return code == 200 and body["status"] == "pass"


async def committed(house: House, topic: str, partitions: list[int]) -> dict[int, int]:
    """The offsets that the group has committed to Kafka."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=house.servers, group_id=house.topics.group_id, enable_auto_commit=False
    )
    await consumer.start()
    try:
        found = {each: await consumer.committed(TopicPartition(topic, each)) for each in partitions}
    finally:
        await consumer.stop()
    return {each: offset or 0 for each, offset in found.items()}


async def until_rows(postgres: EmbeddedPostgres, query: str, number: int) -> None:
    async def is_there() -> bool:
        return bool(await value_of(postgres, query) == number)

    await until(is_there, f"{query} = {number}")


async def value_of(postgres: EmbeddedPostgres, query: str) -> Any:
    """One value, over a connection of its own: the server may have been away."""
    connection = await Database(postgres.url).connect()
    try:
        return await connection.fetchval(query)
    finally:
        await connection.close()
