"""The sum of Adyen's facts: what happened, whatever the order and however often it was told."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.money import Money
from schemas.refusal import Reason
from schemas.sources.adyen import FACT_CODES, RECAPTURE
from schemas.sources.adyen_ledger import distinct, ledger_events, payments_of
from schemas.sources.fact import Fact
from tests.contract.records import refusal_of
from tests.contract.sources.adyen import AUTH, item, modification, told

OK = item("AUTHORISATION")
FAILED = item("AUTHORISATION", success="false", reason="Refused")
CAPTURE = modification("CAPTURE", "CAP1")
REFUND = modification("REFUND", "REF1", 500)
CHARGEBACK = modification("CHARGEBACK", "DIS1")


def _fields(*items: Any, automatic: bool = False) -> dict[str, Any]:
    (event,) = ledger_events(told(*items), automatic_capture=automatic)
    return event.fields


def _sums(*items: Any, automatic: bool = False) -> tuple[str, int, int, int]:
    fields = _fields(*items, automatic=automatic)
    sums = (fields[f"{name}_minor"] for name in ("captured", "refunded", "disputed"))
    captured, refunded, disputed = sums
    return fields["status"].value, captured, refunded, disputed


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ([OK], ("authorised", 0, 0, 0)),
        ([FAILED], ("failed", 0, 0, 0)),
        ([FAILED, OK], ("authorised", 0, 0, 0)),
        ([OK, CAPTURE], ("succeeded", 1860, 0, 0)),
        ([CAPTURE], ("succeeded", 1860, 0, 0)),
        ([OK, modification("CAPTURE", "CAP1", success="false")], ("authorised", 0, 0, 0)),
        ([OK, CAPTURE, modification("CAPTURE_FAILED", "CAP1")], ("authorised", 0, 0, 0)),
        ([OK, CAPTURE, modification("CAPTURE_FAILED", "CAP2", 1)], ("succeeded", 1860, 0, 0)),
        ([OK, CAPTURE, item("CAPTURE_FAILED")], ("authorised", 0, 0, 0)),
        ([OK, CAPTURE, modification("CAPTURE", "CAP2", 40)], ("succeeded", 1900, 0, 0)),
        ([OK, CAPTURE, REFUND], ("succeeded", 1860, 500, 0)),
        (
            [OK, CAPTURE, REFUND, modification("REFUND_FAILED", "REF1", 500)],
            ("succeeded", 1860, 0, 0),
        ),
        (
            [OK, CAPTURE, REFUND, modification("REFUNDED_REVERSED", "REF1", 500)],
            ("succeeded", 1860, 0, 0),
        ),
        (
            [OK, CAPTURE, REFUND, item("VOID_PENDING_REFUND", "VOI1", "REF1")],
            ("succeeded", 1860, 0, 0),
        ),
        ([OK, CAPTURE, REFUND, modification("REFUND", "REF2", 60)], ("succeeded", 1860, 560, 0)),
        ([OK, modification("CANCELLATION", "CAN1")], ("cancelled", 0, 0, 0)),
        ([OK, modification("TECHNICAL_CANCEL", "CAN1")], ("cancelled", 0, 0, 0)),
        ([OK, modification("CANCELLATION", "CAN1", success="false")], ("authorised", 0, 0, 0)),
        ([OK, item("EXPIRE")], ("expired", 0, 0, 0)),
        ([OK, CAPTURE, item("EXPIRE")], ("succeeded", 1860, 0, 0)),
        ([item("OFFER_CLOSED")], ("expired", 0, 0, 0)),
        ([OK, item("OFFER_CLOSED")], ("authorised", 0, 0, 0)),
        ([OK, CAPTURE, CHARGEBACK], ("succeeded", 1860, 0, 1860)),
        (
            [OK, CAPTURE, modification("NOTIFICATION_OF_CHARGEBACK", "DIS1")],
            ("succeeded", 1860, 0, 0),
        ),
    ],
    ids=range(24),
)
def test_manual_capture(items: list[Any], expected: tuple[str, int, int, int]) -> None:
    assert _sums(*items) == expected


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ([OK], ("succeeded", 1860, 0, 0)),
        ([OK, CAPTURE], ("succeeded", 1860, 0, 0)),
        ([OK, modification("CAPTURE_FAILED", "CAP9")], ("failed", 0, 0, 0)),
        ([OK, modification("CANCELLATION", "CAN1")], ("cancelled", 0, 0, 0)),
        ([OK, item("EXPIRE")], ("expired", 0, 0, 0)),
        ([OK, REFUND], ("succeeded", 1860, 500, 0)),
        ([FAILED], ("failed", 0, 0, 0)),
    ],
    ids=range(7),
)
def test_automatic_capture(items: list[Any], expected: tuple[str, int, int, int]) -> None:
    assert _sums(*items, automatic=True) == expected


def test_capture_that_failed_and_was_captured_again_counts() -> None:
    failed = modification("CAPTURE_FAILED", "CAP1")
    again = modification("CAPTURE", "CAP1", reason="Transaction Recaptured")
    assert _sums(OK, CAPTURE, failed, again) == ("succeeded", 1860, 0, 0)


@pytest.mark.parametrize(
    ("action", "captured", "status", "refunded"),
    [
        ("refund", [CAPTURE], "succeeded", 1860),
        ("cancel", [], "cancelled", 0),
        (None, [CAPTURE], "succeeded", 1860),
        (None, [], "authorised", 0),
    ],
)
def test_cancel_or_refund_is_what_it_became(
    action: str | None, captured: list[Any], status: str, refunded: int
) -> None:
    data = {} if action is None else {"modification.action": action}
    reversal = modification("CANCEL_OR_REFUND", "REV1", additionalData=data)
    assert _sums(OK, *captured, reversal)[::2] == (status, refunded)


@pytest.mark.parametrize(
    ("codes", "disputed"),
    [
        (["CHARGEBACK", "CHARGEBACK_REVERSED"], 0),
        (["CHARGEBACK", "CHARGEBACK_REVERSED", "SECOND_CHARGEBACK"], 1860),
        (["CHARGEBACK", "CHARGEBACK_REVERSED", "PREARBITRATION_LOST"], 1860),
        (["CHARGEBACK", "PREARBITRATION_LOST", "PREARBITRATION_WON"], 0),
    ],
)
def test_dispute_is_won_and_lost_again(codes: list[str], disputed: int) -> None:
    stages = [modification(code, "DIS1") for code in codes]
    assert _sums(OK, CAPTURE, *stages)[3] == disputed
    assert _sums(OK, CAPTURE, *reversed(stages))[3] == disputed


def test_dispute_that_names_no_payment_follows_its_reference_or_waits() -> None:
    reversed_alone = item("CHARGEBACK_REVERSED", "DIS1")
    assert _sums(OK, CAPTURE, CHARGEBACK, reversed_alone)[3] == 0
    assert ledger_events(told(reversed_alone), automatic_capture=False) == []


def test_adjusted_authorisation_is_the_amount() -> None:
    adjusted = modification("AUTHORISATION_ADJUSTMENT", "ADJ1", 2500)
    fields = _fields(OK, adjusted)
    assert fields["amount"] == Money(2500, "EUR")


def test_second_attempt_is_a_payment_of_its_own() -> None:
    facts = told(FAILED, item("AUTHORISATION", "AUTH2"))
    first, second = ledger_events(facts, automatic_capture=True)
    assert (first.fields["psp_reference"], first.fields["status"]) == (AUTH, "failed")
    assert first.fields["failure_code"] == "Refused"
    assert (second.fields["psp_reference"], second.fields["status"]) == ("AUTH2", "succeeded")


def test_modification_before_the_authorisation_leaves_the_amount_open() -> None:
    (event,) = ledger_events(told(CAPTURE), automatic_capture=False)
    assert event.changekind == "patch"
    assert "amount" not in event.fields
    (event,) = ledger_events(told(CAPTURE, OK), automatic_capture=False)
    assert event.changekind == "snapshot"


def test_one_fact_with_two_contents_counts_once_and_the_same_one_always() -> None:
    facts = told(OK, modification("CAPTURE", "CAP1", 20), modification("CAPTURE", "CAP1", 10))
    there = ledger_events(facts, automatic_capture=False)
    assert there == ledger_events(reversed(facts), automatic_capture=False)
    assert (there[0].version, there[0].fields["captured_minor"]) == (2, 10)


def test_refund_failure_that_names_the_refund_makes_no_payment_of_it() -> None:
    failure = item("REFUND_FAILED", "RFF1", "REF1")
    assert ledger_events(told(failure), automatic_capture=False) == []
    assert _sums(failure, OK, CAPTURE, REFUND) == ("succeeded", 1860, 0, 0)


def test_version_is_the_number_of_distinct_facts() -> None:
    facts = told(OK, CAPTURE, CAPTURE, OK)
    (event,) = ledger_events(facts, automatic_capture=False)
    assert (event.epoch, event.version) == (0, 2)
    (later,) = ledger_events([*facts, *told(REFUND)], automatic_capture=False)
    assert later.version == 3


def test_two_currencies_in_one_payment_are_refused() -> None:
    foreign = item("CAPTURE", "CAP1", AUTH, amount={"currency": "USD", "value": 1})
    refused = refusal_of(lambda: ledger_events(told(OK, foreign), automatic_capture=False))
    assert refused is not None
    assert refused.reason is Reason.BAD_AMOUNT


_CODES = st.sampled_from(sorted(FACT_CODES | {RECAPTURE}))
_FACTS = st.builds(
    Fact,
    payment_id=st.just("pay-1"),
    psp=st.just("ShopECOM"),
    psp_reference=st.sampled_from(["A", "B", "C", "D"]),
    original_reference=st.sampled_from(["", "A", "B", "C"]),
    event_code=_CODES,
    success=st.booleans(),
    currency=st.just("EUR"),
    minor=st.integers(0, 3),
    event_date=st.sampled_from([fact.event_date for fact in told(OK)]),
    action=st.sampled_from(["", "cancel", "refund"]),
)


@given(st.lists(_FACTS, max_size=10), st.booleans(), st.randoms(use_true_random=False))
def test_any_order_and_any_repetition_give_the_same_events(
    facts: list[Fact],
    automatic: bool,
    chance: random.Random,
) -> None:
    expected = ledger_events(facts, automatic_capture=automatic)
    again = [*facts, *chance.choices(facts, k=5)] if facts else []
    chance.shuffle(again)
    assert ledger_events(again, automatic_capture=automatic) == expected
    assert all(event.version <= len(distinct(facts)) for event in expected)


@given(st.lists(_FACTS, min_size=1, max_size=10))
def test_no_fact_lowers_the_version_of_a_payment_that_was_told(facts: list[Fact]) -> None:
    *before, _ = distinct(facts)
    known = {reference: len(own) for reference, own in payments_of(before).items()}
    now = {reference: len(own) for reference, own in payments_of(distinct(facts)).items()}
    lost = {reference for reference in known if now.get(reference, 0) < known[reference]}
    originals = {fact.psp_reference for fact in distinct(facts) if fact.original_reference}
    assert lost <= originals
