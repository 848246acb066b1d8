"""What the pure rules take in and give out: a source's event, and the log row that tells what
became of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, NamedTuple

from service.domain.versions import Version


class Outcome(StrEnum):
    """What became of an event."""

    APPLIED = "applied"
    STALE = "stale"
    DUPLICATE = "duplicate"
    CONFLICT = "conflict"
    SHADOW = "shadow"


class Origin(NamedTuple):
    """Where an event's record lies in Kafka."""

    topic: str
    partition: int
    offset: int


@dataclass(slots=True)
class SourceEvent:
    """One decoded event of a source, or a PSP's answer that carries a version (`kind` heal).

    `fields` are the known fields it sets: all of the source's for a snapshot, those given for a
    patch. `data` is the event's data as it came. `digest` tells equal content from other content.
    `psp` and `psp_reference` identify the PSP payment and are empty for the ERP. `advisory`: its
    version is only a plausible order, so that a doubt is settled by asking the PSP.
    """

    payment_id: str
    kind: Literal["erp", "psp", "heal"]
    event_id: str
    version: Version
    fields: Mapping[str, Any]
    data: Mapping[str, Any]
    time: datetime
    digest: bytes
    patch: bool = False
    psp: str = ""
    psp_reference: str = ""
    actor: str = ""
    origin: Origin | None = None
    trace_id: str | None = None
    advisory: bool = False

    @property
    def stream(self) -> tuple[str, str]:
        """What its version counts: the ERP's view, or one PSP payment."""
        return (self.psp, self.psp_reference)


Seen = Mapping[tuple[tuple[str, str], Version], bytes]
"""Digest of the log's first content of a (stream, version) of one payment."""


@dataclass(slots=True)
class LogEntry:
    """One row of the log: what came, what became of it, and field by field what it changed."""

    payment_id: str
    kind: str
    actor: str
    outcome: Outcome
    row_version: int
    changes: Mapping[str, Any] = field(default_factory=dict)
    event: SourceEvent | None = None
    data: Mapping[str, Any] | None = None
    occurred_at: datetime | None = None
    psp: str | None = None
    psp_reference: str | None = None


@dataclass(slots=True)
class Announcement:
    """One outgoing event: the payment's view after a change of status or open discrepancies."""

    payment_id: str
    row_version: int
    data: Mapping[str, Any]
    at: datetime
