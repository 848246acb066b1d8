"""Debezium's change events of one table, written by the JSON converter with or without schemas.

Version: the change's position in the database's log (`debezium_positions`), and snapshot reads
below every change: a late read never beats a change, whenever it arrives. That is right for as long
as one log goes on counting. Weak where it starts again: a restore, a migration, another server
after a failover (MySQL's binlog, also with GTIDs). Then, and before a new snapshot that is to
repair what was missed, raise the declared `epoch`: all of the new epoch is above all of the old.
A payment must be one row: the changes of two rows are not ordered by their database.

Deleted rows are counted and take nothing back. Rows flattened by ExtractNewRecordState carry no
position and are refused; declare such a topic as `mapping` with a version column instead.
Columns of type decimal are read exactly (`decimal.handling.mode` precise or string); double is
refused as an amount.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Final, Self

from pydantic import Field

from schemas.cloudevent import Tombstone
from schemas.currency import Exponents
from schemas.fields import NO_EXCEPTIONS
from schemas.record import Headers
from schemas.refusal import Reason, Refused
from schemas.sources.contract import Decoded, Ignored, Reading, Why
from schemas.sources.debezium_positions import EPOCH_MAX, Position, position_of
from schemas.sources.decimals import column_scales, decimals_as_text
from schemas.sources.declaration import declared
from schemas.sources.field_mapping import FieldMapping, data_of, payment_id_of
from schemas.sources.reading import document_of, time_of
from schemas.sources.telling import Told, event_of
from schemas.validation import object_of

UNAVAILABLE: Final = "__debezium_unavailable_value"

_NAME_CHARACTERS_MAX: Final = 200
_ROW_OPS: Final = frozenset({"c", "u", "r"})
_IGNORED_OPS: Final = {"d": Why.ROW_DELETED, "t": Why.TRUNCATED, "m": Why.MESSAGE}
_TRANSACTION_STATUSES: Final = frozenset({"BEGIN", "END"})


class DebeziumTable(FieldMapping):
    """Which columns of which table are a payment's fields."""

    table: Annotated[str, Field(min_length=1)] | None = None
    """`schema.table` (MySQL: `database.table`), or the table's name alone; none: any table."""
    epoch: Annotated[int, Field(ge=0, le=EPOCH_MAX)] = 0
    """Raised by hand when the database's log starts again, and before a repairing snapshot."""


@dataclass(frozen=True, slots=True)
class Debezium:
    """Decoder of one table's change events."""

    table: DebeziumTable
    exponents: Exponents = field(default_factory=lambda: NO_EXCEPTIONS)

    @classmethod
    def of(cls, document: Mapping[str, Any], *, exponents: Exponents = NO_EXCEPTIONS) -> Self:
        """The decoder that a JSON document declares. Raises BadDeclaration."""
        return cls(declared(DebeziumTable, document), exponents)

    def __call__(self, *, key: bytes | None, value: bytes | None, headers: Headers) -> Reading:
        """One event a changed or read row; everything else that Debezium sends is ignored."""
        document = None if value is None else document_of(value)
        payload, schema = _payload(document)
        if payload is None:
            return Tombstone(payment_id=self._payment_id_of_key(key))
        ignored = _ignored(payload)
        if ignored is not None:
            return ignored
        source = object_of(payload.get("source"), "source")
        if not _is_table(source, self.table.table):
            return Ignored(Why.OTHER_TABLE, _name_of(source))
        position = position_of(source, op=payload["op"], epoch=self.table.epoch)
        after = object_of(payload.get("after"), "after")
        row = decimals_as_text(after, column_scales(schema, "after"))
        self._refuse_unavailable(row)
        payment_id = payment_id_of(self.table, row)
        if payment_id is None:
            remedy = "empty in this row; declare the column that holds the payment id"
            raise Refused(Reason.MISSING_FIELD, self.table.payment_id, remedy)
        try:
            told = self._told(payload, row, payment_id, position)
            event = event_of(told, key=key, headers=headers)
        except Refused as refused:
            refused.payment_id = payment_id
            raise
        return (Decoded(event),)

    def _told(
        self, payload: dict[str, Any], row: dict[str, Any], payment_id: str, position: Position
    ) -> Told:
        source = payload["source"]
        return Told(
            kind=self.table.source,
            payment_id=payment_id,
            event_id=_event_id(source, payload["op"], position),
            source=f"/debezium/{source['connector']}/{source.get('name')}"[:_NAME_CHARACTERS_MAX],
            time=_time(payload),
            epoch=position.epoch,
            version=position.version,
            changekind=self.table.changekind,
            data=data_of(self.table, row, exponents=self.exponents),
        )

    def _refuse_unavailable(self, row: Mapping[str, Any]) -> None:
        for column in self.table.paths:
            if row.get(column) == UNAVAILABLE:
                remedy = "not in the log (TOAST); set REPLICA IDENTITY FULL on the table"
                raise Refused(Reason.MISSING_FIELD, column, remedy, value=UNAVAILABLE)

    def _payment_id_of_key(self, key: bytes | None) -> str | None:
        """The payment that a tombstone's key names, as far as it can be read."""
        if key is None:
            return None
        try:
            payload, _ = _payload(document_of(key))
            return None if payload is None else payment_id_of(self.table, payload)
        except Refused:
            return None


def _payload(document: dict[str, Any] | None) -> tuple[dict[str, Any] | None, Any]:
    """The change event and its schema, from the converter's envelope if there is one."""
    if document is not None and "payload" in document and "op" not in document:
        payload = document["payload"]
        return (None if payload is None else object_of(payload, "payload")), document.get("schema")
    return document, None


def _ignored(payload: Mapping[str, Any]) -> Ignored | None:
    """What is no row: None for a change event of a row. Raises Refused for what is neither."""
    op = payload.get("op")
    if op is None:
        return _beside_rows(payload)
    if not isinstance(op, str):
        raise Refused(Reason.UNKNOWN_VALUE, "op", "give c, u, r, d, t or m", value=op)
    if op in _ROW_OPS:
        return None
    if op in _IGNORED_OPS:
        return Ignored(_IGNORED_OPS[op], _name_of(payload.get("source")))
    raise Refused(Reason.UNKNOWN_VALUE, "op", "give c, u, r, d, t or m", value=op)


def _beside_rows(payload: Mapping[str, Any]) -> Ignored:
    if "ddl" in payload or "tableChanges" in payload:
        return Ignored(Why.SCHEMA_CHANGE, _name_of(payload.get("source")))
    status = payload.get("status")
    if isinstance(status, str) and status in _TRANSACTION_STATUSES and "id" in payload:
        return Ignored(Why.TRANSACTION, status)
    if payload.keys() == {"ts_ms"}:
        return Ignored(Why.HEARTBEAT, "heartbeat")
    if "specversion" in payload:
        remedy = "a CloudEvent; set value.converter to the JsonConverter for this topic"
        raise Refused(Reason.UNKNOWN_VALUE, "specversion", remedy, value=payload["specversion"])
    remedy = (
        "no change event (flattened, or of another tool); drop ExtractNewRecordState, "
        "or declare the topic as mapping with a version column"
    )
    raise Refused(Reason.MISSING_FIELD, "op", remedy)


def _is_table(source: Mapping[str, Any], table: str | None) -> bool:
    return table is None or table in (source.get("table"), _name_of(source))


def _name_of(source: Any) -> str:
    if not isinstance(source, dict):
        return ""
    space = source.get("schema") or source.get("db")
    return f"{space}.{source.get('table')}"[:_NAME_CHARACTERS_MAX]


def _event_id(source: Mapping[str, Any], op: str, position: Position) -> str:
    name = f"{source.get('name')}:{_name_of(source)}"[:_NAME_CHARACTERS_MAX]
    return f"{name}:{op}:{position.epoch}:{position.version}"


def _time(payload: Mapping[str, Any]) -> datetime:
    """When the change was made, or else when the connector saw it (snapshots of old releases)."""
    made, seen = payload["source"].get("ts_ms"), payload.get("ts_ms")
    name, value = ("source.ts_ms", made) if made else ("ts_ms", seen)
    if value is None:
        raise Refused(Reason.MISSING_FIELD, name, "required; keep the source block whole")
    return time_of(value, "epoch_millis", name)
