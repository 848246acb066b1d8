"""Change events of a table: rows become events, everything else is told apart."""

import json
from typing import Any

import pytest

from schemas.cloudevent import Tombstone
from schemas.money import Money
from schemas.refusal import Reason, Refused
from schemas.sources.contract import Ignored, Why
from tests.contract.records import refusal_of
from tests.contract.sources.debezium import change, decoder, with_schema
from tests.contract.sources.reading import decoded, event, read

PSP_TABLE = {
    "source": "psp",
    "order_id": None,
    "psp": "=acme",
    "psp_reference": "order_no",
    "status": {"path": "state", "values": {"open": "pending", "done": "succeeded"}},
}


def _refused(payload: Any, **changes: Any) -> Refused:
    refused = refusal_of(lambda: read(decoder(**changes), payload))
    assert refused is not None
    return refused


def test_changed_row_is_an_event_of_the_declared_columns() -> None:
    told = decoded(decoder(), change(row={"customer_email": "a@example.invalid"}))
    assert not told.advisory
    assert told.event.payment_id == "pay-1"
    assert told.event.kind == "erp"
    assert told.event.changekind == "snapshot"
    assert told.event.fields["status"] == "pending"
    assert told.event.fields["amount"] == Money(1860, "EUR")
    assert told.event.time.isoformat() == "2024-07-01T12:00:00+00:00"


def test_columns_that_nobody_declared_stay_out_of_the_log() -> None:
    told = event(decoder(), change(row={"customer_email": "a@example.invalid"}))
    assert told.data.keys() == {"order_id", "status", "amount"}


def test_row_of_a_psp_without_sums_never_clears_them() -> None:
    told = event(decoder(**PSP_TABLE), change(row={"state": "done"}))
    assert told.changekind == "patch"
    assert told.fields.keys() == {"psp", "psp_reference", "status", "amount"}


@pytest.mark.parametrize("enveloped", [False, True], ids=["bare", "schema"])
def test_converter_envelope_makes_no_difference(*, enveloped: bool) -> None:
    payload = {"schema": None, "payload": change()} if enveloped else change()
    assert event(decoder(), payload) == event(decoder(), change())


@pytest.mark.parametrize("total", ["18.60", "B0Q="])
def test_decimal_column_is_exact_as_text_and_as_bytes(total: str) -> None:
    payload = change(row={"total": total})
    if total == "B0Q=":
        payload = with_schema(payload, scale=2)
    assert event(decoder(), payload).fields["amount"] == Money(1860, "EUR")


def test_decimal_of_variable_scale_is_exact() -> None:
    payload = change(row={"total": {"scale": 3, "value": "SKg="}, "currency": "KWD"})
    assert event(decoder(), payload).fields["amount"] == Money(18600, "KWD")


def test_schemaless_decimal_bytes_are_read_with_a_declared_scale() -> None:
    money = {"unit": "base64", "scale": 2, "currency": "currency"}
    payload = change(row={"total": "B0Q="})
    assert event(decoder(money=money), payload).fields["amount"] == Money(1860, "EUR")


@pytest.mark.parametrize("total", [18.6, "B0Q=", "29.4847", -1, None, [], "-0.01"])
def test_amount_that_is_not_exact_is_refused_and_names_its_payment(total: Any) -> None:
    refused = _refused(change(row={"total": total}))
    assert refused.reason in {Reason.BAD_AMOUNT, Reason.MISSING_FIELD}
    assert refused.field == "total"
    assert refused.payment_id == "pay-1"


def test_unmapped_status_is_refused() -> None:
    """Reported as adyen-shopware6 284: refused loudly, never pending for ever."""
    refused = _refused(change(row={"state": "on_hold"}))
    assert refused.reason is Reason.UNKNOWN_VALUE
    assert "on_hold" in refused.detail
    assert refused.payment_id == "pay-1"


def test_column_that_the_log_left_out_is_refused() -> None:
    refused = _refused(change(row={"state": "__debezium_unavailable_value"}))
    assert refused.reason is Reason.MISSING_FIELD
    assert "REPLICA IDENTITY FULL" in refused.detail


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        (change("d"), Why.ROW_DELETED),
        (change("t"), Why.TRUNCATED),
        ({"op": "m", "message": {"prefix": "p"}, "source": {}, "ts_ms": 1}, Why.MESSAGE),
        ({"status": "BEGIN", "id": "571:53195829", "ts_ms": 1}, Why.TRANSACTION),
        ({"status": "END", "id": "571:53195832", "event_count": 2}, Why.TRANSACTION),
        ({"ts_ms": 1719835200000}, Why.HEARTBEAT),
        ({"source": {"table": "payments"}, "ddl": "alter table", "ts_ms": 1}, Why.SCHEMA_CHANGE),
        (change(table="customers"), Why.OTHER_TABLE),
    ],
    ids=lambda value: value if isinstance(value, Why) else "",
)
def test_what_is_no_row_of_the_table_is_ignored(payload: Any, why: Why) -> None:
    for sent in (payload, {"schema": None, "payload": payload}):
        reading = read(decoder(), sent)
        assert isinstance(reading, Ignored)
        assert reading.reason is why


@pytest.mark.parametrize("value", [None, b"null", b'{"schema":null,"payload":null}'])
def test_tombstone_names_the_payment_of_its_key(value: bytes | None) -> None:
    for key in (b'{"id":"pay-1"}', b'{"schema":{},"payload":{"id":"pay-1"}}'):
        assert decoder()(key=key, value=value, headers=[]) == Tombstone("pay-1")
    assert decoder()(key=b"\xff", value=value, headers=[]) == Tombstone(None)
    assert decoder()(key=None, value=value, headers=[]) == Tombstone(None)


@pytest.mark.parametrize(
    ("payload", "field"),
    [
        ({"id": "pay-1", "state": "open"}, "op"),
        ({"data": [{"id": "pay-1"}], "type": "UPDATE", "isDdl": False}, "op"),
        (
            {"specversion": "1.0", "type": "io.debezium.connector.postgresql.DataChangeEvent"},
            "specv",
        ),
        ({**change(), "op": "x"}, "op"),
        ({**change(), "op": {}}, "op"),
        ({**change(), "after": None}, "after"),
        ({**change(), "source": None}, "source"),
        (change(row={"id": None}), "id"),
        (change(connector="mongodb"), "source.connector"),
        (change(connector=None), "source.connector"),
    ],
    ids=range(10),
)
def test_record_of_another_form_is_refused_with_a_remedy(payload: Any, field: str) -> None:
    refused = _refused(payload)
    assert refused.field.startswith(field)
    assert refused.reason in {Reason.MISSING_FIELD, Reason.UNKNOWN_VALUE}


def test_time_of_the_connector_stands_in_where_the_database_gives_none() -> None:
    told = event(decoder(), change("r", ts_ms=0))
    assert told.time.isoformat() == "2024-07-01T12:00:00.123000+00:00"


def test_trace_of_the_record_is_kept() -> None:
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    value = json.dumps(change()).encode()
    for raw, kept in ((trace.encode(), trace), (b"\xff", None), (None, None)):
        reading = decoder()(key=None, value=value, headers=[("traceparent", raw)])
        assert isinstance(reading, tuple)
        assert reading[0].event.traceparent == kept
        assert reading[0].event.key_absent
