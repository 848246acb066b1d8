"""Makes batches of fetched records, in slices that leave the event loop its turns."""

import asyncio
from collections.abc import Sequence

import structlog

from schemas.currency import Exponents
from schemas.sources.contract import Ignored
from service.domain.events import SourceEvent
from service.ingest.batch import Bundle, Fetched, Item, Record, Refusal, Span
from service.ingest.decode import Source, decode_foreign, decode_record
from service.ingest.tenure import Track
from service.observe.events import Event

log = structlog.get_logger(__name__)

SLICE_RECORDS = 100
"""Decoding so many takes a few milliseconds: heartbeats and probes are not kept waiting."""

Content = SourceEvent | Bundle | Refusal | Ignored | None


async def take(
    making: Fetched,
    track: Track,
    records: Sequence[Record],
    *,
    position: int,
    exponents: Exponents,
    source: Source | None = None,
) -> None:
    """Decode one partition's records into the batch in the making; without `source` they are of
    the own contract.

    `position` is where the fetch ended, which passes markers that are no records. If the breaker
    trips, the partition's step ends before the first bad record and its position is read again
    when it is time for a try.
    """
    kept = len(making.items)
    first_bad: Item | None = None
    for number, record in enumerate(records, start=1):
        content: Content
        if source is None:
            content = decode_record(record, exponents=exponents)
        else:
            content = decode_foreign(record, source=source)
        if isinstance(content, Refusal) and first_bad is None:
            first_bad = Item(record, content)
        if track.breaker.observe(bad=isinstance(content, Refusal)) and first_bad is not None:
            _stop_before(making, track, first_bad, kept=kept)
            return
        _add(making, record, content)
        if number % SLICE_RECORDS == 0:
            await asyncio.sleep(0)
    track.breaker.passed()
    making.spans[track.partition] = Span(
        start=track.fetched, next_offset=position, highest_offset=track.highest
    )
    track.fetched = position


def _add(making: Fetched, record: Record, content: Content) -> None:
    if content is None:
        making.tombstones += 1
        return
    if isinstance(content, Ignored):
        making.ignored[content.reason] += 1
        return
    making.items.append(Item(record, content))
    if record.key is None:
        making.keys_absent += 1


def _stop_before(making: Fetched, track: Track, first_bad: Item, *, kept: int) -> None:
    """Let what came before the first bad record land, and nothing after it."""
    offset = first_bad.record.offset
    good = [item for item in making.items[kept:] if item.record.offset < offset]
    making.items[kept:] = good
    if offset > track.fetched:
        making.spans[track.partition] = Span(track.fetched, offset, track.highest)
    track.fetched = offset
    track.placed = False
    content = first_bad.content
    log.error(
        Event.BREAKER_TRIPPED,
        topic=track.partition.topic,
        partition=track.partition.number,
        offset=offset,
        reason=content.reason if isinstance(content, Refusal) else None,
    )
