"""Reads part of a topic again and applies it as ingest does, beside a running service.

No position moves and no group is joined. Versions guard everything, so that what was applied before
is a duplicate or stale; below the highest offset stale events are counted and not logged again.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from aiokafka.errors import KafkaError, OffsetOutOfRangeError

from service.errors import ReconcilerError
from service.ingest import intake
from service.ingest.apply import Applied
from service.ingest.batch import Batch, Fetched, Record, Span
from service.ingest.breaker import Breaker
from service.ingest.options import IngestOptions
from service.ingest.stretches import Stretch
from service.ingest.tenure import Track
from service.ingest.topic_log import TopicLog
from service.ingest.writer import Writer
from service.lifecycle import wait_for_stop
from service.store.offsets import Partition

OUTAGE_SECONDS = 60.0
"""So long a broker or a database may be away before a replay gives up."""
_POLL_SECONDS = 0.5


class ReplayCut(ReconcilerError):  # noqa: N818 - named after what happened
    """The replay ended before its end. What it applied stays; its text says why."""


@dataclass(frozen=True, slots=True)
class Still(Span):
    """A partition's step that is not stored: the position belongs to the group's consumers."""

    @property
    def moves(self) -> bool:
        """Never."""
        return False


class Replay:
    """One replay. `reached` tells, also in the midst of it, up to where each partition is done.

    `counts`: outcome -> events; `ignored` are records that say nothing of payments, tombstones
    included. `gone` are records that the log does not hold any more.
    """

    def __init__(
        self,
        log: TopicLog,
        writer: Writer,
        *,
        options: IngestOptions,
        stretches: Sequence[Stretch],
        outage_seconds: float = OUTAGE_SECONDS,
    ) -> None:
        self._log = log
        self._writer = writer
        self._options = options
        self._outage_seconds = outage_seconds
        self._ends = {each.partition: each.end for each in stretches if each.start < each.end}
        self._tracks = {
            each.partition: Track(
                partition=each.partition,
                breaker=Breaker(options.breaker, clock=time.monotonic),
                progress_at=time.monotonic(),
                placed=True,
                fetched=each.start,
                highest=each.highest_offset,
            )
            for each in stretches
            if each.start < each.end
        }
        self._progress_at = time.monotonic()
        self.reached = {each.partition: each.start for each in stretches}
        self.gone = sum(each.gone for each in stretches)
        self.records = 0
        self.ignored = 0
        self.counts: Counter[str] = Counter()

    async def run(self, stop: asyncio.Event, *, on_progress: Callable[[int], None]) -> bool:
        """Replay; False if `stop` was set before the end. `on_progress` is told offsets passed.

        Raises ReplayCut, or BrokerSilent. Whatever way it ends, `reached` is right.
        """
        if self._tracks:
            self._log.begin({each.partition: each.fetched for each in self._tracks.values()})
        self._progress_at = time.monotonic()
        while self._tracks:
            if stop.is_set():
                return False
            making = await self._take(await self._poll(stop))
            if making.spans:
                passed = await self._write(_still(making), stop)
                if passed is None:
                    return False
                on_progress(passed)
            self._check_breakers()
            if time.monotonic() - self._progress_at > self._outage_seconds:
                raise ReplayCut(f"no record has come from the broker for {self._outage_seconds:g}s")
        return True

    async def _poll(self, stop: asyncio.Event) -> Mapping[Partition, list[Record]]:
        try:
            return await self._log.poll(
                seconds=_POLL_SECONDS, records_max=self._options.batch_records_max
            )
        except OffsetOutOfRangeError:
            await self._follow_the_beginning()
        except KafkaError as error:
            if not error.retriable:
                raise ReplayCut(f"the broker refuses to be read: {type(error).__name__}") from error
            await wait_for_stop(stop, _POLL_SECONDS)
        return {}

    async def _follow_the_beginning(self) -> None:
        """Go on where the log begins now: retention was faster."""
        bounds = await self._log.bounds(self._tracks)
        for partition, track in list(self._tracks.items()):
            if track.fetched > bounds[partition].end:
                raise ReplayCut(f"the log of partition {partition.number} has become shorter")
            start = min(bounds[partition].beginning, self._ends[partition])
            if track.fetched < start:
                self.gone += start - track.fetched
                track.fetched = start
                self._log.seek(partition, start)
                self._reach(partition, start)

    async def _take(self, fetched: Mapping[Partition, list[Record]]) -> Fetched:
        """Decode what came before the end of each partition's stretch."""
        making = Fetched()
        for partition, track in self._tracks.items():
            end = self._ends[partition]
            position = min(await self._log.position(partition), end)
            if position <= track.fetched:
                continue
            records = [each for each in fetched.get(partition, ()) if each.offset < end]
            await intake.take(
                making,
                track,
                records,
                position=position,
                exponents=self._options.exponents,
                source=self._options.sources.get(partition.topic),
            )
        return making

    async def _write(self, batch: Batch, stop: asyncio.Event) -> int | None:
        """Apply a batch; the offsets passed, or None if `stop` came before it was applied."""
        try:
            async with asyncio.timeout(self._outage_seconds):
                landed = await self._writer.write(batch, give_up=stop)
        except TimeoutError as error:
            raise ReplayCut(
                f"the database has taken nothing for {self._outage_seconds:g} s"
            ) from error
        except Exception as error:
            raise ReplayCut(f"the database refuses it: {type(error).__name__}") from error
        if landed is None:
            return None
        self._count(batch, landed.parts)
        self._progress_at = time.monotonic()
        passed = 0
        for partition, span in batch.spans.items():
            passed += span.next_offset - span.start
            self._reach(partition, span.next_offset)
        return passed

    def _reach(self, partition: Partition, offset: int) -> None:
        self.reached[partition] = offset
        if offset >= self._ends[partition]:
            self._log.leave(partition)
            del self._tracks[partition]

    def _count(self, batch: Batch, parts: Sequence[Applied]) -> None:
        ignored = batch.tombstones + sum(batch.ignored.values())
        self.ignored += ignored
        self.records += len(batch.items) + ignored
        for applied in parts:
            self.counts["quarantined"] += len(applied.refused)
            for (_, outcome), number in applied.counts.items():
                self.counts[outcome] += number

    def _check_breakers(self) -> None:
        for track in self._tracks.values():
            if track.breaker.alarmed:
                raise ReplayCut(
                    f"too many bad records in a row, from offset {track.fetched} of partition"
                    f" {track.partition.number} on: nothing of them was parked"
                )


def _still(making: Fetched) -> Batch:
    """The batch, with steps that only tell what is a replay."""
    spans = {
        partition: Still(span.start, span.next_offset, span.highest_offset)
        for partition, span in making.spans.items()
    }
    return Batch(making.items, spans, making.tombstones, making.keys_absent, making.ignored)
