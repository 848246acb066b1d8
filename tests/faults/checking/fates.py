"""What has to become of each record that was sent: the contract's table of outcomes, by itself.

Written from the rules for versions alone; the service's own classification has no part in it.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from tests.faults.checking.history import Sent
from tests.support.events import Record

FIELDS = {
    "erp": frozenset({"order_id", "status", "amount", "psp", "psp_reference"}),
    "psp": frozenset(
        {"status", "amount", "captured_minor", "refunded_minor", "disputed_minor", "failure_code"}
    ),
}
"""What a snapshot of each source sets."""

Version = tuple[int, int]
Stream = tuple[str, str, str, str]
"""Payment, source, PSP account and PSP reference; the last two are empty for the ERP."""
UNSEEN: Version = (0, -1)

Outcome = Literal["applied", "stale", "duplicate", "conflict", "refused", "tombstone"]


class Event(NamedTuple):
    """An event as far as its outcome depends on it."""

    stream: Stream
    version: Version
    fields: frozenset[str]
    patch: bool
    data: Mapping[str, Any]


@dataclass(slots=True)
class Fate:
    """What has to become of a record. `reason` is that of a refusal."""

    sent: Sent
    outcome: Outcome
    event: Event | None = None
    reason: str | None = None


@dataclass(slots=True)
class Standing:
    """Where one stream stands: which version set each field, and what was taken under each."""

    snapshot: Version = UNSEEN
    patched: dict[str, Version] = field(default_factory=dict)
    taken: dict[Version, str] = field(default_factory=dict)

    def outcome_of(self, event: Event) -> Outcome:
        """Higher: applied. Equal: duplicate or conflict. Lower: stale, unless a patch has left
        fields behind that it advances.
        """
        newest = max([self.snapshot, *self.patched.values()])
        if event.version > newest:
            return "applied"
        if event.version < newest and not self.patched:
            return "stale"
        if event.version in self.taken:
            return "duplicate" if self.taken[event.version] == _content(event) else "conflict"
        return "applied" if self.advances(event) else "stale"

    def advances(self, event: Event) -> bool:
        """Whether any field that it sets stands at a lower version."""
        return any(event.version > self._version_of(name) for name in event.fields)

    def take(self, event: Event) -> None:
        """Apply it."""
        self.taken[event.version] = _content(event)
        if not event.patch:
            self.snapshot = max(self.snapshot, event.version)
        else:
            for name in event.fields:
                self.patched[name] = max(event.version, self._version_of(name))
        self.patched = {name: at for name, at in self.patched.items() if at > self.snapshot}

    def _version_of(self, name: str) -> Version:
        return max(self.snapshot, self.patched.get(name, UNSEEN))


def fates_of(sent: Sequence[Sent], refusals: Mapping[Record, str]) -> list[Fate]:
    """The fate of each record, by the order in its partition."""
    streams: dict[Stream, Standing] = {}
    fates = []
    for each in sent:
        if each.record.value is None:
            fates.append(Fate(each, "tombstone"))
            continue
        if (reason := refusals.get(each.record)) is not None:
            fates.append(Fate(each, "refused", reason=reason))
            continue
        event = event_of(each.record)
        standing = streams.setdefault(event.stream, Standing())
        outcome = standing.outcome_of(event)
        if outcome == "applied":
            standing.take(event)
        fates.append(Fate(each, outcome, event))
    return fates


def event_of(record: Record) -> Event:
    """The event of a record that is not refused."""
    attributes: dict[str, Any] = {
        name.removeprefix("ce_"): value.decode()
        for name, value in record.headers
        if name.startswith("ce_")
    }
    if attributes:
        attributes["data"] = json.loads(record.value or b"")
    else:
        attributes = json.loads(record.value or b"")
    data, patch = attributes["data"], attributes["changekind"] == "patch"
    source = str(attributes["type"]).partition(".")[0]
    names = ("psp", "psp_reference") if source == "psp" else ()
    return Event(
        stream=(attributes["subject"], source, *([data[name] for name in names] or ["", ""])),
        version=(int(attributes["versionepoch"]), int(attributes["entityversion"])),
        fields=frozenset(data) - set(names) if patch else FIELDS[source],
        patch=patch,
        data=data,
    )


def _content(event: Event) -> str:
    return json.dumps([event.patch, event.data], sort_keys=True)
