"""A batch: decoded records in arrival order, and the step of each partition's position that they
make.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from aiokafka import ConsumerRecord

from schemas.sources.fact import Fact
from service.domain.events import Origin, SourceEvent
from service.store.dead_letters import DeadLetter
from service.store.offsets import Move, Partition

Record = ConsumerRecord[bytes, bytes]


class Refusal(NamedTuple):
    """Why a record is no event: a reason code, a sentence, and the payment if it could be read."""

    reason: str
    error: str
    payment_id: str | None


@dataclass(frozen=True, slots=True)
class Bundle:
    """What a record says that is not one event with its payment: its parts stand or fall together.

    `facts` are added up under their payments' locks; `automatic_capture` is their account's way.
    `unaddressed` set: events without a payment id are about the payment that has their PSP payment,
    or else the record is refused with this.
    """

    events: tuple[SourceEvent, ...] = ()
    facts: tuple[Fact, ...] = ()
    automatic_capture: bool = False
    unaddressed: Refusal | None = None

    @property
    def payment_ids(self) -> set[str]:
        """The payments that it names."""
        named = {event.payment_id for event in self.events if event.payment_id}
        return named | {fact.payment_id for fact in self.facts}


class Item(NamedTuple):
    """A record and what it was decoded to."""

    record: Record
    content: SourceEvent | Bundle | Refusal

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
    """What one transaction writes. Tombstones, records without a key, and those that say nothing
    of payments (`ignored`, by reason) are only counted.
    """

    items: Sequence[Item]
    spans: Mapping[Partition, Span]
    tombstones: int = 0
    keys_absent: int = 0
    ignored: Mapping[str, int] = field(default_factory=dict)

    @property
    def moves(self) -> list[Move]:
        """The steps to store."""
        return [
            Move(partition, span.start, span.next_offset, span.caught_up)
            for partition, span in self.spans.items()
            if span.moves
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
    ignored: Counter[str] = field(default_factory=Counter)

    def batch(self) -> Batch:
        """The finished batch."""
        return Batch(self.items, self.spans, self.tombstones, self.keys_absent, self.ignored)


def payments_named(items: Iterable[Item]) -> set[str]:
    """The payments that some records name."""
    named: set[str] = set()
    for _, content in items:
        if isinstance(content, SourceEvent):
            named.add(content.payment_id)
        elif isinstance(content, Bundle):
            named |= content.payment_ids
    return named


def events_by_payment(items: Iterable[Item]) -> dict[str, list[SourceEvent]]:
    """The events of some records in arrival order, by payment."""
    grouped: dict[str, list[SourceEvent]] = {}
    for _, content in items:
        if isinstance(content, SourceEvent):
            grouped.setdefault(content.payment_id, []).append(content)
        elif isinstance(content, Bundle):
            for event in content.events:
                grouped.setdefault(event.payment_id, []).append(event)
    return grouped


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
