"""Declared mappings: every field at its place, every bad declaration a clear error."""

import copy
from typing import Any

import pytest

from schemas.cloudevent import Tombstone
from schemas.money import Money
from schemas.refusal import Reason
from schemas.sources.contract import Ignored, Why
from schemas.sources.declaration import BadDeclaration
from schemas.sources.mapping import Mapped
from tests.contract.records import refusal_of
from tests.contract.sources.declarations import IYZICO, MOLLIE, PAYPAL
from tests.contract.sources.reading import decoded, event, read

PAYMENT = {
    "resource": "payment",
    "id": "tr_1",
    "status": "paid",
    "amount": {"value": "18.60", "currency": "EUR"},
    "amountRefunded": {"value": "5.00", "currency": "EUR"},
    "createdAt": "2024-07-01T12:00:00+02:00",
    "paidAt": "2024-07-01T12:05:00+02:00",
    "metadata": {"payment_id": "pay-1"},
}
SHOP: dict[str, Any] = {
    "name": "shop",
    "mappings": [
        {
            "source": "erp",
            "payment_id": "payment.id",
            "order_id": "order",
            "status": {"path": "paid", "values": {"true": "paid", "false": "pending", "2": "paid"}},
            "money": {"unit": "minor", "currency": "=KWD"},
            "amount": "cents",
            "version": {"paths": ["rev"], "form": "integer", "epoch": "era"},
            "time": {"path": "at", "form": "sql"},
        }
    ],
}
ORDER = {
    "payment": {"id": 4711},
    "order": 1001,
    "paid": True,
    "cents": 18600,
    "rev": "7",
    "at": "2006-01-02 15:04:05+01:00",
}


def _shop(**changes: Any) -> Mapped:
    document = copy.deepcopy(SHOP)
    document["mappings"][0].update(changes)
    return Mapped.of(document)


def test_payment_of_a_psp_is_a_snapshot_with_absent_sums_as_the_contract_has_them() -> None:
    told = decoded(Mapped.of(MOLLIE), PAYMENT)
    assert told.advisory
    assert told.unaddressed is None
    assert told.event.payment_id == "pay-1"
    assert told.event.changekind == "snapshot"
    assert told.event.fields["status"] == "succeeded"
    assert told.event.fields["amount"] == Money(1860, "EUR")
    assert told.event.fields["captured_minor"] is None
    assert told.event.fields["refunded_minor"] == 500
    assert told.event.fields["disputed_minor"] == 0


def test_newest_of_the_declared_times_is_the_version() -> None:
    opened = event(Mapped.of(MOLLIE), {**PAYMENT, "status": "open", "paidAt": None})
    paid = event(Mapped.of(MOLLIE), PAYMENT)
    assert opened.version == 1719828000 * 10**6
    assert paid.version == opened.version + 300 * 10**6


def test_counter_is_no_advice_and_its_epoch_goes_first() -> None:
    told = decoded(_shop(), ORDER)
    assert not told.advisory
    assert (told.event.epoch, told.event.version) == (0, 7)
    assert (event(_shop(), {**ORDER, "era": 3}).epoch, told.event.payment_id) == (3, "4711")


@pytest.mark.parametrize(
    ("paid", "status"), [(True, "paid"), (False, "pending"), ("true", "paid"), (2, "paid")]
)
def test_status_is_mapped_from_text_boolean_and_number(paid: Any, status: str) -> None:
    assert event(_shop(), {**ORDER, "paid": paid}).fields["status"] == status


@pytest.mark.parametrize("paid", ["on_hold", None, 3, 1.0, [], {}])
def test_status_that_no_value_maps_is_refused(paid: Any) -> None:
    refused = refusal_of(lambda: read(_shop(), {**ORDER, "paid": paid}))
    assert refused is not None
    assert (refused.reason, refused.field) == (Reason.UNKNOWN_VALUE, "paid")
    assert refused.payment_id == "4711"


@pytest.mark.parametrize(
    ("unit", "sent", "currency", "minor"),
    [
        ("minor", 18600, "KWD", 18600),
        ("minor", "18600", "KWD", 18600),
        ("decimal", "18.60", "KWD", 18600),
        ("decimal", 500, "JPY", 500),
        ("number", 18.6, "KWD", 18600),
        ("number", 29.5, "EUR", 2950),
        ("number", 0.1, "EUR", 10),
        ("number", "18.60", "EUR", 1860),
    ],
)
def test_amount_is_exact_in_every_declared_unit(
    unit: str, sent: Any, currency: str, minor: int
) -> None:
    mapped = _shop(money={"unit": unit, "currency": "cur"})
    told = event(mapped, {**ORDER, "cents": sent, "cur": currency})
    assert told.fields["amount"] == Money(minor, currency)


@pytest.mark.parametrize(
    ("unit", "sent"),
    [
        ("minor", 18.6),
        ("minor", "18.60"),
        ("decimal", 18.6),
        ("decimal", "29.4847"),
        ("number", 29.4847),
        ("number", -1),
        ("number", b"0.1000000000000000000000001"),
        ("number", b"1e-30"),
    ],
)
def test_amount_that_is_not_exact_is_refused(unit: str, sent: Any) -> None:
    mapped = _shop(money={"unit": unit, "currency": "=EUR"})
    payload: Any = {**ORDER, "cents": sent}
    if isinstance(sent, bytes):
        payload = str({**ORDER, "cents": 0}).replace("'", '"').replace("True", "true")
        payload = payload.encode().replace(b'"cents": 0', b'"cents": ' + sent)
    refused = refusal_of(lambda: read(mapped, payload))
    assert refused is not None
    assert (refused.reason, refused.field) == (Reason.BAD_AMOUNT, "cents")


def test_minor_units_of_the_sources_own_are_converted() -> None:
    money = {"unit": "minor", "currency": "=ISK", "exponents": {"ISK": 2}}
    assert event(_shop(money=money), ORDER).fields["amount"] == Money(186, "ISK")


@pytest.mark.parametrize(
    ("form", "sent"),
    [
        ("epoch_seconds", 1136210645),
        ("epoch_seconds", "1136210645"),
        ("epoch_millis", 1136210645000),
        ("epoch_micros", 1136210645000000),
        ("rfc3339", "2006-01-02T14:04:05Z"),
        ("sql", "2006-01-02 15:04:05+01:00"),
        ("sql", "2006-01-02 15:04:05+01"),
        ("sql", "2006-01-02T15:04:05+01:00"),
    ],
)
def test_time_of_every_declared_form_is_read(form: str, sent: Any) -> None:
    told = event(_shop(time={"path": "at", "form": form}), {**ORDER, "at": sent})
    assert told.time.isoformat() == "2006-01-02T14:04:05+00:00"


@pytest.mark.parametrize(
    ("form", "sent"),
    [
        ("sql", "2024-05-06 10:10:00"),
        ("sql", "2024-05-06"),
        ("sql", 7),
        ("rfc3339", "2006-01-02 15:04:05+01:00"),
        ("rfc3339", None),
        ("epoch_seconds", 1.5),
        ("epoch_seconds", -1),
        ("epoch_seconds", 10**18),
    ],
)
def test_time_without_offset_or_of_another_form_is_refused(form: str, sent: Any) -> None:
    mapped = _shop(time={"path": "at", "form": form})
    refused = refusal_of(lambda: read(mapped, {**ORDER, "at": sent}))
    assert refused is not None
    assert refused.reason in {Reason.BAD_TIME, Reason.MISSING_FIELD}
    assert refused.field == "at"


@pytest.mark.parametrize("version", [None, "x", -1, str(2**63), 1.5, True, ""])
def test_version_that_is_no_counter_is_refused(version: Any) -> None:
    refused = refusal_of(lambda: read(_shop(), {**ORDER, "rev": version}))
    assert refused is not None
    assert refused.field == "rev"


def test_payment_that_only_the_psps_reference_names_is_told_apart() -> None:
    told = decoded(Mapped.of(MOLLIE), {**PAYMENT, "metadata": None})
    assert told.event.payment_id == ""
    assert told.unaddressed is not None
    assert told.unaddressed.field == "metadata.payment_id"
    refused = refusal_of(lambda: read(_shop(), {**ORDER, "payment": None}))
    assert refused is not None
    assert refused.reason is Reason.MISSING_FIELD


def test_kinds_are_mapped_ignored_or_refused() -> None:
    paypal = Mapped.of(PAYPAL)
    ignored = read(paypal, {"event_type": "BILLING.SUBSCRIPTION.CREATED"})
    assert ignored == Ignored(Why.OTHER_TYPE, "BILLING.SUBSCRIPTION.CREATED")
    unknown = refusal_of(lambda: read(paypal, {"event_type": "PAYMENT.NEW.THING"}))
    absent = refusal_of(lambda: read(paypal, {}))
    assert unknown is not None
    assert absent is not None
    assert (unknown.reason, unknown.field) == (Reason.UNKNOWN_TYPE, "event_type")
    assert (absent.reason, absent.field) == (Reason.MISSING_FIELD, "event_type")


def test_refund_sets_the_refunded_sum_alone() -> None:
    resource = {
        "parent_payment": "PAY-1",
        "custom_id": "pay-1",
        "amount": {"total": "0.02", "currency": "USD"},
        "total_refunded_amount": {"total": "0.05", "currency": "USD"},
    }
    told = event(
        Mapped.of(PAYPAL),
        {
            "event_type": "PAYMENT.SALE.REFUNDED",
            "id": "WH-1",
            "create_time": "2024-07-01T10:00:00Z",
            "resource": resource,
        },
    )
    assert told.changekind == "patch"
    assert told.fields == {"psp": "paypal", "psp_reference": "PAY-1", "refunded_minor": 5}


def test_missing_reference_of_the_psp_is_a_refusal_that_can_be_replayed() -> None:
    payload = {"status": "success", "basketId": "pay-1", "paymentId": None, "systemTime": 1}
    refused = refusal_of(lambda: read(Mapped.of(IYZICO), payload))
    assert refused is not None
    assert (refused.reason, refused.field) == (Reason.MISSING_FIELD, "paymentId")
    assert refused.payment_id == "pay-1"


@pytest.mark.parametrize("value", [None, b"null"])
def test_null_value_is_a_tombstone(value: bytes | None) -> None:
    assert _shop()(key=None, value=value, headers=[]) == Tombstone(None)


@pytest.mark.parametrize(
    ("path", "value", "remedy"),
    [
        ("name", "", "at least 1 character"),
        ("mappings", [], "at least 1 item"),
        ("mappings.0.source", "shop", "'erp' or 'psp'"),
        ("mappings.0.amout", "x", "no such name"),
        ("mappings.0.order_id", None, "declare order_id"),
        ("mappings.0.status", None, "declare status"),
        ("mappings.0.captured", "x", "are the PSP's"),
        ("mappings.0.money", None, "declare money"),
        ("mappings.0.payment_id", "=", "dotted path"),
        ("mappings.0.payment_id", "a..b", "dotted path"),
        ("mappings.0.payment_id", 7, "valid string"),
        ("mappings.0.status.values", {}, "at least 1 item"),
        ("mappings.0.status.values", {"x": "succeeded"}, "pending"),
        ("mappings.0.money.unit", "cents", "'minor'"),
        ("mappings.0.money.unit", "base64", "declare a scale"),
        ("mappings.0.money.scale", 2, "declare a scale"),
        ("mappings.0.money.exponents", {"ISK": -1}, "greater than or equal to 0"),
        ("mappings.0.version.paths", [], "at least 1 item"),
        ("mappings.0.version.form", "newest", "'integer'"),
        ("mappings.0.time.form", "local", "'rfc3339'"),
        ("mappings.0.when", ["x"], "declare kind"),
        ("ignore", ["x"], "declare kind"),
    ],
)
def test_bad_declaration_names_path_value_and_remedy(path: str, value: Any, remedy: str) -> None:
    document = copy.deepcopy(SHOP)
    *way, name = path.split(".")
    part: Any = document
    for step in way:
        part = part[int(step) if step.isdigit() else step]
    part[name] = value
    with pytest.raises(BadDeclaration) as caught:
        Mapped.of(document)
    assert remedy in str(caught.value)
    assert (
        path.startswith(caught.value.path)
        or caught.value.path.startswith(path)
        or (caught.value.path == "the declaration")
    )


def test_psp_declaration_without_reference_is_refused() -> None:
    document = copy.deepcopy(MOLLIE)
    del document["mappings"][0]["psp_reference"]
    with pytest.raises(BadDeclaration, match="declare psp_reference"):
        Mapped.of(document)
