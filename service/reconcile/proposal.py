"""What a worker hands in for a job, and what is decided from it."""

import asyncio
from dataclasses import dataclass, field, replace
from datetime import datetime

from service.domain.changes import changes_between
from service.domain.events import Outcome, Seen
from service.domain.fold import Folded
from service.domain.healing import Decision, JobOutcome, Reply, decide, superseded
from service.domain.payment import Payment
from service.domain.schedule import Rules, account_of, next_step
from service.psp.port import Answered, NotFound
from service.reconcile.lease import HeldJob
from service.reconcile.questions import reply_of
from service.reconcile.verdict import Verdict
from service.store.jobs import Lease


@dataclass(slots=True, eq=False)
class Proposal:
    """The payment as it was read before the PSP was asked, and the PSP's answer.

    No answer: nobody had to be asked, for events had settled the payment. No payment: the job's
    payment does not exist.
    """

    held: HeldJob
    read: Payment | None
    answer: Answered | NotFound | None
    actor: str
    decision: Decision | None = None
    verdict: "asyncio.Future[Verdict]" = field(init=False)

    def __post_init__(self) -> None:
        self.verdict = asyncio.get_running_loop().create_future()

    @property
    def payment_id(self) -> str:
        """The payment that the job is about."""
        return self.held.job.payment_id

    @property
    def lease(self) -> Lease:
        """The lease that has to hold until the commit."""
        return self.held.job.lease

    @property
    def outcome(self) -> JobOutcome:
        """How the job ends if it is written."""
        return self.decision.outcome if self.decision else JobOutcome.SUPERSEDED

    def reply(self, now: datetime) -> Reply | None:
        """The answer as the payment rules take it; `now` is the database's time."""
        if self.answer is None:
            return None
        return reply_of(self.answer, payment_id=self.payment_id, now=now, actor=self.actor)

    def moved(self, row_version: int | None) -> bool:
        """Whether the payment is another than the one the PSP was asked about."""
        return row_version != (None if self.read is None else self.read.row_version)

    def tell(self, verdict: Verdict) -> None:
        """Tell the worker, if it still waits."""
        if not self.verdict.done():
            self.verdict.set_result(verdict)


def decision_on(
    payment: Payment, reply: Reply | None, *, seen: Seen, now: datetime, rules: Rules, actor: str
) -> Decision:
    """What the PSP's reply makes of the payment. No reply: nobody had to be asked, and what is
    left of a scheduled check ends.
    """
    if reply is not None:
        return decide(payment, reply, seen=seen, now=now, rules=rules, actor=actor)
    folded = Folded(before=payment, payment=payment)
    if payment.schedule.next_check_at is not None and superseded(payment):
        folded.payment = replace(payment, schedule=replace(payment.schedule, next_check_at=None))
    return Decision(folded, JobOutcome.SUPERSEDED)


def in_shadow(decision: Decision, *, now: datetime, rules: Rules) -> Decision:
    """The decision as a log row alone: the payment keeps all that can be seen, and is asked again
    by the poll plan.
    """
    before, after = decision.folded.before, decision.folded.payment
    if after.row_version == before.row_version:
        return Decision(decision.folded, JobOutcome.SHADOW)
    checks = before.schedule.checks + 1
    next_check_at, _ = next_step(checks, now=now, rules=rules, psp=account_of(after))
    schedule = replace(
        before.schedule,
        checks=checks,
        next_check_at=next_check_at,
        not_found_since=after.schedule.not_found_since,
    )
    told = replace(
        decision.folded.entries[0],
        outcome=Outcome.SHADOW,
        row_version=before.row_version,
        changes=changes_between(before, after),
    )
    folded = Folded(before=before, payment=replace(before, schedule=schedule), entries=[told])
    return Decision(folded, JobOutcome.SHADOW)
