"""Positions moved from outside, by an operator or a restored database: consumers follow, idle ones
too, and nothing is skipped unseen.
"""

import asyncio
import itertools
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from structlog.testing import capture_logs

from service.commands.offset_set import TRIES_MAX, Wanted, move
from service.errors import ReconcilerError, TopicRecreated
from service.ingest.breaker import BreakerLimits
from service.ingest.positions import LogBounds, Placement, relocate
from service.ingest.tenure import Tenure
from service.ingest.topic_log import TopicLog, open_log
from service.store import offsets
from service.store.offsets import Partition, Position
from service.store.pool import PoolOptions, open_pool
from service.store.transactions import transaction
from tests.integration.test_consumer import Room, payments, running, until
from tests.support.kafka import ApacheKafka
from tests.support.positions import caught_up

FIRST = Partition("psp.payments", 0)
LOG = LogBounds(beginning=10, end=100)
COUNTED = "SELECT count(*) FROM payment_events"


@pytest_asyncio.fixture
async def pool(database: Any) -> AsyncIterator[Any]:
    opened = await open_pool(PoolOptions(url=database.url))
    yield opened
    await opened.close()


@pytest_asyncio.fixture
async def room(pool: Any, database: Any, apache_kafka: ApacheKafka) -> Room:
    name = f"offsets-{next(_NUMBERS)}"
    await apache_kafka.create_topic(name, 4)
    return Room(apache_kafka.bootstrap_servers, database.url, pool, name, f"g-{name}")


_NUMBERS = itertools.count(1)


@pytest_asyncio.fixture
async def log(room: Room) -> AsyncIterator[TopicLog]:
    async with open_log(room.kafka()) as opened:
        yield opened


def wanted(topic: str, **changes: Any) -> Wanted:
    values: dict[str, Any] = {"partition": 0, "to": "earliest", "skip": False, "recreated": False}
    return Wanted(topic=topic, actor="op", note=None, **{**values, **changes})


async def consumed(room: Room, number: int) -> None:
    """Wait until the group has moved past so many records."""

    async def is_there() -> bool:
        return await room.stored() == number

    await until(is_there)


@pytest.mark.kafka
async def test_idle_consumer_notices_a_position_that_was_set_back(room: Room) -> None:
    await room.produce(payments(0, 100))
    with capture_logs() as lines:
        async with running(room.ingest()):
            await consumed(room, 100)
            await room.rows("UPDATE consumer_offsets SET next_offset = 0 RETURNING 1")
            await consumed(room, 100)
    assert _moved(lines) == 4
    assert await room.rows(COUNTED) == [(100,)]


@pytest.mark.kafka
async def test_idle_consumer_notices_a_database_that_knows_nothing_of_it(room: Room) -> None:
    """As after a restore of a backup from before the group's first start."""
    await room.produce(payments(0, 100))
    async with running(room.ingest()):
        await consumed(room, 100)
        await room.rows("DELETE FROM payment_events RETURNING 1")
        await room.rows("DELETE FROM psp_payments RETURNING 1")
        await room.rows("DELETE FROM payments RETURNING 1")
        await room.rows("DELETE FROM consumer_offsets RETURNING 1")
        await consumed(room, 100)
    assert await room.rows("SELECT count(*) FROM payments") == [(100,)]
    assert await room.rows(COUNTED) == [(100,)]


@pytest.mark.kafka
async def test_idle_consumer_tells_again_that_it_has_caught_up(room: Room) -> None:
    """Else healing would wait for ever in a database from before the end was first reached."""
    await room.produce(payments(0, 20))

    async def at_the_end() -> bool:
        async with transaction(room.pool) as connection:
            return await caught_up(connection, room.group)

    async with running(room.ingest()):
        await until(at_the_end)
        await room.rows("UPDATE consumer_offsets SET caught_up_at = NULL RETURNING 1")
        await until(at_the_end)


@pytest.mark.kafka
async def test_own_batches_in_flight_never_look_as_if_somebody_had_moved_a_position(
    room: Room,
) -> None:
    ingest = room.ingest(sample_seconds=0, commit_seconds=0.01, batch_records_max=10)
    with capture_logs() as lines:
        async with running(ingest):
            for version in range(1, 6):
                await room.produce(payments(0, 200, version=version))
                await consumed(room, 200 * version)
    assert _moved(lines) == 0
    assert not [line for line in lines if line["event"] == "kafka.offset_fenced"]
    assert await room.rows(COUNTED) == [(1_000,)]


def _moved(lines: list[Any]) -> int:
    return len([line for line in lines if line["event"] == "kafka.offset_moved"])


def tenure(**stored: int) -> Tenure:
    """A tenure of one placed partition that stands at 50."""
    made = Tenure([FIRST], limits=BreakerLimits(), clock=lambda: 0.0)
    made.tracks[FIRST].take(Placement(Position(50, 50), lost=0, caught_up=True))
    for name, offset in stored.items():
        setattr(made.tracks[FIRST], name, offset)
    return made


MOVED = {FIRST: Position(20, 50)}


def test_position_that_moved_while_nothing_was_under_way_is_read_again() -> None:
    idle = tenure()
    assert idle.displace_moved(idle.standings, MOVED) == [FIRST]
    assert idle.unplaced == [idle.tracks[FIRST]]


def test_partition_with_a_batch_under_way_is_left_to_its_fence() -> None:
    busy = tenure(fetched=60)
    assert busy.standings == {}
    begun = tenure()
    before = begun.standings
    begun.tracks[FIRST].fetched = 60
    assert begun.displace_moved(before, MOVED) == []


def test_partition_that_went_on_by_itself_meanwhile_is_left_alone() -> None:
    went_on = tenure()
    before = went_on.standings
    went_on.tracks[FIRST].fetched = went_on.tracks[FIRST].stored = 60
    assert went_on.displace_moved(before, {FIRST: Position(50, 50)}) == []


@pytest.mark.parametrize(
    ("stored", "to", "position", "skipped", "lost", "recreated"),
    [
        (Position(60, 80), 20, Position(20, 80), 0, 0, False),
        (Position(60, 80), 90, Position(90, 80), 30, 0, False),
        (Position(4, 80), 10, Position(10, 80), 0, 6, False),
        (Position(4, 80), 15, Position(15, 80), 5, 6, False),
        (None, 10, Position(10, 10), 0, 0, False),
        (None, 30, Position(30, 10), 20, 0, False),
        (Position(500, 500), 10, Position(10, 10), 0, 0, True),
        (Position(60, 500), 60, Position(60, 10), 50, 0, True),
    ],
    ids=[
        *("back", "forward", "lost", "lost and forward", "never consumed"),
        *("never consumed, skipping", "made anew", "made anew, skipping"),
    ],
)
def test_moved_position_says_what_it_skips(
    stored: Position | None, to: int, position: Position, skipped: int, lost: int, recreated: bool
) -> None:
    planned = relocate(FIRST, stored, LOG, to=to)
    assert planned.position == position
    assert (planned.skipped, planned.lost, planned.recreated) == (skipped, lost, recreated)


@pytest.mark.parametrize("to", [9, 101])
def test_offset_outside_the_log_is_refused_with_what_it_holds(to: int) -> None:
    with pytest.raises(ReconcilerError, match=r"from 10 to 100 .*--to earliest"):
        relocate(FIRST, Position(50, 50), LOG, to=to)


def test_topic_said_to_be_made_anew_begins_anew_wherever_its_log_ends() -> None:
    planned = relocate(FIRST, Position(50, 90), LOG, to=10, recreated=True)
    assert planned.position == Position(10, 10)


async def test_position_moves_only_from_where_it_was_read(pool: Any) -> None:
    async with transaction(pool) as connection:
        assert await offsets.create(connection, "g", FIRST, next_offset=7)
        assert not await offsets.create(connection, "g", FIRST, next_offset=9)
        to = Position(3, 3)
        assert not await offsets.put(connection, "g", FIRST, expected=8, position=to)
        assert await offsets.read(connection, "g", FIRST) == Position(7, 7)
        assert await offsets.put(connection, "g", FIRST, expected=7, position=to)
        assert await offsets.read(connection, "g", FIRST) == to


@pytest.mark.kafka
async def test_set_reads_again_where_a_consumer_was_faster(
    room: Room, log: TopicLog, database: Any
) -> None:
    await room.produce(payments(0, 100))
    async with running(room.ingest()):
        await consumed(room, 100)
    partition = Partition(room.topic, 0)
    operator, consumer = await database.connect(), await database.connect()
    stepping = consumer.transaction()
    await stepping.start()
    at = await consumer.fetchval(
        "UPDATE consumer_offsets SET next_offset = next_offset - 1 WHERE partition = 0"
        " RETURNING next_offset"
    )
    async with room.pool.acquire() as pooled:
        moving = asyncio.create_task(move(pooled, log, room.group, wanted(room.topic)))

        async def waits() -> bool:
            waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
            return bool(await operator.fetchval(waiting))

        await until(waits)
        await stepping.commit()
        await moving
        after = await offsets.read(pooled, room.group, partition)
        assert after is not None
        assert (after.next_offset, after.highest_offset) == (0, at + 1)
    audited = await room.rows("SELECT before, after FROM operator_actions")
    assert [row[0]["next_offset"] for row in audited] == [at]
    assert [row[1]["next_offset"] for row in audited] == [0]


@pytest.mark.kafka
async def test_set_gives_up_with_nothing_changed_where_consumers_are_always_faster(
    room: Room, log: TopicLog
) -> None:
    await room.produce(payments(0, 100))
    async with running(room.ingest()):
        await consumed(room, 100)
    async with transaction(room.pool) as connection:
        await connection.execute(
            "CREATE FUNCTION lose() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';"
            " CREATE TRIGGER lose BEFORE UPDATE ON consumer_offsets"
            " FOR EACH ROW EXECUTE FUNCTION lose()"
        )
    async with room.pool.acquire() as connection:
        with pytest.raises(ReconcilerError, match=f"{TRIES_MAX} times .* nothing was changed"):
            await move(connection, log, room.group, wanted(room.topic))
    assert await room.rows("SELECT count(*) FROM operator_actions") == [(0,)]
    assert await room.stored() == 100


@pytest.mark.kafka
async def test_topic_made_anew_is_read_from_its_beginning_and_its_stale_events_are_logged(
    room: Room, log: TopicLog, apache_kafka: ApacheKafka
) -> None:
    """The new log's offsets mean other records: what the old log held below them says nothing."""
    await room.produce(payments(0, 100, version=2))
    async with running(room.ingest()):
        await consumed(room, 100)
    await apache_kafka.delete_topic(room.topic)
    await apache_kafka.create_topic(room.topic, 4)
    await room.produce(payments(0, 20, version=1))
    with pytest.raises(TopicRecreated) as stopped:
        async with asyncio.timeout(30):
            await room.ingest().run(asyncio.Event())
    async with room.pool.acquire() as connection:
        for number in range(4):
            command = f"reconciler offsets set --topic {room.topic} --partition {number} --to earl"
            assert command[: -len("0 --to earl")] in str(stopped.value)
            await move(connection, log, room.group, wanted(room.topic, partition=number))
    async with running(room.ingest()):
        await consumed(room, 20)
    assert await room.rows(
        "SELECT outcome, count(*) FROM payment_events GROUP BY outcome ORDER BY outcome"
    ) == [("applied", 100), ("stale", 20)]
