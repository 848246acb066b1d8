"""Consumers of one group on Apache Kafka: whatever happens to them, each event counts once."""

import asyncio
import json
import sys
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import asyncpg
import pytest
import pytest_asyncio
from aiokafka import (
    AIOKafkaConsumer,
    AIOKafkaProducer,
    ConsumerRebalanceListener,
    TopicPartition,
)
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete

from service.domain.schedule import Rules
from service.errors import TopicRecreated
from service.ingest.apply import ApplyOptions
from service.ingest.breaker import BreakerLimits
from service.ingest.consumer import Ingest
from service.ingest.options import IngestOptions, KafkaOptions
from service.observe.metrics import Metrics
from service.store import offsets
from service.store.pool import PoolOptions, open_pool
from service.store.transactions import transaction
from tests.support.positions import caught_up
from tests.support.proxy import database_proxy
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka

# aiokafka has no types.
Producer: Any = AIOKafkaProducer
Consumer: Any = AIOKafkaConsumer
Deletion: Any = RecordsToDelete

DEADLINE_SECONDS = 40


def value_of(payment_id: str, version: int, status: str = "succeeded") -> bytes:
    data = {
        "psp": "acme",
        "psp_reference": "r-1",
        "status": status,
        "amount": {"minor": 1999, "currency": "EUR"},
    }
    envelope = {
        "specversion": "1.0",
        "id": f"{payment_id}-{version}",
        "source": "/psp",
        "type": "psp.payment.v1",
        "time": "2026-03-01T10:00:00Z",
        "subject": payment_id,
        "entityversion": str(version),
        "data": data,
    }
    return json.dumps(envelope).encode()


@dataclass
class Room:
    """A topic, a group and a database of their own."""

    servers: str
    url: str
    pool: Any
    topic: str
    group: str
    stops: list[asyncio.Event] = field(default_factory=list)

    def options(self, **changes: Any) -> IngestOptions:
        apply = ApplyOptions(
            group=self.group, outcome_topic="outcomes", dead_letter_topic=None, rules=Rules()
        )
        values = {
            "apply": apply,
            "batch_records_max": 50,
            "poll_seconds": 0.1,
            "commit_seconds": 0.1,
            "sample_seconds": 0.2,
            "backoff_max_seconds": 0.2,
            "kafka_timeout_seconds": 5,
            **changes,
        }
        return IngestOptions(**values)

    def kafka(self, **changes: Any) -> KafkaOptions:
        options = KafkaOptions(
            bootstrap_servers=self.servers,
            group_id=self.group,
            topics=(self.topic,),
            session_timeout_seconds=6,
            heartbeat_seconds=0.5,
            rebalance_timeout_seconds=10,
        )
        return replace(options, **changes)

    def ingest(self, *, pool: Any = None, **changes: Any) -> Ingest:
        metrics = Metrics("test").ingest
        return Ingest(
            pool or self.pool, kafka=self.kafka(), options=self.options(**changes), metrics=metrics
        )

    async def produce(self, values: Iterable[tuple[str, bytes | None]]) -> None:
        producer = Producer(bootstrap_servers=self.servers)
        await producer.start()
        for key, value in values:
            await producer.send(self.topic, value, key=key.encode())
        await producer.stop()

    async def rows(self, query: str) -> list[tuple[Any, ...]]:
        async with transaction(self.pool) as connection:
            return [tuple(row) for row in await connection.fetch(query)]

    async def stored(self) -> int:
        """Records that the database has moved past, over all partitions."""
        async with transaction(self.pool) as connection:
            stored = await offsets.stored(connection, self.group)
        return sum(each.position.next_offset for each in stored)


@asynccontextmanager
async def admin_of(servers: str) -> AsyncIterator[Any]:
    admin: Any = AIOKafkaAdminClient(bootstrap_servers=servers)
    await admin.start()
    try:
        yield admin
    finally:
        await admin.close()


@pytest_asyncio.fixture
async def room(database: Any, apache_kafka: Any) -> AsyncIterator[Room]:
    name = uuid.uuid4().hex[:12]
    servers = apache_kafka.bootstrap_servers
    await apache_kafka.create_topic(f"psp-{name}", 4)
    pool = await open_pool(PoolOptions(url=database.url))
    yield Room(servers, database.url, pool, f"psp-{name}", f"g-{name}")
    await pool.close()


@asynccontextmanager
async def running(ingest: Ingest) -> AsyncIterator["asyncio.Task[None]"]:
    stop = asyncio.Event()
    task = asyncio.create_task(ingest.run(stop))
    try:
        yield task
    finally:
        stop.set()
        async with asyncio.timeout(DEADLINE_SECONDS):
            await asyncio.wait({task})


async def until(condition: Callable[[], Awaitable[Any]]) -> None:
    await eventually(condition, within_seconds=DEADLINE_SECONDS)


def payments(first: int, number: int, version: int = 1) -> list[tuple[str, bytes | None]]:
    return [(f"p-{key}", value_of(f"p-{key}", version)) for key in range(first, first + number)]


async def test_events_land_and_the_group_is_caught_up(room: Room) -> None:
    await room.produce([*payments(0, 300), ("p-1", None), ("p-2", b"{")])
    ingest = room.ingest()

    async def done() -> bool:
        async with transaction(room.pool) as connection:
            return await caught_up(connection, room.group) and await room.stored() == 302

    async with running(ingest):
        await until(done)
        status = ingest.status()
        assert status.kafka_connected
        assert status.database_available
        assert len(status.partitions) == 4
    assert await room.rows("SELECT count(*), sum(row_version)::int FROM payments") == [(300, 300)]
    assert await room.rows("SELECT reason FROM dead_letters") == [("not_json",)]


async def test_group_follows_the_database_and_not_kafkas_offset(room: Room) -> None:
    """A consumer that died between the commit to the database and the one to Kafka: nothing is
    done twice, and nothing is skipped where Kafka was told more than the database. Reported as
    pinot PR 19359.
    """
    await room.produce(payments(0, 200))

    async def first_half() -> bool:
        return await room.stored() == 200

    never_commits = room.ingest(commit_seconds=3_600)
    task = asyncio.create_task(never_commits.run(asyncio.Event()))
    await until(first_half)
    task.cancel()
    await asyncio.wait({task})
    assert await _committed(room) == {}
    await _commit(room, 10_000_000)
    await room.produce(payments(200, 100))

    async def all_of_it() -> bool:
        return await room.stored() == 300

    async with running(room.ingest()):
        await until(all_of_it)
    assert await room.rows("SELECT count(*), count(DISTINCT payment_id) FROM payment_events") == [
        (300, 300)
    ]


async def test_kafka_is_told_where_the_database_stands(room: Room) -> None:
    await room.produce(payments(0, 40))

    async def done() -> bool:
        return await room.stored() == 40

    async with running(room.ingest()):
        await until(done)
    assert sum((await _committed(room)).values()) == 40


async def test_killed_members_partitions_are_taken_over(room: Room) -> None:
    await room.produce(payments(0, 200))
    survivor = room.ingest()

    async def alone() -> bool:
        return len(survivor.status().partitions) == 4 and await room.stored() == 200

    async def shared() -> bool:
        return len(survivor.status().partitions) == 2

    async def all_of_it() -> bool:
        return len(survivor.status().partitions) == 4 and await room.stored() == 1_000

    async with running(survivor):
        await until(alone)
        arguments = (room.servers, room.url, room.topic, room.group)
        victim = await asyncio.create_subprocess_exec(sys.executable, "-m", __name__, *arguments)
        await until(shared)
        await room.produce(payments(200, 800))
        victim.kill()
        await victim.wait()
        await until(all_of_it)
    assert await room.rows("SELECT count(*), count(DISTINCT payment_id) FROM payment_events") == [
        (1_000, 1_000)
    ]


async def test_rebalance_during_a_batch_neither_loses_nor_repeats(room: Room) -> None:
    """A second member joins while a batch waits for a lock that somebody else holds."""
    await room.produce(payments(0, 200))
    first, second = room.ingest(), room.ingest()
    blocker = await asyncpg.connect(room.url)

    async def some() -> bool:
        return await room.stored() == 200

    async with running(first):
        await until(some)
        hold = blocker.transaction()
        await hold.start()
        await blocker.execute("SELECT 1 FROM payments FOR UPDATE")
        await room.produce(payments(0, 200, version=2))
        await until(lambda: _waits_for_lock(blocker))
        async with running(second):
            await asyncio.sleep(0.5)  # not a synchronisation: the join meets the waiting batch
            await hold.rollback()

            async def done() -> bool:
                return await room.stored() == 400

            async def shared() -> bool:
                return len(second.status().partitions) == 2

            await until(done)
            await until(shared)
            await room.produce(payments(0, 200, version=3))

            async def more() -> bool:
                return await room.stored() == 600

            await until(more)
    await blocker.close()
    assert await room.rows("SELECT DISTINCT row_version, psp_reference FROM payments") == [
        (3, "r-1")
    ]
    assert await room.rows("SELECT count(*) FROM payment_events") == [(600,)]


async def test_database_outage_pauses_and_keeps_the_membership(room: Room) -> None:
    await room.produce(payments(0, 100))
    async with database_proxy(room.url) as proxy:
        pool = await open_pool(PoolOptions(url=proxy.url(room.url), connect_timeout_seconds=1))
        ingest = room.ingest(pool=pool, acquire_timeout_seconds=1)

        async def first() -> bool:
            return await room.stored() == 100

        async with running(ingest):
            await until(first)
            async with _refusing(proxy, room.url):
                await room.produce(payments(0, 100, version=2))

                async def paused() -> bool:
                    status = ingest.status()
                    return not status.database_available and all(
                        each.paused == "database" for each in status.partitions
                    )

                await until(paused)
                assert ingest.status().seconds_since_poll < 5

            async def done() -> bool:
                return await room.stored() == 200

            await until(done)
            assert ingest.status().rebuilds == 0
            assert ingest.status().database_available
        await pool.close()
    assert await room.rows("SELECT DISTINCT row_version FROM payments") == [(2,)]


async def test_deleted_records_are_counted_as_lost_and_the_rest_is_read(room: Room) -> None:
    await room.produce(payments(0, 100))

    async def done() -> bool:
        return await room.stored() == 100

    async with running(room.ingest()):
        await until(done)
    await room.produce(payments(0, 100, version=2))
    await _delete_before_end(room)
    await room.produce(payments(0, 100, version=3))
    ingest = room.ingest()

    async def all_of_it() -> bool:
        return await room.stored() == 300

    async with running(ingest):
        await until(all_of_it)
        assert ingest.status().records_lost == 100
    assert await room.rows("SELECT DISTINCT row_version FROM payments") == [(2,)]


async def test_topic_made_anew_stops_with_the_remedy(room: Room) -> None:
    await room.produce(payments(0, 100))

    async def done() -> bool:
        return await room.stored() == 100

    async with running(room.ingest()):
        await until(done)
    async with transaction(room.pool) as connection:
        await connection.execute("UPDATE consumer_offsets SET next_offset = next_offset + 1000")
    with pytest.raises(TopicRecreated, match="reconciler offsets set"):
        async with asyncio.timeout(DEADLINE_SECONDS):
            await room.ingest().run(asyncio.Event())


async def test_bad_deploy_stops_at_the_breaker_and_good_partitions_go_on(room: Room) -> None:
    """The partition that stopped tells how much waits in it."""
    await room.produce(payments(0, 40))
    bad: list[tuple[str, bytes | None]] = [("one-key", b"{")] * 60
    await room.produce(bad)
    ingest = room.ingest(breaker=BreakerLimits(run_max=30), batch_records_max=500)

    async def stopped() -> bool:
        paused = [each for each in ingest.status().partitions if each.paused == "breaker"]
        lags = [each.lag for each in paused]
        return lags == [60] and await room.stored() == 40

    async with running(ingest):
        await until(stopped)
    assert await room.rows("SELECT count(*) FROM dead_letters") == [(0,)]


async def test_moved_offset_fences_and_heals(room: Room) -> None:
    """Somebody sets the offsets back while the consumer runs: it reads again from there."""
    await room.produce(payments(0, 100))
    ingest = room.ingest()

    async def first() -> bool:
        return await room.stored() == 100

    async with running(ingest):
        await until(first)
        async with transaction(room.pool) as connection:
            await connection.execute("UPDATE consumer_offsets SET next_offset = 0")
        await room.produce(payments(0, 100, version=2))

        async def second() -> bool:
            return await room.stored() == 200

        await until(second)
    assert await room.rows("SELECT DISTINCT row_version FROM payments") == [(2,)]
    assert await room.rows("SELECT count(*) FROM payment_events") == [(200,)]


async def test_stop_is_bounded_while_the_group_does_not_get_ready(room: Room) -> None:
    """Another member does not give its partitions up, so that polling waits for an assignment."""
    other = Consumer(
        bootstrap_servers=room.servers, group_id=room.group, rebalance_timeout_ms=60_000
    )
    holding = Holding()
    await other.start()
    other.subscribe([room.topic], listener=holding)
    await until(holding.holds)
    stop = asyncio.Event()
    task = asyncio.create_task(room.ingest(stop_timeout_seconds=1).run(stop))
    await holding.asked.wait()
    stop.set()
    async with asyncio.timeout(15):
        await task
    holding.released.set()
    await other.stop()


class Holding(ConsumerRebalanceListener):
    """Does not give partitions up until it is released."""

    def __init__(self) -> None:
        self.assigned = False
        self.asked = asyncio.Event()
        self.released = asyncio.Event()

    async def holds(self) -> bool:
        return self.assigned

    async def on_partitions_assigned(self, assigned: Any) -> None:
        self.assigned = bool(assigned)

    async def on_partitions_revoked(self, revoked: Any) -> None:
        if self.assigned:
            self.asked.set()
            await self.released.wait()


async def test_unreachable_broker_is_waited_for(room: Room) -> None:
    room.servers = "127.0.0.1:9"
    stop = asyncio.Event()
    ingest = room.ingest()
    task = asyncio.create_task(ingest.run(stop))

    async def tried_again() -> bool:
        return ingest.status().rebuilds >= 2

    await until(tried_again)
    assert not ingest.status().kafka_connected
    stop.set()
    async with asyncio.timeout(20):
        await task


async def _committed(room: Room) -> dict[int, int]:
    async with admin_of(room.servers) as admin:
        committed = await admin.list_consumer_group_offsets(room.group)
    return {each.partition: held.offset for each, held in committed.items() if held.offset >= 0}


async def _commit(room: Room, offset: int) -> None:
    """Tell Kafka a wrong offset, as a tool might."""
    consumer = Consumer(
        bootstrap_servers=room.servers, group_id=room.group, enable_auto_commit=False
    )
    partitions = [TopicPartition(room.topic, number) for number in range(4)]
    await consumer.start()
    consumer.assign(partitions)
    await consumer.commit(dict.fromkeys(partitions, offset))
    await consumer.stop()


async def _delete_before_end(room: Room) -> None:
    async with transaction(room.pool) as connection:
        stored = await offsets.stored(connection, room.group)
    assert len(stored) == 4
    async with admin_of(room.servers) as admin:
        await admin.delete_records(
            {TopicPartition(room.topic, number): Deletion(-1) for number in range(4)}
        )


async def _waits_for_lock(connection: Any) -> bool:
    return bool(
        await connection.fetchval(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE wait_event_type = 'Lock' AND datname = current_database()"
        )
    )


@asynccontextmanager
async def _refusing(proxy: Any, url: str) -> AsyncIterator[None]:
    """The database's server ends our sessions and takes no new ones, as if it were stopped."""
    control = await asyncpg.connect(url.rsplit("/", 1)[0] + "/postgres")
    name = url.rsplit("/", 1)[1]
    await control.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
    proxy.cut()
    try:
        yield
    finally:
        await control.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
        await control.close()


async def _be_a_member(servers: str, url: str, topic: str, group: str) -> None:
    """What the process does that gets killed."""
    pool = await open_pool(PoolOptions(url=url))
    await Room(servers, url, pool, topic, group).ingest().run(asyncio.Event())


if __name__ == "__main__":
    asyncio.run(_be_a_member(*sys.argv[1:]))
