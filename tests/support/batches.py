"""Batches as ingest makes them of what was fetched, and the writer that writes them."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from aiokafka import ConsumerRecord

from schemas.fields import NO_EXCEPTIONS
from service.domain.schedule import Rules
from service.ingest import intake
from service.ingest.apply import ApplyOptions
from service.ingest.batch import Batch, Fetched
from service.ingest.breaker import Breaker, BreakerLimits
from service.ingest.tenure import Track
from service.ingest.writer import Writer
from service.store import offsets
from service.store.faults import Reaction
from service.store.offsets import Partition
from service.store.transactions import transaction
from tests.support.events import Record

GROUP = "g"
OPTIONS = ApplyOptions(
    group=GROUP, outcome_topic="outcomes", dead_letter_topic="dead", rules=Rules()
)

Slices = Mapping[Partition, Sequence[Record]]


def consumed(record: Record, partition: Partition, offset: int) -> ConsumerRecord[bytes, bytes]:
    """The record as the consumer gives it."""
    return ConsumerRecord(
        partition.topic,
        partition.number,
        offset,
        0,
        0,
        record.key,
        record.value,
        None,
        0,
        0,
        record.headers,
    )


async def batch_of(slices: Slices, *, start: int = 0) -> Batch:
    """One batch of each partition's records, whose offsets begin at `start`."""
    making = Fetched()
    for partition, records in slices.items():
        breaker = Breaker(BreakerLimits(), clock=lambda: 0.0)
        track = Track(partition, breaker, 0.0, placed=True, fetched=start, highest=start)
        came = [consumed(record, partition, start + at) for at, record in enumerate(records)]
        end = start + len(came)
        await intake.take(making, track, came, position=end, exponents=NO_EXCEPTIONS)
    return making.batch()


async def place(pool: Any, partitions: Iterable[Partition]) -> None:
    """Let the group begin at the beginning of some partitions."""
    async with transaction(pool) as connection:
        for partition in partitions:
            await offsets.create(connection, GROUP, partition, next_offset=0)


async def positions(pool: Any) -> dict[Partition, int]:
    """Where the group stands."""
    async with transaction(pool) as connection:
        stored = await offsets.stored(connection, GROUP)
    return {each.partition: each.position.next_offset for each in stored}


def writer_of(pool: Any, on_retry: Callable[[Reaction], None] | None = None) -> Writer:
    """Ingest's writer, quick to try again."""
    return Writer(
        pool,
        OPTIONS,
        acquire_timeout_seconds=5,
        backoff_max_seconds=0.05,
        on_retry=on_retry or (lambda _: None),
    )


async def land(writer: Writer, batch: Batch, *, within_seconds: float = 20) -> list[str]:
    """Write a batch; gives the reasons of what was parked."""
    async with asyncio.timeout(within_seconds):
        landed = await writer.write(batch, give_up=asyncio.Event())
    assert landed is not None
    return [reason for part in landed.parts for reason in part.reasons]
