"""Advisory events: their order is only plausible, so a doubt asks the PSP and holds nothing."""

from dataclasses import replace
from datetime import timedelta

import pytest

from service.domain.events import Outcome, SourceEvent
from service.domain.healing import decide, superseded
from service.domain.payment import Payment, Status
from service.domain.schedule import needs_check
from tests.unit.domain_events import (
    MISSING,
    NOW,
    RULES,
    after,
    digests,
    erp,
    folded,
    found,
    outcomes,
    psp,
    psp_patch,
)

LATER = NOW + timedelta(minutes=1)
SETTLED = psp(5, "succeeded")
DOUBTS = {
    "late": psp(4, "pending"),
    "other content": psp(5, "failed"),
    "without fields": psp_patch(6),
}


def advisory(event: SourceEvent) -> SourceEvent:
    return replace(event, advisory=True)


@pytest.mark.parametrize("doubt", DOUBTS)
def test_doubt_is_stale_holds_nothing_and_is_asked_about_now(doubt: str) -> None:
    step = folded(SETTLED, advisory(DOUBTS[doubt]), now=NOW)
    assert outcomes(step) == [Outcome.APPLIED, Outcome.STALE]
    payment = step.payment
    assert payment.status is Status.SUCCEEDED
    assert payment.row_version == 1
    assert not payment.in_conflict
    assert payment.open_kinds == []
    assert payment.schedule.next_check_at == NOW
    assert needs_check(payment)
    assert not superseded(payment)


@pytest.mark.parametrize("doubt", ["late", "without fields"])
def test_event_that_is_not_advisory_asks_nobody(doubt: str) -> None:
    payment = after(SETTLED, DOUBTS[doubt])
    assert not needs_check(payment)
    assert payment.schedule.next_check_at is None


def test_advisory_event_that_advances_is_applied_like_any_other() -> None:
    step = folded(advisory(SETTLED))
    assert outcomes(step) == [Outcome.APPLIED]
    assert not needs_check(step.payment)


def test_same_content_again_is_a_duplicate_and_no_doubt() -> None:
    step = folded(advisory(SETTLED), payment=after(SETTLED), seen=digests([SETTLED]))
    assert step.counts == {("psp", Outcome.DUPLICATE): 1}
    assert not needs_check(step.payment)


def test_wanted_check_outlives_later_events() -> None:
    payment = after(psp(5, "authorised"), advisory(psp(4, "pending")))
    moved = folded(psp(6, "succeeded"), erp(1, "paid"), payment=payment, now=LATER).payment
    assert moved.status is Status.SUCCEEDED
    assert moved.schedule.next_check_at == NOW
    assert needs_check(moved)


@pytest.mark.parametrize("reply", [found("succeeded"), MISSING], ids=["found", "missing"])
def test_one_answer_ends_it(reply: object) -> None:
    payment = _wanted()
    decision = decide(payment, reply, seen={}, now=LATER, rules=RULES, actor="a")  # type: ignore[arg-type] # pytest's parameters
    assert not needs_check(decision.folded.payment)
    assert decision.folded.payment.schedule.next_check_at is None


def _wanted() -> Payment:
    payment = after(SETTLED, advisory(DOUBTS["late"]))
    assert needs_check(payment)
    return payment
