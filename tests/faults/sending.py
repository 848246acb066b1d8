"""Sends a storm's records past every fault of the broker, straight to its own listener."""

import asyncio
from collections.abc import Sequence
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from tests.faults.stage import Stage
from tests.support.events import Record

SEND_SECONDS = 60.0
# Longer than any fault of the broker lasts, its start included.
_REQUEST_MS = 30_000
_STOP_SECONDS = 5.0

# aiokafka has no types.
_producer: Any = AIOKafkaProducer


class Sender:
    """In order and acknowledged. A portion that failed is sent again whole: a source does so.

    `ends`: where each partition's log ends.
    """

    def __init__(self, stage: Stage) -> None:
        self._servers = stage.kafka.bootstrap_servers
        self._topics = stage.topics.by_source
        self._running: Any = None
        self.sent = 0
        self.ends: dict[tuple[str, int], int] = {}

    async def send(self, records: Sequence[Record]) -> None:
        """Return when every record is in the log; raises TimeoutError after a minute."""
        async with asyncio.timeout(SEND_SECONDS):
            while not await self._try(records):
                await self.close()
        self.sent += len(records)

    async def close(self) -> None:
        """Give the producer up, with a bounded wait."""
        producer, self._running = self._running, None
        if producer is not None:
            await asyncio.wait({asyncio.ensure_future(producer.stop())}, timeout=_STOP_SECONDS)

    async def _try(self, records: Sequence[Record]) -> bool:
        try:
            if self._running is None:
                self._running = _producer(
                    bootstrap_servers=self._servers,
                    enable_idempotence=True,
                    request_timeout_ms=_REQUEST_MS,
                    max_request_size=4 * 1024 * 1024,
                )
                await self._running.start()
            waiting = [await self._begin(record) for record in records]
            acknowledged = await asyncio.gather(*waiting)
        except KafkaError:
            await asyncio.sleep(0.2)
            return False
        self.ends |= {(each.topic, each.partition): each.offset + 1 for each in acknowledged}
        return True

    async def _begin(self, record: Record) -> Any:
        return await self._running.send(
            self._topics[record.source],
            key=record.key,
            value=record.value,
            headers=list(record.headers),
        )
