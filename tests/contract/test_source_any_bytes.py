"""Whatever a record holds: a decoder gives a reading or a refusal, and nothing else."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.sources.adyen import Adyen
from schemas.sources.contract import Decoder
from schemas.sources.mapping import Mapped
from schemas.sources.stripe import Stripe
from tests.contract.records import refusal_of
from tests.contract.sources import debezium
from tests.contract.sources.adyen import item, modification, notification
from tests.contract.sources.declarations import IYZICO, MOLLIE, PAYPAL
from tests.contract.sources.stripe import charge, dispute, intent, webhook
from tests.contract.test_source_mapping import PAYMENT

_BYTES = debezium.change(at=debezium.SQLSERVER, row={"total": "B0Q="})
_CHECKOUT = {
    "status": "success",
    "basketId": "pay-1",
    "paymentId": 1,
    "paidPrice": 1.1,
    "currency": "TRY",
    "systemTime": 1719835200000,
}
_SALE = {
    "id": "WH-1",
    "event_type": "PAYMENT.SALE.DENIED",
    "create_time": "2024-07-01T10:00:00Z",
    "resource": {
        "custom_id": "pay-1",
        "parent_payment": "PAY-1",
        "amount": {"total": "0.02", "currency": "USD"},
    },
}
PAYLOADS: list[tuple[Decoder, Any]] = [
    (debezium.decoder(), debezium.change()),
    (debezium.decoder(), debezium.with_schema(_BYTES, scale=2)),
    (debezium.decoder(), debezium.change(at=debezium.MYSQL)),
    (debezium.decoder(), debezium.change(at=debezium.ORACLE)),
    (Stripe("stripe"), webhook("payment_intent.succeeded", intent())),
    (Stripe("stripe"), webhook("charge.refunded", charge())),
    (Stripe("stripe"), webhook("charge.dispute.created", dispute())),
    (Adyen(live=True), notification(item("AUTHORISATION"), modification("CAPTURE", "CAP1"))),
    (Mapped.of(MOLLIE), PAYMENT),
    (Mapped.of(IYZICO), _CHECKOUT),
    (Mapped.of(PAYPAL), _SALE),
]
_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
    st.sampled_from(["1.1", "null", "true", "2024-07-01T12:00:00Z", "EUR", "9" * 300, "é" * 300]),
)
_JSON = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)


def _places(value: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to every value in a payload."""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    ways = []
    for name, each in inner:
        ways.append((*way, name))
        if isinstance(each, dict | list):
            ways += _places(each, (*way, name))
    return ways


def _replaced(payload: Any, way: tuple[Any, ...], value: Any) -> Any:
    changed = copy.deepcopy(payload)
    part = changed
    for name in way[:-1]:
        part = part[name]
    part[way[-1]] = value
    return changed


@pytest.mark.parametrize(("decoder", "payload"), PAYLOADS, ids=range(len(PAYLOADS)))
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_value_at_any_place_is_read_or_refused(
    decoder: Decoder, payload: Any, data: st.DataObject
) -> None:
    changed = payload
    for _ in range(data.draw(st.integers(1, 2))):
        way = data.draw(st.sampled_from(_places(changed)))
        changed = _replaced(changed, way, data.draw(_JSON))
    value = json.dumps(changed).encode()
    key = data.draw(st.none() | st.binary(max_size=4))
    refused = refusal_of(lambda: decoder(key=key, value=value, headers=[("traceparent", key)]))
    assert refused is None or refused.detail.isprintable()


@pytest.mark.parametrize(("decoder", "_"), PAYLOADS, ids=range(len(PAYLOADS)))
@settings(max_examples=30)
@given(value=st.binary(max_size=40) | st.sampled_from([b"[]", b"{}", b"1", b'"x"', b"\x00\x00"]))
def test_any_bytes_are_read_or_refused(decoder: Decoder, _: Any, value: bytes) -> None:
    refused = refusal_of(lambda: decoder(key=value, value=value, headers=[]))
    assert refused is None or refused.detail.isprintable()
