"""Debezium change events of one table of payments."""

from typing import Any

from schemas.sources.debezium import Debezium

TABLE = {
    "source": "erp",
    "table": "public.payments",
    "payment_id": "id",
    "order_id": "order_no",
    "status": {"path": "state", "values": {"open": "pending", "done": "paid"}},
    "money": {"unit": "decimal", "currency": "currency"},
    "amount": "total",
}
ROW = {"id": "pay-1", "order_no": "1001", "state": "open", "currency": "EUR", "total": "18.60"}

POSTGRESQL = {"connector": "postgresql", "schema": "public", "lsn": 24023128}
MYSQL = {"connector": "mysql", "file": "mysql-bin.000003", "pos": 484, "row": 0}
SQLSERVER = {
    "connector": "sqlserver",
    "schema": "public",
    "change_lsn": "00000027:00000ac0:0002",
    "commit_lsn": "00000027:00000ac0:0007",
    "event_serial_no": "2",
}
ORACLE = {
    "connector": "oracle",
    "schema": "public",
    "scn": "2125544",
    "rs_id": "001234.00012345.0124",
    "ssn": 1,
}


def decoder(**changes: Any) -> Debezium:
    """The decoder of TABLE with changes."""
    return Debezium.of({**TABLE, **changes})


def change(
    op: str = "u",
    *,
    at: dict[str, Any] | None = None,
    row: dict[str, Any] | None = None,
    **source: Any,
) -> dict[str, Any]:
    """A change event without schema, at a place in a log."""
    block = {"name": "shop", "db": "public", "table": "payments", "ts_ms": 1719835200000}
    return {
        "before": None,
        "after": {**ROW, **(row or {})},
        "source": {**block, **(at or POSTGRESQL), **source},
        "op": op,
        "ts_ms": 1719835200123,
    }


def with_schema(payload: dict[str, Any], *, scale: int) -> dict[str, Any]:
    """The event in the converter's envelope, with `total` as a decimal of `scale` digits."""
    total = {
        "field": "total",
        "type": "bytes",
        "name": "org.apache.kafka.connect.data.Decimal",
        "parameters": {"scale": str(scale), "connect.decimal.precision": "12"},
    }
    names = [{"field": name, "type": "string"} for name in ROW if name != "total"]
    row = {"field": "after", "type": "struct", "optional": True, "fields": [*names, total]}
    return {"schema": {"type": "struct", "fields": [row]}, "payload": payload}
