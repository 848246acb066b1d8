"""Each row of the order rules: what an event is against what is stored."""

import pytest

from schemas.money import Money
from service.domain.events import Outcome, SourceEvent
from service.domain.payment import Kind, Status
from service.domain.schedule import needs_check
from tests.unit.domain_events import (
    NOW,
    after,
    digests,
    erp,
    erp_patch,
    folded,
    outcomes,
    psp,
    psp_patch,
)

APPLIED, STALE, CONFLICT = Outcome.APPLIED, Outcome.STALE, Outcome.CONFLICT


def test_higher_version_is_applied() -> None:
    step = folded(psp(1, "pending"), psp(2, "authorised"))
    assert outcomes(step) == [APPLIED, APPLIED]
    assert step.payment.status is Status.AUTHORISED


def test_older_event_that_arrives_second_is_stale() -> None:
    """Reported as cashier-stripe 1201, kafka-connect-jdbc 1016, iceberg 13547."""
    step = folded(psp(2, "succeeded"), psp(1, "pending"))
    assert outcomes(step) == [APPLIED, STALE]
    assert step.payment.status is Status.SUCCEEDED
    assert step.entries[1].changes == {"psp_version": [[0, 2], [0, 1]]}
    assert step.entries[1].row_version == step.payment.row_version


def test_version_decides_and_not_the_time() -> None:
    """Reported as solidus_stripe 189."""
    late = NOW.replace(hour=23)
    payment = after(psp(2, "succeeded"), psp(1, "failed", time=late))
    assert payment.status is Status.SUCCEEDED


@pytest.mark.parametrize("late", ["pending", "authorised"])
def test_late_authorised_does_not_turn_a_payment_back(late: str) -> None:
    """Reported as adyen-magento2 3029, hyperswitch 10340."""
    assert after(psp(5, "succeeded"), psp(4, late)).status is Status.SUCCEEDED


def test_expiry_notice_of_a_paid_payment_is_ignored() -> None:
    """Reported as adyen-prestashop 283."""
    assert after(psp(3, "succeeded"), psp(2, "expired")).status is Status.SUCCEEDED


def test_higher_epoch_wins_over_any_version() -> None:
    """Reported as drasi 817."""
    step = folded(psp(900, "authorised"), psp(1, "succeeded", epoch=1), psp(901, "failed"))
    assert outcomes(step) == [APPLIED, APPLIED, STALE]
    assert step.payment.status is Status.SUCCEEDED


def test_lowest_version_is_above_nothing_seen() -> None:
    assert outcomes(folded(erp(0))) == [APPLIED]


def test_highest_version_is_exact() -> None:
    highest = 2**63 - 1
    assert outcomes(folded(erp(highest), erp(highest - 1))) == [APPLIED, STALE]


def test_same_event_twice_is_counted_and_not_logged() -> None:
    """Reported as odoo PR 274010: two deliveries, one winner."""
    step = folded(psp(1, "succeeded"), psp(1, "succeeded"))
    assert outcomes(step) == [APPLIED]
    assert step.counts["psp", Outcome.DUPLICATE] == 1
    assert step.payment.row_version == 1


def test_duplicate_of_an_event_of_an_earlier_batch_is_found_in_the_log() -> None:
    event = psp(1, "succeeded")
    step = folded(event, payment=after(event), seen=digests([event]))
    assert step.entries == []
    assert step.counts == {("psp", Outcome.DUPLICATE): 1}


@pytest.mark.parametrize("other", [psp(1, "failed"), psp(1, "succeeded", captured_minor=999)])
def test_same_version_with_other_content_keeps_the_first(other: SourceEvent) -> None:
    """Reported as saleor 18196: the conflicting one is recorded, not lost."""
    step = folded(psp(1, "succeeded"), other)
    assert outcomes(step) == [APPLIED, CONFLICT]
    assert step.entries[1].event is other
    assert step.payment.status is Status.SUCCEEDED
    assert step.payment.open_kinds == ["VERSION_CONFLICT"]


def test_conflict_stops_healing_until_a_higher_version() -> None:
    held = after(erp(1), psp(1, "pending"), psp(1, "authorised"))
    assert not needs_check(held)
    assert held.schedule.next_check_at is None
    freed = after(psp(2, "pending"), payment=held)
    assert freed.open_kinds == []
    assert freed.schedule.next_check_at is not None


def test_conflict_of_the_erp_names_its_version() -> None:
    payment = after(erp(4), erp(4, "paid"))
    [conflict] = payment.cases[Kind.VERSION_CONFLICT].details["conflicts"]
    assert conflict == {"source": "erp", "epoch": 0, "version": 4}


def test_third_content_of_a_version_is_logged_alone() -> None:
    step = folded(psp(1, "pending"), psp(1, "failed"), psp(1, "expired"))
    assert outcomes(step) == [APPLIED, CONFLICT, CONFLICT]
    assert step.payment.row_version == 2


def test_patch_sets_only_its_fields() -> None:
    """Reported as kafka-connect-jdbc 774, mollie/magento2 1082."""
    payment = after(erp(1), erp_patch(2, status="paid"))
    assert payment.erp.fields["status"] == "paid"
    assert payment.erp.fields["amount"] == Money(1000, "EUR")
    assert payment.erp.fields["order_id"] == "SO-1"


def test_late_snapshot_fills_what_a_newer_patch_left() -> None:
    step = folded(psp_patch(2, status="succeeded"), psp(1, "pending"))
    assert outcomes(step) == [APPLIED, APPLIED]
    assert step.payment.psp_payments["acme", "ch_1"].facts.captured_minor == 1000
    assert step.payment.status is Status.SUCCEEDED


def test_late_patch_of_another_field_is_applied() -> None:
    step = folded(
        psp(1, "succeeded"), psp_patch(3, failure_code="x"), psp_patch(2, refunded_minor=1)
    )
    assert outcomes(step) == [APPLIED, APPLIED, APPLIED]
    assert step.payment.status is Status.PARTIALLY_REFUNDED


def test_late_patch_of_the_same_field_is_stale() -> None:
    step = folded(psp(1, "pending"), psp_patch(3, status="failed"), psp_patch(2, status="pending"))
    assert outcomes(step) == [APPLIED, APPLIED, STALE]


def test_patch_below_the_last_snapshot_is_stale() -> None:
    step = folded(psp(3, "pending"), psp_patch(2, status="failed"))
    assert outcomes(step) == [APPLIED, STALE]


def test_amount_is_one_field() -> None:
    payment = after(erp(1), erp_patch(3, amount=Money(5, "USD")), erp(2, amount=Money(7, "EUR")))
    assert payment.erp.fields["amount"] == Money(5, "USD")


def test_patch_may_come_first_and_clear_a_field() -> None:
    payment = after(erp_patch(1, psp_reference="ch_9"), erp_patch(2, psp_reference=None))
    assert payment.erp.fields == {"psp_reference": None}
    assert payment.erp.seen


def test_patch_that_sets_nothing_is_stale() -> None:
    step = folded(erp_patch(7))
    assert outcomes(step) == [STALE]
    assert not step.payment.erp.seen


def test_references_of_one_payment_have_versions_of_their_own() -> None:
    step = folded(psp(7, "failed"), psp(1, "succeeded", reference="ch_2"))
    assert outcomes(step) == [APPLIED, APPLIED]


def test_payment_exists_from_the_first_event_of_either_source() -> None:
    """Reported as statamic-cargo 190: the event precedes the order."""
    payment = after(psp(1, "succeeded"))
    assert (payment.status, payment.row_version) == (Status.SUCCEEDED, 1)
    assert after(erp(1), payment=payment).open_kinds == []


def test_log_row_tells_old_and_new_of_every_column() -> None:
    step = folded(erp(1), psp(1, "succeeded", captured_minor=999))
    assert step.entries[1].changes == {
        "psp_version": [-1, 1],
        "psp_status": [None, "succeeded"],
        "psp_amount_minor": [None, 1000],
        "psp_currency": [None, "EUR"],
        "captured_minor": [0, 999],
        "open_discrepancies": [[], ["AMOUNT_MISMATCH"]],
    }


def test_only_status_and_discrepancies_are_announced() -> None:
    step = folded(erp(1), psp(1, "pending"), psp(2, "succeeded"), erp(2, "paid"))
    assert [each.row_version for each in step.announcements] == [3]
    [told] = step.announcements
    assert told.data["status"] == "succeeded"
    assert told.data["row_version"] == 3
