"""A batch: decoded records in arrival order, and the step of each partition's position that they
make.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from aiokafka import ConsumerRecord

from service.domain.events import Origin, SourceEvent
from service.store.dead_letters import DeadLetter
from service.store.offsets import Move, Partition

Record = ConsumerRecord[bytes, bytes]


class Refusal(NamedTuple):
    """Why a record is no event: a reason code, a sentence, and the payment if it could be read."""

    reason: str
    error: str
    payment_id: str | None


class Item(NamedTuple):
    """A record and what it was decoded to."""

    record: Record
    content: SourceEvent | Refusal

    @property
    def partition(self) -> Partition:
        """Where it came from."""
        return Partition(self.record.topic, self.record.partition)


@dataclass(frozen=True, slots=True)
class Span:
    """A partition's step from `start` to `next_offset`. Below `highest_offset` it is a replay."""

    start: int
    next_offset: int
    highest_offset: int = 0
    caught_up: bool = False

    @property
    def moves(self) -> bool:
        """Whether there is anything to store."""
        return self.next_offset != self.start or self.caught_up


@dataclass(frozen=True, slots=True)
class Batch:
    """What one transaction writes. Tombstones and records without a key are only counted."""

    items: Sequence[Item]
    spans: Mapping[Partition, Span]
    tombstones: int = 0
    keys_absent: int = 0

    @property
    def moves(self) -> list[Move]:
        """The steps to store."""
        return [
            Move(partition, span.start, span.next_offset, span.caught_up)
            for partition, span in self.spans.items()
            if span.moves
        ]

    def events_by_payment(self) -> dict[str, list[SourceEvent]]:
        """Its events in arrival order, by payment."""
        grouped: dict[str, list[SourceEvent]] = {}
        for _, content in self.items:
            if isinstance(content, SourceEvent):
                grouped.setdefault(content.payment_id, []).append(content)
        return grouped

    def dead_letters(self) -> list[DeadLetter]:
        """Its refused records, with their bytes."""
        return [
            dead_letter(item.record, item.content)
            for item in self.items
            if isinstance(item.content, Refusal)
        ]

    def halves(self) -> tuple["Batch", "Batch"]:
        """Two batches that one after the other do the same; each has at least one item."""
        middle = len(self.items) // 2
        cuts: dict[Partition, int] = {}
        for item in self.items[middle:]:
            cuts.setdefault(item.partition, item.record.offset)
        first = {
            partition: replace(span, next_offset=cuts[partition], caught_up=False)
            if partition in cuts
            else span
            for partition, span in self.spans.items()
        }
        second = {
            partition: replace(span, start=cuts[partition])
            for partition, span in self.spans.items()
            if partition in cuts
        }
        return (
            replace(self, items=self.items[:middle], spans=first),
            Batch(items=self.items[middle:], spans=second),
        )


@dataclass(slots=True)
class Fetched:
    """A batch in the making."""

    items: list[Item] = field(default_factory=list)
    spans: dict[Partition, Span] = field(default_factory=dict)
    tombstones: int = 0
    keys_absent: int = 0

    def batch(self) -> Batch:
        """The finished batch."""
        return Batch(self.items, self.spans, self.tombstones, self.keys_absent)


def dead_letter(record: Record, refusal: Refusal) -> DeadLetter:
    """The record as it is parked."""
    return DeadLetter(
        origin=Origin(record.topic, record.partition, record.offset),
        key=record.key,
        value=record.value,
        headers=record.headers,
        reason=refusal.reason,
        error=refusal.error,
        payment_id=refusal.payment_id,
    )
