"""When the PSP is asked next: set while the answer could change a payment, empty otherwise."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from service.domain.facts import FINAL, finality
from service.domain.payment import Payment, Schedule
from service.domain.status import WAITING, answer_awaited, deciding

DAY_SECONDS = 86_400


@dataclass(frozen=True, slots=True)
class Rules:
    """The times that the payment rules need, all in seconds.

    `poll_plan_seconds` are the gaps between one check and the next; after the last it goes on
    daily, as stuck. `not_found_grace_seconds` is what two "not found" answers must lie apart to
    be believed. `poll_plans` are other plans for a PSP account, by its name, or for a method of
    payment there, by "account/method".
    """

    pending_after_seconds: float = 300
    poll_plan_seconds: tuple[float, ...] = (60, 300, 900, 3_600, 21_600, 86_400)
    not_found_grace_seconds: float = 600
    poll_plans: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    def poll_plan(self, psp: str | None, method: str | None) -> tuple[float, ...]:
        """The plan of the method at the account, else of the account, else of all."""
        if psp is None or not self.poll_plans:
            return self.poll_plan_seconds
        of_account = self.poll_plans.get(psp, self.poll_plan_seconds)
        return self.poll_plans.get(f"{psp}/{method}", of_account)


def needs_check(payment: Payment) -> bool:
    """Whether the PSP has to be asked: its answer could still change the payment or is to settle a
    doubt, and no version conflict waits for a person first.
    """
    wanted = payment.schedule.check_wanted or answer_awaited(payment)
    return wanted and not payment.in_conflict


def reschedule(before: Payment, after: Payment, *, now: datetime, rules: Rules) -> None:
    """Fill in the bookkeeping of `after`, a copy that nobody else has yet, after a change.

    A new status starts the plan again; nobody is asked in vain. What the PSP tells by itself ends
    a row of "not found".
    """
    old, moved = after.schedule, after.status is not before.status
    final_answer_at = old.final_answer_at
    if final_answer_at is not None and (moved or _question_changed(before, after)):
        final_answer_at = None
    told = after.psp_payments is not before.psp_payments
    after.schedule = schedule = Schedule(
        (old.pending_since or now) if after.status in WAITING else None,
        0 if moved else old.checks,
        None,
        None if told else old.not_found_since,
        final_answer_at,
        old.check_wanted,
    )
    if not needs_check(after):
        return
    if (moved and not old.check_wanted) or old.next_check_at is None:
        schedule.next_check_at = now + timedelta(seconds=rules.pending_after_seconds)
    else:
        schedule.next_check_at = old.next_check_at


def next_step(
    checks: int,
    *,
    now: datetime,
    rules: Rules,
    psp: str | None = None,
    method: str | None = None,
) -> tuple[datetime, bool]:
    """When to ask again after `checks` answers (1 or more), and whether the plan has run out (then
    it goes on daily). `psp` and `method` choose the plan, as far as they are known.
    """
    plan = rules.poll_plan(psp, method)
    if checks <= len(plan):
        return now + timedelta(seconds=plan[checks - 1]), False
    return now + timedelta(seconds=DAY_SECONDS), True


def account_of(payment: Payment) -> str | None:
    """The PSP account that the payment is at, or that the ERP expects it at."""
    chosen = deciding(payment)
    return chosen.psp if chosen is not None else payment.erp.fields.get("psp")


def _question_changed(before: Payment, after: Payment) -> bool:
    """Whether a final answer was one to another question: the PSP's facts are open again, or the
    ERP says another status or names another reference.
    """
    chosen = deciding(after)
    if chosen is not None and finality(chosen.facts) < FINAL:
        return True
    old, new = before.erp.fields, after.erp.fields
    return any(old.get(name) != new.get(name) for name in ("status", "psp_reference"))
