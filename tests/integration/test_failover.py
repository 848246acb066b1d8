"""The pool after a failover and under cancellation: it recovers by itself and leaks nothing."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import pytest

from migrations import runner
from service.reconcile.database import borrowed
from service.sandbox.postgres import EmbeddedPostgres
from service.sandbox.psp_server import PspServer
from service.store.pool import PoolOptions, expire, open_pool
from service.store.transactions import transaction
from tests.support.events import psp_answer
from tests.support.postgres import OPTIONS, Database, chosen_bin_dir
from tests.support.processes import ServiceProcess, ServiceProcesses
from tests.support.proxy import database_proxy
from tests.support.waiting import eventually

DEADLINE_SECONDS = 40
CONNECTIONS_MAX = 5
USES = 1_000
INSERT_PAYMENT = """
INSERT INTO payments (
    payment_id, row_version, order_id, erp_version, erp_status, erp_amount_minor, erp_currency,
    pending_since
) VALUES ($1, 1, 'order-' || $1, 1, 'pending', 1999, 'EUR', now())
"""
INSERT_JOB = "INSERT INTO reconciliation_jobs (payment_id, reason) VALUES ($1, 'due')"
SESSIONS = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND application_name LIKE 'payment-reconciler%'
"""
LAST_USE = """
SELECT max(state_change) FROM pg_stat_activity
WHERE datname = current_database() AND application_name LIKE 'payment-reconciler%'
"""
TURN_READ_ONLY = "ALTER SYSTEM SET default_transaction_read_only = on"
TURN_BACK = "ALTER SYSTEM RESET default_transaction_read_only"
QUICK = {
    "RECONCILER_LEASE__TTL_SECONDS": "3",
    "RECONCILER_LEASE__HEARTBEAT_SECONDS": "1",
    "RECONCILER_LEASE__CLAIM_POLL_SECONDS": "0.2",
    "RECONCILER_WATCHER__INTERVAL_SECONDS": "1",
    "RECONCILER_RECONCILE__SCHEDULE_SECONDS": "0.5",
    "RECONCILER_PSP__TIMEOUT_SECONDS": "1",
    "RECONCILER_PSP__BUDGET_SECONDS": "2",
}


@pytest.fixture
async def first() -> AsyncIterator[EmbeddedPostgres]:
    """The primary at the beginning."""
    async with migrated() as postgres:
        yield postgres


@pytest.fixture
async def second() -> AsyncIterator[EmbeddedPostgres]:
    """The primary after the failover."""
    async with migrated() as postgres:
        yield postgres


@pytest.fixture
async def psp() -> AsyncIterator[PspServer]:
    async with PspServer() as server:
        for name in ("before", "after"):
            server.put(name, psp_answer(name))
        yield server


async def test_primary_that_turns_read_only_is_left_until_it_can_write_again(
    first: EmbeddedPostgres, psp: PspServer, services: ServiceProcesses
) -> None:
    """Reported as asyncpg PR 253 and gpustack 6105."""
    service = start(services, first.url, psp)
    async with writing(first) as admin:
        await until_ready(service, 200)
        await add_job(admin, "before")
        await until_healed(admin, "before")

        await demote(admin)
        await until_ready(service, 503)
        # No connection stays on a server that refuses to write, and no new one is taken for good.
        await eventually(lambda: is_left(admin), within_seconds=DEADLINE_SECONDS)
        await add_job(admin, "after")
        for _ in range(20):
            assert (await service.health("/readyz"))[0] == 503
            await asyncio.sleep(0.1)

        await admin.execute(TURN_BACK)
        await admin.execute("SELECT pg_reload_conf()")
        await until_healed(admin, "after")
    await until_ready(service, 200)
    assert "coroutine.crashed" not in service.log.read_text(encoding="utf-8")
    assert service.running


async def test_service_follows_its_address_to_the_new_primary_and_leaves_the_demoted_one(
    first: EmbeddedPostgres,
    second: EmbeddedPostgres,
    psp: PspServer,
    services: ServiceProcesses,
) -> None:
    """Reported as asyncpg PR 253 and gpustack 6105."""
    async with (
        database_proxy(first.url) as address,
        writing(first) as old,
        writing(second) as new,
    ):
        service = start(services, address.url(first.url), psp)
        await until_ready(service, 200)
        await add_job(old, "before")
        await until_healed(old, "before")
        assert await old.fetchval(SESSIONS) > 0

        await add_job(new, "after")
        # Its open connections still lead to the old one, which lives on.
        address.upstream = ("127.0.0.1", second.port)
        await demote(old)
        await until_healed(new, "after")
        await until_ready(service, 200)
        assert await new.fetchval(SESSIONS) > 0
        used_at = await old.fetchval(LAST_USE)
        for number in range(5):
            await add_job(new, f"later-{number}")
            await until_ended(new, f"later-{number}")
        assert await old.fetchval(LAST_USE) in {used_at, None}
        assert await old.fetchval("SELECT count(*) FROM payments") == 1
    assert "coroutine.crashed" not in service.log.read_text(encoding="utf-8")
    assert service.running


async def test_thousand_cancelled_uses_leave_the_pool_whole(database: Database) -> None:
    """Reported as asyncpg 464 and asyncpg 467."""
    options = PoolOptions(
        url=database.url,
        application_name="payment-reconciler cancelled",
        connections_max=CONNECTIONS_MAX,
    )
    pool = await open_pool(options)
    outside = await database.connect()
    try:
        uses = [asyncio.create_task(use(pool, number)) for number in range(USES)]
        chance = random.Random(4)  # noqa: S311 - moments, no secret
        for task in chance.sample(uses, USES):
            await asyncio.sleep(chance.choice((0, 0, 0, 0.002)))
            task.cancel()
        ends = await asyncio.gather(*uses, return_exceptions=True)
        assert {type(end) for end in ends} <= {type(None), asyncio.CancelledError}
        assert sum(isinstance(end, asyncio.CancelledError) for end in ends) > USES / 2

        assert pool.get_size() <= CONNECTIONS_MAX
        async with asyncio.timeout(10):
            held = [await pool.acquire() for _ in range(CONNECTIONS_MAX)]
        assert [await each.fetchval("SELECT 7") for each in held] == [7] * CONNECTIONS_MAX
        for each in held:
            await pool.release(each)
        assert pool.get_size() == CONNECTIONS_MAX
        await eventually(lambda: has_sessions(outside, CONNECTIONS_MAX))
        assert await outside.fetchval("SELECT count(*) FROM controls WHERE version <> 0") == 0
    finally:
        async with asyncio.timeout(5):
            await pool.close()
    await eventually(lambda: has_sessions(outside, 0))


async def test_expired_connections_are_not_used_again(database: Database) -> None:
    pool = await open_pool(PoolOptions(url=database.url, connections_min=2, connections_max=2))
    try:
        async with pool.acquire() as one, pool.acquire() as other:
            before = {one.get_server_pid(), other.get_server_pid()}
            await expire(pool)
            assert await one.fetchval("SELECT 7") == 7
        async with pool.acquire() as one, pool.acquire() as other:
            assert before.isdisjoint({one.get_server_pid(), other.get_server_pid()})
    finally:
        await pool.close()


async def test_idle_connections_to_the_demoted_server_are_closed_soon(
    database: Database, first: EmbeddedPostgres
) -> None:
    """Reported as asyncpg PR 253 and gpustack 6105. All but the pool's minimum, which goes unused
    until it is replaced.
    """
    old = await Database(first.url).connect()
    async with database_proxy(first.url) as address:
        options = PoolOptions(
            url=address.url(first.url), connections_max=CONNECTIONS_MAX, idle_seconds_max=0.3
        )
        pool = await open_pool(options)
        try:
            await use_all(pool)
            assert await old.fetchval(SESSIONS) == CONNECTIONS_MAX
            address.upstream = ("127.0.0.1", urlsplit(database.url).port or 0)
            await expire(pool)
            await eventually(lambda: has_sessions(old, options.connections_min))
            await use_all(pool)
            await eventually(lambda: is_left(old))
        finally:
            await pool.close()
            await old.close()


async def use_all(pool: Any) -> None:
    """Use every connection that the pool may have, at once."""
    async with asyncio.TaskGroup() as group:
        for _ in range(CONNECTIONS_MAX):
            group.create_task(pool.execute("SELECT pg_sleep(0.1)"))


async def use(pool: Any, number: int) -> None:
    """Acquire, ask, begin, change: wherever the cancellation comes, nothing of it may stay."""
    if number % 2:
        async with borrowed(pool, seconds=30) as connection:
            await connection.fetchval("SELECT pg_sleep(0.02)")
        return
    async with transaction(pool, acquire_timeout_seconds=30) as connection:
        await connection.execute("UPDATE controls SET version = version + 0")
        await connection.fetchval("SELECT pg_sleep(0.005)")


@asynccontextmanager
async def migrated() -> AsyncIterator[EmbeddedPostgres]:
    async with EmbeddedPostgres(bin_dir=chosen_bin_dir(), options=OPTIONS) as postgres:
        await runner.upgrade(postgres.url)
        yield postgres


@asynccontextmanager
async def writing(postgres: EmbeddedPostgres) -> AsyncIterator[Any]:
    """A connection that may write whatever the server's default is."""
    connection = await Database(postgres.url).connect()
    try:
        await connection.execute("SET default_transaction_read_only = off")
        yield connection
    finally:
        with suppress(OSError):
            await connection.close()


def start(services: ServiceProcesses, url: str, psp: PspServer) -> ServiceProcess:
    service = services.new()
    settings = {"RECONCILER_DATABASE__URL": url, "RECONCILER_PSP__BASE_URL": psp.url}
    service.start(("run", "--roles", "reconcile,watch"), env={**QUICK, **settings})
    return service


async def demote(admin: Any) -> None:
    await admin.execute(TURN_READ_ONLY)
    await admin.execute("SELECT pg_reload_conf()")


async def add_job(admin: Any, payment_id: str) -> None:
    await admin.execute(INSERT_PAYMENT, payment_id)
    await admin.execute(INSERT_JOB, payment_id)


async def until_healed(admin: Any, payment_id: str) -> None:
    assert await until_ended(admin, payment_id) == "healed"


async def until_ended(admin: Any, payment_id: str) -> Any:
    """Wait for the end of a payment's job; gives its outcome."""

    async def outcome() -> Any:
        query = "SELECT outcome FROM reconciliation_jobs WHERE payment_id = $1"
        return await admin.fetchval(query, payment_id)

    what = f"the job of {payment_id} ends"
    return await eventually(outcome, within_seconds=DEADLINE_SECONDS, what=what)


async def until_ready(service: ServiceProcess, status: int) -> None:
    async def answers() -> bool:
        return (await service.health("/readyz"))[0] == status

    await eventually(answers, within_seconds=DEADLINE_SECONDS, what=f"readiness is {status}")


async def is_left(admin: Any) -> bool:
    return bool(await admin.fetchval(SESSIONS) == 0)


async def has_sessions(outside: Any, number: int) -> bool:
    return bool(await outside.fetchval(SESSIONS) == number)
