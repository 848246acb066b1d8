"""Stripe's events: each object tells a part, the second and the type's rank order them."""

from itertools import pairwise
from typing import Any

import pytest

from schemas.money import Money
from schemas.refusal import Reason
from schemas.sources.contract import Ignored, Why
from schemas.sources.stripe import Stripe
from tests.contract.records import refusal_of
from tests.contract.sources.reading import decoded, event, order, read
from tests.contract.sources.stripe import CREATED, charge, dispute, intent, webhook

STRIPE = Stripe("stripe-eu")
IDENTITY = {"psp": "stripe-eu", "psp_reference": "pi_1"}


def test_succeeded_intent_sets_its_part_and_is_advisory() -> None:
    told = decoded(STRIPE, webhook("payment_intent.succeeded", intent(receipt_email="a@b.c")))
    assert told.advisory
    assert told.unaddressed is None
    assert told.event.payment_id == "pay-1"
    assert told.event.changekind == "patch"
    assert told.event.fields == {
        **IDENTITY,
        "status": "succeeded",
        "amount": Money(1860, "EUR"),
        "captured_minor": 1860,
        "failure_code": None,
    }
    assert "receipt_email" not in told.event.data


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"status": "requires_payment_method"}, "pending"),
        ({"status": "requires_payment_method", "last_payment_error": {"code": "x"}}, "pending"),
        ({"status": "requires_confirmation"}, "pending"),
        ({"status": "requires_action"}, "pending"),
        ({"status": "processing"}, "pending"),
        ({"status": "requires_capture"}, "authorised"),
        ({"status": "canceled", "cancellation_reason": "abandoned"}, "cancelled"),
        ({"status": "canceled", "cancellation_reason": "automatic"}, "expired"),
    ],
    ids=range(8),
)
def test_status_of_an_intent_is_mapped(changes: dict[str, Any], status: str) -> None:
    assert event(STRIPE, webhook("x", intent(**changes))).fields["status"] == status


def test_charge_of_an_intent_tells_its_sums_and_leaves_the_status_alone() -> None:
    told = event(STRIPE, webhook("charge.refunded", charge(amount_refunded=500)))
    assert told.fields == {**IDENTITY, "captured_minor": 1860, "refunded_minor": 500}


@pytest.mark.parametrize(
    ("changes", "status", "captured"),
    [
        ({}, "succeeded", 1860),
        ({"captured": False, "amount_captured": 0}, "authorised", 0),
        ({"captured": False, "amount_captured": 0, "refunded": True}, "cancelled", 0),
        ({"captured": False, "amount_captured": 860}, "succeeded", 860),
        ({"status": "pending"}, "pending", 0),
        ({"status": "failed", "captured": False}, "failed", 0),
        ({"status": None, "paid": True, "amount_captured": None}, "succeeded", 1860),
        ({"status": None, "paid": False, "captured": False}, "failed", 0),
    ],
    ids=range(8),
)
def test_charge_without_an_intent_is_the_payment(
    changes: dict[str, Any], status: str, captured: int
) -> None:
    told = event(STRIPE, webhook("x", charge(payment_intent=None, **changes)))
    assert told.fields["psp_reference"] == "ch_1"
    assert (told.fields["status"], told.fields["captured_minor"]) == (status, captured)


def test_authorisation_that_is_let_go_is_no_refund() -> None:
    thing = charge(captured=False, amount_captured=0, amount_refunded=1860, refunded=True)
    assert event(STRIPE, webhook("charge.refunded", thing)).fields["refunded_minor"] == 0


def test_failed_charge_of_an_intent_says_nothing_of_the_payment() -> None:
    reading = read(STRIPE, webhook("charge.failed", charge(status="failed")))
    assert isinstance(reading, Ignored)


@pytest.mark.parametrize(
    ("status", "minor"),
    [("needs_response", 1860), ("lost", 1860), ("won", 0), ("warning_needs_response", 0)],
)
def test_dispute_sets_the_disputed_sum(status: str, minor: int) -> None:
    told = decoded(STRIPE, webhook("charge.dispute.closed", dispute(status=status)))
    assert told.event.fields == {**IDENTITY, "disputed_minor": minor}
    assert told.event.payment_id == ""
    assert told.unaddressed is not None
    assert told.unaddressed.reason is Reason.MISSING_FIELD


def test_refund_asks_and_sets_nothing() -> None:
    thing = {"object": "refund", "amount": 500, "currency": "eur", "charge": {"id": "ch_1"}}
    told = decoded(STRIPE, webhook("refund.failed", {**thing, "status": "failed"}))
    assert told.advisory
    assert told.event.fields == {"psp": "stripe-eu", "psp_reference": "ch_1"}


@pytest.mark.parametrize(
    ("currency", "sent", "minor"),
    [("jpy", 500, 500), ("kwd", 18600, 18600), ("isk", 500, 5), ("ugx", 500, 5), ("mga", 5, 500)],
)
def test_amounts_are_converted_from_stripes_own_units(currency: str, sent: int, minor: int) -> None:
    thing = intent(amount=sent, amount_received=sent, currency=currency)
    told = event(STRIPE, webhook("payment_intent.succeeded", thing))
    assert told.fields["amount"] == Money(minor, currency.upper())
    assert told.fields["captured_minor"] == minor


def test_exception_of_the_account_goes_before_stripes_own() -> None:
    stripe = Stripe("stripe-eu", exponents={"stripe-eu": {"ISK": 0}})
    thing = intent(amount=500, amount_received=500, currency="isk")
    assert event(stripe, webhook("x", thing)).fields["amount"] == Money(500, "ISK")


def test_one_second_is_ordered_by_the_stages_of_a_payment() -> None:
    stages = [
        webhook("payment_intent.created", intent(status="requires_action")),
        webhook("payment_intent.payment_failed", intent(status="requires_payment_method")),
        webhook("charge.succeeded", charge()),
        webhook("payment_intent.succeeded", intent()),
        webhook("charge.refunded", charge(amount_refunded=1)),
        webhook("charge.dispute.created", dispute()),
        webhook("payment_intent.created", intent(), created=CREATED + 1),
    ]
    versions = order(STRIPE, *stages)
    assert all(earlier < later for earlier, later in pairwise(versions))
    assert {version >> 8 for _, version in versions} == {CREATED, CREATED + 1}


def test_payment_id_is_looked_for_at_each_declared_path() -> None:
    stripe = Stripe("stripe-eu", payment_id_paths=("metadata.payment_id", "transfer_group"))
    thing = intent(metadata={}, transfer_group="pay-2")
    assert event(stripe, webhook("x", thing)).payment_id == "pay-2"


def test_events_of_other_things_and_of_the_other_mode_are_ignored() -> None:
    other = read(STRIPE, webhook("customer.created", {"object": "customer"}))
    assert isinstance(other, Ignored)
    assert (other.reason, other.detail) == (Why.OTHER_TYPE, "customer.created")
    test_mode = read(Stripe("stripe-eu", livemode=False), webhook("x", intent()))
    assert isinstance(test_mode, Ignored)
    assert test_mode.reason is Why.OTHER_MODE


@pytest.mark.parametrize(
    ("payload", "reason", "field"),
    [
        (intent(), Reason.UNKNOWN_TYPE, "object"),
        (webhook("x", intent(status="on_hold")), Reason.UNKNOWN_VALUE, "status"),
        (webhook("x", charge(status="on_hold")), Reason.UNKNOWN_VALUE, "status"),
        (webhook("x", dispute(status="on_hold")), Reason.UNKNOWN_VALUE, "status"),
        (webhook("x", intent(amount=18.6)), Reason.BAD_AMOUNT, "amount"),
        (webhook("x", intent(amount=-1)), Reason.BAD_AMOUNT, "amount"),
        (webhook("x", intent(amount=None)), Reason.MISSING_FIELD, "amount"),
        (webhook("x", intent(currency="euro")), Reason.BAD_AMOUNT, "currency"),
        (webhook("x", intent(amount=550, currency="isk")), Reason.BAD_EXPONENT, "amount"),
        (webhook("x", intent(id=None)), Reason.MISSING_FIELD, "id"),
        (webhook("x", dispute(payment_intent=None, charge=None)), Reason.MISSING_FIELD, "payment"),
        ({**webhook("x", intent()), "created": "soon"}, Reason.BAD_TIME, "created"),
        ({**webhook("x", intent()), "created": 10**15}, Reason.BAD_TIME, "created"),
        ({**webhook("x", intent()), "data": None}, Reason.UNKNOWN_VALUE, "data.object"),
    ],
    ids=range(14),
)
def test_event_that_cannot_be_read_is_refused(payload: Any, reason: Reason, field: str) -> None:
    refused = refusal_of(lambda: read(STRIPE, payload))
    assert refused is not None
    assert refused.reason is reason
    assert refused.field.startswith(field)
