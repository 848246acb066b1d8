"""The fold: a payment and its next events in arrival order give the payment after them.

Pure, so that any batching gives what one-by-one processing gives. Versions decide, never arrival:
a late event cannot turn a newer one back.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from service.domain.announcement import announcement
from service.domain.changes import Changes, changes_between
from service.domain.classify import advised, classify, lookups, view_of
from service.domain.discrepancies import settle_cases
from service.domain.events import Announcement, LogEntry, Outcome, Seen, SourceEvent
from service.domain.facts import event_facts, finality
from service.domain.findings import Finding
from service.domain.payment import Case, Kind, Payment, PspPayment
from service.domain.schedule import Rules, reschedule
from service.domain.status import deciding, derive
from service.domain.views import SourceView, merge

__all__ = ["Folded", "commit", "fold", "lookups", "view_of"]

_NOTHING_LEARNED: Mapping[Kind, Finding] = {}


@dataclass(slots=True)
class Folded:
    """What a run of events made of one payment.

    `before` is the payment as read, so the write can name its row version; `payment` is it now.
    `entries` go to the log, `announcements` to the outbox, `closed` are the discrepancies that
    the facts ended. `counts` tells how many events came to which (source, outcome).
    """

    before: Payment
    payment: Payment
    entries: list[LogEntry] = field(default_factory=list)
    announcements: list[Announcement] = field(default_factory=list)
    closed: list[Case] = field(default_factory=list)
    counts: dict[tuple[str, Outcome], int] = field(default_factory=dict)


def fold(
    payment: Payment, events: Sequence[SourceEvent], *, seen: Seen, now: datetime, rules: Rules
) -> Folded:
    """Fold `events` over `payment`. `seen` holds the log's digests of the versions that `lookups`
    names.
    """
    folded = Folded(before=payment, payment=payment)
    digests, counts = dict(seen), folded.counts
    for event in events:
        view = view_of(folded.payment, event)
        outcome = classify(view, event, digests)
        if event.advisory:
            outcome = advised(outcome)
        count = ("erp" if event.kind == "erp" else "psp", outcome)
        counts[count] = counts.get(count, 0) + 1
        if outcome is Outcome.APPLIED:
            digests[event.stream, event.version] = event.digest
            _apply(folded, event, view, now=now, rules=rules)
        elif outcome is Outcome.CONFLICT:
            _hold(folded, event, view, now=now, rules=rules)
        elif outcome is Outcome.STALE:
            folded.entries.append(_entry(folded.payment, event, outcome, _versions(view, event)))
            if event.advisory:
                _want_check(folded, now=now)
    return folded


def commit(
    folded: Folded,
    changed: Payment,
    entry: LogEntry,
    *,
    now: datetime,
    rules: Rules,
    learned_now: Mapping[Kind, Finding] = _NOTHING_LEARNED,
) -> None:
    """Make `changed` the payment: derive status and cases, raise the row version, log, announce.

    `changed` is a copy that nobody else has, `entry` a new log row: both are filled in here.
    """
    before = folded.payment
    chosen = deciding(changed)
    changed.row_version = before.row_version + 1
    changed.status = derive(changed.erp, chosen.facts if chosen is not None else None)
    if changed.status is not before.status or before.status_since is None:
        changed.status_since = now
    reschedule(before, changed, now=now, rules=rules)
    changed.cases, closed = settle_cases(changed, learned_now=learned_now)
    changes = changes_between(before, changed)
    entry.row_version = changed.row_version
    entry.changes = {**entry.changes, **changes} if entry.changes else changes
    folded.payment = changed
    folded.closed.extend(closed)
    folded.entries.append(entry)
    if "status" in changes or "open_discrepancies" in changes:
        folded.announcements.append(announcement(changed, now=now))


def _apply(
    folded: Folded, event: SourceEvent, view: SourceView, *, now: datetime, rules: Rules
) -> None:
    """Take an event that advances its view into the payment, with log row and outgoing event."""
    merged = merge(view, event.version, event.fields, patch=event.patch, time=event.time)
    changed, doubted = folded.payment.copy(), False
    if event.kind == "erp":
        changed.erp = merged
    else:
        stream = event.stream
        psp_payment = _with_events(changed.psp_payments.get(stream), stream, merged)
        doubted = psp_payment.observation is not None
        changed.psp_payments = {**changed.psp_payments, stream: psp_payment}
    entry = _entry(folded.payment, event, Outcome.APPLIED, {})
    commit(folded, changed, entry, now=now, rules=rules)
    schedule = folded.payment.schedule
    if doubted and schedule.next_check_at is not None:
        schedule = replace(schedule, next_check_at=now)
        folded.payment = replace(folded.payment, schedule=schedule)


def _with_events(known: PspPayment | None, stream: tuple[str, str], view: SourceView) -> PspPayment:
    """The PSP payment after an applied event: an observation stands, doubted, until one that is at
    least as final.
    """
    if known is None:
        return PspPayment(*stream, 0, view)
    observation = known.observation
    if observation is not None:
        lesser = finality(event_facts(view)) < finality(observation.facts)
        observation = replace(observation, doubted=True) if lesser else None
    return PspPayment(known.psp, known.psp_reference, known.row_version, view, observation)


def _hold(
    folded: Folded, event: SourceEvent, view: SourceView, *, now: datetime, rules: Rules
) -> None:
    """Keep the first content, log the other, and hold the payment for a person until a higher
    version.
    """
    entry = _entry(folded.payment, event, Outcome.CONFLICT, _versions(view, event))
    if view.conflict or event.version < view.newest:
        folded.entries.append(entry)
        return
    changed, held = folded.payment.copy(), replace(view, conflict=True)
    if event.kind == "erp":
        changed.erp = held
    else:
        psp_payment = replace(changed.psp_payments[event.stream], view=held)
        changed.psp_payments = {**changed.psp_payments, event.stream: psp_payment}
    commit(folded, changed, entry, now=now, rules=rules)


def _want_check(folded: Folded, *, now: datetime) -> None:
    """Have the PSP asked now, whatever the status: what came late or says nothing may still mean
    that something moved.
    """
    schedule = replace(folded.payment.schedule, next_check_at=now, check_wanted=True)
    folded.payment = replace(folded.payment, schedule=schedule)


def _entry(payment: Payment, event: SourceEvent, outcome: Outcome, changes: Changes) -> LogEntry:
    return LogEntry(
        payment_id=event.payment_id,
        kind=event.kind,
        actor=event.actor,
        outcome=outcome,
        row_version=payment.row_version,
        changes=changes,
        event=event,
    )


def _versions(view: SourceView, event: SourceEvent) -> Changes:
    """What was stored and what came, as [epoch, version] each."""
    source = "erp" if event.kind == "erp" else "psp"
    return {f"{source}_version": [list(view.newest), list(event.version)]}
