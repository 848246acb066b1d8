"""Looks around now and then: commits positions for the broker's tools, measures lag, notices a
consumer that has silently stopped to fetch, and a position that was moved from outside.
"""

import asyncio
import time
from functools import partial

import structlog
from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from service.ingest.client import Consumer
from service.ingest.fetcher import Fetcher
from service.ingest.ledger import Ledger
from service.ingest.options import IngestOptions
from service.ingest.rebalance import Rebalances
from service.ingest.tenure import Tenure, Track
from service.ingest.writer import Writer
from service.lifecycle import wait_for_stop
from service.observe.events import Event
from service.observe.metrics import IngestMetrics
from service.store import offsets
from service.store.faults import Reaction, reaction
from service.store.offsets import Partition, Position

log = structlog.get_logger(__name__)


class Stalled(KafkaError):  # noqa: N818 - named after what happened
    """Records wait in a partition that is not paused, and none has come for too long."""


class Watch:
    """`connected` tells whether the broker answered the last question."""

    def __init__(
        self,
        consumer: Consumer,
        *,
        rebalances: Rebalances,
        fetcher: Fetcher,
        ledger: Ledger,
        writer: Writer,
        options: IngestOptions,
        metrics: IngestMetrics,
    ) -> None:
        self._consumer = consumer
        self._rebalances = rebalances
        self._fetcher = fetcher
        self._ledger = ledger
        self._writer = writer
        self._options = options
        self._metrics = metrics
        self._committed: dict[Partition, int] = {}
        self.connected = True

    async def run(self, stop: asyncio.Event) -> None:
        """Watch until `stop`. Raises Stalled, and errors of our own SQL."""
        sample_at = 0.0
        while not await wait_for_stop(stop, self._options.commit_seconds):
            tenure = self._rebalances.tenure
            if tenure is None:
                continue
            await self.commit(tenure)
            if time.monotonic() >= sample_at:
                sample_at = time.monotonic() + self._options.sample_seconds
                await self._sample(tenure)
                await self._look_for_moved(tenure)

    async def commit(self, tenure: Tenure) -> None:
        """Tell the broker's tools where the database stands; if that fails nothing is lost."""
        moved = {
            partition: track.stored
            for partition, track in tenure.tracks.items()
            if track.placed and self._committed.get(partition) != track.stored
        }
        if not moved:
            return
        offsets = {TopicPartition(*partition): offset for partition, offset in moved.items()}
        try:
            async with asyncio.timeout(self._options.kafka_timeout_seconds / 2):
                await self._consumer.commit(offsets)
        except (KafkaError, TimeoutError) as error:
            self._metrics.commit_failures.inc()
            log.warning(Event.OFFSET_COMMIT_FAILED, error=type(error).__name__)
        else:
            self._committed.update(moved)

    async def _sample(self, tenure: Tenure) -> None:
        self._ledger.resets_suspected()
        tracks = list(tenure.tracks.values())
        try:
            async with asyncio.timeout(self._options.kafka_timeout_seconds):
                ends = await self._consumer.end_offsets(
                    [TopicPartition(*track.partition) for track in tracks]
                )
        except (KafkaError, TimeoutError) as error:
            self.connected = False
            log.warning(Event.BROKER_LOST, error=type(error).__name__)
            return
        self.connected = True
        if tenure.over.is_set():
            return
        for track in tracks:
            track.end = ends[TopicPartition(*track.partition)]
            self._tell_lag(track)
            await self._check_stall(track)
        paused = [track for track in tracks if self._fetcher.paused_because(track) is not None]
        self._metrics.partitions_paused.set(len(paused))

    async def _look_for_moved(self, tenure: Tenure) -> None:
        """Notice positions that an operator has set, or that went back with a restored database.

        A partition that receives records notices at its next batch, which is fenced; one that is
        idle would read on from the wrong place for as long as nothing comes.
        """
        standings = tenure.standings
        if not standings or not self._writer.available:
            return
        rows = await self._stored()
        if rows is None or tenure.over.is_set():
            return
        for topic, number in tenure.displace_moved(standings, rows):
            log.warning(Event.OFFSET_MOVED, topic=topic, partition=number)

    async def _stored(self) -> dict[Partition, Position] | None:
        """The group's rows; None while the database does not answer: the next look may."""
        read = partial(offsets.stored, group=self._options.apply.group)
        try:
            async with asyncio.timeout(self._options.acquire_timeout_seconds):
                rows = await self._writer.in_transaction(read)
        except Exception as error:
            if reaction(error) in {Reaction.STOP, Reaction.BISECT}:
                raise
            log.info(Event.DATABASE_LOST, error=type(error).__name__)
            return None
        return {row.partition: row.position for row in rows}

    def _tell_lag(self, track: Track) -> None:
        topic, number = track.partition
        lag = lag_of(track)
        if lag is not None:
            self._metrics.consumer_lag.labels(topic=topic, partition=str(number)).set(lag)

    async def _check_stall(self, track: Track) -> None:
        now = time.monotonic()
        if not track.idle or track.end is None or self._fetcher.paused_because(track) is not None:
            track.waiting_since = now
            return
        position = await self._consumer.position(TopicPartition(*track.partition))
        if position >= track.end:
            track.waiting_since = now
        elif now - track.waiting_since > self._options.stall_seconds:
            raise Stalled(f"{track.partition.topic} {track.partition.number} yields no records")


def lag_of(track: Track) -> int | None:
    """Records between the database's offset and the log's end; None while one is unknown.

    A partition that the breaker stopped has a lag too: then above all.
    """
    if track.end is None or not track.known:
        return None
    return max(0, track.end - track.stored)
