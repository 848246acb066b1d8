"""The aiokafka consumer, with every default that could lose a record set by hand."""

import asyncio
import contextlib
from typing import Any

import structlog
from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

from service.ingest.options import KafkaOptions
from service.observe.events import Event

log = structlog.get_logger(__name__)

Consumer = Any
"""An AIOKafkaConsumer; its methods carry no types."""

_build: Any = AIOKafkaConsumer


def consumer_of(options: KafkaOptions) -> Consumer:
    """A consumer that is neither started nor subscribed."""
    return _build(
        bootstrap_servers=options.bootstrap_servers,
        group_id=options.group_id,
        client_id=options.client_id,
        # Offsets are the database's. "none" instead of a reset: an offset that the log does not
        # hold comes to us as an error, and is checked for loss instead of being skipped silently.
        enable_auto_commit=False,
        auto_offset_reset="none",
        isolation_level="read_committed",
        # Exactly one: with several, each of them sends a JoinGroup of its own.
        partition_assignment_strategy=(RoundRobinPartitionAssignor,),
        session_timeout_ms=_milliseconds(options.session_timeout_seconds),
        heartbeat_interval_ms=_milliseconds(options.heartbeat_seconds),
        # Unset it would be the session time-out: all the time a running batch has to finish.
        rebalance_timeout_ms=_milliseconds(options.rebalance_timeout_seconds),
        max_poll_interval_ms=_milliseconds(options.poll_interval_max_seconds),
        request_timeout_ms=_milliseconds(options.request_timeout_seconds),
        metadata_max_age_ms=_milliseconds(options.metadata_age_max_seconds),
        # Bytes in: a deserializer that raises would wedge its partition.
        key_deserializer=None,
        value_deserializer=None,
        **options.connection,
    )


async def stop_consumer(consumer: Consumer, *, timeout_seconds: float) -> None:
    """Leave the group and close; take the connections away from a stop that hangs.

    A consumer given up half closed would stay a member in the background and hold its partitions.
    """
    stopping = asyncio.ensure_future(consumer.stop())
    try:
        await asyncio.wait({stopping}, timeout=timeout_seconds)
        if not stopping.done():
            # It waits for an answer that does not come. aiokafka has no public way to end that.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_seconds):
                    await consumer._client.close()  # noqa: SLF001
            await asyncio.wait({stopping}, timeout=timeout_seconds)
    finally:
        if not stopping.done():
            stopping.cancel()
    if stopping.done() and not stopping.cancelled() and (error := stopping.exception()):
        log.warning(Event.BROKER_LOST, error=type(error).__name__)


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)
