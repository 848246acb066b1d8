"""One batch, one transaction: payments, log, outgoing events, dead letters and positions commit
together or not at all.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from service.domain.events import LogEntry, Outcome, SourceEvent
from service.domain.fold import Folded, fold, lookups, view_of
from service.domain.payment import Payment
from service.domain.schedule import Rules
from service.errors import OffsetFenced
from service.ingest.batch import Batch
from service.store import book, dead_letters, offsets
from service.store.offsets import Partition

SLICE_PAYMENTS = 100
"""After so many payments the event loop gets its turn, so that heartbeats are never late."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyOptions:
    """What a batch is written with. `dead_letter_topic` None: dead letters stay in the database."""

    group: str
    outcome_topic: str
    dead_letter_topic: str | None
    rules: Rules


@dataclass(slots=True)
class Applied:
    """What became of a batch.

    `counts`: (source, outcome) -> events. `stale_later`: (source, payment id) of stale events that
    their source calls later than what is stored, the sign of a restarted version counter.
    """

    counts: dict[tuple[str, str], int] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)
    stale_later: list[tuple[str, str]] = field(default_factory=list)


async def apply(connection: Any, batch: Batch, *, options: ApplyOptions) -> Applied:
    """Write `batch` in the caller's transaction.

    Raises OffsetFenced if a position is not where the batch was read from, and whatever the
    database raises; the transaction has to be rolled back then.
    """
    applied = Applied()
    grouped = batch.events_by_payment()
    if grouped:
        await _apply_events(connection, grouped, batch, options, applied)
    letters = batch.dead_letters()
    if letters:
        await dead_letters.insert(connection, letters, topic=options.dead_letter_topic)
        applied.reasons.extend(letter.reason for letter in letters)
    moves = batch.moves
    if moves and not await offsets.advance(connection, options.group, moves):
        raise OffsetFenced("a stored offset is not the one that the batch was read from")
    return applied


async def _apply_events(
    connection: Any,
    grouped: Mapping[str, Sequence[SourceEvent]],
    batch: Batch,
    options: ApplyOptions,
    applied: Applied,
) -> None:
    payment_ids = sorted(grouped)
    await book.ensure(connection, payment_ids)
    now = await book.database_now(connection)
    payments = await book.lock(connection, payment_ids)
    seen = await book.seen(
        connection, [event for key in payment_ids for event in asked(payments[key], grouped[key])]
    )
    highest = {partition: span.highest_offset for partition, span in batch.spans.items()}
    folded = []
    for place, key in enumerate(payment_ids, start=1):
        step = fold(
            payments[key], grouped[key], seen=seen.get(key, {}), now=now, rules=options.rules
        )
        _count(step, applied)
        step.entries = _without_replayed(step, highest)
        folded.append(step)
        if place % SLICE_PAYMENTS == 0:
            await asyncio.sleep(0)
    await book.write(connection, folded, outcome_topic=options.outcome_topic)


def asked(payment: Payment, events: Sequence[SourceEvent]) -> list[SourceEvent]:
    """The events whose version must be looked up in the log.

    Those that one-by-one processing would look up: a patch among `events` makes the versions
    below it askable for the events that follow in the same batch.
    """
    patched = {event.stream for event in events if event.patch}
    return [event for event in events if event.stream in patched or lookups(payment, event)]


def _count(step: Folded, applied: Applied) -> None:
    for (source, outcome), number in step.counts.items():
        applied.counts[source, outcome] = applied.counts.get((source, outcome), 0) + number
    for entry in step.entries:
        event = entry.event
        if entry.outcome is Outcome.STALE and event is not None:
            stored = view_of(step.payment, event).time
            if stored is not None and event.time > stored:
                applied.stale_later.append((event.kind, event.payment_id))


def _without_replayed(step: Folded, highest: Mapping[Partition, int]) -> list[LogEntry]:
    """The log rows of a step, without those that a replay below the highest offset would write
    again: events that changed nothing.
    """
    kept, row_version = [], step.before.row_version
    for entry in step.entries:
        changed_nothing = entry.row_version == row_version
        row_version = entry.row_version
        origin = entry.event.origin if entry.event else None
        if origin is not None and changed_nothing:
            replayed = origin.offset < highest.get(Partition(*origin[:2]), 0)
            if replayed:
                continue
        kept.append(entry)
    return kept
