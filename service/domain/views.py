"""What one source last said of a payment, field by field, and how one more event changes it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from service.domain.versions import UNSEEN, Version


@dataclass(slots=True)
class SourceView:
    """The newest known value of every field that a source owns; never changed in place.

    A field's version is the newer of the last snapshot's and the last patch's that set it.
    `patched` holds only versions above the snapshot's and is None when there are none. `conflict`
    says that the newest version came with two contents. `time` is the source's own time of the
    newest version: shown, never compared.
    """

    snapshot: Version = UNSEEN
    patched: Mapping[str, Version] | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)
    time: datetime | None = None
    conflict: bool = False

    @property
    def newest(self) -> Version:
        """The highest version that any field carries."""
        return max(self.snapshot, *self.patched.values()) if self.patched else self.snapshot

    @property
    def seen(self) -> bool:
        """Whether the source has said anything yet."""
        return self.newest != UNSEEN

    def version_of(self, name: str) -> Version:
        """The version that set field `name` last."""
        if self.patched is None:
            return self.snapshot
        return max(self.snapshot, self.patched.get(name, UNSEEN))

    def advancing(self, version: Version, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """The part of `fields` that is older here than `version`."""
        if self.patched is None:
            return fields if version > self.snapshot else {}
        return {name: value for name, value in fields.items() if version > self.version_of(name)}


def merge(
    view: SourceView, version: Version, fields: Mapping[str, Any], *, patch: bool, time: datetime
) -> SourceView:
    """The view after an event that advances it: each field keeps its newest version's value."""
    newer = version > view.newest
    advancing = fields if newer else view.advancing(version, fields)
    snapshot = view.snapshot if patch else max(view.snapshot, version)
    patched = None
    if patch or view.patched is not None:
        patched = _patched(view, version, advancing, above=snapshot)
    return SourceView(
        snapshot=snapshot,
        patched=patched,
        fields={**view.fields, **advancing},
        time=time if newer else view.time,
        conflict=view.conflict and not newer,
    )


def _patched(
    view: SourceView, version: Version, advancing: Mapping[str, Any], *, above: Version
) -> dict[str, Version] | None:
    """The versions of fields that stand above the last snapshot's, `above`."""
    patched = dict(view.patched or {})
    patched.update(dict.fromkeys(advancing, version))
    return {name: at for name, at in patched.items() if at > above} or None
