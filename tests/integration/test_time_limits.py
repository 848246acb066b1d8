"""Every statement and every wait has a limit: at the server, at the client, and in our own code."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import asyncpg
import pytest

from service.observe.metrics import Metrics
from service.outbox.relay import Relay, RelayActivity, RelayTerms
from service.reconcile.heartbeat import Heartbeat
from service.reconcile.lease import HeldJobs, LeaseTerms
from service.reconcile.scheduler import Scheduler, SchedulerTerms
from service.reconcile.sweep_terms import SweeperTerms
from service.reconcile.sweeper import Sweeper
from service.store.pool import PoolOptions, connect, open_pool
from service.store.transactions import transaction
from service.web.dependencies import DatabaseSampler
from service.web.snapshot import HealthBoard
from tests.support.processes import ServiceProcess, ServiceProcesses
from tests.support.proxy import TcpProxy, database_proxy
from tests.support.reconciling import OUTCOME_TOPIC, RULES, Room, ScriptedPsp, open_room
from tests.support.waiting import eventually

LIMITS = {
    "lock_timeout": "300ms",
    "statement_timeout": "600ms",
    "idle_in_transaction_session_timeout": "900ms",
}
IMPATIENT = PoolOptions(
    url="",
    connections_min=2,
    connections_max=2,
    connect_timeout_seconds=1,
    lock_timeout_seconds=0.3,
    statement_timeout_seconds=0.6,
    idle_in_transaction_timeout_seconds=0.9,
)
# What a statement may take at the client, and the giving back of its connection after it.
SILENCE_SECONDS = 4 * (IMPATIENT.statement_timeout_seconds + IMPATIENT.connect_timeout_seconds)
ROUNDS = 3


async def test_every_session_has_the_three_limits(database: Any) -> None:
    """Reported as river PR 1255."""
    options = replace(IMPATIENT, url=database.url)
    pool = await open_pool(options)
    single = await connect(options)
    try:
        async with pool.acquire() as one, pool.acquire() as other:
            for connection in (one, other, single):
                found = {name: await connection.fetchval(f"SHOW {name}") for name in LIMITS}
                assert found == LIMITS
    finally:
        single.terminate()
        pool.terminate()


async def test_limits_of_a_session_outlive_its_use(database: Any) -> None:
    """What one borrower sets within a transaction is not what the next one finds."""
    pool = await open_pool(replace(IMPATIENT, url=database.url, connections_max=2))
    try:
        async with pool.acquire() as connection, connection.transaction():
            await connection.execute("SET LOCAL statement_timeout = 0")
        for _ in range(3):
            assert await pool.fetchval("SHOW statement_timeout") == "600ms"
    finally:
        pool.terminate()


async def test_server_ends_what_takes_too_long(database: Any) -> None:
    """Reported as river PR 1255."""
    locker = await database.connect()
    pool = await open_pool(replace(IMPATIENT, url=database.url))
    try:
        with pytest.raises(asyncpg.QueryCanceledError):
            await pool.execute("SELECT pg_sleep(60)")
        async with locker.transaction():
            await locker.execute("LOCK TABLE payments IN ACCESS EXCLUSIVE MODE")
            with pytest.raises(asyncpg.LockNotAvailableError):
                await pool.execute("SELECT FROM payments")
        with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
            await begin_and_sleep(pool)
        assert await pool.fetchval("SELECT 7") == 7
    finally:
        pool.terminate()


async def test_client_does_not_wait_for_a_server_that_went_silent(database: Any) -> None:
    """Reported as river PR 1255."""
    async with database_proxy(database.url) as proxy:
        options = replace(IMPATIENT, url=proxy.url(database.url))
        pool = await open_pool(options)
        try:
            proxy.black_hole = True
            async with within(SILENCE_SECONDS):
                with pytest.raises(TimeoutError):
                    await pool.execute("SELECT 7")
            async with within(SILENCE_SECONDS):
                with pytest.raises(TimeoutError):
                    await connect(options)
        finally:
            pool.terminate()


@pytest.mark.parametrize(
    "part", ["claim", "heartbeat", "watcher", "scheduler", "sweeper", "relay", "sampler", "release"]
)
async def test_round_of_a_part_ends_though_the_server_is_silent_and_goes_well_after(
    database: Any, part: str
) -> None:
    """Reported as river PR 1255: also round after round, with no connection lost to the silence."""
    async with behind_proxy(database.url) as (room, proxy):
        once = ROUND_OF[part](room)
        await once()
        proxy.black_hole = True
        for _ in range(ROUNDS):
            async with within(SILENCE_SECONDS):
                with suppress(OSError, asyncpg.InterfaceError, asyncpg.PostgresError):
                    await once()
        proxy.black_hole = False
        await eventually(lambda: goes_well(once), within_seconds=2 * SILENCE_SECONDS)
        async with within(SILENCE_SECONDS), room.pool.acquire(), room.pool.acquire():
            pass


async def test_process_before_a_silent_database_stays_alive_and_recovers(
    database: Any, services: ServiceProcesses
) -> None:
    """Reported as river PR 1255."""
    async with database_proxy(database.url) as proxy:
        service = services.new()
        service.start(("run", "--roles", "reconcile,watch"), env=settings(proxy.url(database.url)))
        await until_ready(service, 200)
        proxy.black_hole = True
        await until_ready(service, 503)
        for _ in range(20):
            assert (await service.health("/livez"))[0] == 200
            await asyncio.sleep(0.2)
        proxy.black_hole = False
        await until_ready(service, 200)
        log = service.log.read_text(encoding="utf-8")
        assert "coroutine.crashed" not in log


async def test_migration_before_a_silent_database_ends(
    database: Any, services: ServiceProcesses
) -> None:
    """Reported as river PR 1255."""
    async with database_proxy(database.url) as proxy:
        proxy.black_hole = True
        service = services.new()
        service.start(("migrate",), env=settings(proxy.url(database.url)))
        assert await service.wait(60) != 0


Once = Callable[[], Awaitable[Any]]


def _claim(room: Room) -> Once:
    worker = room.worker(ScriptedPsp())
    return lambda: worker._claim(1)


def _release(room: Room) -> Once:
    worker = room.worker(ScriptedPsp())
    return worker._release_all


def _heartbeat(room: Room) -> Once:
    terms = LeaseTerms(
        owner="me", ttl_seconds=30, heartbeat_seconds=1, statement_seconds=SILENCE_SECONDS / 2
    )

    async def answers() -> bool:
        return False

    heart = Heartbeat(room.connect, HeldJobs(terms), room.activity, answers=answers)

    async def once() -> None:
        failures = room.activity.heartbeat_failures
        await heart._round()
        if room.activity.heartbeat_failures > failures:
            raise TimeoutError

    return once


def _watcher(room: Room) -> Once:
    return room.watcher().round


def _scheduler(room: Room) -> Once:
    terms = SchedulerTerms(consumer_group="nobody")
    return Scheduler(room.pool, terms=terms, activity=room.activity).batch


def _sweeper(room: Room) -> Once:
    terms = SweeperTerms(
        actor="sweeper", consumer_group="nobody", outcome_topic=OUTCOME_TOPIC, rules=RULES
    )
    sweeper = Sweeper(room.pool, terms=terms)
    return lambda: sweeper.round(asyncio.Event())


def _relay(room: Room) -> Once:
    terms = RelayTerms(owner="me", connection={"bootstrap_servers": "127.0.0.1:1"})
    # A new one each time asks for the lease each time.
    return lambda: Relay(room.pool, terms=terms, activity=RelayActivity())._round()


def _sampler(room: Room) -> Once:
    sampler = DatabaseSampler(HealthBoard(), Metrics("test"), lambda: room.pool)

    async def once() -> None:
        if not await sampler._answers(room.pool):
            raise TimeoutError

    return once


ROUND_OF: dict[str, Callable[[Room], Once]] = {
    "claim": _claim,
    "heartbeat": _heartbeat,
    "watcher": _watcher,
    "scheduler": _scheduler,
    "sweeper": _sweeper,
    "relay": _relay,
    "sampler": _sampler,
    "release": _release,
}


async def begin_and_sleep(pool: Any) -> None:
    async with transaction(pool) as connection:
        await asyncio.sleep(2 * IMPATIENT.idle_in_transaction_timeout_seconds)
        await connection.execute("SELECT 7")


async def goes_well(once: Once) -> bool:
    try:
        await once()
    except (TimeoutError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
        return False
    return True


@asynccontextmanager
async def within(seconds: float) -> AsyncIterator[None]:
    """Fail if the block takes longer, whatever it raises and catches itself."""
    began = time.monotonic()
    async with asyncio.timeout(3 * seconds):
        yield
    assert time.monotonic() - began < seconds


@asynccontextmanager
async def behind_proxy(url: str) -> AsyncIterator[tuple[Room, TcpProxy]]:
    async with database_proxy(url) as proxy:
        options = replace(IMPATIENT, url=proxy.url(url))
        async with open_room(options.url, options=options) as room:
            yield room, proxy
            proxy.black_hole = False


def settings(url: str) -> dict[str, str]:
    return {
        "RECONCILER_DATABASE__URL": url,
        "RECONCILER_DATABASE__CONNECT_TIMEOUT_SECONDS": "1",
        "RECONCILER_DATABASE__STATEMENT_TIMEOUT_SECONDS": "1",
        "RECONCILER_PSP__BASE_URL": "http://127.0.0.1:1",
        "RECONCILER_LEASE__CLAIM_POLL_SECONDS": "0.2",
        "RECONCILER_WATCHER__INTERVAL_SECONDS": "0.5",
        "RECONCILER_RECONCILE__SCHEDULE_SECONDS": "0.5",
        "RECONCILER_RECONCILE__SWEEP_SECONDS": "0.5",
    }


async def until_ready(service: ServiceProcess, status: int) -> None:
    async def answers() -> bool:
        return (await service.health("/readyz"))[0] == status

    await eventually(answers, within_seconds=40, what=f"readiness is {status}")
