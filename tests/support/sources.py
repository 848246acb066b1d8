"""Records of foreign sources through decoding and apply, as ingest does it, without Kafka."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiokafka import ConsumerRecord

from schemas.currency import Exponents
from schemas.fields import NO_EXCEPTIONS
from service.domain.schedule import Rules
from service.ingest import intake
from service.ingest.apply import Applied, ApplyOptions, apply
from service.ingest.batch import Batch, Fetched, Record
from service.ingest.breaker import Breaker, BreakerLimits
from service.ingest.decode import Source
from service.ingest.tenure import Track
from service.store import offsets
from service.store.offsets import Partition
from service.store.pool import PoolOptions, open_pool
from service.store.transactions import transaction
from service.store.verification import Difference, verify_chunk

OPTIONS = ApplyOptions(group="g", outcome_topic="outcomes", dead_letter_topic=None, rules=Rules())


@dataclass
class Topic:
    """One partition of a foreign source's topic, whose records are written as they come."""

    pool: Any
    source: Source | None
    partition: Partition
    offset: int = 0
    batches: list[Batch] = field(default_factory=list)

    async def tell(self, *payloads: Any) -> Applied:
        """Write payloads as one batch: bytes as they are, anything else as JSON."""
        batch = await self.batch(payloads)
        async with transaction(self.pool) as connection:
            return await apply(connection, batch, options=OPTIONS)

    async def batch(self, payloads: Sequence[Any]) -> Batch:
        """The next records as a batch; the next batch goes on after it."""
        records = [self._record(payload, place) for place, payload in enumerate(payloads)]
        breaker = Breaker(BreakerLimits(), clock=lambda: 0.0)
        track = Track(self.partition, breaker, 0.0, placed=True, fetched=self.offset)
        making = Fetched()
        end = self.offset + len(records)
        await intake.take(
            making, track, records, position=end, exponents=NO_EXCEPTIONS, source=self.source
        )
        self.offset = end
        self.batches.append(making.batch())
        return self.batches[-1]

    def _record(self, payload: Any, place: int) -> Record:
        bare = isinstance(payload, bytes) or payload is None
        value = payload if bare else json.dumps(payload).encode()
        offset = self.offset + place
        return ConsumerRecord(*self.partition, offset, 0, 0, b"k", value, None, 0, 0, ())

    async def rows(self, query: str) -> list[tuple[Any, ...]]:
        """What a query gives."""
        return [tuple(row) for row in await self.pool.fetch(query)]

    async def differences(self, exponents: Exponents = NO_EXCEPTIONS) -> Sequence[Difference]:
        """What `reconciler verify` finds."""
        async with (
            self.pool.acquire() as connection,
            connection.transaction(isolation="repeatable_read", readonly=True),
        ):
            chunk = await verify_chunk(connection, after="", limit=500, exponents=exponents)
        return chunk.differences


@asynccontextmanager
async def open_topic(
    url: str, source: Source | None, *, name: str = "psp.payments"
) -> AsyncIterator[Topic]:
    """A topic of a source that has been consumed from its beginning."""
    pool = await open_pool(PoolOptions(url=url))
    partition = Partition(name, 0)
    try:
        async with transaction(pool) as connection:
            await offsets.create(connection, "g", partition, next_offset=0)
        yield Topic(pool, source, partition)
    finally:
        await pool.close()
