"""Sends the story's records, and never runs far ahead of the service."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError

from service.sandbox import SandboxError
from service.sandbox.envelope import Record

PARTITIONS = 4
_AT_ONCE = 500
# The embedded broker keeps about 5 MB a partition: what is sent must not be pushed out unread.
AHEAD_MAX = 4_000
_BROKER_SECONDS = 10.0

# The library is not typed.
_producer: Any = AIOKafkaProducer
_admin: Any = AIOKafkaAdminClient
_new_topic: Any = NewTopic


@asynccontextmanager
async def open_producer(bootstrap_servers: str) -> AsyncIterator[Any]:
    """A producer that keeps the order of sending, and delivers what is under way before it ends."""
    producer = _producer(
        bootstrap_servers=bootstrap_servers, acks="all", enable_idempotence=True, linger_ms=5
    )
    try:
        async with asyncio.timeout(_BROKER_SECONDS):
            await producer.start()
        yield producer
    except KafkaError as error:
        raise SandboxError(f"the broker at {bootstrap_servers}: {error!r}") from error
    finally:
        async with asyncio.timeout(_BROKER_SECONDS):
            await producer.stop()


async def send(
    producer: Any,
    records: Sequence[Record],
    topics: Mapping[str, str],
    *,
    wait_for: Callable[[int], Awaitable[None]],
) -> None:
    """Send all records in order; `wait_for(n)` returns once the service has taken in `n`."""
    for start in range(0, len(records), _AT_ONCE):
        await wait_for(start - AHEAD_MAX)
        under_way = [
            await producer.send(
                topics[record.source],
                value=record.value,
                key=record.key,
                headers=list(record.headers),
            )
            for record in records[start : start + _AT_ONCE]
        ]
        async with asyncio.timeout(_BROKER_SECONDS):
            await asyncio.gather(*under_way)


async def create_topics(bootstrap_servers: str, topics: Sequence[str]) -> None:
    """Create topics on a broker that was given. Raises SandboxError where it refuses."""
    async with _administration(bootstrap_servers) as admin:
        created = await admin.create_topics([_new_topic(name, PARTITIONS, 1) for name in topics])
    refused = {name: text for name, code, text in created.topic_errors if code}
    if refused:
        raise SandboxError(f"the broker refuses the topics: {refused}")


async def delete_topics(bootstrap_servers: str, topics: Sequence[str]) -> None:
    """Delete them again."""
    async with _administration(bootstrap_servers) as admin:
        await admin.delete_topics(list(topics))


async def touch_topics(bootstrap_servers: str, topics: Sequence[str]) -> None:
    """Let the embedded broker, which knows no administration, create topics by asking for them."""
    async with open_producer(bootstrap_servers) as producer:
        for topic in topics:
            await producer.partitions_for(topic)


@asynccontextmanager
async def _administration(bootstrap_servers: str) -> AsyncIterator[Any]:
    admin = _admin(bootstrap_servers=bootstrap_servers)
    try:
        async with asyncio.timeout(_BROKER_SECONDS):
            await admin.start()
            yield admin
    except (KafkaError, TimeoutError) as error:
        raise SandboxError(f"the broker at {bootstrap_servers}: {error!r}") from error
    finally:
        async with asyncio.timeout(_BROKER_SECONDS):
            await admin.close()
