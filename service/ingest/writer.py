"""Writes batches one after the other, and knows what to do when the database does not take one."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import structlog

from service.errors import OffsetFenced
from service.ingest import quarantine
from service.ingest.apply import Applied, ApplyOptions, apply
from service.ingest.batch import Batch
from service.lifecycle import wait_for_stop
from service.observe.events import Event
from service.store import offsets
from service.store.faults import Reaction, UnknownCommit, reaction
from service.store.pool import expire
from service.store.transactions import transaction

log = structlog.get_logger(__name__)

RETRY_FIRST_SECONDS = 0.02
RETRY_MAX_SECONDS = 1.0
BACKOFF_FIRST_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class Landed:
    """A batch that is in the database; `seconds` from the first statement to the last commit."""

    parts: list[Applied]
    seconds: float


class Writer:
    """One at a time. `available` tells whether the database took the last attempt."""

    def __init__(
        self,
        pool: Any,
        options: ApplyOptions,
        *,
        acquire_timeout_seconds: float,
        backoff_max_seconds: float,
        on_retry: Callable[[Reaction], None],
    ) -> None:
        self._pool = pool
        self._options = options
        self._acquire_timeout_seconds = acquire_timeout_seconds
        self._backoff_max_seconds = backoff_max_seconds
        self._on_retry = on_retry
        self._unsure: tuple[Batch, Applied] | None = None
        self.available = True

    async def write(self, batch: Batch, *, give_up: asyncio.Event) -> Landed | None:
        """Write until it is committed; None if `give_up` was set between two attempts.

        Raises OffsetFenced, and what only a person can mend: an error of our own statements.
        """
        attempts = 0
        while not give_up.is_set():
            began = time.monotonic()
            try:
                parts = await self._land(batch)
            except OffsetFenced:
                self.available = True
                raise
            except Exception as error:  # noqa: BLE001 - pause_after() raises what no retry mends
                attempts += 1
                await wait_for_stop(give_up, await self.pause_after(error, attempts))
            else:
                return Landed(parts, time.monotonic() - began)
        return None

    async def pause_after(self, error: Exception, attempts: int) -> float:
        """How many seconds to wait before the next attempt; raises `error` if none can help."""
        wanted = reaction(error)
        if wanted in {Reaction.STOP, Reaction.BISECT}:
            log.error(Event.STATEMENT_REJECTED, **_told(error))
            raise error
        self._on_retry(wanted)
        if wanted is Reaction.RETRY:
            log.info(Event.TRANSACTION_RETRIED, attempt=attempts, **_told(error))
            ceiling = min(RETRY_MAX_SECONDS, RETRY_FIRST_SECONDS * 2 ** min(attempts, 10))
        else:
            self.available = False
            log.warning(Event.DATABASE_LOST, attempt=attempts, **_told(error))
            ceiling = min(self._backoff_max_seconds, BACKOFF_FIRST_SECONDS * 2 ** min(attempts, 10))
        if wanted is Reaction.RECONNECT:
            await expire(self._pool)
        return random.uniform(ceiling / 2, ceiling)  # noqa: S311 - jitter

    async def in_transaction(self, write: Callable[[Any], Awaitable[Any]]) -> Any:
        """Run `write(connection)` in one transaction and give what it gives."""
        async with transaction(
            self._pool, acquire_timeout_seconds=self._acquire_timeout_seconds
        ) as connection:
            result = await write(connection)
        self.available = True
        return result

    async def _land(self, batch: Batch) -> list[Applied]:
        try:
            return [await self._write_once(batch)]
        except Exception as error:
            if reaction(error) is not Reaction.BISECT or not batch.items:
                raise
            log.warning(Event.BATCH_BISECTED, records=len(batch.items), **_told(error))
            return await quarantine.land(batch, error, write=self._write_once)

    async def _write_once(self, batch: Batch) -> Applied:
        """One transaction. If the last one's commit was never answered, that is found out first."""
        unsure, self._unsure = self._unsure, None
        if unsure is not None and unsure[0] is batch:
            self._unsure = unsure
            committed = await self.in_transaction(partial(self._committed, batch))
            self._unsure = None
            if committed:
                return unsure[1]
        applied = Applied()

        async def write(connection: Any) -> None:
            nonlocal applied
            applied = await apply(connection, batch, options=self._options)

        try:
            await self.in_transaction(write)
        except UnknownCommit:
            self._unsure = (batch, applied)
            raise
        return applied

    async def _committed(self, batch: Batch, connection: Any) -> bool:
        """Whether the positions say that the batch is stored; raises OffsetFenced if neither."""
        stored = [
            (await offsets.read(connection, self._options.group, move.partition), move)
            for move in sorted(batch.moves, key=lambda move: move.partition)
        ]
        at = [(position.next_offset if position else None, move) for position, move in stored]
        if all(offset == move.next_offset for offset, move in at):
            return True
        if all(offset == move.expected for offset, move in at):
            return False
        raise OffsetFenced("another consumer has moved the positions on")


def _told(error: Exception) -> dict[str, Any]:
    """An error without its text, which may quote what was written."""
    return {"error": type(error).__name__, "sqlstate": getattr(error, "sqlstate", None)}
