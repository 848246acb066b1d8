"""From what a decoder read to an event of the contract, checked by the contract's own models."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from pydantic_core import PydanticCustomError

from schemas.attributes import trace_parent, version_number
from schemas.cloudevent import Event, Kind
from schemas.events import ErpData, ErpPatch, PaymentData, PspData, PspPatch
from schemas.fields import ChangeKind, digest_of, known_fields
from schemas.record import Headers
from schemas.refusal import Reason, Refused
from schemas.validation import validated

_MODELS: Final[Mapping[tuple[Kind, ChangeKind], type[PaymentData]]] = {
    ("erp", "snapshot"): ErpData,
    ("erp", "patch"): ErpPatch,
    ("psp", "snapshot"): PspData,
    ("psp", "patch"): PspPatch,
}
_TRACEPARENT: Final = "traceparent"


@dataclass(frozen=True, slots=True)
class Told:
    """What a record said, in the contract's words. `data` is what goes to the log: the contract's
    fields and no others, since foreign payloads carry names and addresses that nobody asked for.
    Its amounts are in ISO 4217's minor units, whatever the account's own are.
    """

    kind: Kind
    payment_id: str
    event_id: str
    source: str
    time: datetime
    epoch: int
    version: int
    changekind: ChangeKind
    data: dict[str, Any]


def event_of(
    told: Told,
    *,
    key: bytes | None = None,
    headers: Headers = (),
) -> Event:
    """The event. Raises Refused where the contract refuses its data or its version.

    Amounts are in ISO 4217's minor units by now. The record's key is the source's own and plays no
    part but that it may be absent.
    """
    _refuse_version(told.epoch, "epoch")
    _refuse_version(told.version, "version")
    model = _MODELS[told.kind, told.changekind]
    fields = known_fields(validated(model, told.data))
    return Event(
        kind=told.kind,
        event_id=told.event_id,
        source=told.source,
        payment_id=told.payment_id,
        time=told.time,
        epoch=told.epoch,
        version=told.version,
        changekind=told.changekind,
        data=told.data,
        fields=fields,
        digest=digest_of(fields, told.changekind),
        traceparent=_traceparent(headers),
        key_absent=key is None,
    )


def _refuse_version(number: int, field: str) -> None:
    try:
        version_number(number)
    except PydanticCustomError as error:
        raise Refused(Reason(error.type), field, error.message(), value=number) from None


def _traceparent(headers: Headers) -> str | None:
    for name, raw in headers:
        if name.lower() == _TRACEPARENT and raw is not None:
            return trace_parent(raw.decode("ascii", errors="replace"))
    return None
