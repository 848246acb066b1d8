"""Builders of events: one Kafka record each, in structured mode unless `binary` is asked for.

Snapshots carry every field, patches what they are given. All text is made from the payment id and
the version, so that equal arguments give equal records.
"""

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

Source = Literal["erp", "psp"]

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
PSP = "acme-eu"


@dataclass(frozen=True, slots=True)
class Record:
    """What is sent to the topic of `source`."""

    source: Source
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """The attributes that a test may want to choose; the rest follows from the payment."""

    epoch: int = 0
    event_id: str | None = None
    time: datetime | None = None
    changekind: Literal["snapshot", "patch"] = "snapshot"


def erp_event(
    payment_id: str,
    version: int,
    *,
    status: str = "pending",
    minor: int = 1999,
    currency: str = "EUR",
    epoch: int = 0,
    time: datetime | None = None,
    event_id: str | None = None,
    **data: Any,
) -> Record:
    """A snapshot of the ERP; `data` are further fields, such as `psp_reference`."""
    fields = {
        "order_id": f"order-{payment_id}",
        "status": status,
        "amount": amount(minor, currency),
        **data,
    }
    envelope = Envelope(epoch=epoch, time=time, event_id=event_id)
    return record_of("erp", payment_id, version, fields, envelope)


def psp_event(
    payment_id: str,
    version: int,
    *,
    status: str = "succeeded",
    minor: int = 1999,
    currency: str = "EUR",
    psp: str = PSP,
    psp_reference: str | None = None,
    epoch: int = 0,
    time: datetime | None = None,
    event_id: str | None = None,
    **data: Any,
) -> Record:
    """A snapshot of the PSP; `data` are further fields, such as `refunded_minor`."""
    fields = psp_answer(
        payment_id,
        status=status,
        minor=minor,
        currency=currency,
        psp=psp,
        psp_reference=psp_reference,
        **data,
    )
    envelope = Envelope(epoch=epoch, time=time, event_id=event_id)
    return record_of("psp", payment_id, version, fields, envelope)


def erp_patch(
    payment_id: str,
    version: int,
    *,
    epoch: int = 0,
    time: datetime | None = None,
    event_id: str | None = None,
    **changed: Any,
) -> Record:
    """Only the ERP's fields that changed, by their names in the data."""
    envelope = Envelope(epoch=epoch, time=time, event_id=event_id, changekind="patch")
    return record_of("erp", payment_id, version, changed, envelope)


def psp_patch(
    payment_id: str,
    version: int,
    *,
    psp: str = PSP,
    psp_reference: str | None = None,
    epoch: int = 0,
    time: datetime | None = None,
    event_id: str | None = None,
    **changed: Any,
) -> Record:
    """Only the PSP's fields that changed, and which PSP payment it is."""
    fields = {"psp": psp, "psp_reference": psp_reference or f"ref-{payment_id}", **changed}
    envelope = Envelope(epoch=epoch, time=time, event_id=event_id, changekind="patch")
    return record_of("psp", payment_id, version, fields, envelope)


def psp_answer(
    payment_id: str,
    *,
    status: str = "succeeded",
    minor: int = 1999,
    currency: str = "EUR",
    psp: str = PSP,
    psp_reference: str | None = None,
    **data: Any,
) -> dict[str, Any]:
    """What the PSP says of a payment, in an event's data and when it is asked."""
    return {
        "psp": psp,
        "psp_reference": psp_reference or f"ref-{payment_id}",
        "status": status,
        "amount": amount(minor, currency),
        **data,
    }


def amount(minor: int, currency: str = "EUR") -> dict[str, Any]:
    return {"minor": minor, "currency": currency}


def tombstone(payment_id: str, source: Source) -> Record:
    """A null value: counted and ignored."""
    return Record(source, payment_id.encode(), None)


def binary(record: Record) -> Record:
    """The same event with its attributes as `ce_` headers."""
    attributes: dict[str, Any] = json.loads(record.value or b"")
    data = attributes.pop("data")
    names = tuple((f"ce_{name}", str(text).encode()) for name, text in attributes.items())
    headers = (*names, ("content-type", b"application/json"))
    return replace(record, value=json.dumps(data).encode(), headers=headers)


def record_of(
    source: Source, payment_id: str, version: int, data: dict[str, Any], envelope: Envelope
) -> Record:
    """One structured CloudEvent, keyed by its payment."""
    default_id = f"{source}-{payment_id}-{envelope.epoch}-{version}"
    at = envelope.time or BEGIN + timedelta(seconds=version % 1_000_000)
    attributes = {
        "specversion": "1.0",
        "id": envelope.event_id or default_id,
        "source": f"/{source}/test",
        "type": f"{source}.payment.v1",
        "time": at.isoformat(),
        "subject": payment_id,
        "entityversion": str(version),
        "versionepoch": str(envelope.epoch),
        "changekind": envelope.changekind,
        "data": data,
    }
    headers = (("content-type", b"application/cloudevents+json"),)
    return Record(source, payment_id.encode(), json.dumps(attributes).encode(), headers)
