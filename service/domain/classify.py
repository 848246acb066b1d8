"""What an event is against what is stored: versions decide, never arrival."""

from collections.abc import Mapping
from typing import Any

from service.domain.events import Outcome, SourceEvent
from service.domain.facts import event_facts
from service.domain.payment import Payment
from service.domain.versions import Version
from service.domain.views import SourceView

_NOTHING_SEEN = SourceView()


def advised(outcome: Outcome) -> Outcome:
    """The outcome of an advisory event: two contents of one version tell of no fault that a person
    could mend, and the first stays.
    """
    return Outcome.STALE if outcome is Outcome.CONFLICT else outcome


def classify(
    view: SourceView, event: SourceEvent, digests: Mapping[tuple[tuple[str, str], Version], bytes]
) -> Outcome:
    """Tell what an event is against what is stored; nothing is changed.

    A snapshot is a patch that sets every field: an event is applied if any field advances. What
    the log has under the very version tells a duplicate from a conflict.
    """
    newest = view.newest
    if event.version > newest:
        return Outcome.APPLIED if event.fields else Outcome.STALE
    if view.patched is None and event.version < newest:
        return Outcome.STALE
    if event.kind == "heal":
        return _classify_answer(view, event)
    digest = digests.get((event.stream, event.version))
    if digest is not None:
        same = digest == event.digest or _is_part_of_snapshot(view, event)
        return Outcome.DUPLICATE if same else Outcome.CONFLICT
    return Outcome.APPLIED if view.advancing(event.version, event.fields) else Outcome.STALE


def _classify_answer(view: SourceView, event: SourceEvent) -> Outcome:
    """An answer tells the state at its version, where the event of that version may have been a
    patch: it is compared with what is stored, not with the event's content.
    """
    if not _agrees(view, event):
        return Outcome.CONFLICT
    advancing = view.advancing(event.version, event.fields)
    if any(view.fields.get(name) != value for name, value in advancing.items()):
        return Outcome.APPLIED
    return Outcome.DUPLICATE if event.version == view.newest else Outcome.STALE


def _is_part_of_snapshot(view: SourceView, event: SourceEvent) -> bool:
    """Whether a patch says what the snapshot of its version said: an answer came before it."""
    return event.patch and view.snapshot == event.version and _agrees(view, event)


def _agrees(view: SourceView, event: SourceEvent) -> bool:
    """Whether the fields that the event's version has set here are those that the event sets."""
    told = {
        name: value
        for name, value in event.fields.items()
        if view.version_of(name) == event.version
    }
    return _canonical({**view.fields, **told}) == _canonical(view.fields)


def _canonical(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields with what an absent `captured_minor` stands for."""
    captured_minor = event_facts(SourceView(fields=fields)).captured_minor
    return {**fields, "captured_minor": captured_minor}


def lookups(payment: Payment, event: SourceEvent) -> bool:
    """Whether the log must be asked what was seen under the event's version before it is
    classified.
    """
    view = view_of(payment, event)
    newest = view.newest
    return event.version == newest or (view.patched is not None and event.version < newest)


def view_of(payment: Payment, event: SourceEvent) -> SourceView:
    """The view that the event's version is compared with."""
    if event.kind == "erp":
        return payment.erp
    psp_payment = payment.psp_payments.get(event.stream)
    return psp_payment.view if psp_payment is not None else _NOTHING_SEEN
