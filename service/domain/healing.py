"""What a PSP's answer makes of a payment: pure, so that a decision can be read and tested alone.

An answer with a version is folded exactly as an event. One without never changes a source
version: it overlays a view that is less final. Money that differs opens a case and heals nothing.
"""

from dataclasses import replace
from datetime import datetime, timedelta

from service.domain.decision import Decision, JobOutcome, outcome_of
from service.domain.events import Outcome, Seen, SourceEvent
from service.domain.facts import FINAL, finality
from service.domain.fold import Folded, commit, fold
from service.domain.observing import observe, settle_doubt
from service.domain.opening import (
    Occasion,
    close_duplicate_of_order,
    new_entry,
    open_duplicate_of_order,
    open_now,
    settle,
)
from service.domain.payment import Kind, Payment, PspPayment, Schedule
from service.domain.replies import Found, Missing, Reply
from service.domain.schedule import Rules, account_of, needs_check, next_step
from service.domain.status import NEGATIVE, deciding

__all__ = [
    "Decision",
    "Found",
    "JobOutcome",
    "Missing",
    "Reply",
    "close_duplicate_of_order",
    "decide",
    "open_duplicate_of_order",
    "open_now",
    "superseded",
]


def decide(
    payment: Payment, reply: Reply, *, seen: Seen, now: datetime, rules: Rules, actor: str
) -> Decision:
    """Turn an answer into the payment's next state. `now` is the database's time."""
    folded = Folded(before=payment, payment=payment)
    occasion = Occasion(now=now, rules=rules, actor=actor)
    if isinstance(reply, Missing):
        kinds = _take_missing(folded, occasion)
    else:
        kinds = _take_found(folded, reply, seen, occasion)
    worn_out = _plan_next(folded, reply, occasion)
    if worn_out and isinstance(reply, Found) and not reply.final:
        kinds |= {Kind.STUCK_PENDING}
    settle(folded, kinds, occasion)
    return Decision(folded, outcome_of(payment, folded.payment, reply))


def superseded(payment: Payment) -> bool:
    """Whether events have settled the payment since its job was made, so that nobody needs to be
    asked.
    """
    return not needs_check(payment)


def _take_found(folded: Folded, reply: Found, seen: Seen, occasion: Occasion) -> set[Kind]:
    """Take the answer; gives the kinds that it tells of.

    An answer older than what is known, or in conflict with it, tells nothing.
    """
    _keep_books(folded, replace(folded.payment.schedule, not_found_since=None))
    if reply.event is None:
        known = folded.payment.psp_payments.get(reply.key, PspPayment(*reply.key))
        _take(folded, reply, known, observe(known, reply.facts, now=occasion.now), occasion)
    elif not _believed(folded, reply, reply.event, seen, occasion):
        return set()
    chosen = deciding(folded.payment)
    decided = reply.final and chosen is not None and finality(chosen.facts) >= FINAL
    final_answer_at = occasion.now if decided else None
    _keep_books(folded, replace(folded.payment.schedule, final_answer_at=final_answer_at))
    return _said_no(folded.payment, reply)


def _believed(
    folded: Folded, reply: Found, event: SourceEvent, seen: Seen, occasion: Occasion
) -> bool:
    """Fold an answer that carries a version; whether it is what the PSP says now."""
    now, rules = occasion.now, occasion.rules
    step = fold(folded.payment, [event], seen=seen, now=now, rules=rules)
    folded.payment = step.payment
    folded.entries.extend(step.entries)
    folded.announcements.extend(step.announcements)
    folded.closed.extend(step.closed)
    [(_, outcome)] = step.counts
    known = folded.payment.psp_payments.get(reply.key)
    if known is None or event.version != known.view.newest or outcome is Outcome.CONFLICT:
        return False
    _take(folded, reply, known, settle_doubt(known, reply.facts), occasion)
    return True


def _take(
    folded: Folded, reply: Found, known: PspPayment, observed: PspPayment, occasion: Occasion
) -> None:
    """Make `observed` the PSP payment, if it is another than the one `known`."""
    if observed is known:
        return
    changed = folded.payment.copy()
    changed.psp_payments = {**changed.psp_payments, reply.key: observed}
    entry = new_entry(changed, occasion)
    entry.data, entry.psp, entry.psp_reference = reply.data, reply.psp, reply.psp_reference
    commit(folded, changed, entry, now=occasion.now, rules=occasion.rules)


def _take_missing(folded: Folded, occasion: Occasion) -> set[Kind]:
    """Take a "not found"; gives the kind that two of them, the grace apart, tell of.

    They are the final answer where no money is waited for.
    """
    schedule = folded.payment.schedule
    since = schedule.not_found_since or occasion.now
    believed = occasion.now - since >= timedelta(seconds=occasion.rules.not_found_grace_seconds)
    final_answer_at = schedule.final_answer_at
    if believed and folded.payment.status in NEGATIVE:
        final_answer_at = occasion.now
    _keep_books(folded, replace(schedule, not_found_since=since, final_answer_at=final_answer_at))
    return {Kind.MISSING_AT_PSP} if believed else set()


def _plan_next(folded: Folded, reply: Reply, occasion: Occasion) -> bool:
    """Count the answer, which any doubt was to be settled by, and set the next check; whether the
    poll plan has run out.

    The second of two "not found" is asked for as soon as it can be believed.
    """
    _keep_books(folded, replace(folded.payment.schedule, check_wanted=False))
    now, rules, schedule = occasion.now, occasion.rules, folded.payment.schedule
    checks = schedule.checks + 1
    psp, method = account_of(folded.payment), None
    if isinstance(reply, Found):
        psp, method = reply.psp, reply.method
    planned_at, worn_out = next_step(checks, now=now, rules=rules, psp=psp, method=method)
    if schedule.not_found_since is not None:
        grace = timedelta(seconds=rules.not_found_grace_seconds)
        second_proof_at = schedule.not_found_since + grace
        planned_at = second_proof_at if second_proof_at > now else planned_at
    needed = needs_check(folded.payment)
    next_check_at = planned_at if needed else None
    _keep_books(folded, replace(schedule, checks=checks, next_check_at=next_check_at))
    return needed and worn_out


def _keep_books(folded: Folded, schedule: Schedule) -> None:
    """Change the poll bookkeeping, which nobody sees."""
    folded.payment = folded.payment.copy()
    folded.payment.schedule = schedule


def _said_no(payment: Payment, reply: Found) -> set[Kind]:
    """What a final answer tells of a payment that the ERP holds for paid or refunded."""
    erp_status = payment.erp.fields.get("status")
    if erp_status == "refunded" and reply.final:
        return {Kind.REFUND_MISSING}
    if erp_status == "paid" and reply.final and not reply.facts.paid:
        return {Kind.ERP_PAID_PSP_NOT}
    return set()
