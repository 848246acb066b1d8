"""The watcher: brings back jobs whose worker is gone, and ends those that cannot succeed.

It runs in every process, so one that is alive is enough. It goes page by page with a cursor, and
what the database refuses as a set it does row by row: neither a page of bad rows nor one of them
keeps the others waiting.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

import structlog

from service.domain.schedule import Rules
from service.lifecycle import wait_for_stop
from service.observe.events import Event
from service.reconcile.activity import Activity
from service.reconcile.backoff import around
from service.reconcile.database import borrowed, wait_after
from service.reconcile.dying import end_worn_out
from service.store import jobs
from service.store.faults import Reaction, reaction
from service.store.jobs import SWEEP_START, Abandoned, Cursor, Lease
from service.store.transactions import transaction

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class WatcherTerms:
    """How often to look, and what is written when a job dies. `actor` stands in the log."""

    actor: str
    outcome_topic: str
    rules: Rules
    interval_seconds: float = 30.0
    page_max: int = 500
    statement_seconds: float = 20.0


class Watcher:
    """Returns expired jobs to pending, or makes them dead: only it does."""

    def __init__(
        self,
        pool: Any,
        *,
        terms: WatcherTerms,
        activity: Activity,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pool = pool
        self._terms = terms
        self._activity = activity
        self._clock = clock

    async def run(self, stop: asyncio.Event) -> None:
        """Make rounds until `stop`."""
        tries = 0
        while not stop.is_set():
            try:
                await self.round()
            except Exception as error:  # noqa: BLE001 - `wait_after` raises what it cannot cure
                tries += 1
                self._activity.watcher_failures += 1
                _log.warning(Event.WATCHER_FAILED, error=type(error).__name__)
                await wait_after(error, pool=self._pool, tries=tries)
                continue
            tries = 0
            await wait_for_stop(stop, around(self._terms.interval_seconds))

    async def round(self) -> None:
        """Look at every abandoned job once."""
        cursor = SWEEP_START
        while page := await self._page(cursor):
            cursor = page[-1].cursor
            await self._return(page)
            await self._end_worn_out(page)
        self._activity.watcher_at = self._clock()
        self._activity.watcher_rounds += 1

    async def _page(self, after: Cursor) -> list[Abandoned]:
        async with self._borrowed() as connection:
            if after == SWEEP_START:
                seconds = await jobs.oldest_expired_seconds(connection)
                self._activity.oldest_expired_seconds = seconds
            return await jobs.abandoned(connection, after=after, limit=self._terms.page_max)

    async def _return(self, page: Sequence[Abandoned]) -> None:
        leases = [each.lease for each in page if not each.worn_out]
        if leases and not await self._tried(self._return_leases, leases):
            for lease in leases:
                await self._tried(self._return_leases, [lease])

    async def _return_leases(self, leases: Sequence[Lease]) -> None:
        async with self._borrowed() as connection:
            returned = await jobs.return_expired(connection, leases)
        self._activity.count("expired", returned)
        if returned:
            _log.warning(Event.LEASES_EXPIRED, jobs=returned)

    async def _end_worn_out(self, page: Sequence[Abandoned]) -> None:
        for each in page:
            if each.worn_out:
                await self._tried(self._end, each)

    async def _end(self, job: Abandoned) -> None:
        terms = self._terms
        bounded = asyncio.timeout(terms.statement_seconds)
        async with bounded, transaction(self._pool) as connection:
            ended = await end_worn_out(
                connection,
                job,
                actor=terms.actor,
                outcome_topic=terms.outcome_topic,
                rules=terms.rules,
            )
        if ended:
            self._activity.count("dead")
            _log.error(Event.JOB_DEAD, job_id=job.lease.job_id, payment_id=job.payment_id)

    async def _tried(self, step: Callable[[Any], Awaitable[None]], argument: Any) -> bool:
        """Whether a step went well. One that fails is left to the next round, so that the others
        have their turn; only a database that is gone ends the round.
        """
        try:
            await step(argument)
        except Exception as error:
            if reaction(error) is Reaction.RECONNECT:
                raise
            if reaction(error) is Reaction.RETRY:
                _log.info(Event.TRANSACTION_RETRIED, error=type(error).__name__)
                return False
            _log.exception(Event.WATCHER_FAILED, error=type(error).__name__)
            return False
        return True

    def _borrowed(self) -> AbstractAsyncContextManager[Any]:
        return borrowed(self._pool, seconds=self._terms.statement_seconds)
