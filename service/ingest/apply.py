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
from service.ingest import addresses, fact_ledger
from service.ingest.batch import (
    Batch,
    Item,
    Refusal,
    dead_letter,
    events_by_payment,
    payments_named,
)
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
    `refused`: the records that were parked, whoever refused them.
    """

    counts: dict[tuple[str, str], int] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)
    stale_later: list[tuple[str, str]] = field(default_factory=list)
    refused: list[Item] = field(default_factory=list)


async def apply(connection: Any, batch: Batch, *, options: ApplyOptions) -> Applied:
    """Write `batch` in the caller's transaction.

    Raises OffsetFenced if a position is not where the batch was read from, and whatever the
    database raises; the transaction has to be rolled back then.
    """
    applied = Applied()
    items = await addresses.resolved(connection, batch.items)
    payment_ids = sorted(payments_named(items))
    if payment_ids:
        items = await _apply_events(connection, payment_ids, items, batch, options, applied)
    await _park(connection, items, options, applied)
    moves = batch.moves
    if moves and not await offsets.advance(connection, options.group, moves):
        raise OffsetFenced("a stored offset is not the one that the batch was read from")
    return applied


async def _apply_events(
    connection: Any,
    payment_ids: Sequence[str],
    items: Sequence[Item],
    batch: Batch,
    options: ApplyOptions,
    applied: Applied,
) -> Sequence[Item]:
    """Fold the events of `items` over their payments; gives the items as they are now: a record
    whose facts do not add up is refused.
    """
    await book.ensure(connection, payment_ids)
    now = await book.database_now(connection)
    payments = await book.lock(connection, payment_ids)
    added = await fact_ledger.added_up(connection, items)
    _add_counts(applied, added.counts)
    grouped = events_by_payment(added.items)
    touched = sorted(grouped)
    seen = await book.seen(
        connection, [event for key in touched for event in asked(payments[key], grouped[key])]
    )
    highest = {partition: span.highest_offset for partition, span in batch.spans.items()}
    folded = []
    for place, key in enumerate(touched, start=1):
        step = fold(
            payments[key], grouped[key], seen=seen.get(key, {}), now=now, rules=options.rules
        )
        _count(step, applied)
        step.entries = _without_replayed(step, highest)
        folded.append(step)
        if place % SLICE_PAYMENTS == 0:
            await asyncio.sleep(0)
    await book.write(connection, folded, outcome_topic=options.outcome_topic)
    return added.items


async def _park(
    connection: Any, items: Sequence[Item], options: ApplyOptions, applied: Applied
) -> None:
    letters = []
    for item in items:
        if isinstance(item.content, Refusal):
            letters.append(dead_letter(item.record, item.content))
            applied.refused.append(item)
    if letters:
        await dead_letters.insert(connection, letters, topic=options.dead_letter_topic)
        applied.reasons.extend(letter.reason for letter in letters)


def asked(payment: Payment, events: Sequence[SourceEvent]) -> list[SourceEvent]:
    """The events whose version must be looked up in the log.

    Those that one-by-one processing would look up: a patch among `events` makes the versions
    below it askable for the events that follow in the same batch.
    """
    patched = {event.stream for event in events if event.patch}
    return [event for event in events if event.stream in patched or lookups(payment, event)]


def _count(step: Folded, applied: Applied) -> None:
    _add_counts(applied, step.counts)
    for entry in step.entries:
        event = entry.event
        if entry.outcome is Outcome.STALE and event is not None and not event.advisory:
            stored = view_of(step.payment, event).time
            if stored is not None and event.time > stored:
                applied.stale_later.append((event.kind, event.payment_id))


def _add_counts(applied: Applied, counts: Mapping[tuple[str, Outcome], int]) -> None:
    for key, number in counts.items():
        applied.counts[key] = applied.counts.get(key, 0) + number


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
