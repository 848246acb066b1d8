"""The worker: claims due jobs into free slots, runs each in a coroutine of its own, drains.

No lease outlives its owner's care: the heartbeat and the settlement run until the last job has
ended, and what is left at the deadline is given back, due at once. If the process dies instead,
the leases run out and the jobs run elsewhere.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import structlog

from service.domain.payment import Payment
from service.lifecycle import Deadline, wait_for_stop
from service.observe.events import Event
from service.psp.port import PspPort, Unavailable
from service.reconcile.activity import Activity
from service.reconcile.backoff import around
from service.reconcile.database import borrowed, wait_after
from service.reconcile.group import SettleTerms
from service.reconcile.heartbeat import Connect, Heartbeat
from service.reconcile.job import AskTerms, JobRunner
from service.reconcile.lease import HeldJob, HeldJobs, LeaseTerms
from service.reconcile.settle import Settlement
from service.store import book, figures, jobs
from service.store.jobs import Job, PutBack

_ANSWER_SECONDS = 3.0
_RELEASE_SECONDS = 3.0
_LAST_CLAIM_SECONDS = 1.0
_QUIET_SECONDS_MAX = 5.0

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerTerms:
    """How many jobs at once, how often to look for more, and how long a stop may take."""

    lease: LeaseTerms
    settle: SettleTerms
    ask: AskTerms = field(default_factory=AskTerms)
    concurrency: int = 20
    poll_seconds: float = 1.0
    claim_seconds: float = 10.0
    drain_seconds: float = 20.0


class Worker:
    """Works on the jobs that it claims. `connect` opens the heartbeat's own connection."""

    def __init__(
        self, pool: Any, connect: Connect, psp: PspPort, *, terms: WorkerTerms, activity: Activity
    ) -> None:
        self._pool = pool
        self._terms = terms
        self._activity = activity
        self._held = HeldJobs(terms.lease)
        self._heartbeat = Heartbeat(connect, self._held, activity, answers=self._database_answers)
        self._settlement = Settlement(pool, self._held, terms=terms.settle, activity=activity)
        self._runner = JobRunner(
            pool,
            psp,
            self._settlement,
            terms=terms.ask,
            activity=activity,
            actor=terms.lease.owner,
            on_silence=self._on_silence,
        )
        self._running: set[asyncio.Task[None]] = set()
        self._look = asyncio.Event()
        self._more_waiting = False
        self._claim_unanswered = False
        self._quiet_until = 0.0
        activity.slots = terms.concurrency

    def nudge(self) -> None:
        """Say that there is work, so that the next claim does not wait for the poll."""
        self._look.set()

    async def run(self, stop: asyncio.Event) -> None:
        """Claim and work until `stop`, then drain: bounded, also with the database gone."""
        async with asyncio.TaskGroup() as group:
            background = [
                group.create_task(self._heartbeat.run(), name="heartbeat"),
                group.create_task(self._settlement.run(), name="settlement"),
            ]
            claiming = group.create_task(self._claim_until(stop, group), name="claims")
            await stop.wait()
            self._look.set()
            await asyncio.wait([claiming], timeout=_LAST_CLAIM_SECONDS)
            claiming.cancel()
            await self._drain(Deadline(self._terms.drain_seconds))
            for task in background:
                task.cancel()

    async def _claim_until(self, stop: asyncio.Event, group: asyncio.TaskGroup) -> None:
        tries = 0
        while not stop.is_set():
            self._look.clear()
            free = self._terms.concurrency - len(self._running)
            quiet = self._quiet_until - self._held.now()
            if free <= 0 or quiet > 0:
                await wait_for_stop(self._look, self._terms.poll_seconds)
                continue
            try:
                claimed = await self._claim(free)
            except Exception as error:  # noqa: BLE001 - `wait_after` raises what it cannot cure
                tries += 1
                await wait_after(error, pool=self._pool, tries=tries)
                continue
            tries = 0
            self._more_waiting = len(claimed) == free
            self._start(claimed, group)
            if not self._more_waiting:
                await wait_for_stop(self._look, around(self._terms.poll_seconds))

    async def _claim(self, free: int) -> Sequence[tuple[HeldJob, Payment | None]]:
        """Claim up to `free` jobs and read their payments."""
        lease = self._terms.lease
        async with borrowed(self._pool, seconds=self._terms.claim_seconds) as connection:
            if self._claim_unanswered:
                await self._release_unknown(connection)
            sent_at = self._held.now()
            self._claim_unanswered = True
            claimed: list[Job] = await jobs.claim(
                connection, owner=lease.owner, slots=free, ttl_seconds=lease.ttl_seconds
            )
            payments = await book.read_many(connection, [job.payment_id for job in claimed])
            self._claim_unanswered = False
        self._activity.claimed += len(claimed)
        return [
            (self._held.take(job, sent_at=sent_at), payments.get(job.payment_id)) for job in claimed
        ]

    async def _database_answers(self) -> bool:
        """Whether a connection of the pool gets an answer."""
        try:
            async with borrowed(self._pool, seconds=_ANSWER_SECONDS) as connection:
                await figures.ping(connection)
        except Exception:  # noqa: BLE001 - any failure means: no answer
            return False
        return True

    async def _release_unknown(self, connection: Any) -> None:
        """Give back what an unanswered claim may have taken: nobody here works on it.

        By lease and not by owner: should this statement be given up too and be carried out late, it
        must not take what a later claim has brought.
        """
        owner = self._terms.lease.owner
        unknown = await jobs.owned(connection, owner=owner) - self._held.leases()
        if unknown:
            backs = [
                PutBack(lease, "released", 0, "the claim was not answered") for lease in unknown
            ]
            returned = await jobs.put_back(connection, owner=owner, backs=backs)
            self._activity.count("released", len(returned))

    def _start(
        self, claimed: Sequence[tuple[HeldJob, Payment | None]], group: asyncio.TaskGroup
    ) -> None:
        for held, payment in claimed:
            held.runner = group.create_task(self._run(held, payment))
            self._running.add(held.runner)
            held.runner.add_done_callback(self._forget)
        self._activity.slots_used = len(self._running)

    async def _run(self, held: HeldJob, payment: Payment | None) -> None:
        try:
            await self._runner.run(held, payment)
        finally:
            self._held.drop(held)

    def _forget(self, runner: "asyncio.Task[None]") -> None:
        self._running.discard(runner)
        self._activity.slots_used = len(self._running)
        if self._more_waiting:
            self._look.set()

    def _on_silence(self, answer: Unavailable) -> None:
        """Claim nothing for a moment while the PSP is left alone: it would only be released."""
        if answer.reason in {"breaker_open", "throttled"}:
            quiet = min(answer.retry_after_seconds or self._terms.poll_seconds, _QUIET_SECONDS_MAX)
            self._quiet_until = max(self._quiet_until, self._held.now() + quiet)

    async def _drain(self, deadline: Deadline) -> None:
        """Let running jobs end until the deadline, cancel the others, give all of them back."""
        if self._running:
            await asyncio.wait(self._running, timeout=deadline.left())
        if stuck := tuple(self._running):
            _log.warning(Event.DRAIN_TIMED_OUT, jobs=len(stuck))
            for runner in stuck:
                runner.cancel("drain deadline")
            await asyncio.wait(stuck, timeout=_RELEASE_SECONDS)
        try:
            await self._release_all()
        except Exception as error:  # noqa: BLE001 - the leases run out by themselves
            _log.warning(Event.DATABASE_LOST, error=type(error).__name__)

    async def _release_all(self) -> None:
        async with borrowed(self._pool, seconds=_RELEASE_SECONDS) as connection:
            released = await jobs.release_all(
                connection, owner=self._terms.lease.owner, error="shutdown"
            )
        self._activity.count("released", released)
