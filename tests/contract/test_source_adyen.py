"""Adyen's notifications: several facts a record, each exact, unknown codes refused."""

from typing import Any

import pytest

from schemas.money import Money
from schemas.refusal import Reason
from schemas.sources.adyen import FACT_CODES, IGNORED_CODES, RECAPTURE, Adyen
from schemas.sources.contract import Ignored, Why
from tests.contract.records import refusal_of
from tests.contract.sources.adyen import AUTH, item, modification, notification, told
from tests.contract.sources.reading import facts, read

ADYEN = Adyen()


def test_one_record_gives_the_facts_of_all_its_items() -> None:
    first, second = told(item("AUTHORISATION"), modification("CAPTURE", "CAP1", 500))
    assert first.payment_id == "pay-1"
    assert first.psp == "ShopECOM"
    assert (first.psp_reference, first.original_reference) == (AUTH, "")
    assert first.amount == Money(1860, "EUR")
    assert first.success
    assert first.event_date.isoformat() == "2024-07-01T10:00:00+00:00"
    assert (second.event_code, second.original_reference) == ("CAPTURE", AUTH)
    assert second.minor == 500


@pytest.mark.parametrize(("sent", "success"), [("true", 1), ("false", 0), (True, 1), (False, 0)])
def test_success_is_read_as_text_and_as_boolean(sent: Any, success: int) -> None:
    assert told(item("AUTHORISATION", success=sent))[0].success == bool(success)


@pytest.mark.parametrize("wrapped", [False, True])
def test_item_alone_is_taken(*, wrapped: bool) -> None:
    alone = item("AUTHORISATION")
    payload = {"NotificationRequestItem": alone} if wrapped else alone
    assert facts(ADYEN, payload) == told(alone)


@pytest.mark.parametrize(
    ("currency", "sent", "minor"),
    [("CLP", 500, 5), ("ISK", 500, 5), ("IDR", 5, 500), ("CVE", 5, 500), ("JPY", 5, 5)],
)
def test_amounts_are_converted_from_adyens_own_units(currency: str, sent: int, minor: int) -> None:
    amount = {"currency": currency, "value": sent}
    assert told(item("AUTHORISATION", amount=amount))[0].amount == Money(minor, currency)


def test_capture_of_a_failed_capture_is_told_apart() -> None:
    again = modification("CAPTURE", "CAP1", reason="Transaction Auto-recaptured")
    assert told(again)[0].event_code == RECAPTURE


def test_account_and_payment_id_are_settings() -> None:
    adyen = Adyen(psp="adyen-eu", payment_id_paths=("additionalData.metadata.payment_id",))
    sent = item("AUTHORISATION", additionalData={"metadata.payment_id": "pay-9"})
    (fact,) = facts(adyen, notification(sent))
    assert (fact.psp, fact.payment_id) == ("adyen-eu", "pay-9")


@pytest.mark.parametrize("code", sorted(IGNORED_CODES))
def test_code_about_no_payments_money_is_ignored(code: str) -> None:
    reading = read(ADYEN, notification(item(code, merchantReference="")))
    assert reading == Ignored(Why.OTHER_TYPE, code)


def test_ignored_items_leave_the_facts_beside_them() -> None:
    assert len(told(item("REPORT_AVAILABLE", merchantReference=""), item("AUTHORISATION"))) == 1
    assert not FACT_CODES & IGNORED_CODES


@pytest.mark.parametrize("kind", [{"type": "balancePlatform.transfer.created"}, {"eventType": "X"}])
def test_webhook_of_another_product_is_ignored(kind: dict[str, str]) -> None:
    assert isinstance(read(ADYEN, {**kind, "data": {}, "live": "true"}), Ignored)


@pytest.mark.parametrize(("live", "taken"), [("true", True), (True, True), ("false", False)])
def test_other_environment_is_ignored_if_one_is_declared(live: Any, taken: bool) -> None:
    reading = read(Adyen(live=True), notification(item("AUTHORISATION"), live=live))
    assert isinstance(reading, list) is taken
    if isinstance(reading, Ignored):
        assert reading.reason is Why.OTHER_MODE


@pytest.mark.parametrize(
    ("changes", "reason", "field"),
    [
        ({"eventCode": "SETTLED_REVERSED"}, Reason.UNKNOWN_TYPE, "eventCode"),
        ({"eventCode": None}, Reason.MISSING_FIELD, "eventCode"),
        ({"success": "yes"}, Reason.UNKNOWN_VALUE, "success"),
        ({"success": None}, Reason.MISSING_FIELD, "success"),
        ({"merchantReference": None}, Reason.MISSING_FIELD, "merchantReference"),
        ({"merchantReference": "x" * 129}, Reason.UNKNOWN_VALUE, "merchantReference"),
        ({"pspReference": None}, Reason.MISSING_FIELD, "pspReference"),
        ({"eventDate": "2024-07-01T12:00:00"}, Reason.BAD_TIME, "eventDate"),
        ({"eventDate": None}, Reason.MISSING_FIELD, "eventDate"),
        ({"amount": {"currency": "EUR", "value": 18.6}}, Reason.BAD_AMOUNT, "amount.value"),
        ({"amount": {"currency": "EUR", "value": -1}}, Reason.BAD_AMOUNT, "amount.value"),
        ({"amount": {"currency": "EUR"}}, Reason.MISSING_FIELD, "amount.value"),
        ({"amount": {"currency": "XXX", "value": 1}}, Reason.BAD_AMOUNT, "amount.currency"),
        ({"amount": {"currency": "ISK", "value": 1}}, Reason.BAD_EXPONENT, "amount.value"),
    ],
    ids=range(14),
)
def test_item_that_cannot_be_read_refuses_its_record(
    changes: dict[str, Any], reason: Reason, field: str
) -> None:
    payload = notification(item("AUTHORISATION"), item("AUTHORISATION", **changes))
    refused = refusal_of(lambda: read(ADYEN, payload))
    assert refused is not None
    assert (refused.reason, refused.field) == (reason, field)


@pytest.mark.parametrize(
    "payload",
    [{}, {"notificationItems": []}, {"notificationItems": ["x"]}, [], {"resultCode": "X"}],
)
def test_record_that_is_no_notification_is_refused(payload: Any) -> None:
    assert refusal_of(lambda: read(ADYEN, payload)) is not None
