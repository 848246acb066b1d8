"""What a connection really leads to: a pooler may drop limits and prepared statements."""

import asyncio
from typing import Any

import asyncpg

from service.store.pool import PoolOptions
from service.store.statements import sql

_POOLER_SECONDS = 5
_TURNS = 4


async def unlike_limits(connection: Any, options: PoolOptions) -> list[str]:
    """The names of the limits that the server does not keep as `options` ask for them, sorted."""
    wanted = {
        "lock_timeout": options.lock_timeout_seconds,
        "statement_timeout": options.statement_timeout_seconds,
        "idle_in_transaction_session_timeout": options.idle_in_transaction_timeout_seconds,
    }
    kept = dict(await connection.fetch(sql("session_limits")))
    return sorted(
        name for name, seconds in wanted.items() if not 0 < kept[name] <= seconds * 1000 + 1
    )


async def keeps_statements(first: Any, second: Any) -> bool:
    """Whether what `first` prepared is still there while `second` is in a transaction.

    A pooler in transaction mode gives `second` the session that `first` had, and `first` another:
    at once, or a few statements later where sessions take turns. One with a single session lets
    `first` wait, which is given up as unknown: True.
    """
    try:
        async with asyncio.timeout(_POOLER_SECONDS):
            for statements_between in range(_TURNS):
                await _use_across(first, second, statements_between)
    except (asyncpg.InvalidSQLStatementNameError, asyncpg.DuplicatePreparedStatementError):
        return False
    except TimeoutError:
        first.terminate()
    return True


async def _use_across(first: Any, second: Any, statements_between: int) -> None:
    now = sql("database_now")
    prepared = await first.prepare(now)
    for _ in range(statements_between):
        await first.execute(now)
    async with second.transaction():
        await second.execute(now)
        await prepared.fetchval()
