"""Polls the broker for ever, and hands over batches when there is room for them.

Polling never waits for the database: without room, or without a database, the partitions are
paused and polled all the same, so that the group keeps this member.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any

import structlog
from aiokafka import TopicPartition
from aiokafka.errors import (
    IllegalStateError,
    KafkaError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
)

from service.errors import OffsetFenced, TopicRecreated
from service.ingest import intake
from service.ingest.batch import Batch, Fetched, Record, Span
from service.ingest.client import Consumer
from service.ingest.options import IngestOptions
from service.ingest.positions import LogBounds, Placement, place
from service.ingest.rebalance import Rebalances
from service.ingest.status import PauseReason
from service.ingest.tenure import Tenure, Track
from service.ingest.writer import Writer
from service.lifecycle import wait_for_stop
from service.observe.events import Event
from service.store.offsets import Partition

log = structlog.get_logger(__name__)

ROOM_SECONDS = 1.0
"""A batch that takes longer means pausing: polling has to go on."""
RECREATED_SIGHTINGS = 3
"""A broker that has just become leader may report an end that lags behind for a moment."""
PLACING_PAUSE_SECONDS = 1.0

Handed = tuple[Batch, Tenure]
Records = Mapping[TopicPartition, Sequence[Record]]


class Fetcher:
    """The polling loop. `records_lost` counts what retention deleted before it could be read."""

    def __init__(
        self,
        consumer: Consumer,
        *,
        rebalances: Rebalances,
        queue: "asyncio.Queue[Handed | None]",
        writer: Writer,
        options: IngestOptions,
    ) -> None:
        self._consumer = consumer
        self._rebalances = rebalances
        self._queue = queue
        self._writer = writer
        self._options = options
        self._place_at = 0.0
        self._placing_failures = 0
        self._sightings = 0
        self.taken = asyncio.Event()
        self.polled_at = time.monotonic()
        self.records_lost = 0

    async def run(self, stop: asyncio.Event) -> None:
        """Poll until `stop`. Raises TopicRecreated, KafkaError, and errors of our own SQL."""
        while not stop.is_set():
            self.polled_at = time.monotonic()
            room = await self._room()
            tenure = self._rebalances.tenure
            if tenure is not None:
                await self._place(tenure)
                self._pause_and_resume(tenure, room=room)
            if stop.is_set():
                return  # that may have taken so long that the consumer is being closed already
            fetched = await self._poll()
            if tenure is None or tenure is not self._rebalances.tenure:
                continue
            if room:
                await self._hand_over(tenure, fetched)
            elif fetched:
                tenure.displace()

    def paused_because(self, track: Track) -> PauseReason | None:
        """Why nothing is fetched of a partition; None if something is."""
        if track.breaker.open:
            return "breaker"
        if not self._writer.available:
            return "database"
        return None if track.placed else "placing"

    async def _room(self) -> bool:
        """Whether a batch can be handed over; waits a moment for it."""
        self.taken.clear()
        if self._queue.full():
            await wait_for_stop(self.taken, ROOM_SECONDS)
        return not self._queue.full()

    def _pause_and_resume(self, tenure: Tenure, *, room: bool) -> None:
        assigned, paused = self._consumer.assignment(), self._consumer.paused()
        now = time.monotonic()
        for partition, track in tenure.tracks.items():
            topic_partition = TopicPartition(*partition)
            if topic_partition not in assigned:
                continue
            wanted = not room or self.paused_because(track) is not None
            if wanted:
                track.waiting_since = now
            if wanted and topic_partition not in paused:
                self._consumer.pause(topic_partition)
            elif not wanted and topic_partition in paused:
                self._consumer.resume(topic_partition)

    async def _poll(self) -> Records:
        """One getmany: never cancelled, never under a time-out of ours, either would break it."""
        try:
            records: Records = await self._consumer.getmany(
                timeout_ms=round(self._options.poll_seconds * 1000),
                max_records=self._options.batch_records_max,
            )
        except (OffsetOutOfRangeError, NoOffsetForPartitionError):
            # Positions are the database's: read them again, and check them against the log.
            if self._rebalances.tenure is not None:
                self._rebalances.tenure.displace()
            return {}
        return records

    async def _hand_over(self, tenure: Tenure, fetched: Records) -> None:
        """Decode what came and queue it. Whatever does not fit is read again."""
        try:
            ends = {each: await self._consumer.position(each) for each in fetched}
        except IllegalStateError:
            return
        making = Fetched()
        for topic_partition, records in fetched.items():
            track = tenure.tracks.get(Partition(*topic_partition))
            if track is None or not track.placed:
                continue
            if records[0].offset < track.fetched:
                track.placed = False
                continue
            track.waiting_since = time.monotonic()
            await intake.take(
                making,
                track,
                records,
                position=ends[topic_partition],
                exponents=self._options.exponents,
                source=self._options.sources.get(topic_partition.topic),
            )
        await self._mark_caught_up(tenure, making)
        if making.spans and not tenure.over.is_set():
            await self._queue.put((making.batch(), tenure))

    async def _mark_caught_up(self, tenure: Tenure, making: Fetched) -> None:
        """Say once of each partition that no lag is left: at its end, or past all its records."""
        for partition, track in tenure.tracks.items():
            if track.caught_up or not track.placed or tenure.over.is_set():
                continue
            topic_partition = TopicPartition(*partition)
            end = self._end(topic_partition)
            position = await self._consumer.position(topic_partition)
            span = making.spans.get(partition)
            if end is None or position < end or (span is None and not track.idle):
                continue
            start = span.start if span else track.fetched
            making.spans[partition] = Span(start, position, track.highest, caught_up=True)
            track.fetched = position

    def _end(self, topic_partition: TopicPartition) -> int | None:
        """The end of what can be read, as the last fetch told it."""
        stable: int | None = self._consumer.last_stable_offset(topic_partition)
        if stable is None or stable < 0:
            stable = self._consumer.highwater(topic_partition)
        return stable

    async def _place(self, tenure: Tenure) -> None:
        """Read the positions that are due; on failure the next round tries again after a pause."""
        due = [track for track in tenure.unplaced if not track.breaker.open]
        if not due or time.monotonic() < self._place_at:
            return
        bounds = await self._bounds(due)
        if bounds is None:
            self._place_at = time.monotonic() + PLACING_PAUSE_SECONDS
            return
        placements = await self._stored_placements(bounds)
        if placements is not None and not tenure.over.is_set():
            self._seek(tenure, placements)

    async def _bounds(self, due: Sequence[Track]) -> dict[Partition, LogBounds] | None:
        wanted = [TopicPartition(*track.partition) for track in due]
        try:
            async with asyncio.timeout(self._options.kafka_timeout_seconds):
                beginnings = await self._consumer.beginning_offsets(wanted)
                ends = await self._consumer.end_offsets(wanted)
        except (KafkaError, TimeoutError) as error:
            log.warning(Event.BROKER_LOST, error=type(error).__name__)
            return None
        return {Partition(*each): LogBounds(beginnings[each], ends[each]) for each in wanted}

    async def _stored_placements(
        self, bounds: Mapping[Partition, LogBounds]
    ) -> dict[Partition, Placement] | None:
        group = self._options.apply.group

        async def read(connection: Any) -> dict[Partition, Placement]:
            return await place(connection, group, bounds)

        try:
            placements: dict[Partition, Placement] = await self._writer.in_transaction(read)
        except TopicRecreated as error:
            self._sightings += 1
            log.warning(Event.TOPIC_RECREATED, error=str(error), sighting=self._sightings)
            if self._sightings >= RECREATED_SIGHTINGS:
                raise
            self._place_at = time.monotonic() + PLACING_PAUSE_SECONDS
            return None
        except OffsetFenced:
            return None
        except Exception as error:  # noqa: BLE001 - pause_after() raises what no retry mends
            self._placing_failures += 1
            pause = await self._writer.pause_after(error, self._placing_failures)
            self._place_at = time.monotonic() + pause
            return None
        self._sightings = self._placing_failures = 0
        return placements

    def _seek(self, tenure: Tenure, placements: Mapping[Partition, Placement]) -> None:
        for partition, placement in placements.items():
            topic_partition = TopicPartition(*partition)
            if topic_partition not in self._consumer.assignment():
                continue
            self._consumer.seek(topic_partition, placement.position.next_offset)
            tenure.tracks[partition].take(placement)
            if placement.lost:
                self.records_lost += placement.lost
                log.error(
                    Event.RECORDS_LOST,
                    topic=partition.topic,
                    partition=partition.number,
                    records_lost=placement.lost,
                    error="the log's retention deleted records before they could be read",
                )
