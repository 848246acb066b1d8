"""Due payments become jobs, at most one open job a payment."""

import asyncio
from typing import Any

from service.reconcile.scheduler import Scheduler, SchedulerTerms
from service.store import jobs
from tests.support.reconciling import Room, open_room

GROUP = "reconciler"


async def test_due_payment_gets_one_job_and_is_looked_at_again_in_a_day(database: Any) -> None:
    """Reported as hyperswitch scheduler: overdue work is never outside the fetch window."""
    async with open_room(database.url) as room:
        await room.add_payment("pay-1")
        await _scheduler(room).batch()
        row = await room.pool.fetchrow("SELECT * FROM reconciliation_jobs")
        assert (row["payment_id"], row["reason"], row["status"]) == ("pay-1", "due", "pending")
        payment = await room.payment("pay-1")
        now = await room.pool.fetchval("SELECT now()")
        assert 23 < (payment["next_check_at"] - now).total_seconds() / 3600 <= 24
        assert payment["row_version"] == 1


async def test_payment_that_is_not_due_gets_none(database: Any) -> None:
    async with open_room(database.url) as room:
        await room.add_payment("later")
        await room.add_payment("never")
        await room.pool.execute(
            "UPDATE payments SET next_check_at = CASE payment_id WHEN 'later' "
            "THEN now() + interval '1 minute' END"
        )
        await _scheduler(room).batch()
        assert await _open_jobs(room) == 0


async def test_concurrent_schedulers_insert_at_most_one_open_job_a_payment(database: Any) -> None:
    async with open_room(database.url, connections_max=10) as room:
        for number in range(50):
            await room.add_payment(f"pay-{number}")
        schedulers = [_scheduler(room, batch_max=7) for _ in range(8)]
        for _ in range(10):
            await asyncio.gather(*(scheduler.batch() for scheduler in schedulers))
        assert await _open_jobs(room) == 50
        await room.pool.execute("UPDATE payments SET next_check_at = now()")
        await asyncio.gather(*(scheduler.batch() for scheduler in schedulers))
        assert await _open_jobs(room) == 50
        assert room.activity.scheduled == 50


async def test_payment_that_somebody_holds_is_left_for_the_next_round(database: Any) -> None:
    async with open_room(database.url) as room:
        await room.add_payment("held")
        await room.add_payment("free")
        async with room.pool.acquire() as other, other.transaction():
            await jobs.lock_payments(other, ["held"])
            async with asyncio.timeout(2):
                await _scheduler(room).batch()
        rows = await room.pool.fetch("SELECT payment_id FROM reconciliation_jobs")
        assert [row[0] for row in rows] == ["free"]


async def test_healing_waits_until_the_initial_lag_is_worked_off(database: Any) -> None:
    async with open_room(database.url) as room:
        await room.add_payment("pay-1")
        await room.pool.execute(
            "INSERT INTO consumer_offsets (consumer_group, topic, partition, next_offset) "
            "VALUES ($1, 'erp.payments', 0, 0)",
            GROUP,
        )
        await _scheduler(room).batch()
        assert await _open_jobs(room) == 0
        await room.pool.execute("UPDATE consumer_offsets SET caught_up_at = now()")
        await _scheduler(room).batch()
        assert await _open_jobs(room) == 1


async def _open_jobs(room: Room) -> int:
    count: int = await room.pool.fetchval("SELECT count(*) FROM reconciliation_jobs")
    return count


def _scheduler(room: Room, *, batch_max: int = 500) -> Scheduler:
    terms = SchedulerTerms(consumer_group=GROUP, batch_max=batch_max)
    return Scheduler(room.pool, terms=terms, activity=room.activity)
