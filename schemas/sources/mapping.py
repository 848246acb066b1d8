"""Other JSON sources through a declared mapping.

Version: what the declaration names, from a declared path, and as good as that field is. A counter
that the source raises with every change orders rightly (`form` integer). A time (`rfc3339`, `sql`,
`epoch_…`, counted in microseconds) is weak: two changes may share it, and clocks step back; it is
advisory unless the declaration says otherwise. Of several paths the newest is taken: a payment
with `createdAt`, `paidAt`, `canceledAt` is as new as the latest of them.

    {"name": "paypal", "kind": "event_type", "ignore": ["BILLING.*"],
     "mappings": [{"when": ["PAYMENT.CAPTURE.*"], "source": "psp", …}]}
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from schemas.attributes import version_number
from schemas.cloudevent import Event, Tombstone
from schemas.currency import Exponents
from schemas.fields import NO_EXCEPTIONS
from schemas.record import Headers
from schemas.refusal import Reason, Refused
from schemas.sources.contract import Decoded, Ignored, Reading, Why
from schemas.sources.declaration import Declared, declared, wrong
from schemas.sources.field_mapping import FieldMapping, Place, data_of, payment_id_of
from schemas.sources.reading import (
    TimeForm,
    at,
    document_of,
    micros_of,
    optional_text_at,
    text_at,
    time_of,
)
from schemas.sources.telling import Told, event_of


class VersionField(Declared):
    """Where the version stands: the newest of the values at `paths`."""

    paths: Annotated[list[Place], Field(min_length=1)]
    form: Literal["integer"] | TimeForm
    epoch: Place | None = None
    """Where the version's epoch stands; raised by the source when its counter restarts."""
    advisory: bool | None = None
    """Whether doubt is to be settled by asking the PSP; a time is advisory, a counter is not."""

    @property
    def is_advisory(self) -> bool:
        """Whether the version is only a plausible order."""
        return self.form != "integer" if self.advisory is None else self.advisory


class TimeField(Declared):
    """When the source says that it happened; shown, never compared."""

    path: Place
    form: TimeForm


class JsonMapping(FieldMapping):
    """One kind of record of a source."""

    when: list[str] = Field(default_factory=list)
    """Patterns of the record's kind; empty: every record."""
    event_id: Place | None = None
    version: VersionField
    time: TimeField


class JsonSource(Declared):
    """All kinds of records that a topic carries."""

    name: Annotated[str, Field(min_length=1, max_length=128)]
    kind: Place | None = None
    """Where the record's kind stands, such as `event_type`."""
    ignore: list[str] = Field(default_factory=list)
    """Patterns of kinds that carry nothing for payments. Other unknown kinds are refused."""
    mappings: Annotated[list[JsonMapping], Field(min_length=1)]

    @model_validator(mode="after")
    def _kind_is_declared(self) -> Self:
        selective = bool(self.ignore) or any(mapping.when for mapping in self.mappings)
        if selective and self.kind is None:
            raise wrong("declare kind, the path that 'when' and 'ignore' are compared with")
        return self


@dataclass(frozen=True, slots=True)
class Mapped:
    """Decoder of one declared source."""

    source: JsonSource
    exponents: Exponents = field(default_factory=lambda: NO_EXCEPTIONS)

    @classmethod
    def of(cls, document: Mapping[str, Any], *, exponents: Exponents = NO_EXCEPTIONS) -> Self:
        """The decoder that a JSON document declares. Raises BadDeclaration."""
        return cls(declared(JsonSource, document), exponents)

    def __call__(self, *, key: bytes | None, value: bytes | None, headers: Headers) -> Reading:
        """One event; a tombstone; or a record of a kind that is declared as of no interest."""
        if value is None:
            return Tombstone(payment_id=None)
        document = document_of(value)
        if document is None:
            return Tombstone(payment_id=None)
        kind, mapping = self._mapping_of(document)
        if mapping is None:
            return Ignored(Why.OTHER_TYPE, kind)
        if mapping.money is not None and mapping.money.unit == "number":
            document = json.loads(value, parse_float=Decimal)
        return (self._decoded(mapping, document, key, headers),)

    def _mapping_of(self, document: dict[str, Any]) -> tuple[str, JsonMapping | None]:
        """The record's kind, and how it is mapped: None to ignore it. Raises unknown_type."""
        path = self.source.kind
        kind = "" if path is None else text_at(document, path)
        for mapping in self.source.mappings:
            if not mapping.when or _matches(kind, mapping.when):
                return kind, mapping
        if not _matches(kind, self.source.ignore):
            remedy = "declared nowhere; add it to a mapping's 'when' or to 'ignore'"
            raise Refused(Reason.UNKNOWN_TYPE, path or "kind", remedy, value=kind)
        return kind, None

    def _decoded(
        self, mapping: JsonMapping, document: dict[str, Any], key: bytes | None, headers: Headers
    ) -> Decoded:
        payment_id = payment_id_of(mapping, document)
        try:
            event = self._event(mapping, document, payment_id or "", key=key, headers=headers)
        except Refused as refused:
            refused.payment_id = payment_id
            raise
        advisory = mapping.version.is_advisory
        if payment_id is not None:
            return Decoded(event, advisory=advisory)
        remedy = "absent, and no payment known by the PSP's reference; give it a value"
        refusal = Refused(Reason.MISSING_FIELD, mapping.payment_id, remedy)
        if mapping.source == "erp":
            raise refusal
        return Decoded(event, advisory=advisory, unaddressed=refusal)

    def _event(
        self,
        mapping: JsonMapping,
        document: dict[str, Any],
        payment_id: str,
        *,
        key: bytes | None,
        headers: Headers,
    ) -> Event:
        epoch, version = _version(mapping.version, document)
        event_id = mapping.event_id and optional_text_at(document, mapping.event_id)
        told = Told(
            kind=mapping.source,
            payment_id=payment_id,
            event_id=event_id or f"{payment_id}:{epoch}:{version}",
            source=f"/{self.source.name}",
            time=_time(mapping.time, document),
            epoch=epoch,
            version=version,
            changekind=mapping.changekind,
            data=data_of(mapping, document, exponents=self.exponents),
        )
        return event_of(told, key=key, headers=headers)


def _matches(kind: str, patterns: list[str]) -> bool:
    return any(fnmatchcase(kind, pattern) for pattern in patterns)


def _time(declared_time: TimeField, document: dict[str, Any]) -> datetime:
    value = at(document, declared_time.path)
    if value is None:
        raise Refused(Reason.MISSING_FIELD, declared_time.path, "required; give it a value")
    return time_of(value, declared_time.form, declared_time.path)


def _version(declared_version: VersionField, document: dict[str, Any]) -> tuple[int, int]:
    """Epoch and version. Raises Refused missing_field where no path has a value."""
    found = [(path, at(document, path)) for path in declared_version.paths]
    counts = [
        _count(value, declared_version.form, path) for path, value in found if value is not None
    ]
    if not counts:
        path = declared_version.paths[0]
        raise Refused(Reason.MISSING_FIELD, path, "required as the version; give it a value")
    epoch_path = declared_version.epoch
    epoch = at(document, epoch_path) if epoch_path else None
    return _count(epoch or 0, "integer", epoch_path or "epoch"), max(counts)


def _count(value: Any, form: Literal["integer"] | TimeForm, path: str) -> int:
    if form != "integer":
        return micros_of(time_of(value, form, path))
    try:
        return version_number(value)
    except ValueError as error:
        raise _bad_version(error, path, value) from None


def _bad_version(error: ValueError, path: str, value: Any) -> Refused:
    reason = getattr(error, "type", Reason.UNKNOWN_VALUE)
    return Refused(Reason(reason), path, "give a whole number from 0 to 2^63-1", value=value)
