"""Sends records to a real broker."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from aiokafka import AIOKafkaProducer

from tests.support.events import Record

# aiokafka has no types.
_producer: Any = AIOKafkaProducer

_SEND_SECONDS = 30.0


async def send(
    bootstrap_servers: str, records: Iterable[Record], *, topics: Mapping[str, str]
) -> list[Any]:
    """Send to the topic of each record's source, in order, and wait for every acknowledgement.

    Returns aiokafka's RecordMetadata (topic, partition, offset) for each; raises TimeoutError.
    """
    async with asyncio.timeout(_SEND_SECONDS):
        producer = _producer(
            bootstrap_servers=bootstrap_servers, acks="all", max_request_size=4 * 1024 * 1024
        )
        await producer.start()
        try:
            waiting = [
                await producer.send(
                    topics[record.source],
                    key=record.key,
                    value=record.value,
                    headers=list(record.headers),
                )
                for record in records
            ]
            return [await sent for sent in waiting]
        finally:
            await producer.stop()
