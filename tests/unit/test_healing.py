"""What each answer of the PSP makes of a payment."""

from datetime import timedelta
from typing import Any

import pytest

from schemas.money import Money
from service.domain.events import Outcome
from service.domain.healing import Found, JobOutcome, superseded
from service.domain.payment import Kind, Status
from tests.unit.domain_events import (
    MISSING,
    NOW,
    after,
    asked,
    digests,
    erp,
    folded,
    found,
    psp,
    psp_patch,
)

PENDING = after(erp(1), psp(1, "pending"))
VERSIONS = pytest.mark.parametrize("version", [None, 2])


@VERSIONS
def test_success_with_the_same_money_heals(version: int | None) -> None:
    """Reported as woocommerce-payments PR 3118: the PSP is asked, nothing is assumed."""
    decision = asked(PENDING, found("succeeded", version=version))
    payment = decision.folded.payment
    assert (decision.outcome, payment.status) == (JobOutcome.HEALED, Status.SUCCEEDED)
    assert payment.schedule.next_check_at is None
    assert superseded(payment)
    [entry] = decision.folded.entries
    assert (entry.kind, entry.row_version) == ("heal", PENDING.row_version + 1)
    assert entry.changes["status"] == ["pending", "succeeded"]
    assert [each.row_version for each in decision.folded.announcements] == [payment.row_version]


@VERSIONS
@pytest.mark.parametrize(
    ("book", "kind"),
    [
        ({"captured_minor": 900}, "AMOUNT_MISMATCH"),
        ({"amount": Money(1000, "USD")}, "CURRENCY_MISMATCH"),
    ],
)
def test_success_with_other_money_heals_nothing(
    version: int | None, book: dict[str, Any], kind: str
) -> None:
    decision = asked(PENDING, found("succeeded", version=version, **book))
    payment = decision.folded.payment
    assert (decision.outcome, payment.status) == (JobOutcome.DISCREPANCY, Status.PENDING)
    assert payment.open_kinds == [kind]


@VERSIONS
def test_success_of_a_cancelled_order_is_a_case_for_a_person(version: int | None) -> None:
    """Reported as adyen-magento2 3313, adyen-magento2 1943."""
    cancelled = after(erp(1, "cancelled"), psp(1, "pending"))
    payment = asked(cancelled, found("succeeded", version=version)).folded.payment
    assert (payment.status, payment.open_kinds) == (Status.SUCCEEDED, ["PAID_AFTER_CANCEL"])


@VERSIONS
@pytest.mark.parametrize("status", ["failed", "cancelled", "expired"])
def test_negative_answer_is_taken(version: int | None, status: str) -> None:
    decision = asked(PENDING, found(status, version=version))
    assert (decision.outcome, decision.folded.payment.status) == (JobOutcome.HEALED, status)
    assert superseded(decision.folded.payment)


@VERSIONS
def test_open_answer_goes_on_by_the_poll_plan_and_ends_as_stuck(version: int | None) -> None:
    payment, now = after(erp(1)), NOW
    minutes = []
    for _ in range(8):
        decision = asked(payment, found("pending", version=version), now=now)
        assert decision.outcome in {JobOutcome.STILL_PENDING, JobOutcome.DISCREPANCY}
        payment = decision.folded.payment
        next_check_at = payment.schedule.next_check_at
        assert next_check_at is not None
        minutes.append(int((next_check_at - now).total_seconds() // 60))
        assert ("STUCK_PENDING" in payment.open_kinds) == (len(minutes) > 6)
        now = next_check_at
    assert minutes == [1, 5, 15, 60, 360, 1440, 1440, 1440]
    assert payment.status is Status.PENDING
    assert payment.row_version == 3


def test_same_open_answer_again_is_not_logged() -> None:
    first = asked(after(erp(1)), found("pending")).folded.payment
    again = asked(first, found("pending"))
    assert again.folded.entries == []
    assert again.folded.payment.row_version == first.row_version
    assert again.folded.payment.schedule.checks == 2


def test_authorised_answer_is_taken_and_asked_on() -> None:
    payment = asked(PENDING, found("authorised")).folded.payment
    assert payment.status is Status.AUTHORISED
    assert payment.schedule.next_check_at == NOW + timedelta(minutes=1)


def test_one_not_found_is_no_proof() -> None:
    """Reported as killbill-stripe: an empty search becomes cancelled."""
    decision = asked(after(erp(1)), MISSING)
    payment = decision.folded.payment
    assert (decision.outcome, payment.status) == (JobOutcome.NOT_FOUND, Status.PENDING)
    assert payment.open_kinds == []
    assert payment.schedule.next_check_at == NOW + timedelta(minutes=10)
    assert decision.folded.entries == []


@pytest.mark.parametrize(("minutes", "kinds"), [(9, []), (10, ["MISSING_AT_PSP"])])
def test_two_not_found_count_ten_minutes_apart(minutes: int, kinds: list[str]) -> None:
    payment = asked(after(erp(1)), MISSING, MISSING, minutes=minutes).folded.payment
    assert (payment.status, payment.open_kinds) == (Status.PENDING, kinds)
    assert payment.schedule.next_check_at is not None


def test_an_answer_between_two_not_found_ends_the_row() -> None:
    payment = asked(after(erp(1)), MISSING, found("pending"), MISSING).folded.payment
    assert payment.open_kinds == []


def test_an_event_between_two_not_found_ends_the_row() -> None:
    first = asked(after(erp(1)), MISSING).folded.payment
    told = after(psp(1, "pending"), payment=first)
    assert asked(told, MISSING, now=NOW + timedelta(hours=1)).folded.payment.open_kinds == []


def test_cancelled_order_that_the_psp_does_not_know_is_done() -> None:
    decision = asked(after(erp(1, "cancelled")), MISSING, MISSING)
    payment = decision.folded.payment
    assert (payment.status, payment.open_kinds) == (Status.CANCELLED, [])
    assert superseded(payment)


def test_erp_paid_and_the_psp_says_no() -> None:
    payment = after(erp(1, "paid"), psp(1, "authorised"))
    decision = asked(payment, found("failed"))
    assert decision.folded.payment.open_kinds == ["ERP_PAID_PSP_NOT"]


def test_capture_that_failed_moves_back_and_is_told() -> None:
    """Reported as adyen-magento2 1234."""
    payment = after(erp(1), psp(1, "succeeded"), erp(2, "paid"), psp(2, "failed"))
    assert payment.status is Status.FAILED
    assert not superseded(payment)
    decision = asked(payment, found("failed", version=2), seen=digests([psp(2, "failed")]))
    assert decision.folded.payment.open_kinds == ["ERP_PAID_PSP_NOT"]
    assert decision.outcome is JobOutcome.DISCREPANCY


def test_erp_refunded_and_the_psp_not() -> None:
    payment = after(erp(1), psp(1, "succeeded"), erp(2, "refunded"))
    assert not superseded(payment)
    decision = asked(payment, found("succeeded"))
    assert decision.folded.payment.open_kinds == ["REFUND_MISSING"]
    assert not superseded(decision.folded.payment)
    returned = asked(decision.folded.payment, found("succeeded", refunded_minor=1000))
    assert (returned.outcome, returned.folded.payment.open_kinds) == (JobOutcome.HEALED, [])


def test_refund_that_grows_is_followed_without_versions() -> None:
    payment = after(erp(1), psp(1, "succeeded"), erp(2, "refunded"))
    part = asked(payment, found("succeeded", refunded_minor=400)).folded.payment
    assert part.status is Status.PARTIALLY_REFUNDED
    more = asked(part, found("succeeded", refunded_minor=700)).folded.payment
    assert more.psp_payments["acme", "ch_1"].facts.refunded_minor == 700
    whole = asked(more, found("succeeded", refunded_minor=1000)).folded.payment
    assert (whole.status, whole.open_kinds) == (Status.REFUNDED, [])


@pytest.mark.parametrize("status", ["pending", "authorised", "failed"])
def test_paid_payment_is_protected_from_an_answer_without_version(status: str) -> None:
    paid = after(erp(1), psp(3, "succeeded"), erp(2, "refunded"))
    decision = asked(paid, found(status))
    assert decision.folded.payment.status is Status.SUCCEEDED
    assert decision.folded.payment.psp_payments is paid.psp_payments
    observed = asked(PENDING, found("succeeded")).folded.payment
    assert asked(observed, found(status)).folded.payment.status is Status.SUCCEEDED


def test_paid_payment_is_protected_from_an_answer_of_a_lower_version() -> None:
    decision = asked(after(erp(1), psp(3, "succeeded")), found("failed", version=2))
    assert decision.folded.payment.status is Status.SUCCEEDED
    assert [each.outcome for each in decision.folded.entries] == [Outcome.STALE]


def test_answer_without_version_changes_no_source_version() -> None:
    payment = asked(PENDING, found("succeeded")).folded.payment
    view = payment.psp_payments["acme", "ch_1"].view
    assert view == PENDING.psp_payments["acme", "ch_1"].view
    assert after(psp(2, "succeeded"), payment=payment).status is Status.SUCCEEDED


def test_answer_with_version_makes_the_late_event_a_duplicate() -> None:
    payment = asked(PENDING, found("succeeded", version=2)).folded.payment
    late = psp(2, "succeeded")
    seen = digests([late])
    step = after(late, payment=payment)
    assert step.row_version == payment.row_version
    assert asked(payment, found("succeeded", version=2), seen=seen).folded.entries == []


def test_stale_answer_is_not_the_final_one() -> None:
    failed = after(erp(1), psp(5, "failed"))
    payment = asked(failed, found("failed", version=4)).folded.payment
    assert not superseded(payment)
    assert superseded(asked(failed, found("failed", version=5)).folded.payment)


def test_answer_agrees_with_the_patch_of_its_version() -> None:
    known = after(erp(1), psp(1, "pending"), psp_patch(2, status="authorised"))
    seen = digests([psp_patch(2, status="authorised")])
    decision = asked(known, found("authorised", version=2), seen=seen)
    assert decision.outcome is JobOutcome.STILL_PENDING
    assert decision.folded.entries == []
    fuller = asked(known, found("authorised", version=2, failure_code="x"), seen=seen)
    assert [each.outcome for each in fuller.folded.entries] == [Outcome.APPLIED]
    other = asked(known, found("failed", version=2), seen=seen)
    assert other.folded.payment.open_kinds == ["VERSION_CONFLICT"]


@pytest.mark.parametrize(("status", "kinds"), [("succeeded", []), ("failed", ["VERSION_CONFLICT"])])
def test_late_patch_is_compared_with_the_answer_of_its_version(
    status: str, kinds: list[str]
) -> None:
    answer: Found = found("succeeded", version=2)
    assert answer.event is not None
    healed = asked(PENDING, answer).folded.payment
    late = psp_patch(2, status=status)
    step = folded(late, payment=healed, seen=digests([answer.event]))
    assert step.payment.open_kinds == kinds


def test_answer_about_another_reference_is_another_psp_payment() -> None:
    """Reported as iyzipay-php 194: found by another reference."""
    payment = asked(after(erp(1), psp(1, "failed")), found("succeeded", reference="ch_2"))
    assert payment.folded.payment.status is Status.SUCCEEDED
    assert len(payment.folded.payment.psp_payments) == 2


def test_final_answer_counts_for_the_question_of_then() -> None:
    failed = asked(after(erp(1), psp(1, "failed")), found("failed")).folded.payment
    assert superseded(failed)
    assert not superseded(after(erp(2, "paid"), payment=failed))
    assert not superseded(after(erp(2, psp_reference="ch_2"), payment=failed))
    cancelled = asked(after(erp(1, "cancelled"), psp(1, "failed")), found("failed")).folded.payment
    assert superseded(cancelled)
    assert not superseded(after(psp(1, "authorised", reference="ch_2"), payment=cancelled))


def test_answers_count_from_the_last_change_of_status() -> None:
    payment = asked(PENDING, found("pending"), found("pending"), found("authorised"))
    assert payment.folded.payment.schedule.checks == 1


def test_worn_out_mismatch_is_not_stuck_besides() -> None:
    answers = [found("succeeded", captured_minor=900)] * 9
    payment = asked(PENDING, *answers).folded.payment
    assert payment.open_kinds == [Kind.AMOUNT_MISMATCH]
