"""Payments are read and written in one way, and nobody's write is lost."""

import asyncio
import itertools
import random
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schemas.money import Money
from service.domain.events import Origin, SourceEvent
from service.domain.fold import Folded, fold
from service.domain.healing import Found, decide
from service.domain.payment import Kind, Payment, PspFacts, Status
from service.domain.schedule import Rules
from service.domain.versions import Version
from service.errors import StaleWrite
from service.ingest.apply import asked
from service.store import book
from service.store.pool import PoolOptions, connect, open_pool
from service.store.transactions import transaction
from tests.support.waiting import eventually

RULES = Rules()
TOPIC = "outcomes"
TIME = datetime(2026, 3, 1, tzinfo=UTC)
EUR = Money(1999, "EUR")
WAITING = (
    "SELECT count(*) FROM pg_stat_activity"
    " WHERE wait_event_type = 'Lock' AND datname = current_database()"
)


def erp(payment_id: str, version: int, status: str = "pending", **changes: Any) -> SourceEvent:
    fields = {
        "order_id": "o-1",
        "status": status,
        "amount": EUR,
        "psp": None,
        "psp_reference": None,
    }
    return event(payment_id, "erp", version, {**fields, **changes.pop("fields", {})}, **changes)


def psp(payment_id: str, version: int, status: str, **changes: Any) -> SourceEvent:
    fields = {
        "status": status,
        "amount": EUR,
        "captured_minor": None,
        "refunded_minor": 0,
        "disputed_minor": 0,
        "failure_code": None,
    }
    fields = changes.pop("only", {**fields, **changes.pop("fields", {})})
    reference = changes.pop("psp_reference", "r-1")
    return event(payment_id, "psp", version, fields, psp="acme", psp_reference=reference, **changes)


def event(
    payment_id: str, kind: Any, version: int, fields: dict[str, Any], **changes: Any
) -> SourceEvent:
    said = sorted((name, str(value)) for name, value in fields.items())
    return SourceEvent(
        payment_id=payment_id,
        kind=kind,
        event_id=f"{kind}-{version}",
        version=Version(changes.pop("epoch", 0), version),
        fields=fields,
        data={"said": said},
        time=TIME + timedelta(minutes=version),
        digest=repr((said, changes.get("patch", False))).encode(),
        actor=f"/{kind}",
        origin=Origin(kind, 0, version),
        **changes,
    )


@pytest_asyncio.fixture
async def pool(database: Any) -> AsyncIterator[Any]:
    opened = await open_pool(PoolOptions(url=database.url))
    yield opened
    await opened.close()


async def take_in(connection: Any, events: Sequence[SourceEvent]) -> dict[str, Payment]:
    """Apply events in the caller's transaction, as ingest does."""
    ids = {each.payment_id for each in events}
    grouped = {key: [each for each in events if each.payment_id == key] for key in ids}
    await book.ensure(connection, ids)
    now = await book.database_now(connection)
    payments = await book.lock(connection, ids)
    wanted = [each for key in grouped for each in asked(payments[key], grouped[key])]
    seen = await book.seen(connection, wanted)
    folded = [
        fold(payments[key], grouped[key], seen=seen.get(key, {}), now=now, rules=RULES)
        for key in sorted(ids)
    ]
    await book.write(connection, folded, outcome_topic=TOPIC)
    return {each.payment.payment_id: each.payment for each in folded}


def without_row_versions(payment: Payment) -> Payment:
    """PSP payments count their own writes, and ids of cases are the database's."""
    return replace(
        payment,
        created_at=None,
        status_since=None,
        psp_payments={
            key: replace(each, row_version=0) for key, each in payment.psp_payments.items()
        },
        cases={
            kind: replace(case, discrepancy_id=None, version=0)
            for kind, case in payment.cases.items()
        },
    )


async def test_payment_reads_back_as_it_was_written(pool: Any) -> None:
    events = [
        erp("p-1", 1),
        psp("p-1", 4, "succeeded", fields={"captured_minor": 1500}),
        psp("p-1", 5, "", only={"refunded_minor": 3}, patch=True),
        psp("p-1", 1, "failed", psp_reference="r-2", fields={"failure_code": "card"}),
        erp("p-1", 3, "cancelled", fields={"psp": "acme"}),
    ]
    async with transaction(pool) as connection:
        written = (await take_in(connection, events))["p-1"]
    async with transaction(pool) as connection:
        read = await book.read(connection, "p-1")
    assert read is not None
    assert without_row_versions(read) == without_row_versions(written)
    assert read.open_kinds == ["AMOUNT_MISMATCH", "PAID_AFTER_CANCEL"]


async def test_observation_reads_back_as_it_was_written(pool: Any) -> None:
    async with transaction(pool) as connection:
        payment = (await take_in(connection, [erp("p-1", 1)]))["p-1"]
    async with transaction(pool) as connection:
        payment = (await book.lock(connection, ["p-1"]))["p-1"]
        found = Found("acme", "r-1", PspFacts("succeeded", EUR, 1999, 0, 0), data={"a": 1})
        now = await book.database_now(connection)
        decision = decide(payment, found, seen={}, now=now, rules=RULES, actor="worker")
        await book.write(connection, [decision.folded], outcome_topic=TOPIC)
    async with transaction(pool) as connection:
        read = await book.read(connection, "p-1")
    assert read is not None
    assert read.status is Status.SUCCEEDED
    assert without_row_versions(read) == without_row_versions(decision.folded.payment)


async def test_unknown_payment_reads_as_none(pool: Any) -> None:
    async with transaction(pool) as connection:
        assert await book.read(connection, "nobody") is None


async def test_bookkeeping_alone_raises_no_row_version(pool: Any) -> None:
    async with transaction(pool) as connection:
        await take_in(connection, [erp("p-1", 1)])
    async with transaction(pool) as connection:
        payment = (await book.lock(connection, ["p-1"]))["p-1"]
        schedule = replace(payment.schedule, checks=3, next_check_at=TIME)
        folded = Folded(before=payment, payment=replace(payment, schedule=schedule))
        await book.write(connection, [folded], outcome_topic=TOPIC)
        row = await connection.fetchrow(
            "SELECT row_version, checks, next_check_at, updated_at < now() AS older FROM payments"
        )
    assert tuple(row) == (1, 3, TIME, True)


async def test_second_writer_of_a_version_changes_nothing(pool: Any, database: Any) -> None:
    """Two connections read one payment without a lock; one write lands, the other is told."""
    async with transaction(pool) as connection:
        await take_in(connection, [erp("p-1", 1)])
        payment = await book.read(connection, "p-1")
    assert payment is not None
    first = fold(payment, [psp("p-1", 1, "succeeded")], seen={}, now=TIME, rules=RULES)
    second = fold(payment, [erp("p-1", 2, "cancelled")], seen={}, now=TIME, rules=RULES)
    async with transaction(pool) as connection:
        await book.write(connection, [first], outcome_topic=TOPIC)
    with pytest.raises(StaleWrite):
        async with transaction(pool) as connection:
            await book.write(connection, [second], outcome_topic=TOPIC)
    async with transaction(pool) as connection:
        stored = await book.read(connection, "p-1")
        logged = await connection.fetchval("SELECT count(*) FROM payment_events")
    assert stored is not None
    assert stored.status is Status.SUCCEEDED
    assert stored.row_version == 2
    assert logged == 2


async def test_two_writers_at_once_lose_nothing(pool: Any, database: Any) -> None:
    """The second waits for the first one's lock and folds over what it wrote."""
    watcher = await database.connect()
    async with transaction(pool) as connection:
        await book.ensure(connection, ["p-1"])

    async def second() -> None:
        async with transaction(pool) as connection:
            await take_in(connection, [erp("p-1", 1, "cancelled")])

    async with transaction(pool) as connection:
        payment = (await book.lock(connection, ["p-1"]))["p-1"]
        waiting = asyncio.create_task(second())
        await eventually(partial(watcher.fetchval, WAITING), what="the second writer waits")
        first = fold(payment, [psp("p-1", 1, "succeeded")], seen={}, now=TIME, rules=RULES)
        await book.write(connection, [first], outcome_topic=TOPIC)
    await waiting
    async with transaction(pool) as connection:
        stored = await book.read(connection, "p-1")
    assert stored is not None
    assert stored.row_version == 2
    assert stored.open_kinds == ["PAID_AFTER_CANCEL"]


async def test_psp_payment_written_by_somebody_else_is_not_overwritten(pool: Any) -> None:
    async with transaction(pool) as connection:
        await take_in(connection, [psp("p-1", 1, "pending")])
        payment = await book.read(connection, "p-1")
        assert payment is not None
        await connection.execute("UPDATE psp_payments SET row_version = row_version + 1")
    step = fold(payment, [psp("p-1", 2, "succeeded")], seen={}, now=TIME, rules=RULES)
    with pytest.raises(StaleWrite):
        async with transaction(pool) as connection:
            await book.write(connection, [step], outcome_topic=TOPIC)


async def test_discrepancy_closed_by_a_person_meanwhile_is_not_overwritten(pool: Any) -> None:
    async with transaction(pool) as connection:
        await take_in(
            connection, [erp("p-1", 1), psp("p-1", 1, "succeeded", fields={"captured_minor": 5})]
        )
        payment = await book.read(connection, "p-1")
        assert payment is not None
        await connection.execute(
            "UPDATE discrepancies SET status = 'resolved', version = version + 1"
        )
    step = fold(payment, [psp("p-1", 2, "succeeded")], seen={}, now=TIME, rules=RULES)
    with pytest.raises(StaleWrite):
        async with transaction(pool) as connection:
            await book.write(connection, [step], outcome_topic=TOPIC)


async def test_discrepancy_opens_closes_and_opens_again_within_one_batch(pool: Any) -> None:
    wrong = {"captured_minor": 5}
    events = [
        erp("p-1", 1),
        psp("p-1", 1, "succeeded", fields=wrong),
        psp("p-1", 2, "succeeded"),
        psp("p-1", 3, "succeeded", fields=wrong),
    ]
    async with transaction(pool) as connection:
        await take_in(connection, events[:2])
    async with transaction(pool) as connection:
        await take_in(connection, events[2:])
        rows = await connection.fetch(
            "SELECT kind, status, holds, resolved_by FROM discrepancies ORDER BY discrepancy_id"
        )
    assert [tuple(row) for row in rows] == [
        (Kind.AMOUNT_MISMATCH, "resolved", False, "reconciler"),
        (Kind.AMOUNT_MISMATCH, "open", True, None),
    ]


async def test_discrepancy_that_the_facts_ended_is_held_no_more(pool: Any) -> None:
    wrong = psp("p-1", 1, "succeeded", fields={"captured_minor": 5})
    for batch in ([erp("p-1", 1), wrong], [psp("p-1", 2, "succeeded")]):
        async with transaction(pool) as connection:
            await take_in(connection, batch)
    async with transaction(pool) as connection:
        payment = await book.read(connection, "p-1")
    assert payment is not None
    assert payment.cases == {}


async def test_float_and_bool_never_become_minor_units(pool: Any) -> None:
    for minor in (1.5, True):
        money = Money(minor, "EUR")  # type: ignore[arg-type]  # what a careless caller could pass
        with pytest.raises(TypeError):
            async with transaction(pool) as connection:
                await take_in(connection, [erp("p-1", 1, fields={"amount": money})])


async def test_outgoing_event_is_a_cloudevent_ordered_by_row_version(pool: Any) -> None:
    async with transaction(pool) as connection:
        await take_in(connection, [erp("p-1", 1), psp("p-1", 1, "succeeded")])
        row = await connection.fetchrow("SELECT topic, key, headers, value FROM outbox")
    assert row["topic"] == TOPIC
    assert row["key"] == "p-1"
    assert row["headers"] == {"content-type": "application/cloudevents+json"}
    assert row["value"]["id"] == "p-1:2"
    assert row["value"]["entityversion"] == "2"
    assert row["value"]["data"]["status"] == "succeeded"


def mixed_events() -> list[SourceEvent]:
    """Two payments, snapshots and patches, several PSP references, no conflicting versions."""
    events = []
    for key in ("p-1", "p-2"):
        events += [
            erp(key, 1),
            erp(key, 2, "paid"),
            erp(key, 5, "cancelled"),
            psp(key, 1, "pending"),
            psp(key, 3, "succeeded"),
            psp(key, 4, "", only={"refunded_minor": 500}, patch=True),
            psp(key, 6, "", only={"status": "failed", "captured_minor": 0}, patch=True),
            psp(key, 7, "failed", epoch=1),
            psp(key, 1, "failed", psp_reference="r-2"),
            psp(key, 2, "", psp_reference="r-2", only={"disputed_minor": 1}, patch=True),
        ]
    return events


async def _settled(connection: Any, batches: Iterable[Sequence[SourceEvent]]) -> dict[str, Payment]:
    """The payments after these batches, whose transaction is rolled back at the end."""
    running = connection.transaction()
    await running.start()
    try:
        for batch in batches:
            await take_in(connection, batch)
        payments = await book.lock(connection, ["p-1", "p-2"])
        return {key: _facts(payment) for key, payment in payments.items()}
    finally:
        await running.rollback()


def _facts(payment: Payment) -> Payment:
    """What a payment is, without how many steps it took there."""
    bare = without_row_versions(payment)
    schedule = replace(bare.schedule, checks=0, next_check_at=None, pending_since=None)
    return replace(bare, row_version=0, schedule=schedule)


@st.composite
def histories(draw: st.DrawFn) -> list[list[SourceEvent]]:
    events = mixed_events()
    again = draw(st.lists(st.sampled_from(events), max_size=8))
    order = draw(st.permutations(events + again))
    cuts = sorted(draw(st.sets(st.integers(1, len(order) - 1), max_size=6)))
    return [order[a:b] for a, b in itertools.pairwise([0, *cuts, len(order)])]


def test_any_order_duplication_and_batching_gives_the_same_payments(database: Any) -> None:
    with asyncio.Runner() as runner:
        connection = runner.run(connect(PoolOptions(url=database.url)))
        expected = runner.run(_settled(connection, [[each] for each in mixed_events()]))

        @settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
        @given(histories())
        def holds(batches: list[list[SourceEvent]]) -> None:
            assert runner.run(_settled(connection, batches)) == expected

        holds()
        runner.run(connection.close())


async def _log(connection: Any, batches: Iterable[Sequence[SourceEvent]]) -> list[tuple[Any, ...]]:
    running = connection.transaction()
    await running.start()
    try:
        for batch in batches:
            await take_in(connection, batch)
        rows = await connection.fetch(
            "SELECT payment_id, kind, epoch, version, outcome, changes, row_version"
            " FROM payment_events ORDER BY payment_id, log_id"
        )
        return [tuple(row) for row in rows]
    finally:
        await running.rollback()


def test_batch_logs_exactly_what_one_by_one_logs(database: Any) -> None:
    """Reported as kafka-connect-jdbc 1081 and ponder 1918: one write a row and batch."""
    with asyncio.Runner() as runner:
        connection = runner.run(connect(PoolOptions(url=database.url)))

        @settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
        @given(histories())
        def holds(batches: list[list[SourceEvent]]) -> None:
            singles = [[each] for batch in batches for each in batch]
            assert runner.run(_log(connection, batches)) == runner.run(_log(connection, singles))

        holds()
        runner.run(connection.close())


SNAPSHOTS = [psp("p-1", 2, "pending"), psp("p-1", 3, "succeeded")]
PATCH = psp("p-1", 5, "", only={"refunded_minor": 1}, patch=True)


@pytest.mark.parametrize(
    "batch",
    [
        pytest.param([PATCH, SNAPSHOTS[0]], id="duplicate below a patch of the same batch"),
        pytest.param([psp("p-1", 1, "pending"), PATCH, psp("p-1", 1, "pending")], id="stale twice"),
    ],
)
async def test_batch_with_a_patch_looks_up_what_one_by_one_would(
    pool: Any, batch: list[SourceEvent]
) -> None:
    async with transaction(pool) as connection:
        together = await _log(connection, [SNAPSHOTS, batch])
        one_by_one = await _log(connection, [SNAPSHOTS, *([each] for each in batch)])
    assert together == one_by_one


async def test_four_writers_with_crossed_batches_never_deadlock(pool: Any, database: Any) -> None:
    before = await _deadlocks(database)
    random.seed(7)
    keys = [f"p-{number:03d}" for number in range(200)]

    async def writer(number: int) -> None:
        for version in range(1, 6):
            chosen = random.sample(keys, 120)
            async with transaction(pool) as connection:
                await take_in(connection, [erp(key, version * 4 + number) for key in chosen])

    await asyncio.gather(*(writer(number) for number in range(4)))
    assert await _deadlocks(database) == before
    async with transaction(pool) as connection:
        off = await connection.fetchval(
            "SELECT count(*) FROM payments JOIN (SELECT payment_id, max(version) AS newest"
            " FROM payment_events GROUP BY payment_id) AS log USING (payment_id)"
            " WHERE erp_version <> newest"
        )
    assert off == 0


async def _deadlocks(database: Any) -> int:
    connection = await database.connect()
    await connection.execute("SELECT pg_stat_force_next_flush()")
    count: int = await connection.fetchval(
        "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    )
    return count
