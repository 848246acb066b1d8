"""Each record alone becomes an event, a tombstone or a refusal with its reason."""

import json
from typing import Any

import pytest
from aiokafka import ConsumerRecord

from schemas.fields import NO_EXCEPTIONS
from schemas.money import Money
from service.domain.events import Origin, SourceEvent
from service.domain.versions import Version
from service.ingest.batch import Refusal
from service.ingest.decode import decode_record

PSP_DATA = {
    "psp": "acme",
    "psp_reference": "r-1",
    "status": "succeeded",
    "amount": {"minor": 1999, "currency": "EUR"},
    "refunded_minor": 0,
    "colour": "unknown fields stay in the log",
}


def envelope(**changes: Any) -> dict[str, Any]:
    return {
        "specversion": "1.0",
        "id": "e-1",
        "source": "/psp",
        "type": "psp.payment.v1",
        "time": "2026-03-01T10:00:00+02:00",
        "subject": "p-1",
        "entityversion": "7",
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "data": PSP_DATA,
        **changes,
    }


def record(value: bytes | None, key: bytes | None = b"p-1") -> ConsumerRecord[bytes, bytes]:
    return ConsumerRecord("psp.payments", 3, 41, 0, 0, key, value, None, 0, 0, ())


def decoded(value: bytes | None, key: bytes | None = b"p-1") -> SourceEvent | Refusal | None:
    return decode_record(record(value, key), exponents=NO_EXCEPTIONS)


def test_psp_event_names_its_psp_payment_beside_its_fields() -> None:
    event = decoded(json.dumps(envelope()).encode())
    assert isinstance(event, SourceEvent)
    assert event.stream == ("acme", "r-1")
    assert "psp" not in event.fields
    assert "psp_reference" not in event.fields
    assert event.fields["amount"] == Money(1999, "EUR")
    assert event.version == Version(0, 7)
    assert event.data == PSP_DATA


def test_event_keeps_where_it_came_from_and_its_trace() -> None:
    event = decoded(json.dumps(envelope()).encode())
    assert isinstance(event, SourceEvent)
    assert event.origin == Origin("psp.payments", 3, 41)
    assert event.trace_id == "0af7651916cd43dd8448eb211c80319c"
    assert event.actor == "/psp"
    assert event.time.isoformat() == "2026-03-01T08:00:00+00:00"


def test_patch_that_sets_nothing_has_no_fields() -> None:
    data = {"psp": "acme", "psp_reference": "r-1"}
    event = decoded(json.dumps(envelope(changekind="patch", data=data)).encode())
    assert isinstance(event, SourceEvent)
    assert event.patch
    assert event.fields == {}


def test_null_value_is_a_tombstone() -> None:
    assert decoded(None) is None


def test_absent_key_is_accepted() -> None:
    assert isinstance(decoded(json.dumps(envelope()).encode(), key=None), SourceEvent)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"\xff\xfe", "not_utf8"),
        (b"{", "not_json"),
        (b"\x00\x00\x00\x00\x01{}", "registry_framed"),
        (b'{"a": NaN}', "not_finite"),
        (b"[" * 100_000, "too_deep"),
        (b" " * ((1 << 20) + 1), "too_large"),
        (b'{"a": "\\u0000"}', "bad_text"),
        (b'{"a": 9223372036854775808}', "integer_range"),
        (json.dumps(envelope(subject="p-2")).encode(), "key_mismatch"),
        (json.dumps(envelope(type="other.v1")).encode(), "unknown_type"),
    ],
)
def test_refusal_carries_its_reason(value: bytes, reason: str) -> None:
    refusal = decoded(value)
    assert isinstance(refusal, Refusal)
    assert refusal.reason == reason
