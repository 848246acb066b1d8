"""The end of a job that used up its attempts: the payment stays, and a person is called."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from service.domain.fold import Folded
from service.domain.healing import open_now
from service.domain.payment import Kind, Payment
from service.domain.schedule import DAY_SECONDS, Rules, needs_check
from service.store import book, jobs
from service.store.jobs import Abandoned


async def end_worn_out(
    connection: Any, job: Abandoned, *, actor: str, outcome_topic: str, rules: Rules
) -> bool:
    """Make the job dead inside the caller's transaction; False if somebody was faster.

    Its payment is asked about again in a day, and is open as STUCK_PENDING until then. The
    payment is locked first, as everybody does.
    """
    payments = await book.lock(connection, [job.payment_id])
    if not await jobs.die(connection, job.lease):
        return False
    payment = payments.get(job.payment_id)
    if payment is not None:
        now = await book.database_now(connection)
        folded = _stuck(payment, now=now, rules=rules, actor=actor)
        await book.write(connection, [folded], outcome_topic=outcome_topic)
    return True


def _stuck(payment: Payment, *, now: datetime, rules: Rules, actor: str) -> Folded:
    folded = Folded(before=payment, payment=payment)
    if needs_check(payment):
        in_a_day = now + timedelta(seconds=DAY_SECONDS)
        folded.payment = replace(
            payment, schedule=replace(payment.schedule, next_check_at=in_a_day)
        )
    open_now(folded, frozenset({Kind.STUCK_PENDING}), now=now, rules=rules, actor=actor)
    return folded
