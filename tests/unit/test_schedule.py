"""When the PSP is asked: while its answer could change the payment, and never in vain."""

from datetime import timedelta

import pytest

from service.domain.events import SourceEvent
from service.domain.payment import Status
from service.domain.schedule import Rules, needs_check, next_step
from tests.unit.domain_events import MISSING, NOW, RULES, after, asked, erp, found, psp

FIRST = NOW + timedelta(seconds=300)
LATER = NOW + timedelta(seconds=100)


@pytest.mark.parametrize(
    ("events", "checked"),
    [
        ((erp(1),), True),
        ((psp(1, "authorised"),), True),
        ((erp(1, "cancelled"),), True),
        ((psp(1, "failed"),), True),
        ((psp(1, "expired"),), True),
        ((psp(1, "cancelled"),), True),
        ((psp(1, "succeeded"),), False),
        ((erp(1), psp(1, "succeeded", captured_minor=1)), True),
        ((psp(1, "succeeded", refunded_minor=1000),), False),
        ((psp(1, "succeeded", disputed_minor=1),), False),
        ((erp(1, "refunded"), psp(1, "succeeded")), True),
        ((erp(1, "refunded"), psp(1, "succeeded", refunded_minor=400)), True),
        ((erp(1, "refunded"), psp(1, "succeeded", refunded_minor=1000)), False),
        ((erp(1, "refunded"), psp(1, "succeeded", disputed_minor=1)), False),
    ],
)
def test_payment_is_checked_while_an_answer_could_change_it(
    events: tuple[SourceEvent, ...], checked: bool
) -> None:
    payment = after(*events)
    assert needs_check(payment) is checked
    assert payment.schedule.next_check_at == (FIRST if checked else None)


def test_first_check_is_not_put_off_by_events_that_move_nothing() -> None:
    payment = after(psp(1, "pending"), payment=after(erp(1)), now=LATER)
    assert payment.schedule.next_check_at == FIRST


def test_new_status_starts_the_plan_again() -> None:
    checked = asked(after(erp(1)), found("pending"), found("pending")).folded.payment
    assert checked.schedule.checks == 2
    moved = after(psp(1, "authorised"), payment=checked, now=LATER)
    assert moved.schedule.checks == 0
    assert moved.schedule.next_check_at == LATER + timedelta(seconds=300)


def test_pending_since_is_the_time_of_the_first_waiting_status() -> None:
    payment = after(psp(1, "authorised"), payment=after(erp(1)), now=LATER)
    assert payment.schedule.pending_since == NOW
    settled = after(psp(2, "succeeded"), payment=payment, now=LATER)
    assert settled.schedule.pending_since is None


@pytest.mark.parametrize("status", ["failed", "cancelled", "expired"])
def test_negative_payment_is_checked_until_one_final_answer(status: str) -> None:
    payment = after(erp(1), psp(1, status))
    assert needs_check(asked(payment, MISSING).folded.payment)
    assert not needs_check(asked(payment, found(status)).folded.payment)
    assert not needs_check(asked(payment, MISSING, MISSING).folded.payment)


def test_payment_that_fails_after_its_final_answer_is_asked_about_again() -> None:
    healed = asked(after(erp(1), psp(1, "pending")), found("succeeded", version=2)).folded.payment
    assert not needs_check(healed)
    assert needs_check(after(psp(3, "failed"), payment=healed))


def test_cancelled_order_is_checked_until_the_psp_has_decided() -> None:
    payment = after(erp(1, "cancelled"), psp(1, "pending"))
    waiting = asked(payment, found("authorised")).folded.payment
    assert (waiting.status, needs_check(waiting)) == (Status.CANCELLED, True)
    assert not needs_check(asked(waiting, found("expired")).folded.payment)


def test_order_cancelled_after_a_final_answer_is_asked_about_once_more() -> None:
    failed = asked(after(erp(1), psp(1, "failed")), found("failed")).folded.payment
    assert needs_check(after(erp(2, "cancelled"), payment=failed))


@pytest.mark.parametrize(
    ("checks", "seconds", "worn_out"),
    [(1, 60, False), (3, 900, False), (6, 86_400, False), (7, 86_400, True), (99, 86_400, True)],
)
def test_poll_plan_ends_in_daily_checks(checks: int, seconds: int, worn_out: bool) -> None:
    at = NOW + timedelta(seconds=seconds)
    assert next_step(checks, now=NOW, rules=RULES) == (at, worn_out)


def test_poll_plan_is_a_setting() -> None:
    assert next_step(2, now=NOW, rules=Rules(poll_plan_seconds=(1, 2))) == (
        NOW + timedelta(seconds=2),
        False,
    )
    assert next_step(1, now=NOW, rules=Rules(poll_plan_seconds=())) == (
        NOW + timedelta(days=1),
        True,
    )
