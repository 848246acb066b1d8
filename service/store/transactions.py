"""A transaction of a pool's connection, whose end is never a guess."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import asyncpg

from service.store.faults import Reaction, UnknownCommit, reaction

ROLLBACK_TIMEOUT_SECONDS = 5


@asynccontextmanager
async def transaction(pool: Any, *, acquire_timeout_seconds: float = 10) -> AsyncIterator[Any]:
    """Commit if the block ends well, else roll back.

    Raises UnknownCommit if the connection was lost while the commit was under way: then the
    writer has to read what it wrote. A cancelled block gives its connection up at once.
    """
    async with pool.acquire(timeout=acquire_timeout_seconds) as connection:
        running = connection.transaction()
        await running.start()
        try:
            yield connection
        except Exception:
            await _roll_back(connection, running)
            raise
        except BaseException:
            connection.terminate()
            raise
        try:
            await running.commit()
        except Exception as error:
            if reaction(error) is Reaction.RECONNECT:
                raise UnknownCommit("the commit's answer was lost") from error
            raise


async def _roll_back(connection: Any, running: Any) -> None:
    """Roll back, or drop a connection that cannot: the server rolls back without it.

    Raises nothing of its own, so that the caller's error stays the first: a pool takes back at once
    what the server has ended, and then even asking whether it is closed is an error.
    """
    try:
        async with asyncio.timeout(ROLLBACK_TIMEOUT_SECONDS):
            await running.rollback()
    except Exception:  # noqa: BLE001 - whatever it was, the connection is given up; the first error counts
        with suppress(asyncpg.InterfaceError):
            connection.terminate()
