"""The scheduler: turns payments whose check is due into jobs. It alone inserts jobs.

Every process runs one; payments locked by another are left to it. On a first start nothing is
asked until the initial lag is worked off: the missing events may be in it.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import structlog

from service.lifecycle import wait_for_stop
from service.observe.events import Event
from service.reconcile.activity import Activity
from service.reconcile.backoff import around
from service.reconcile.database import borrowed, wait_after
from service.store import jobs, offsets

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerTerms:
    """How often and how much at once. `consumer_group` is the one whose lag is waited for."""

    consumer_group: str
    interval_seconds: float = 10.0
    batch_max: int = 500
    attempts_max: int = 8
    round_seconds: float = 30.0


class Scheduler:
    """Inserts jobs for due payments, at most one open job a payment."""

    def __init__(
        self,
        pool: Any,
        *,
        terms: SchedulerTerms,
        activity: Activity,
        on_inserted: Callable[[], None] | None = None,
    ) -> None:
        self._pool = pool
        self._terms = terms
        self._activity = activity
        self._on_inserted = on_inserted

    async def run(self, stop: asyncio.Event) -> None:
        """Schedule until `stop`."""
        tries = 0
        while not stop.is_set():
            try:
                full = await self.batch()
            except Exception as error:  # noqa: BLE001 - `wait_after` raises what it cannot cure
                tries += 1
                await wait_after(error, pool=self._pool, tries=tries)
                continue
            tries = 0
            if not full:
                await wait_for_stop(stop, around(self._terms.interval_seconds))

    async def batch(self) -> bool:
        """Schedule one batch; tells whether it was full, so that more may be due."""
        limit = self._terms.batch_max
        async with borrowed(self._pool, seconds=self._terms.round_seconds) as connection:
            if not await initial_lag_is_gone(connection, self._terms.consumer_group):
                _log.info(Event.HEALING_DEFERRED, reason="initial lag")
                return False
            scheduled = await jobs.schedule(
                connection, limit=limit, max_attempts=self._terms.attempts_max
            )
        self._activity.scheduled += scheduled.inserted
        if scheduled.inserted:
            _log.info(Event.JOBS_SCHEDULED, jobs=scheduled.inserted)
            if self._on_inserted is not None:
                self._on_inserted()
        return scheduled.due == limit


async def initial_lag_is_gone(connection: Any, consumer_group: str) -> bool:
    """True also for a group that has no rows: it consumes nothing that could be waited for."""
    rows = await offsets.stored(connection, consumer_group)
    return all(row.position.caught_up_at is not None for row in rows)
