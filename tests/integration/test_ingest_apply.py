"""One batch, one transaction: all of it lands, or none, and the position says which."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Any

import asyncpg
import pytest
import pytest_asyncio
from aiokafka import ConsumerRecord

from schemas.fields import NO_EXCEPTIONS
from service.domain.schedule import Rules
from service.errors import OffsetFenced, TopicRecreated
from service.ingest import intake
from service.ingest.apply import Applied, ApplyOptions, apply
from service.ingest.batch import Batch, Fetched, Refusal
from service.ingest.breaker import Breaker, BreakerLimits
from service.ingest.positions import LogBounds, place
from service.ingest.tenure import Track
from service.ingest.writer import Landed, Writer
from service.store import offsets
from service.store.faults import Reaction
from service.store.offsets import Partition
from service.store.pool import PoolOptions, open_pool
from service.store.transactions import transaction
from tests.support.positions import caught_up
from tests.support.proxy import Cut, database_proxy
from tests.support.waiting import eventually

PSP, ERP = Partition("psp.payments", 0), Partition("erp.payments", 0)
KILL_WAITING = (
    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
    " WHERE wait_event_type = 'Lock' AND datname = current_database()"
)
OPTIONS = ApplyOptions(group="g", outcome_topic="outcomes", dead_letter_topic="dead", rules=Rules())
Record = ConsumerRecord[bytes, bytes]


def value_of(payment_id: str, version: int, **changes: Any) -> bytes:
    """A PSP event as it comes over the wire."""
    data = {
        "psp": "acme",
        "psp_reference": "r-1",
        "status": "succeeded",
        "amount": {"minor": 1999, "currency": "EUR"},
        "refunded_minor": 0,
        **changes.pop("data", {}),
    }
    envelope = {
        "specversion": "1.0",
        "id": f"e-{version}",
        "source": "/psp",
        "type": "psp.payment.v1",
        "time": "2026-03-01T10:00:00Z",
        "subject": payment_id,
        "entityversion": str(version),
        "data": data,
        **changes,
    }
    return json.dumps(envelope).encode()


def record(
    offset: int,
    value: bytes | None,
    *,
    key: bytes | None = None,
    partition: Partition = PSP,
    headers: Sequence[tuple[str, bytes]] = (),
) -> Record:
    return ConsumerRecord(
        partition.topic, partition.number, offset, 0, 0, key, value, None, 0, 0, tuple(headers)
    )


async def batch_of(records: Sequence[Record], *, start: int = 0, highest: int = 0) -> Batch:
    """One partition's records as ingest makes a batch of them."""
    partition = Partition(records[0].topic, records[0].partition)
    breaker = Breaker(BreakerLimits(), clock=lambda: 0.0)
    track = Track(partition, breaker, 0.0, placed=True, fetched=start, highest=highest)
    making = Fetched()
    end = records[-1].offset + 1
    await intake.take(making, track, records, position=end, exponents=NO_EXCEPTIONS)
    return making.batch()


@pytest_asyncio.fixture
async def pool(database: Any) -> AsyncIterator[Any]:
    opened = await open_pool(PoolOptions(url=database.url))
    async with transaction(opened) as connection:
        await offsets.create(connection, "g", PSP, next_offset=0)
        await offsets.create(connection, "g", ERP, next_offset=0)
    yield opened
    await opened.close()


async def written(pool: Any, batch: Batch) -> Applied:
    async with transaction(pool) as connection:
        return await apply(connection, batch, options=OPTIONS)


async def position(pool: Any, partition: Partition = PSP) -> int:
    async with transaction(pool) as connection:
        stored = await offsets.read(connection, "g", partition)
    assert stored is not None
    return stored.next_offset


async def fetched(pool: Any, query: str) -> list[tuple[Any, ...]]:
    async with transaction(pool) as connection:
        return [tuple(row) for row in await connection.fetch(query)]


BAD = {
    "not_utf8": b"\xff\xfe",
    "not_json": b"{",
    "registry_framed": b"\x00\x00\x00\x00\x01{}",
    "duplicate_key": b'{"a": 1, "a": 2}',
    "not_finite": b'{"a": 1e400}',
    "too_deep": b"[" * 100_000,
    "too_large": b" " * ((1 << 20) + 7),
    "bad_text": b'{"a": "\\u0000"}',
    "integer_range": b'{"a": 9223372036854775808}',
    "bad_time": value_of("p-1", 1, time="2026-03-01T10:00:00"),
    "missing_field": value_of("p-1", 1, id=None),
    "unknown_value": value_of("p-1", 1, data={"status": "vanished"}),
    "bad_amount": value_of("p-1", 1, data={"amount": {"minor": 19.99, "currency": "EUR"}}),
    "bad_exponent": value_of(
        "p-1", 1, data={"amount": {"minor": 1999, "currency": "JPY", "exponent": 2}}
    ),
    "unknown_type": value_of("p-1", 1, type="other.payment.v1"),
    "key_mismatch": value_of("p-2", 1),
}


async def test_bad_records_of_every_reason_are_parked_whole_and_the_rest_lands(pool: Any) -> None:
    records = []
    for place_, bad in enumerate(BAD.values()):
        records.append(record(2 * place_, value_of(f"good-{place_}", 1)))
        records.append(record(2 * place_ + 1, bad, key=b"p-1"))
    applied = await written(pool, await batch_of(records))
    assert sorted(applied.reasons) == sorted(BAD)
    assert applied.counts == {("psp", "applied"): len(BAD)}
    parked = await fetched(pool, 'SELECT reason, value, "offset", key FROM dead_letters')
    assert {reason: value for reason, value, _, _ in parked} == {
        reason: value[: 1 << 20] for reason, value in BAD.items()
    }
    assert {key for _, _, _, key in parked} == {b"p-1"}
    assert await position(pool) == 2 * len(BAD)
    copies = await fetched(pool, "SELECT topic FROM outbox WHERE topic = 'dead'")
    assert len(copies) == len(BAD)


async def test_dead_letter_keeps_headers_as_text_or_base64(pool: Any) -> None:
    headers = [("trace", b"abc"), ("raw", b"\xff\x00"), ("nul", b"\x00")]
    await written(pool, await batch_of([record(0, b"{", headers=headers)]))
    [(kept,)] = await fetched(pool, "SELECT headers FROM dead_letters")
    assert kept[0] == ["trace", "abc"]
    assert base64.b64decode(kept[1][1]["base64"]) == b"\xff\x00"
    assert base64.b64decode(kept[2][1]["base64"]) == b"\x00"


async def test_tombstones_and_absent_keys_are_counted_and_moved_past(pool: Any) -> None:
    """Reported as kafka-connect-jdbc 744."""
    batch = await batch_of([record(0, None, key=b"p-1"), record(1, value_of("p-1", 1))])
    assert (batch.tombstones, batch.keys_absent) == (1, 1)
    await written(pool, batch)
    assert await position(pool) == 2
    assert await fetched(pool, "SELECT 1 FROM dead_letters") == []


async def test_position_that_moved_fences_the_batch_and_nothing_stays(pool: Any) -> None:
    batch = await batch_of([record(0, value_of("p-1", 1)), record(1, b"{")])
    async with transaction(pool) as connection:
        await offsets.advance(connection, "g", [offsets.Move(PSP, 0, 1)])
    with pytest.raises(OffsetFenced):
        await written(pool, batch)
    assert await fetched(pool, "SELECT payment_id FROM payments") == []
    assert await fetched(pool, "SELECT 1 FROM dead_letters UNION SELECT 1 FROM outbox") == []
    assert await position(pool) == 1


async def test_replay_counts_stale_events_and_logs_none_again(pool: Any) -> None:
    records = [record(0, value_of("p-1", 2)), record(1, value_of("p-1", 1))]
    first = await written(pool, await batch_of(records))
    log = await fetched(pool, "SELECT count(*) FROM payment_events")
    async with transaction(pool) as connection:
        await connection.execute("UPDATE consumer_offsets SET next_offset = 0")
        stored = await offsets.read(connection, "g", PSP)
    assert stored is not None
    assert stored.highest_offset == 2
    again = await written(pool, await batch_of(records, highest=stored.highest_offset))
    assert first.counts == {("psp", "applied"): 1, ("psp", "stale"): 1}
    assert again.counts == {("psp", "duplicate"): 1, ("psp", "stale"): 1}
    assert await fetched(pool, "SELECT count(*) FROM payment_events") == log


async def test_replayed_conflict_is_not_logged_again(pool: Any) -> None:
    other = value_of("p-1", 1, data={"status": "failed"})
    records = [record(0, value_of("p-1", 1)), record(1, other)]
    await written(pool, await batch_of(records))
    log = await fetched(pool, "SELECT outcome, row_version FROM payment_events ORDER BY log_id")
    assert log == [("applied", 1), ("conflict", 2)]
    async with transaction(pool) as connection:
        await connection.execute("UPDATE consumer_offsets SET next_offset = 0")
    again = await written(pool, await batch_of(records, highest=2))
    assert again.counts == {("psp", "duplicate"): 1, ("psp", "conflict"): 1}
    assert (
        await fetched(pool, "SELECT outcome, row_version FROM payment_events ORDER BY log_id")
        == log
    )


async def test_stale_event_that_its_source_calls_later_is_told(pool: Any) -> None:
    records = [
        record(0, value_of("p-1", 9)),
        record(1, value_of("p-1", 3, time="2026-04-01T10:00:00Z")),
        record(2, value_of("p-1", 2, time="2026-01-01T10:00:00Z")),
    ]
    applied = await written(pool, await batch_of(records))
    assert applied.stale_later == [("psp", "p-1")]


async def test_ingest_writes_no_job(pool: Any) -> None:
    await written(pool, await batch_of([record(0, value_of("p-1", 1, data={"status": "pending"}))]))
    assert await fetched(pool, "SELECT 1 FROM reconciliation_jobs") == []
    assert await fetched(pool, "SELECT 1 FROM payments WHERE next_check_at > now()") == [(1,)]


def writer_of(pool: Any, seen: list[Reaction] | None = None) -> Writer:
    return Writer(
        pool,
        OPTIONS,
        acquire_timeout_seconds=5,
        backoff_max_seconds=0.1,
        on_retry=(seen if seen is not None else []).append,
    )


async def landed(writer: Writer, batch: Batch) -> Landed:
    async with asyncio.timeout(20):
        result = await writer.write(batch, give_up=asyncio.Event())
    assert result is not None
    return result


async def test_record_that_the_database_refuses_is_quarantined_alone(
    pool: Any, database: Any
) -> None:
    """The constraint carries one of our names and is narrower than what decoding lets through."""
    await _execute(
        database,
        "ALTER TABLE payments DROP CONSTRAINT payments_payment_id_length,"
        " ADD CONSTRAINT payments_payment_id_length CHECK (payment_id NOT LIKE 'bad%')",
    )
    keys = ["p-1", "bad-1", "p-2", "p-3", "bad-2", "p-1"]
    records = [record(at, value_of(key, at + 1)) for at, key in enumerate(keys)]
    result = await landed(writer_of(pool), await batch_of(records))
    assert await position(pool) == len(keys)
    assert [reason for part in result.parts for reason in part.reasons] == ["database_refused"] * 2
    parked = await fetched(pool, 'SELECT "offset", payment_id, error FROM dead_letters')
    assert [row[:2] for row in sorted(parked)] == [(1, "bad-1"), (4, "bad-2")]
    assert "payments_payment_id_length" in parked[0][2]
    payments = await fetched(pool, "SELECT payment_id, row_version FROM payments ORDER BY 1")
    assert payments == [("p-1", 2), ("p-2", 1), ("p-3", 1)]


async def test_database_that_refuses_everything_is_not_emptied_into_quarantine(
    pool: Any, database: Any
) -> None:
    await _execute(
        database,
        "ALTER TABLE payments DROP CONSTRAINT payments_payment_id_length,"
        " ADD CONSTRAINT payments_payment_id_length CHECK (false)",
    )
    records = [record(at, value_of(f"p-{at}", 1)) for at in range(100)]
    with pytest.raises(asyncpg.CheckViolationError):
        await landed(writer_of(pool), await batch_of(records))
    [(parked,)] = await fetched(pool, "SELECT count(*) FROM dead_letters")
    assert parked <= 20
    assert await position(pool) == parked


async def test_strange_constraint_never_makes_a_dead_letter(pool: Any, database: Any) -> None:
    await _execute(database, "ALTER TABLE payments ADD CONSTRAINT theirs CHECK (row_version < 0)")
    seen: list[Reaction] = []
    give_up = asyncio.Event()

    def note(reaction: Reaction) -> None:
        seen.append(reaction)
        if len(seen) == 3:
            give_up.set()

    writer = Writer(
        pool, OPTIONS, acquire_timeout_seconds=5, backoff_max_seconds=0.1, on_retry=note
    )
    batch = await batch_of([record(0, value_of("p-1", 1))])
    async with asyncio.timeout(10):
        assert await writer.write(batch, give_up=give_up) is None
    assert set(seen) == {Reaction.PAUSE}
    assert await position(pool) == 0
    assert await fetched(pool, "SELECT 1 FROM dead_letters") == []


async def test_missing_column_stops_loudly(pool: Any, database: Any) -> None:
    await _execute(database, "ALTER TABLE payments DROP COLUMN disputed_minor CASCADE")
    with pytest.raises(asyncpg.UndefinedColumnError):
        await landed(writer_of(pool), await batch_of([record(0, value_of("p-1", 1))]))


async def test_killed_connection_is_replaced_and_the_batch_lands_once(
    pool: Any, database: Any
) -> None:
    seen: list[Reaction] = []
    writer = writer_of(pool, seen)
    blocker = await database.connect()
    await written(pool, await batch_of([record(0, value_of("p-1", 1))]))
    hold = blocker.transaction()
    await hold.start()
    await blocker.execute("SELECT 1 FROM payments FOR UPDATE")
    batch = await batch_of([record(1, value_of("p-1", 2))], start=1)
    writing = asyncio.create_task(writer.write(batch, give_up=asyncio.Event()))
    killer = await database.connect()
    await eventually(partial(killer.fetchval, KILL_WAITING), what="the writer waits")
    await hold.rollback()
    async with asyncio.timeout(10):
        assert await writing is not None
    assert Reaction.RECONNECT in seen
    assert writer.available
    assert await fetched(pool, "SELECT row_version FROM payments") == [(2,)]


@pytest.mark.parametrize("cut", list(Cut))
async def test_commit_whose_answer_was_lost_is_looked_up(
    pool: Any, database: Any, cut: Cut
) -> None:
    batch = await batch_of([record(0, value_of("p-1", 1))])
    seen: list[Reaction] = []
    async with database_proxy(database.url) as proxy:
        unsafe = await open_pool(PoolOptions(url=proxy.url(database.url)))
        proxy.cut_commit(cut)
        result = await landed(writer_of(unsafe, seen), batch)
        await unsafe.close()
    assert proxy.cuts == 1
    assert seen == [Reaction.RECONNECT]
    assert result.parts[0].counts == {("psp", "applied"): 1}
    assert await position(pool) == 1
    assert await fetched(pool, "SELECT row_version FROM payments") == [(1,)]
    assert await fetched(pool, "SELECT count(*) FROM payment_events") == [(1,)]


async def test_lost_commit_of_a_former_owner_is_fenced(pool: Any, database: Any) -> None:
    batch = await batch_of([record(0, value_of("p-1", 1))])
    lost = asyncio.Event()
    async with database_proxy(database.url) as proxy:
        unsafe = await open_pool(PoolOptions(url=proxy.url(database.url)))
        proxy.cut_commit(Cut.BEFORE)
        writer = Writer(
            unsafe,
            OPTIONS,
            acquire_timeout_seconds=5,
            backoff_max_seconds=2,
            on_retry=lambda _: lost.set(),
        )
        writing = asyncio.create_task(landed(writer, batch))
        await lost.wait()
        async with transaction(pool) as connection:
            await offsets.advance(connection, "g", [offsets.Move(PSP, 0, 5)])
        with pytest.raises(OffsetFenced):
            await writing
        await unsafe.close()
    assert await fetched(pool, "SELECT 1 FROM payment_events") == []


async def test_breaker_lands_what_came_before_the_first_bad_record_and_nothing_after() -> None:
    breaker = Breaker(BreakerLimits(run_max=3), clock=lambda: 0.0)
    track = Track(PSP, breaker, 0.0, placed=True)
    values = [value_of("p-1", 1), b"{", value_of("p-1", 2), b"{", b"{", b"{", value_of("p-1", 3)]
    records = [record(at, value) for at, value in enumerate(values)]
    making = Fetched()
    await intake.take(making, track, records, position=7, exponents=NO_EXCEPTIONS)
    batch = making.batch()
    assert [item.record.offset for item in batch.items] == [0]
    assert [(move.expected, move.next_offset) for move in batch.moves] == [(0, 1)]
    assert not any(isinstance(item.content, Refusal) for item in batch.items)
    assert not track.placed
    assert breaker.open


async def placed(pool: Any, beginning: int, end: int) -> Any:
    async with transaction(pool) as connection:
        return (await place(connection, "g", {PSP: LogBounds(beginning, end)}))[PSP]


async def test_partition_never_consumed_starts_at_the_logs_beginning(database: Any) -> None:
    """Reported as pinot PR 19359."""
    pool = await open_pool(PoolOptions(url=database.url))
    placement = await placed(pool, 40, 90)
    assert placement.position.next_offset == 40
    assert (placement.lost, placement.caught_up) == (0, False)
    assert await position(pool) == 40
    await pool.close()


async def test_position_below_the_log_goes_on_at_its_beginning_and_counts_the_loss(
    pool: Any,
) -> None:
    placement = await placed(pool, 40, 90)
    assert placement.lost == 40
    assert await position(pool) == 40


async def test_position_above_the_end_names_the_topic_and_the_remedy(pool: Any) -> None:
    await written(pool, await batch_of([record(9, value_of("p-1", 1))]))
    with pytest.raises(TopicRecreated) as raised:
        await placed(pool, 0, 3)
    for said in ("psp.payments", "partition 0", "10", "3", "reconciler offsets set"):
        assert said in str(raised.value)
    assert await position(pool) == 10


async def test_partition_at_its_end_is_caught_up_for_good(pool: Any) -> None:
    async with transaction(pool) as connection:
        assert not await caught_up(connection, "g")
    assert (await placed(pool, 0, 0)).caught_up
    async with transaction(pool) as connection:
        await place(connection, "g", {ERP: LogBounds(0, 0)})
        assert await caught_up(connection, "g")
    assert (await placed(pool, 0, 50)).caught_up


async def _execute(database: Any, statement: str) -> None:
    await (await database.connect()).execute(statement)
