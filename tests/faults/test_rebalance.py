"""Members come, go and die with batches in flight: no record is lost, none is written twice."""

import asyncio
import itertools
import math
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient

from service.store.pool import PoolOptions, open_pool
from tests.faults.house import until
from tests.faults.member import (
    BATCH_RECORDS,
    MARGIN_SECONDS,
    REBALANCE_SECONDS,
    Group,
    Member,
    start_process,
)
from tests.support.events import Record, erp_event, psp_event
from tests.support.kafka import ApacheKafka, Topics
from tests.support.kafka.fixtures import PARTITIONS
from tests.support.postgres import Database
from tests.support.producer import send
from tests.support.proxy import TcpProxy, database_proxy
from tests.support.steps import assert_contiguous, watch_steps

pytestmark = pytest.mark.kafka

# aiokafka has no types.
_admin: Any = AIOKafkaAdminClient

SEED = 4
STORM_SECONDS = 20.0
PORTION, PORTION_SECONDS = 40, 0.4
MEMBERS_MAX = 3
# After so long a process is most likely in the midst of its batches.
JOINED_SECONDS = 3.0
ALL = 2 * PARTITIONS
# A batch takes some thirty round trips.
SLOW_SECONDS, SLOWER_SECONDS = 0.01, 0.04
NEVER_SECONDS = 3600.0

ORIGINS = """
SELECT count(*), count(DISTINCT (topic, partition, "offset")) FROM payment_events
"""
PASSED = "SELECT coalesce(sum(next_offset), 0)::int FROM consumer_offsets"
IN_FLIGHT = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND query LIKE '%payment_events%' AND xact_start IS NOT NULL
    AND pid <> pg_backend_pid()
"""


@dataclass
class Ground:
    """Topics, a database whose steps are watched, and a slow way to it."""

    group: Group
    topics: Topics
    pool: Any
    proxy: TcpProxy
    url: str
    sent: int = 0
    versions: "itertools.count[int]" = field(default_factory=itertools.count)
    members: list[Member] = field(default_factory=list)

    @property
    def slow_url(self) -> str:
        return self.proxy.url(self.url)

    async def join(self, url: str, *, commit_seconds: float = 0.2) -> Member:
        """A member more; one that the test leaves behind goes with it."""
        member = await Member.join(self.group, url, commit_seconds=commit_seconds)
        self.members.append(member)
        return member

    async def send(self, number: int) -> None:
        """Events of a few payments, each with a version of its own, half of them late ones."""
        records = [self._event(next(self.versions)) for _ in range(number)]
        await send(self.group.servers, records, topics=self.topics.by_source)
        self.sent += number

    def _event(self, number: int) -> Record:
        version = number ^ 1  # 1, 0, 3, 2, …: every second one is stale
        make = erp_event if number // 2 % 2 else psp_event
        return make(f"pay-{number // 2 % 40}", version)

    async def passed(self) -> int:
        number: int = await self.pool.fetchval(PASSED)
        return number

    async def all_passed(self) -> bool:
        return await self.passed() == self.sent

    async def in_flight(self) -> bool:
        return bool(await self.pool.fetchval(IN_FLIGHT))

    async def committed(self) -> int:
        """The sum of what Kafka was told."""
        admin = _admin(bootstrap_servers=self.group.servers)
        await admin.start()
        try:
            held = await admin.list_consumer_group_offsets(self.group.group_id)
        finally:
            await admin.close()
        return sum(max(0, each.offset) for each in held.values())

    async def assert_nothing_lost_or_doubled(self) -> None:
        assert await self.all_passed()
        assert tuple(await self.pool.fetchrow(ORIGINS)) == (self.sent, self.sent)
        assert await assert_contiguous(self.pool)


@pytest.fixture
async def ground(
    database: Database, apache_kafka: ApacheKafka, topics: Topics
) -> AsyncIterator[Ground]:
    group = Group(apache_kafka.bootstrap_servers, topics.group_id, (topics.erp, topics.psp))
    pool = await open_pool(PoolOptions(url=database.url))
    await watch_steps(pool)
    async with database_proxy(database.url) as proxy:
        opened = Ground(group, topics, pool, proxy, database.url)
        yield opened
        for member in opened.members:
            await member.leave()
    await pool.close()


class Storm:
    """Lets members join, leave and die, by a seed."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._random = random.Random(SEED)  # noqa: S311 - chooses what happens next
        self._members: list[Member] = []
        self._process: asyncio.subprocess.Process | None = None
        self._started_at = math.inf
        self.happened: set[str] = set()

    async def rage(self) -> None:
        ends = time.monotonic() + STORM_SECONDS
        await self._join()
        while time.monotonic() < ends:
            await self._something()
            for member in self._members:
                await member.stays()
            await asyncio.sleep(self._random.uniform(0.4, 1.2))

    async def calm(self) -> None:
        """Everybody goes."""
        await self._kill()
        while self._members:
            await self._leave()

    async def _something(self) -> None:
        possible = [
            *[self._join] * (len(self._members) < MEMBERS_MAX),
            *[self._leave] * (len(self._members) > 1),
            *[self._start] * (self._process is None),
            *[self._kill] * (time.monotonic() - self._started_at > JOINED_SECONDS),
        ]
        action = self._random.choice(possible)
        self.happened.add(action.__name__)
        await action()

    async def _join(self) -> None:
        self._members.append(await self._ground.join(self._ground.slow_url))

    async def _leave(self) -> None:
        member = self._members.pop(self._random.randrange(len(self._members)))
        await member.leave()

    async def _start(self) -> None:
        self._process = await start_process(self._ground.group, self._ground.slow_url)
        self._started_at = time.monotonic()

    async def _kill(self) -> None:
        process, self._process, self._started_at = self._process, None, math.inf
        if process is not None:
            process.kill()
            await process.wait()


@asynccontextmanager
async def load(ground: Ground) -> AsyncIterator[None]:
    """Portions of events all the while."""

    async def feed() -> None:
        while True:
            await ground.send(PORTION)
            await asyncio.sleep(PORTION_SECONDS)

    feeding = asyncio.create_task(feed())
    try:
        yield
        assert not feeding.done(), feeding.exception()
    finally:
        feeding.cancel()
        await asyncio.wait({feeding})


async def test_storm_of_rebalances_neither_loses_nor_repeats(ground: Ground) -> None:
    ground.proxy.latency_seconds = SLOW_SECONDS
    storm = Storm(ground)
    try:
        async with load(ground):
            await storm.rage()
    finally:
        await storm.calm()
    assert storm.happened == {"_join", "_leave", "_start", "_kill"}
    last = await ground.join(ground.url)
    await ground.send(1)
    await until(ground.all_passed, "the last member has read everything")
    await last.leave()
    await ground.assert_nothing_lost_or_doubled()


async def test_running_batch_is_stored_and_told_to_kafka_before_its_partitions_move(
    ground: Ground,
) -> None:
    """Reported as aiokafka 335 and aiokafka 1084."""
    first = await ground.join(ground.slow_url, commit_seconds=NEVER_SECONDS)
    await until(lambda: first.partitions == ALL, "the first has all partitions")
    ground.proxy.latency_seconds = SLOWER_SECONDS
    await ground.send(4 * BATCH_RECORDS)
    await until(ground.in_flight, "a batch is in flight")
    second = await ground.join(ground.url, commit_seconds=NEVER_SECONDS)
    await until(lambda: second.partitions == ALL // 2, "the second has its share")
    assert 0 < await ground.committed() <= await ground.passed()
    ground.proxy.latency_seconds = 0
    await until(ground.all_passed, "everything is read")
    assert (first.fenced, second.fenced) == (0, 0)
    await first.leave()
    await second.leave()
    await ground.assert_nothing_lost_or_doubled()


async def test_revocation_waits_for_a_silent_database_no_longer_than_the_rebalance_allows(
    ground: Ground,
) -> None:
    """The member stays in the group, and its batch is fenced or given up when it wakes up.

    Reported as aiokafka 335 and aiokafka 1084.
    """
    first = await ground.join(ground.slow_url)
    await until(lambda: first.partitions == ALL, "the first has all partitions")
    ground.proxy.latency_seconds = SLOWER_SECONDS
    await ground.send(4 * BATCH_RECORDS)
    await until(ground.in_flight, "a batch is in flight")
    ground.proxy.black_hole = True
    second = await ground.join(ground.url)
    began = time.monotonic()
    await until(lambda: second.partitions, "the second has partitions")
    assert time.monotonic() - began < REBALANCE_SECONDS
    assert time.monotonic() - began > REBALANCE_SECONDS - MARGIN_SECONDS - 1
    assert (first.partitions, second.partitions) == (ALL // 2, ALL // 2)
    ground.proxy.latency_seconds = 0
    ground.proxy.black_hole = False
    await until(ground.all_passed, "everything is read")
    await first.leave()
    await second.leave()
    await ground.assert_nothing_lost_or_doubled()


async def test_stop_while_positions_are_being_read_is_a_clean_one(
    ground: Ground, apache_kafka: ApacheKafka
) -> None:
    """The database answers when the consumer is being closed already: nothing is polled then."""
    held = asyncio.Event()

    def hold(message: bytes) -> None:
        if message[:1] == b"Q" and b"BEGIN" in message and not held.is_set():
            ground.proxy.black_hole = True
            held.set()

    ground.proxy.on_message = hold
    member = await ground.join(ground.slow_url)
    await until(held.is_set, "it asks where to begin")
    apache_kafka.pause()
    try:
        leaving = asyncio.create_task(member.leave())
        await until(lambda: member.closing, "it takes leave of a broker that does not answer")
        ground.proxy.black_hole = False
        await leaving
    finally:
        apache_kafka.resume()
