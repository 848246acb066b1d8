"""Payments are created and locked in key order, whatever order a batch names them in: writers with
crossed batches wait for each other, never in a circle.

Somebody holds the middle one of three, so that a writer stops there: what it holds by then tells
its order.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from service.store import book
from tests.support.waiting import eventually

CROSSED = ["p-c", "p-b", "p-a"]
DEADLINE_SECONDS = 20
WAITERS = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND wait_event_type = 'Lock' AND pid = $1
"""
INSERT = "INSERT INTO payments (payment_id) VALUES ($1)"
LOCK = "SELECT FROM payments WHERE payment_id = $1 FOR NO KEY UPDATE"


@asynccontextmanager
async def stopped_at_the_middle(
    database: Any, held: str, write: Callable[[Any], Awaitable[Any]]
) -> AsyncIterator[None]:
    """Hold `p-b` by statement `held`, let a writer run into it, and end both after the block."""
    holder, writer, looker = [await database.connect() for _ in range(3)]
    # Without an index the rows come as they lie: the order is the statement's own.
    await writer.execute("SET enable_indexscan = off; SET enable_bitmapscan = off")
    pid = await writer.fetchval("SELECT pg_backend_pid()")
    holding, writing = holder.transaction(), writer.transaction()
    await holding.start()
    await holder.execute(held, "p-b")
    await writing.start()
    running = asyncio.ensure_future(write(writer))
    try:

        async def waits() -> bool:
            return bool(await looker.fetchval(WAITERS, pid))

        await eventually(waits, within_seconds=DEADLINE_SECONDS, what="the writer waits for p-b")
        yield
    finally:
        await holding.rollback()
        await asyncio.wait_for(running, DEADLINE_SECONDS)
        await writing.rollback()


async def is_free(database: Any, statement: str, payment_id: str) -> bool:
    """Whether another session gets the row without waiting."""
    connection = await database.connect()
    await connection.execute("SET lock_timeout = '200ms'")
    try:
        await connection.execute(statement, payment_id)
    except asyncpg.LockNotAvailableError:
        return False
    return True


async def test_payments_are_created_in_key_order(database: Any) -> None:
    """Reported as kafka-connect-jdbc 385."""
    async with stopped_at_the_middle(
        database, INSERT, lambda connection: book.ensure(connection, CROSSED)
    ):
        assert await is_free(database, INSERT, "p-c")
        assert not await is_free(database, INSERT, "p-a")


async def test_payments_are_locked_in_key_order(database: Any) -> None:
    """Reported as kafka-connect-jdbc 1076."""
    connection = await database.connect()
    for payment_id in CROSSED:
        await connection.execute(INSERT, payment_id)
    async with stopped_at_the_middle(
        database, LOCK, lambda connection: book.lock(connection, CROSSED)
    ):
        assert await is_free(database, LOCK, "p-c")
        assert not await is_free(database, LOCK, "p-a")
