"""Public samples of foreign sources, where they are at hand: none crashes a decoder."""

import json
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from schemas.cloudevent import Tombstone
from schemas.refusal import Reason
from schemas.sources.adyen import Adyen
from schemas.sources.cloudevents import CloudEvents
from schemas.sources.contract import Decoded, Decoder, Ignored, Reading, Why
from schemas.sources.debezium import Debezium
from schemas.sources.mapping import Mapped
from schemas.sources.stripe import Stripe
from tests.contract.records import refusal_of
from tests.contract.sources.declarations import IYZICO, MOLLIE, PAYPAL, SAP

SAMPLES = Path(__file__).resolve().parents[3] / "shared" / "samples"

# Tables that are no payments: every row is one open payment of one euro.
ANY_TABLE = {
    "source": "erp",
    "payment_id": "id",
    "order_id": "id",
    "status": {"path": "=open", "values": {"open": "pending"}},
    "money": {"unit": "decimal", "currency": "=EUR"},
    "amount": "=1.00",
}
DECODERS: dict[str, Decoder] = {
    "adyen": Adyen(),
    "cloudevents": CloudEvents(),
    "debezium": Debezium.of(ANY_TABLE),
    "iyzico": Mapped.of(IYZICO),
    "mollie": Mapped.of(MOLLIE),
    "paypal": Mapped.of(PAYPAL),
    "sap": Mapped.of(SAP),
    "stripe": Stripe("stripe"),
}

# File names (the first pattern that fits) -> what comes out of each; "decoded" is a payment.
EXPECTED: dict[str, list[tuple[str, set[str]]]] = {
    "adyen": [
        ("am_*", {Reason.MISSING_FIELD}),
        ("cttest_l18_none_None*", {Reason.MISSING_FIELD}),
        ("payconnector_notification*", {Reason.MISSING_FIELD}),
        ("platform_*", {Why.OTHER_TYPE}),
        ("openapi_*_notice_of_change*", {Why.OTHER_TYPE}),
        ("openapi_ach_*", {Why.OTHER_TYPE}),
        ("openapi_cancel_autorescue*", {Why.OTHER_TYPE}),
        ("openapi_i*", {Why.OTHER_TYPE}),
        ("openapi_manual_*", {Why.OTHER_TYPE}),
        ("openapi_notification_of_fraud*", {Why.OTHER_TYPE}),
        ("openapi_order_*", {Why.OTHER_TYPE}),
        ("openapi_pa*", {Why.OTHER_TYPE}),
        ("openapi_re[cpq]*", {Why.OTHER_TYPE}),
        ("javatest_donation*", {Why.OTHER_TYPE}),
        ("*", {"decoded"}),
    ],
    "cloudevents": [
        ("*", {Reason.UNKNOWN_TYPE, Reason.UNKNOWN_VALUE, Reason.MISSING_FIELD, Reason.NOT_JSON})
    ],
    "debezium": [
        ("raw_malformed*", {Reason.NOT_JSON}),
        ("tombstone*", {"tombstone"}),
        ("*_tx_*", {Why.TRANSACTION}),
        ("*_schema_change_*", {Why.SCHEMA_CHANGE}),
        ("*_key_*", {Reason.MISSING_FIELD}),
        ("*_op_m_*", {Why.MESSAGE}),
        ("doc_mysqlshared_op_t_*", {Reason.DUPLICATE_KEY}),
        ("doc_tutorial_*", {Reason.DUPLICATE_KEY}),
        ("*_op_t_*", {Why.TRUNCATED}),
        ("*_d_*", {Why.ROW_DELETED}),
        ("doc_cloudevents_*", {Reason.UNKNOWN_VALUE}),
        ("doc_mongodb_*", {Reason.UNKNOWN_VALUE}),
        ("doc_db2_*", {Reason.UNKNOWN_VALUE}),
        ("doc_vitess_*", {Reason.UNKNOWN_VALUE}),
        ("doc_oracle_*", {Reason.MISSING_FIELD}),
        ("flink_canal*", {Reason.MISSING_FIELD}),
        ("flink_maxwell*", {Reason.MISSING_FIELD}),
        ("test_serde-unwrapped*", {Reason.MISSING_FIELD}),
        ("*", {"decoded"}),
    ],
    "iyzico": [
        ("php_create-basic-payment*", {"decoded"}),
        ("php_retrieve-basic-bkm*", {"decoded"}),
        ("php_retrieve-checkout-form*", {"decoded"}),
        ("node_PayWithIyzico*", {"decoded"}),
        ("webhook_*", {Reason.MISSING_FIELD}),
        ("*", {Reason.MISSING_FIELD, Reason.UNKNOWN_VALUE}),
    ],
    "mollie": [
        ("py_invalid_json*", {Reason.NOT_JSON}),
        ("py_payment_[!l]*", {"decoded"}),
        ("py_*_list*", {Reason.MISSING_FIELD}),
        ("*error*", {Reason.MISSING_FIELD}),
        ("php_unprocessable-entity*", {Reason.MISSING_FIELD}),
        ("php_webhook-test*", {Reason.MISSING_FIELD}),
        ("*", {Why.OTHER_TYPE}),
    ],
    "paypal": [
        ("*.payouts*", {Why.OTHER_TYPE}),
        ("*dispute*", {Why.OTHER_TYPE}),
        ("*invoic*", {Why.OTHER_TYPE}),
        ("*onboarding*", {Why.OTHER_TYPE}),
        ("*billing*", {Why.OTHER_TYPE}),
        ("*.order.cancelled*", {Reason.UNKNOWN_TYPE}),
        ("*.reversed*", {Reason.UNKNOWN_VALUE, Reason.MISSING_FIELD}),
        ("*", {"decoded"}),
    ],
    "sap": [
        ("BusinessPartner*", {Why.OTHER_TYPE}),
        ("MarketingCampaign*", {Why.OTHER_TYPE}),
        ("Ticket_*", {Reason.BAD_TIME, Reason.MISSING_FIELD}),
        ("*", {Reason.UNKNOWN_TYPE}),
    ],
    "stripe": [
        ("am_*", {Reason.UNKNOWN_TYPE, Reason.DUPLICATE_KEY}),
        ("object_event_*2019*", {"decoded"}),
        ("object_event_*", {Why.OTHER_TYPE}),
        ("dotnet_event*", {Why.OTHER_TYPE}),
        ("object_*", {Reason.UNKNOWN_TYPE}),
        ("dotnet_*", {Reason.UNKNOWN_TYPE}),
        ("eventdata_*", {Reason.UNKNOWN_TYPE}),
        ("event_charge.dispute.created_djstripe*", {Reason.BAD_AMOUNT}),
        ("event_charge.failed*", {Why.OTHER_TYPE}),
        ("event_payment_intent.payment_failed_payconnector*", {Reason.DUPLICATE_KEY}),
        ("event_charge.*", {"decoded"}),
        ("event_payment_intent.*", {"decoded"}),
        ("event_*", {Why.OTHER_TYPE}),
    ],
}


def _files() -> list[Any]:
    cases: list[Any] = []
    for family in DECODERS:
        folder = SAMPLES / family
        paths = sorted(folder.glob("*.json"))
        cases += [pytest.param(path, id=f"{family}/{path.name}") for path in paths]
        if not paths:
            mark = pytest.mark.skip(reason=f"samples of the family {family} are not at hand")
            cases.append(pytest.param(folder, marks=mark, id=family))
    return cases


def _record(path: Path) -> tuple[bytes, list[tuple[str, bytes | None]]]:
    """The record's value and headers; a wrapper of the samples holds both."""
    raw = path.read_bytes()
    if path.parent.name != "cloudevents":
        return raw, []
    written = json.loads(raw)
    if not isinstance(written, dict) or "headers" not in written:
        return raw, []
    headers: list[tuple[str, bytes | None]] = [
        (name, text.encode()) for name, text in written["headers"].items()
    ]
    return json.dumps(written["value"]).encode(), headers


def _outcome(decoder: Decoder, value: bytes, headers: list[tuple[str, bytes | None]]) -> str:
    readings: list[Reading] = []
    refused = refusal_of(lambda: readings.append(decoder(key=None, value=value, headers=headers)))
    if refused is not None:
        assert refused.detail.isprintable()
        return refused.reason
    (reading,) = readings
    if isinstance(reading, Ignored):
        assert reading.detail
        return reading.reason
    if isinstance(reading, Tombstone):
        return "tombstone"
    assert reading
    for each in reading:
        assert not isinstance(each, Decoded) or len(each.event.digest) == 16
    return "decoded"


@pytest.mark.parametrize("path", _files())
def test_sample_is_decoded_ignored_or_refused_as_its_kind_wants(path: Path) -> None:
    family = path.parent.name
    expected = next(
        wanted for pattern, wanted in EXPECTED[family] if fnmatchcase(path.name, pattern)
    )
    assert _outcome(DECODERS[family], *_record(path)) in expected


@pytest.mark.parametrize("family", DECODERS)
def test_no_json_at_all_crashes_a_decoder(family: str) -> None:
    paths = sorted((SAMPLES / "jsontestsuite").glob("*"))
    if not paths:
        pytest.skip("samples of the family jsontestsuite are not at hand")
    for path in paths:
        outcome = _outcome(DECODERS[family], path.read_bytes(), [])
        assert outcome != "decoded"
        assert not path.name.startswith("n_") or outcome in set(Reason)
