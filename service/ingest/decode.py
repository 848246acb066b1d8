"""From a Kafka record to an event: each record alone, before any SQL."""

from collections.abc import Mapping
from typing import Any

from schemas.cloudevent import Event, Tombstone, decode
from schemas.currency import Exponents
from schemas.refusal import Refused
from service.domain.events import Origin, SourceEvent
from service.domain.versions import Version
from service.ingest.batch import Record, Refusal

_IDENTITY = frozenset({"psp", "psp_reference"})


def decode_record(record: Record, *, exponents: Exponents) -> SourceEvent | Refusal | None:
    """What a record says; None for a tombstone. Raises nothing, whatever the bytes.

    `exponents` are the exceptions to ISO 4217: PSP account -> currency -> exponent.
    """
    try:
        decoded = decode(
            key=record.key, value=record.value, headers=record.headers, exponents=exponents
        )
    except Refused as refused:
        return Refusal(refused.reason, refused.detail, refused.payment_id)
    if isinstance(decoded, Tombstone):
        return None
    return source_event(decoded, Origin(record.topic, record.partition, record.offset))


def source_event(event: Event, origin: Origin) -> SourceEvent:
    """The contract's event as the payment rules take it.

    A PSP event's account and reference say which PSP payment it is about; they are no fields that
    it sets.
    """
    fields: Mapping[str, Any] = event.fields
    psp, psp_reference = "", ""
    if event.kind == "psp":
        psp, psp_reference = fields["psp"], fields["psp_reference"]
        fields = {name: value for name, value in fields.items() if name not in _IDENTITY}
    return SourceEvent(
        payment_id=event.payment_id,
        kind=event.kind,
        event_id=event.event_id,
        version=Version(event.epoch, event.version),
        fields=fields,
        data=event.data,
        time=event.time,
        digest=event.digest,
        patch=event.changekind == "patch",
        psp=psp,
        psp_reference=psp_reference,
        actor=event.source,
        origin=origin,
        trace_id=event.traceparent[3:35] if event.traceparent else None,
    )
