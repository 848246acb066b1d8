"""One member of a consumer group, in this process or, to be killed, in one of its own."""

import asyncio
import sys
from dataclasses import dataclass
from typing import Any, Self

from service.domain.schedule import Rules
from service.ingest.apply import ApplyOptions
from service.ingest.consumer import Ingest
from service.ingest.options import IngestOptions, KafkaOptions
from service.observe.metrics import Metrics
from service.store.pool import PoolOptions, open_pool

# A revocation may wait for a batch as long as the rebalance less the margin.
REBALANCE_SECONDS, MARGIN_SECONDS = 10.0, 5.0
LEAVE_SECONDS = 30.0
BATCH_RECORDS = 50


@dataclass(frozen=True)
class Group:
    """What the members of a group have in common."""

    servers: str
    group_id: str
    topics: tuple[str, ...]

    @property
    def kafka(self) -> KafkaOptions:
        return KafkaOptions(
            bootstrap_servers=self.servers,
            group_id=self.group_id,
            topics=self.topics,
            session_timeout_seconds=4,
            heartbeat_seconds=0.3,
            rebalance_timeout_seconds=REBALANCE_SECONDS,
        )

    def options(self, *, commit_seconds: float) -> IngestOptions:
        return IngestOptions(
            apply=ApplyOptions(
                group=self.group_id, outcome_topic="outcomes", dead_letter_topic=None, rules=Rules()
            ),
            batch_records_max=BATCH_RECORDS,
            poll_seconds=0.1,
            commit_seconds=commit_seconds,
            sample_seconds=0.5,
            backoff_max_seconds=0.2,
            kafka_timeout_seconds=5,
            revocation_margin_seconds=MARGIN_SECONDS,
            stop_timeout_seconds=5,
        )


class Member:
    """An Ingest with a pool of its own. `url` may lead through a proxy."""

    def __init__(self, ingest: Ingest, pool: Any, metrics: Metrics) -> None:
        self._ingest = ingest
        self._pool = pool
        self._metrics = metrics
        self._stop = asyncio.Event()
        self._running = asyncio.create_task(ingest.run(self._stop))

    @classmethod
    async def join(cls, group: Group, url: str, *, commit_seconds: float = 0.2) -> Self:
        pool = await open_pool(PoolOptions(url=url))
        metrics = Metrics("test")
        options = group.options(commit_seconds=commit_seconds)
        return cls(
            Ingest(pool, kafka=group.kafka, options=options, metrics=metrics.ingest), pool, metrics
        )

    @property
    def partitions(self) -> int:
        """How many it has now."""
        return len(self._ingest.status().partitions)

    @property
    def fenced(self) -> float:
        """How many of its batches the offset rows have refused."""
        value = self._metrics.registry.get_sample_value("reconciler_offsets_fenced_total")
        return value or 0.0

    @property
    def closing(self) -> bool:
        """Whether its consumer has begun to close, or is closed."""
        session = self._ingest._session
        return session is not None and bool(session._consumer._closed)

    async def leave(self) -> None:
        """Stop as a process does at SIGTERM; raises whatever it ended with."""
        self._stop.set()
        async with asyncio.timeout(LEAVE_SECONDS):
            await self._running
        await self._pool.close()

    async def stays(self) -> None:
        """Raise what it ended with, if it has ended."""
        if self._running.done():
            await self._running


async def start_process(group: Group, url: str) -> asyncio.subprocess.Process:
    """A member that can be killed."""
    arguments = (group.servers, url, group.group_id, *group.topics)
    return await asyncio.create_subprocess_exec(sys.executable, "-m", __name__, *arguments)


async def _be_one(servers: str, url: str, group_id: str, *topics: str) -> None:
    member = await Member.join(Group(servers, group_id, topics), url)
    await asyncio.Event().wait()
    await member.leave()


if __name__ == "__main__":
    asyncio.run(_be_one(*sys.argv[1:]))
