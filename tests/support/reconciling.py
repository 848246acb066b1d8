"""A room to watch leased jobs in: a real database, workers with short leases, a PSP to script."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from service.domain.schedule import Rules
from service.psp.port import Answer, Answered, PspPort, Question
from service.reconcile.activity import Activity
from service.reconcile.group import SettleTerms
from service.reconcile.job import AskTerms
from service.reconcile.lease import LeaseTerms, new_owner
from service.reconcile.watcher import Watcher, WatcherTerms
from service.reconcile.worker import Worker, WorkerTerms
from service.store import jobs
from service.store.jobs import Job
from service.store.pool import PoolOptions, connect, open_pool

OUTCOME_TOPIC = "reconciler.payments"
RULES = Rules()
DEADLINE_SECONDS = 15.0

INSERT_PAYMENT = """
INSERT INTO payments (
    payment_id, row_version, order_id, erp_version, erp_status, erp_amount_minor, erp_currency,
    pending_since, next_check_at
) VALUES ($1, 1, 'order-' || $1, 1, 'pending', 1000, 'EUR', now(), now() - interval '1 second')
"""
INSERT_JOB = """
INSERT INTO reconciliation_jobs (payment_id, reason, max_attempts)
VALUES ($1, 'due', $2) RETURNING job_id
"""

Script = Callable[[Question], Awaitable[Answer]]


def succeeded(payment_id: str, *, version: int | None = None, minor: int = 1000) -> Answered:
    """The PSP has the money."""
    return answered(payment_id, "succeeded", version=version, minor=minor)


def answered(
    payment_id: str, status: str, *, version: int | None = None, minor: int = 1000
) -> Answered:
    """The PSP knows the payment and says `status`."""
    captured = minor if status == "succeeded" else 0
    return Answered(
        status=status,
        amount_minor=minor,
        currency="EUR",
        captured_minor=captured,
        refunded_minor=0,
        disputed_minor=0,
        psp="acme",
        psp_reference=f"ref-{payment_id}",
        entityversion=version,
        versionepoch=0,
        failure_code=None,
        data={"psp": "acme", "psp_reference": f"ref-{payment_id}", "status": status},
    )


class ScriptedPsp:
    """The far end of the port: answers by script, `succeeded` without one; remembers questions."""

    def __init__(self, script: Script | None = None) -> None:
        self.script = script
        self.asked: list[Question] = []

    async def ask(self, question: Question) -> Answer:
        """Answer as the script says."""
        self.asked.append(question)
        if self.script is None:
            return succeeded(question.payment_id)
        return await self.script(question)


@dataclass
class Room:
    """One database and what works on it."""

    pool: Any
    options: PoolOptions
    activity: Activity = field(default_factory=Activity)

    async def connect(self) -> Any:
        """A connection of one's own."""
        return await connect(self.options)

    async def add_payment(self, payment_id: str) -> None:
        """A payment that is pending here and due for a check."""
        await self.pool.execute(INSERT_PAYMENT, payment_id)

    async def add_job(self, payment_id: str, *, attempts_max: int = 8) -> int:
        """A payment with a due job."""
        await self.add_payment(payment_id)
        job_id: int = await self.pool.fetchval(INSERT_JOB, payment_id, attempts_max)
        return job_id

    async def claim_one(self, owner: str, *, ttl_seconds: float = 60.0) -> Job:
        """Claim the one job that is due."""
        (job,) = await jobs.claim(self.pool, owner=owner, slots=1, ttl_seconds=ttl_seconds)
        return job

    async def job(self, job_id: int) -> Any:
        """The job's row."""
        return await self.pool.fetchrow(
            "SELECT * FROM reconciliation_jobs WHERE job_id = $1", job_id
        )

    async def payment(self, payment_id: str) -> Any:
        """The payment's row."""
        return await self.pool.fetchrow("SELECT * FROM payments WHERE payment_id = $1", payment_id)

    async def attempts(self, job_id: int) -> list[str | None]:
        """The outcomes of the job's attempts, in order; None for one that is open."""
        rows = await self.pool.fetch(
            "SELECT outcome FROM reconciliation_attempts WHERE job_id = $1 ORDER BY lease_epoch",
            job_id,
        )
        return [row[0] for row in rows]

    async def expire(self, job_id: int) -> None:
        """Let the job's lease run out now, as the database sees it."""
        await self.pool.execute(
            "UPDATE reconciliation_jobs SET lease_until = now() - interval '1 second' "
            "WHERE job_id = $1",
            job_id,
        )

    def watcher(self, *, page_max: int = 500) -> Watcher:
        """A watcher whose rounds are made by hand."""
        terms = WatcherTerms(
            actor="watcher", outcome_topic=OUTCOME_TOPIC, rules=RULES, page_max=page_max
        )
        return Watcher(self.pool, terms=terms, activity=self.activity)

    def worker(
        self,
        psp: PspPort,
        *,
        concurrency: int = 10,
        lease: LeaseTerms | None = None,
        settle: SettleTerms | None = None,
        claim_seconds: float = 10.0,
        drain_seconds: float = 5.0,
        backoff_max_seconds: float = 0.05,
        ask_seconds_max: float = 60.0,
    ) -> Worker:
        """A worker that polls often; by default its leases are long."""
        terms = WorkerTerms(
            lease=lease or LeaseTerms(owner=new_owner()),
            settle=settle or SettleTerms(outcome_topic=OUTCOME_TOPIC, rules=RULES),
            ask=AskTerms(backoff_max_seconds=backoff_max_seconds, ask_seconds_max=ask_seconds_max),
            concurrency=concurrency,
            poll_seconds=0.05,
            claim_seconds=claim_seconds,
            drain_seconds=drain_seconds,
        )
        return Worker(self.pool, self.connect, psp, terms=terms, activity=self.activity)


def short_lease(owner: str | None = None) -> LeaseTerms:
    """A lease of 0.6 s that is renewed every 0.15 s."""
    return LeaseTerms(
        owner=owner or new_owner(),
        ttl_seconds=0.6,
        heartbeat_seconds=0.15,
        margin_seconds=0.1,
        statement_seconds=0.3,
    )


@asynccontextmanager
async def open_room(
    url: str, *, connections_max: int = 10, options: PoolOptions | None = None
) -> AsyncIterator[Room]:
    """Open the pool and close it."""
    chosen = options or PoolOptions(url=url, connections_min=2, connections_max=connections_max)
    pool = await open_pool(chosen)
    try:
        yield Room(pool, chosen)
    finally:
        try:
            async with asyncio.timeout(2):
                await pool.close()
        except TimeoutError:
            pool.terminate()


@asynccontextmanager
async def running(worker: Worker) -> AsyncIterator[asyncio.Event]:
    """Run a worker beside the block, then stop it and wait for its drain."""
    stop = asyncio.Event()
    async with asyncio.timeout(DEADLINE_SECONDS), asyncio.TaskGroup() as group:
        group.create_task(worker.run(stop))
        try:
            yield stop
        finally:
            stop.set()


async def until(condition: Callable[[], Awaitable[Any]]) -> Any:
    """Wait until `condition()` gives something true, and return that; fails after a deadline."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not (met := await condition()):  # noqa: ASYNC110 - the condition lies in the database
            await asyncio.sleep(0.01)
        return met
