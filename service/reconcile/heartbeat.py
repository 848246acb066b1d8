"""The heartbeat: one coroutine and one connection renew all leases of the process.

The connection is its own, so that no pool can starve it. A round that failed says nothing: the
leases may have been renewed or not, and it is tried again while they are trusted. A row that was
not renewed is read once: still ours is busy (its own end is being written), gone is lost.

A process that works but cannot beat would claim jobs only to lose them. When no round has gone well
for some leases' time although the database answers others, it ends: a new one may be luckier.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import structlog

from service.errors import SupervisionError
from service.observe.events import Event
from service.reconcile.activity import Activity
from service.reconcile.backoff import backoff_seconds
from service.reconcile.lease import HeldJob, HeldJobs
from service.store import jobs
from service.store.faults import Reaction, reaction
from service.store.jobs import Lease

Connect = Callable[[], Awaitable[Any]]
Answers = Callable[[], Awaitable[bool]]

SILENT_LEASES_MAX = 3
"""So many leases' time without one good round are too long, if only the heartbeat fails."""
FAILED_ROUNDS_MIN = 10
"""Rounds that must have failed in that time: a process that slept through it has failed none."""

_log = structlog.get_logger(__name__)


class Heartbeat:
    """Renews what `held` holds, and cancels what is lost or no longer to be trusted.

    `answers()` tells whether the database answers the process's other connections.
    """

    def __init__(
        self, connect: Connect, held: HeldJobs, activity: Activity, *, answers: Answers
    ) -> None:
        self._connect = connect
        self._answers = answers
        self._held = held
        self._terms = held.terms
        self._activity = activity
        self._connection: Any = None
        self._failures = 0
        self._good_at = 0.0

    async def run(self) -> None:
        """Beat until cancelled: it has to outlive the last job.

        Raises SupervisionError if it alone has failed for too long.
        """
        self._good_at = self._held.now()
        try:
            while True:
                await self._round()
                await self._rest(self._pause_seconds())
        finally:
            self._hang_up()

    async def _round(self) -> None:
        try:
            async with asyncio.timeout(self._terms.statement_seconds):
                lost = await self._renew()
        except Exception as error:
            if reaction(error) is Reaction.STOP:
                raise
            self._note_failure(error)
            await self._end_if_hopeless()
            return
        self._failures = 0
        self._good_at = self._activity.heartbeat_at = self._held.now()
        for lease in lost:
            self._give_up(lease)

    async def _renew(self) -> set[Lease]:
        """Renew all; returns the lost. Raises whatever the database raises."""
        if self._connection is None:
            self._connection = await self._connect()
        leases, owner = self._held.leases(), self._terms.owner
        sent_at = self._held.now()
        renewed = await jobs.renew(
            self._connection, owner=owner, leases=leases, ttl_seconds=self._terms.ttl_seconds
        )
        self._held.renewed(renewed, sent_at=sent_at)
        missing = leases - renewed
        if not missing:
            return set()
        return missing - await jobs.held(self._connection, owner=owner, leases=missing)

    def _note_failure(self, error: Exception) -> None:
        self._failures += 1
        self._activity.heartbeat_failures += 1
        # A first round that never goes well has an age too.
        self._activity.heartbeat_at = self._good_at
        self._hang_up()
        _log.warning(Event.HEARTBEAT_FAILED, failures=self._failures, error=type(error).__name__)

    async def _end_if_hopeless(self) -> None:
        silent_seconds = self._held.now() - self._good_at
        too_long = silent_seconds > SILENT_LEASES_MAX * self._terms.ttl_seconds
        if too_long and self._failures >= FAILED_ROUNDS_MIN and await self._answers():
            raise SupervisionError("heartbeats keep failing although the database answers")

    def _give_up(self, lease: Lease) -> None:
        held = self._held.get(lease)
        if held is not None and not held.ending:
            self._cancel(held, "lease lost")

    async def _rest(self, seconds: float) -> None:
        """Sleep until the next round; cancel what stops being trusted meanwhile."""
        until = self._held.now() + seconds
        while (now := self._held.now()) < until:
            self._cancel_distrusted()
            await asyncio.sleep(max(0.0, min(until, self._held.trust_ends_at()) - now) + 0.001)
        self._cancel_distrusted()

    def _cancel_distrusted(self) -> None:
        for held in self._held:
            if not self._held.trusts(held):
                self._cancel(held, "lease no longer trusted")

    def _cancel(self, held: HeldJob, reason: str) -> None:
        held.cancel(reason)
        self._held.drop(held)
        self._activity.count("lost")
        job_id, lease_epoch = held.job.lease
        _log.warning(Event.LEASE_LOST, job_id=job_id, lease_epoch=lease_epoch, reason=reason)

    def _pause_seconds(self) -> float:
        if not self._failures:
            return self._terms.heartbeat_seconds
        longest = min(self._terms.heartbeat_seconds, 2.0)
        return backoff_seconds(self._failures, longest_seconds=longest)

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None
