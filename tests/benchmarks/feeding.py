"""Ingest without Kafka: the same decoding, fold and SQL, fed from memory. It is the ceiling.

As in a session there are two coroutines with room for one batch between them, so that the next
batch is decoded while the database works; only the Kafka client is missing. The partitions take
turns, a batch each, as the client hands them out when a backlog is read.
"""

import asyncio
import time
from collections.abc import Iterator, Mapping
from typing import Any

from aiokafka import ConsumerRecord

from service.ingest import intake
from service.ingest.batch import Batch, Fetched, Record
from service.ingest.ledger import Ledger
from service.ingest.options import IngestOptions
from service.ingest.positions import LogBounds, place
from service.ingest.tenure import Tenure
from service.ingest.writer import Writer
from service.observe.metrics import IngestMetrics
from service.store.offsets import Partition
from tests.benchmarks.workload import HEADERS, Produced, Workload

Logs = Mapping[Partition, list[Record]]


class MemoryFed:
    """Writes a workload that lies in memory."""

    def __init__(
        self, pool: Any, workload: Workload, *, options: IngestOptions, metrics: IngestMetrics
    ) -> None:
        self._logs: Logs = {
            partition: [_as_fetched(partition, offset, each) for offset, each in enumerate(log)]
            for partition, log in workload.logs().items()
        }
        self._options = options
        self._ledger = Ledger(metrics, options.reset)
        self._queue: asyncio.Queue[Batch | None] = asyncio.Queue(maxsize=1)
        self._tenure = Tenure(self._logs, limits=options.breaker, clock=time.monotonic)
        self._writer = Writer(
            pool,
            options.apply,
            acquire_timeout_seconds=options.acquire_timeout_seconds,
            backoff_max_seconds=options.backoff_max_seconds,
            on_retry=lambda _reaction: None,
        )

    async def run(self) -> None:
        """Write everything."""
        bounds = {each: LogBounds(0, len(log)) for each, log in self._logs.items()}
        group = self._options.apply.group
        placements = await self._writer.in_transaction(
            lambda connection: place(connection, group, bounds)
        )
        for partition, placement in placements.items():
            self._tenure.tracks[partition].take(placement)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._decode())
            tasks.create_task(self._write())

    async def _decode(self) -> None:
        for partition, records in _in_turns(self._logs, size=self._options.batch_records_max):
            making = Fetched()
            await intake.take(
                making,
                self._tenure.tracks[partition],
                records,
                position=records[-1].offset + 1,
                exponents=self._options.exponents,
            )
            await self._queue.put(making.batch())
        await self._queue.put(None)

    async def _write(self) -> None:
        while (batch := await self._queue.get()) is not None:
            landed = await self._writer.write(batch, give_up=self._tenure.over)
            if landed is None:
                raise RuntimeError("nobody gave up, and still the batch did not land")
            self._tenure.stored(batch)
            self._ledger.landed(batch, landed)


def _in_turns(logs: Logs, *, size: int) -> Iterator[tuple[Partition, list[Record]]]:
    longest = max(len(log) for log in logs.values())
    for start in range(0, longest, size):
        for partition, log in logs.items():
            if records := log[start : start + size]:
                yield partition, records


def _as_fetched(partition: Partition, offset: int, record: Produced) -> Record:
    return ConsumerRecord(
        topic=partition.topic,
        partition=partition.number,
        offset=offset,
        timestamp=0,
        timestamp_type=0,
        key=record.key,
        value=record.value,
        checksum=None,
        serialized_key_size=len(record.key),
        serialized_value_size=len(record.value),
        headers=HEADERS,
    )
