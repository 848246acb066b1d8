"""Every payment equals the fold of its log, and whatever does not is named."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio

from schemas.fields import NO_EXCEPTIONS
from service.psp.port import Answer, NotFound, Question
from service.reconcile.sweep_terms import SweeperTerms
from service.reconcile.sweeper import Sweeper
from service.store.verification import Difference, verify_chunk
from tests.acceptance.commands import reconciler
from tests.support.events import Record, erp_event, erp_patch, psp_event, psp_patch
from tests.support.reconciling import (
    OUTCOME_TOPIC,
    RULES,
    Room,
    ScriptedPsp,
    answered,
    open_room,
    running,
    until,
)
from tests.support.telling import tell

STATUSES = ("pending", "authorised", "succeeded", "failed", "expired")


@pytest_asyncio.fixture
async def room(database: Any) -> AsyncIterator[Room]:
    async with open_room(database.url) as opened:
        yield opened


async def differences(room: Room, *, limit: int = 7) -> list[Difference]:
    """What `reconciler verify` finds, chunk by chunk."""
    found: list[Difference] = []
    after = ""
    async with room.pool.acquire() as connection:
        while True:
            async with connection.transaction(isolation="repeatable_read", readonly=True):
                chunk = await verify_chunk(
                    connection, after=after, limit=limit, exponents=NO_EXCEPTIONS
                )
            found.extend(chunk.differences)
            if chunk.last_payment_id is None:
                return found
            after = chunk.last_payment_id


def history(payment_id: str, chance: random.Random) -> Iterator[Record]:
    """Events of one payment: shuffled, doubled, in conflict, patched, of several attempts."""
    order_id = f"SO-{chance.randrange(12)}"
    minor = chance.choice([1000, 1999])
    for version in range(chance.randrange(4)):
        status = chance.choice(["pending", "paid", "cancelled", "refunded"])
        if version and chance.random() < 0.3:
            yield erp_patch(payment_id, version, status=status)
        else:
            yield erp_event(payment_id, version, status=status, minor=minor, order_id=order_id)
    for reference in ("r-1", "r-2")[: chance.randrange(3)]:
        for version in range(chance.randrange(1, 5)):
            said: dict[str, Any] = {"status": chance.choice(STATUSES)}
            if chance.random() < 0.3:
                said["captured_minor"] = chance.choice([0, 999, 1999])
            if chance.random() < 0.2:
                said["refunded_minor"] = chance.choice([1, 1999])
            if chance.random() < 0.3:
                yield psp_patch(payment_id, version, psp="acme", psp_reference=reference, **said)
            else:
                yield psp_event(payment_id, version, psp="acme", psp_reference=reference, **said)
            if chance.random() < 0.1:
                yield psp_event(
                    payment_id, version, psp="acme", psp_reference=reference, status="cancelled"
                )


async def live_through(room: Room, *, seed: int) -> None:
    """Payments with every kind of row in their log."""
    chance = random.Random(seed)  # noqa: S311 - a test's histories
    names = [f"pay-{number:03}" for number in range(60)]
    records = [record for name in names for record in history(name, chance)]
    records += chance.sample(records, 20)
    chance.shuffle(records)
    for start in range(0, len(records), 15):
        await tell(room.pool, *records[start : start + 15])
    for number in range(12):
        await room.pool.execute(
            "INSERT INTO reconciliation_jobs (payment_id, reason) SELECT payment_id, 'due'"
            " FROM payments WHERE next_check_at IS NOT NULL"
        )
        if number == 6:
            await tell(room.pool, *chance.sample(records, 30))
        await _ask_all(room, chance)
    await room.pool.execute(
        "UPDATE payments SET created_at = now() - interval '9 days', status_since = created_at"
    )
    terms = SweeperTerms(
        actor="sweeper", consumer_group="g", outcome_topic=OUTCOME_TOPIC, rules=RULES
    )
    await Sweeper(room.pool, terms=terms).round(asyncio.Event())
    await tell(room.pool, *chance.sample(records, 30))


async def _ask_all(room: Room, chance: random.Random) -> None:
    async def script(question: Question) -> Answer:
        if chance.random() < 0.2:
            return NotFound()
        version = chance.choice([None, None, 1, 3, 9])
        status = chance.choice(STATUSES)
        return answered(question.payment_id, status, version=version, minor=1999)

    async def all_closed() -> bool:
        left = await room.pool.fetchval(
            "SELECT count(*) FROM reconciliation_jobs WHERE status <> 'completed'"
        )
        return bool(left == 0)

    async with running(room.worker(ScriptedPsp(script))):
        await until(all_closed)


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_whatever_payments_live_through_their_log_gives_their_rows(
    room: Room, seed: int
) -> None:
    await live_through(room, seed=seed)
    kinds = await room.pool.fetch(
        "SELECT DISTINCT kind, outcome, version IS NULL, data IS NULL FROM payment_events"
    )
    assert {tuple(row) for row in kinds} >= {
        ("erp", "applied", False, False),
        ("psp", "applied", False, False),
        ("psp", "conflict", False, False),
        ("psp", "stale", False, False),
        ("heal", "applied", False, False),
        ("heal", "applied", True, False),
        ("heal", "applied", True, True),
    }
    assert await differences(room) == []


TAMPERING = {
    "status": "UPDATE payments SET status = 'refunded' WHERE payment_id = 'paid'",
    "captured_minor": "UPDATE payments SET captured_minor = 7 WHERE payment_id = 'paid'",
    "erp_version": "UPDATE payments SET erp_version = 9 WHERE payment_id = 'paid'",
    "order_id": "UPDATE payments SET order_id = 'SO-7' WHERE payment_id = 'paid'",
    "row_version": "UPDATE payments SET row_version = 8 WHERE payment_id = 'paid'",
    "psp_payments acme-eu ref-paid refunded_minor": (
        "UPDATE psp_payments SET refunded_minor = 1 WHERE payment_id = 'paid'"
    ),
    "psp_payments acme-eu ref-paid": "DELETE FROM psp_payments WHERE payment_id = 'paid'",
    "log 2 row_version": "DELETE FROM payment_events WHERE log_id = 1",
    "log 2 data": (
        "UPDATE payment_events SET data = jsonb_set(data, '{refunded_minor}', '5') WHERE log_id = 2"
    ),
    "payments": (
        "INSERT INTO payment_events (payment_id, kind, actor, outcome, row_version)"
        " VALUES ('nowhere', 'operator', 'x', 'applied', 1)"
    ),
    "discrepancy AMOUNT_MISMATCH": "UPDATE discrepancies SET holds = false, status = 'resolved'",
    "discrepancy PAID_AFTER_CANCEL": (
        "INSERT INTO discrepancies (payment_id, kind) VALUES ('paid', 'PAID_AFTER_CANCEL')"
    ),
    "discrepancy MISSING_AT_ERP": (
        "INSERT INTO discrepancies (payment_id, kind) VALUES ('paid', 'MISSING_AT_ERP')"
    ),
}


@pytest.mark.parametrize("field", TAMPERING)
async def test_each_thing_that_was_tampered_with_is_named(room: Room, field: str) -> None:
    await tell(room.pool, erp_event("paid", 1), psp_event("paid", 1))
    await tell(room.pool, erp_event("short", 1), psp_event("short", 1, captured_minor=900))
    assert await differences(room) == []
    await room.pool.execute(TAMPERING[field])
    assert field in {each.field for each in await differences(room)}


async def test_case_that_a_person_closed_is_no_difference(room: Room) -> None:
    await tell(room.pool, erp_event("short", 1), psp_event("short", 1, captured_minor=900))
    await room.pool.execute("UPDATE discrepancies SET status = 'ignored'")
    await tell(room.pool, psp_event("short", 2, captured_minor=950))
    assert await differences(room) == []


async def test_payments_that_change_meanwhile_are_no_difference(room: Room) -> None:
    done = asyncio.Event()

    async def write() -> None:
        for version in range(1, 40):
            names = [f"pay-{number}" for number in range(10)]
            await tell(room.pool, *(psp_event(name, version) for name in names))
        done.set()

    async with asyncio.TaskGroup() as group:
        group.create_task(write())
        while not done.is_set():
            assert await differences(room, limit=3) == []


async def test_command_lists_every_difference_and_exits_1(room: Room, database: Any) -> None:
    names = [f"pay-{number:04}" for number in range(1_100)]
    await tell(room.pool, *(psp_event(name, 1) for name in names))
    settings = {"RECONCILER_DATABASE__URL": database.url}
    well = await reconciler("verify", settings=settings)
    assert (well.code, well.out) == (0, "1100 payments verified, 0 differences\n")
    await room.pool.execute(
        "UPDATE payments SET captured_minor = 7 WHERE payment_id IN ('pay-0003', 'pay-1042')"
    )
    wrong = await reconciler("verify", settings=settings)
    assert wrong.code == 1
    assert wrong.out.splitlines() == [
        "pay-0003: captured_minor is 7, the log makes it 1999",
        "pay-1042: captured_minor is 7, the log makes it 1999",
        "1100 payments verified, 2 differences",
    ]
