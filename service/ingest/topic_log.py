"""Topics as they lie on the broker, read without a group: nobody's position or partition moves."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from service.diagnosis.kafka import broker_trouble, kafka_trouble
from service.errors import ReconcilerError
from service.ingest.batch import Record
from service.ingest.client import Consumer, stop_consumer
from service.ingest.options import KafkaOptions
from service.ingest.positions import LogBounds
from service.store.offsets import Partition

ANSWER_SECONDS = 10.0
"""For a question to the broker, its time-outs and retries included."""
CLOSE_SECONDS = 5.0

# aiokafka has no types.
_consumer: Any = AIOKafkaConsumer
_admin: Any = AIOKafkaAdminClient


class BrokerSilent(ReconcilerError):  # noqa: N818 - named after what happened
    """The broker did not answer, or not in a way that can be used."""


class TopicLog:
    """Questions to the broker, each bounded. All of them raise BrokerSilent."""

    def __init__(self, consumer: Consumer, options: KafkaOptions) -> None:
        self._consumer = consumer
        self._options = options

    async def partitions(self, topics: Iterable[str]) -> list[Partition]:
        """The partitions of those topics that there are, in order."""
        async with _answering():
            admin = _admin(
                bootstrap_servers=self._options.bootstrap_servers, **self._options.connection
            )
            await admin.start()
            try:
                described = await admin.describe_topics(sorted(set(topics)))
            finally:
                await admin.close()
        return sorted(
            Partition(topic["topic"], partition["partition"])
            for topic in described
            if topic["error_code"] == 0
            for partition in topic["partitions"]
        )

    async def bounds(self, partitions: Iterable[Partition]) -> dict[Partition, LogBounds]:
        """What the log of each partition holds; they have to exist."""
        asked = [TopicPartition(*partition) for partition in partitions]
        async with _answering():
            beginnings = await self._consumer.beginning_offsets(asked)
            ends = await self._consumer.end_offsets(asked)
        return {Partition(*each): LogBounds(beginnings[each], ends[each]) for each in asked}

    async def offsets_at(
        self, partitions: Iterable[Partition], at: datetime
    ) -> dict[Partition, int | None]:
        """The first record of each partition that the broker dates `at` or later; None: no such."""
        milliseconds = int(at.timestamp() * 1000)
        asked = {TopicPartition(*partition): milliseconds for partition in partitions}
        async with _answering():
            found = await self._consumer.offsets_for_times(asked)
        return {Partition(*each): held.offset if held else None for each, held in found.items()}

    def begin(self, starts: Mapping[Partition, int]) -> None:
        """Read each partition from an offset."""
        self._consumer.assign([TopicPartition(*partition) for partition in starts])
        for partition, offset in starts.items():
            self.seek(partition, offset)

    def seek(self, partition: Partition, offset: int) -> None:
        """Read a partition on from `offset`."""
        self._consumer.seek(TopicPartition(*partition), offset)

    def leave(self, partition: Partition) -> None:
        """Read nothing more of a partition."""
        self._consumer.pause(TopicPartition(*partition))

    async def poll(self, *, seconds: float, records_max: int) -> Mapping[Partition, list[Record]]:
        """The next records, none if none come within `seconds`. Raises what aiokafka raises.

        Never cancel it: a getmany that is cut short breaks its consumer.
        """
        fetched: Mapping[TopicPartition, Sequence[Record]] = await self._consumer.getmany(
            timeout_ms=round(seconds * 1000), max_records=records_max
        )
        return {Partition(*each): list(records) for each, records in fetched.items()}

    async def position(self, partition: Partition) -> int:
        """Up to where the polls have read, markers that are no records included."""
        async with _answering():
            offset: int = await self._consumer.position(TopicPartition(*partition))
        return offset


@asynccontextmanager
async def open_log(options: KafkaOptions) -> AsyncIterator[TopicLog]:
    """Connect, and disconnect within bounds. Raises BrokerSilent."""
    consumer = _consumer(
        bootstrap_servers=options.bootstrap_servers,
        client_id=options.client_id,
        group_id=None,
        enable_auto_commit=False,
        auto_offset_reset="none",
        # Not what a producer took back: the service does not read that either.
        isolation_level="read_committed",
        request_timeout_ms=round(options.request_timeout_seconds * 1000),
        **options.connection,
    )
    try:
        await _start(consumer, options)
        yield TopicLog(consumer, options)
    finally:
        await stop_consumer(consumer, timeout_seconds=CLOSE_SECONDS)


async def _start(consumer: Consumer, options: KafkaOptions) -> None:
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            await consumer.start()
    except (KafkaError, TimeoutError, OSError) as error:
        connection = {"bootstrap_servers": options.bootstrap_servers, **options.connection}
        raise BrokerSilent(await broker_trouble(connection, error)) from error


@asynccontextmanager
async def _answering() -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            yield
    except (KafkaError, TimeoutError, OSError) as error:
        raise BrokerSilent(kafka_trouble(error)) from error
