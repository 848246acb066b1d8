"""A replay beside the group: it moves no position, and whatever cuts it short loses nothing."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from aiokafka import TopicPartition
from aiokafka.admin import RecordsToDelete

from service.errors import TopicRecreated
from service.ingest.breaker import BreakerLimits
from service.ingest.replay_writer import DryWriter, ReplayWriter
from service.ingest.stretches import Stretch, stretches
from service.ingest.topic_log import TopicLog, open_log
from service.ingest.topic_replay import Replay, ReplayCut
from service.store import offsets
from service.store.offsets import Partition, Position
from service.store.pool import PoolOptions, open_pool
from service.store.transactions import transaction
from tests.integration.test_consumer import Room, admin_of, payments, running, until
from tests.support.kafka import ApacheKafka
from tests.support.proxy import Cut, database_proxy

pytestmark = pytest.mark.kafka

# aiokafka has no types.
Deletion: Any = RecordsToDelete

_NUMBERS = itertools.count(1)


@pytest_asyncio.fixture
async def room(database: Any, apache_kafka: ApacheKafka) -> AsyncIterator[Room]:
    """A group that has consumed the topic's one partition."""
    name = f"replay-{next(_NUMBERS)}"
    await apache_kafka.create_topic(name, 1)
    pool = await open_pool(PoolOptions(url=database.url))
    opened = Room(apache_kafka.bootstrap_servers, database.url, pool, name, f"g-{name}")
    await opened.produce(payments(0, 100))
    async with running(opened.ingest()):
        await until(lambda: _stands_at(opened, 100))
    yield opened
    await pool.close()


@pytest_asyncio.fixture
async def log(room: Room) -> AsyncIterator[TopicLog]:
    async with open_log(room.kafka()) as opened:
        yield opened


async def _stands_at(room: Room, offset: int) -> bool:
    return await room.stored() == offset


def writer(room: Room, *, pool: Any = None, kind: type[ReplayWriter] = ReplayWriter) -> Any:
    return kind(
        pool or room.pool,
        room.options().apply,
        acquire_timeout_seconds=1,
        backoff_max_seconds=0.1,
        on_retry=lambda _: None,
    )


async def ranges(room: Room, log: TopicLog, since: int = 0) -> list[Stretch]:
    async with transaction(room.pool) as connection:
        stored = await offsets.stored(connection, room.group)
    return await stretches(log, {row.partition: row.position for row in stored}, since=since)


async def replayed(
    room: Room, log: TopicLog, *, since: int = 0, writes: Any = None, **changes: Any
) -> Replay:
    replay = Replay(
        log,
        writes or writer(room),
        options=room.options(**changes),
        stretches=await ranges(room, log, since),
        outage_seconds=20,
    )
    async with asyncio.timeout(30):
        assert await replay.run(asyncio.Event(), on_progress=lambda _: None)
    return replay


async def everything(room: Room) -> list[Any]:
    tables = ("payments", "psp_payments", "payment_events", "outbox", "consumer_offsets")
    return [await room.rows(f"TABLE {table}") for table in tables]


async def forget(room: Room) -> None:
    """A database that lacks what the group is said to have consumed."""
    await room.rows("DELETE FROM payment_events RETURNING 1")
    await room.rows("DELETE FROM psp_payments RETURNING 1")
    await room.rows("DELETE FROM payments RETURNING 1")


async def test_replay_of_what_is_there_changes_nothing(room: Room, log: TopicLog) -> None:
    before = await everything(room)
    replay = await replayed(room, log)
    assert replay.counts == {"duplicate": 100, "quarantined": 0}
    assert replay.records == 100
    assert await everything(room) == before


async def test_replay_applies_what_is_missing_and_no_position_moves(
    room: Room, log: TopicLog
) -> None:
    stood = await room.rows("TABLE consumer_offsets")
    await forget(room)
    replay = await replayed(room, log, since=40)
    assert replay.counts == {"applied": 60, "quarantined": 0}
    assert await room.rows('SELECT count(*), min("offset") FROM payment_events') == [(60, 40)]
    assert await room.rows("TABLE consumer_offsets") == stood


async def test_replay_ends_where_the_group_stood_at_its_start(room: Room, log: TopicLog) -> None:
    planned = await ranges(room, log)
    await room.produce(payments(100, 50))
    # One fetch brings what lies beyond, too.
    options = room.options(batch_records_max=1_000)
    replay = Replay(log, writer(room), options=options, stretches=planned)
    assert await replay.run(asyncio.Event(), on_progress=lambda _: None)
    assert (replay.records, list(replay.reached.values())) == (100, [100])
    assert await room.rows("SELECT count(*) FROM payments") == [(100,)]


async def test_stale_events_below_the_highest_offset_are_counted_and_not_logged_again(
    room: Room, log: TopicLog
) -> None:
    await room.produce(payments(0, 100, version=2))
    async with running(room.ingest()):
        await until(lambda: _stands_at(room, 200))
    replay = await replayed(room, log)
    assert replay.counts == {"stale": 100, "duplicate": 100, "quarantined": 0}
    assert await room.rows("SELECT count(*) FROM payment_events") == [(200,)]


async def test_dry_run_tells_what_would_happen_and_keeps_nothing(room: Room, log: TopicLog) -> None:
    await forget(room)
    before = await everything(room)
    replay = await replayed(room, log, writes=writer(room, kind=DryWriter))
    assert replay.counts == {"applied": 100, "quarantined": 0}
    assert await everything(room) == before


async def test_batch_whose_commit_was_never_answered_is_applied_once(
    room: Room, log: TopicLog
) -> None:
    await forget(room)
    async with database_proxy(room.url) as proxy:
        pool = await open_pool(PoolOptions(url=proxy.url(room.url), connect_timeout_seconds=1))
        proxy.lose_commit_answer()
        replay = await replayed(room, log, writes=writer(room, pool=pool))
        assert proxy.cuts == 1
        await pool.close()
    # The first batch of 50 had been committed: written again, it is found there.
    assert replay.counts == {"duplicate": 50, "applied": 50, "quarantined": 0}
    assert await room.rows("SELECT count(*) FROM payment_events") == [(100,)]


async def test_batch_whose_commit_never_reached_the_database_is_written_again(
    room: Room, log: TopicLog
) -> None:
    """No position tells whether it did, so nothing may be taken for committed."""
    await forget(room)
    async with database_proxy(room.url) as proxy:
        pool = await open_pool(PoolOptions(url=proxy.url(room.url), connect_timeout_seconds=1))
        proxy.cut_commit(Cut.BEFORE)
        replay = await replayed(room, log, writes=writer(room, pool=pool))
        assert proxy.cuts == 1
        await pool.close()
    assert replay.counts == {"applied": 100, "quarantined": 0}
    assert await room.rows("SELECT count(*) FROM payment_events") == [(100,)]


async def test_record_that_the_database_refuses_is_parked_and_no_position_moves(
    room: Room, log: TopicLog
) -> None:
    stood = await room.rows("TABLE consumer_offsets")
    await forget(room)
    async with transaction(room.pool) as connection:
        await connection.execute(
            "ALTER TABLE payments DROP CONSTRAINT payments_payment_id_length,"
            " ADD CONSTRAINT payments_payment_id_length CHECK (payment_id <> 'p-7')"
        )
    replay = await replayed(room, log)
    assert replay.counts == {"applied": 99, "quarantined": 1}
    assert await room.rows("SELECT reason, payment_id FROM dead_letters") == [
        ("database_refused", "p-7")
    ]
    assert await room.rows("TABLE consumer_offsets") == stood


async def test_too_many_bad_records_stop_the_replay_with_nothing_of_them_parked(
    room: Room, log: TopicLog
) -> None:
    await room.produce([("bad", b"{")] * 40)
    async with running(room.ingest()):
        await until(lambda: _stands_at(room, 140))
    await room.rows("DELETE FROM dead_letters RETURNING 1")
    with pytest.raises(ReplayCut, match="from offset 100 of partition 0"):
        await replayed(room, log, breaker=BreakerLimits(run_max=30))
    assert await room.rows("SELECT count(*) FROM dead_letters") == [(0,)]


async def test_records_that_the_log_deleted_are_counted(room: Room, log: TopicLog) -> None:
    async with admin_of(room.servers) as admin:
        await admin.delete_records({TopicPartition(room.topic, 0): Deletion(30)})

    async def deleted() -> bool:
        bounds = await log.bounds([Partition(room.topic, 0)])
        return bounds[Partition(room.topic, 0)].beginning == 30

    await until(deleted)
    replay = await replayed(room, log, since=10)
    assert (replay.gone, replay.records) == (20, 70)


async def test_log_that_is_not_the_one_consumed_is_not_replayed(room: Room, log: TopicLog) -> None:
    beyond = {Partition(room.topic, 0): Position(1_000, 1_000)}
    with pytest.raises(TopicRecreated, match="offsets set"):
        await stretches(log, beyond, since=0)


async def test_database_that_stays_away_ends_the_replay_where_it_can_go_on(
    room: Room, log: TopicLog
) -> None:
    async with database_proxy(room.url) as proxy:
        pool = await open_pool(PoolOptions(url=proxy.url(room.url), connect_timeout_seconds=1))
        planned = await ranges(room, log)
        replay = Replay(
            log,
            writer(room, pool=pool),
            options=room.options(),
            stretches=planned,
            outage_seconds=1,
        )

        def go_away(passed: int) -> None:
            proxy.refuse = True
            proxy.cut()

        with pytest.raises(ReplayCut, match="database"):
            async with asyncio.timeout(20):
                await replay.run(asyncio.Event(), on_progress=go_away)
        pool.terminate()
    assert replay.reached == {Partition(room.topic, 0): 50}


async def test_broker_that_stays_away_ends_the_replay_where_it_can_go_on(
    room: Room, log: TopicLog, apache_kafka: ApacheKafka
) -> None:
    # What lies on the broker beyond the first batches has not been fetched yet.
    await room.produce([("big", b"x" * 500_000)] * 10)
    async with running(room.ingest(breaker=BreakerLimits(run_max=100))):
        await until(lambda: _stands_at(room, 110))
    planned = await ranges(room, log)
    options = room.options(breaker=BreakerLimits(run_max=100))
    replay = Replay(log, writer(room), options=options, stretches=planned, outage_seconds=1)
    try:
        with pytest.raises(ReplayCut, match="broker"):
            async with asyncio.timeout(20):
                await replay.run(asyncio.Event(), on_progress=lambda _: apache_kafka.pause())
    finally:
        apache_kafka.resume()
    [reached] = replay.reached.values()
    assert 50 <= reached < 110
    assert (await replayed(room, log, since=reached)).records == 110 - reached


async def test_stop_ends_the_replay_between_two_batches(room: Room, log: TopicLog) -> None:
    stop = asyncio.Event()
    replay = Replay(log, writer(room), options=room.options(), stretches=await ranges(room, log))
    assert not await replay.run(stop, on_progress=lambda _: stop.set())
    assert replay.reached == {Partition(room.topic, 0): 50}
