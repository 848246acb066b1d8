"""From a Kafka record to events: each record alone, before any SQL."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schemas.cloudevent import Event, Tombstone, decode
from schemas.currency import Exponents
from schemas.refusal import Refused
from schemas.sources.contract import Decoded, Decoder, Ignored
from schemas.sources.fact import Fact
from service.domain.events import Origin, SourceEvent
from service.domain.versions import Version
from service.ingest.batch import Bundle, Record, Refusal

_IDENTITY = frozenset({"psp", "psp_reference"})


@dataclass(frozen=True, slots=True)
class Source:
    """How a topic's records are read that are not of the own contract.

    `automatic_capture` is for a decoder that gives facts: the account captures with the
    authorisation and tells nothing more of it.
    """

    decoder: Decoder
    automatic_capture: bool = False


def decode_record(record: Record, *, exponents: Exponents) -> SourceEvent | Refusal | None:
    """What a record says; None for a tombstone. Raises nothing, whatever the bytes.

    `exponents` are the exceptions to ISO 4217: PSP account -> currency -> exponent.
    """
    try:
        decoded = decode(
            key=record.key, value=record.value, headers=record.headers, exponents=exponents
        )
    except Refused as refused:
        return _refusal(refused)
    if isinstance(decoded, Tombstone):
        return None
    return source_event(decoded, _origin(record))


def decode_foreign(
    record: Record, *, source: Source
) -> SourceEvent | Bundle | Refusal | Ignored | None:
    """What a record of a source with its own words says; None for a tombstone."""
    try:
        reading = source.decoder(key=record.key, value=record.value, headers=record.headers)
    except Refused as refused:
        return _refusal(refused)
    if isinstance(reading, Tombstone):
        return None
    if isinstance(reading, Ignored):
        return reading
    return _told(reading, record, source)


def source_event(event: Event, origin: Origin, *, advisory: bool = False) -> SourceEvent:
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
        advisory=advisory,
    )


def _told(
    reading: Sequence[Decoded] | Sequence[Fact], record: Record, source: Source
) -> SourceEvent | Bundle:
    """One event that names its payment stands alone; anything else is a bundle."""
    origin = _origin(record)
    decoded = [each for each in reading if isinstance(each, Decoded)]
    events = [source_event(each.event, origin, advisory=each.advisory) for each in decoded]
    unaddressed = [each.unaddressed for each in decoded if each.unaddressed is not None]
    if len(events) == 1 and not unaddressed:
        return events[0]
    return Bundle(
        events=tuple(events),
        facts=tuple(each for each in reading if isinstance(each, Fact)),
        automatic_capture=source.automatic_capture,
        unaddressed=_refusal(unaddressed[0]) if unaddressed else None,
    )


def _origin(record: Record) -> Origin:
    return Origin(record.topic, record.partition, record.offset)


def _refusal(refused: Refused) -> Refusal:
    return Refusal(refused.reason, refused.detail, refused.payment_id)
