"""Decode one Kafka record into an event of the contract, a tombstone, or a refusal."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

from schemas.currency import Exponents
from schemas.events import (
    ERP_TYPE,
    MODELS,
    PAYMENT_ID_CHARACTERS_MAX,
    PSP_TYPE,
    PaymentEvent,
)
from schemas.fields import NO_EXCEPTIONS, ChangeKind, digest_of, known_fields
from schemas.record import Headers, cloudevent_of
from schemas.refusal import Reason, Refused
from schemas.validation import validated

Kind = Literal["erp", "psp"]

_KINDS: Final[dict[str, Kind]] = {ERP_TYPE: "erp", PSP_TYPE: "psp"}


@dataclass(frozen=True, slots=True)
class Event:
    """A valid event: envelope, data as it came, and the known fields after defaults."""

    kind: Kind
    event_id: str
    source: str
    payment_id: str
    time: datetime  # aware, UTC
    epoch: int
    version: int
    changekind: ChangeKind
    data: dict[str, Any]  # as it came, unknown fields included: for the log
    fields: dict[str, Any]  # known ones: a snapshot's after defaults, a patch's as set
    digest: bytes  # 16 bytes, equal if two events of one version say the same
    traceparent: str | None
    key_absent: bool


@dataclass(frozen=True, slots=True)
class Tombstone:
    """A record with a null value: counted and ignored. `payment_id` is its key, if readable."""

    payment_id: str | None


def decode(
    *,
    key: bytes | None,
    value: bytes | None,
    headers: Headers,
    exponents: Exponents = NO_EXCEPTIONS,
) -> Event | Tombstone:
    """Decode one record; the key is the payment id, and may be absent.

    `exponents` are the exceptions to ISO 4217 (PSP account -> currency -> exponent).
    Raises Refused with its reason, and with the payment id where key or subject tell it;
    nothing else, whatever the bytes.
    """
    if value is None:
        return Tombstone(payment_id=_payment_id(None, key))
    cloudevent: dict[str, Any] = {}
    try:
        cloudevent = cloudevent_of(value, headers)
        return _event(cloudevent, key, exponents)
    except Refused as refusal:
        refusal.payment_id = _payment_id(cloudevent.get("subject"), key)
        raise


def _event(cloudevent: Mapping[str, Any], key: bytes | None, exponents: Exponents) -> Event:
    changekind = cloudevent.get("changekind", "snapshot")
    model = _model(cloudevent, changekind)
    event = validated(model, cloudevent)
    if key is not None and key != event.subject.encode():
        raise _key_mismatch(key, event.subject)
    fields = known_fields(event.data, exponents=exponents)
    return Event(
        kind=_KINDS[event.type],
        event_id=event.id,
        source=event.source,
        payment_id=event.subject,
        time=event.time,
        epoch=event.versionepoch,
        version=event.entityversion,
        changekind=changekind,
        data=cloudevent["data"],
        fields=fields,
        digest=digest_of(fields, changekind),
        traceparent=event.traceparent,
        key_absent=key is None,
    )


def _model(cloudevent: Mapping[str, Any], changekind: Any) -> type[PaymentEvent]:
    """The model by type and changekind; what neither knows is refused before all else."""
    event_type = cloudevent.get("type")
    if isinstance(event_type, str) and isinstance(changekind, str):
        model = MODELS.get((event_type, changekind))
        if model is not None:
            return model
    specversion = cloudevent.get("specversion", "1.0")
    if specversion != "1.0":
        raise Refused(Reason.UNKNOWN_VALUE, "specversion", "give '1.0'", value=specversion)
    if event_type is None:
        raise Refused(Reason.MISSING_FIELD, "type", f"required; give {ERP_TYPE} or {PSP_TYPE}")
    if not isinstance(event_type, str) or event_type not in _KINDS:
        remedy = f"give {ERP_TYPE} or {PSP_TYPE}"
        raise Refused(Reason.UNKNOWN_TYPE, "type", remedy, value=event_type)
    remedy = "give snapshot or patch"
    raise Refused(Reason.UNKNOWN_VALUE, "changekind", remedy, value=changekind)


def _key_mismatch(key: bytes, payment_id: str) -> Refused:
    try:
        shown_key = repr(key.decode())
    except UnicodeDecodeError:
        shown_key = "not UTF-8"
    remedy = f"the record key ({shown_key}) differs; send the payment id as the key"
    return Refused(Reason.KEY_MISMATCH, "subject", remedy, value=payment_id)


def _payment_id(subject: Any, key: bytes | None) -> str | None:
    """The payment that a record speaks of, as far as it can be read: its subject, else its key."""
    if isinstance(subject, str) and 0 < len(subject) <= PAYMENT_ID_CHARACTERS_MAX:
        return subject
    if not key:
        return None
    try:
        text = key.decode()
    except UnicodeDecodeError:
        return None
    return text if len(text) <= PAYMENT_ID_CHARACTERS_MAX and "\x00" not in text else None
