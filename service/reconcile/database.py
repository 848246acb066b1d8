"""How the coroutines of this package use the database, and what they do when it fails them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import structlog

from service.observe.events import Event
from service.reconcile.backoff import backoff_seconds
from service.store.faults import Reaction, reaction
from service.store.pool import expire

_LONGEST_SECONDS = {Reaction.RETRY: 0.2, Reaction.RECONNECT: 2.0, Reaction.PAUSE: 5.0}

# Resources, limits, objects in use, an operator's intervention, the server's own system.
_SHORTAGES = frozenset({"53", "54", "55", "57", "58"})

_log = structlog.get_logger(__name__)


@asynccontextmanager
async def borrowed(pool: Any, *, seconds: float) -> AsyncIterator[Any]:
    """A connection of the pool, for `seconds` at most, the wait for it included.

    One that is cut short in the midst of a statement is dropped: to wait until the server has
    heard of it would take as long as the server likes. Raises TimeoutError.
    """
    async with asyncio.timeout(seconds), pool.acquire(timeout=seconds) as connection:
        try:
            yield connection
        except asyncio.CancelledError:
            connection.terminate()
            raise


def is_outage(error: Exception) -> bool:
    """Whether the database was away, busy or short of something: no fault of the job's."""
    if reaction(error) in {Reaction.RETRY, Reaction.RECONNECT}:
        return True
    return str(getattr(error, "sqlstate", "") or "")[:2] in _SHORTAGES


async def wait_after(error: Exception, *, pool: Any, tries: int) -> Reaction:
    """Wait as long as the failure asks for, having dropped connections that cannot be trusted.

    Raises `error` again if no waiting helps: the statement or the data is wrong.
    """
    kind = reaction(error)
    if kind in {Reaction.STOP, Reaction.BISECT}:
        raise error
    if kind is Reaction.RETRY:
        _log.info(Event.TRANSACTION_RETRIED, error=type(error).__name__, tries=tries)
    else:
        _log.warning(Event.DATABASE_LOST, error=type(error).__name__, tries=tries)
        await expire(pool)
    await asyncio.sleep(backoff_seconds(tries, longest_seconds=_LONGEST_SECONDS[kind]))
    return kind
