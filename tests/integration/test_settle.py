"""A business effect commits exactly if its attempt's end does, whatever happens on the way."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from service.psp.port import Answer, Question
from service.reconcile.group import SettleTerms
from service.store import controls, jobs
from tests.support.proxy import Cut, database_proxy
from tests.support.reconciling import (
    OUTCOME_TOPIC,
    RULES,
    Room,
    ScriptedPsp,
    open_room,
    running,
    succeeded,
    until,
)

TERMS = SettleTerms(outcome_topic=OUTCOME_TOPIC, rules=RULES)
REFUSE_ONE = """
ALTER TABLE payments ADD CONSTRAINT somebody_elses CHECK (
    payment_id <> 'bad' OR status = 'pending') NOT VALID
"""


@pytest.mark.parametrize("cut", list(Cut))
async def test_commit_whose_answer_was_lost_heals_exactly_once(database: Any, cut: Cut) -> None:
    async with (
        open_room(database.url) as room,
        database_proxy(database.url) as proxy,
        open_room(proxy.url(database.url)) as behind,
    ):
        job_id = await room.add_job("pay-1")
        proxy.cut_commit(cut)
        async with running(behind.worker(ScriptedPsp())):
            await _ended(room, job_id)
            await until(lambda: _told(behind))
        assert proxy.cuts == 1
        assert await room.attempts(job_id) == ["healed"]
        assert (await room.payment("pay-1"))["row_version"] == 2
        assert await room.pool.fetchval("SELECT count(*) FROM outbox") == 1
        assert await room.pool.fetchval("SELECT count(*) FROM payment_events") == 1
        assert behind.activity.ended == {"healed": 1}


async def test_worker_paused_past_its_lease_changes_nothing(database: Any) -> None:
    async with open_room(database.url) as room:
        job_id = await room.add_job("pay-1")
        asked, awake = asyncio.Event(), asyncio.Event()

        async def script(question: Question) -> Answer:
            asked.set()
            await awake.wait()
            return succeeded(question.payment_id)

        async with running(room.worker(ScriptedPsp(script))) as stop:
            await asked.wait()
            await room.expire(job_id)
            second = await room.claim_one("second")
            stop.set()
            awake.set()
        assert (await room.payment("pay-1"))["status"] == "pending"
        assert await room.pool.fetchval("SELECT count(*) FROM payment_events") == 0
        assert await room.attempts(job_id) == ["expired", None]
        assert room.activity.ended == {"lost": 1}
        await jobs.finish(
            room.pool, owner="second", endings=[jobs.Ending(second.lease, "still_pending")]
        )


async def test_lease_that_ran_out_ends_nothing_even_if_nobody_took_the_job(database: Any) -> None:
    async with open_room(database.url) as room:
        job_id = await room.add_job("pay-1")

        async def script(question: Question) -> Answer:
            await room.expire(job_id)
            stop.set()
            return succeeded(question.payment_id)

        stop = asyncio.Event()
        await room.worker(ScriptedPsp(script)).run(stop)
        assert (await room.payment("pay-1"))["status"] == "pending"
        assert (await room.job(job_id))["status"] == "processing"
        assert room.activity.ended == {"lost": 1}


async def test_one_payment_that_the_database_refuses_does_not_keep_its_group(
    database: Any,
) -> None:
    async with open_room(database.url) as room:
        names = ["bad", *(f"good-{number}" for number in range(5))]
        ids = {name: await room.add_job(name, attempts_max=1) for name in names}
        await room.pool.execute(REFUSE_ONE)
        async with running(room.worker(ScriptedPsp())):
            for name in names[1:]:
                await _ended(room, ids[name])
            await until(lambda: _closed(room, ids["bad"]))
        assert await room.attempts(ids["bad"]) == ["failed"]
        assert (await room.payment("bad"))["status"] == "pending"


async def test_heal_cap_holds_and_the_rest_is_due_in_the_next_minute(database: Any) -> None:
    async with open_room(database.url) as room:
        for number in range(8):
            await room.add_job(f"pay-{number}")
        # An allowance that no new minute fills again while the test runs.
        await room.pool.execute(
            "UPDATE controls SET heals_left = 3, heals_minute = now() + interval '1 hour'"
        )
        async with running(room.worker(ScriptedPsp())):
            await until(lambda: _all_attempted(room, 8))
        statuses = await room.pool.fetch("SELECT status, count(*) FROM payments GROUP BY 1")
        assert dict(map(tuple, statuses)) == {"succeeded": 3, "pending": 5}
        soon = await room.pool.fetchval(
            "SELECT count(*) FROM reconciliation_jobs WHERE status = 'pending' "
            "AND run_at BETWEEN now() + interval '40 seconds' AND now() + interval '65 seconds'"
        )
        assert soon == 5
        assert room.activity.heals_deferred == 5


async def test_nothing_heals_while_healing_is_paused_in_the_midst(database: Any) -> None:
    async with open_room(database.url) as room:
        job_id = await room.add_job("pay-1")

        async def script(question: Question) -> Answer:
            assert await controls.change(room.pool, version=0, healing_paused=True)
            return succeeded(question.payment_id)

        async with running(room.worker(ScriptedPsp(script))):
            await until(lambda: _closed(room, job_id))
        assert await room.attempts(job_id) == ["released"]
        assert (await room.payment("pay-1"))["status"] == "pending"


@pytest.mark.parametrize("switch", ["setting", "controls"])
async def test_shadow_mode_logs_what_it_would_do_and_touches_nothing(
    database: Any, switch: str
) -> None:
    async with open_room(database.url) as room:
        job_id = await room.add_job("pay-1")
        before = await room.payment("pay-1")
        terms = replace(TERMS, mode="shadow" if switch == "setting" else "enforce")
        if switch == "controls":
            assert await controls.change(room.pool, version=0, mode="shadow")
        async with running(room.worker(ScriptedPsp(), settle=terms)):
            await _ended(room, job_id)
        after = await room.payment("pay-1")
        bookkeeping = {"checks", "next_check_at"}
        assert {k for k in after.keys() if after[k] != before[k]} == bookkeeping  # noqa: SIM118 - a record, no dict
        assert (await room.job(job_id))["outcome"] == "shadow"
        log = await room.pool.fetchrow("SELECT * FROM payment_events")
        assert (log["outcome"], log["row_version"]) == ("shadow", 1)
        assert log["changes"]["status"] == ["pending", "succeeded"]
        for table in ("outbox", "psp_payments", "discrepancies"):
            assert await room.pool.fetchval(f"SELECT count(*) FROM {table}") == 0  # noqa: S608 - a constant


async def test_deadlock_and_lock_time_out_are_tried_again(database: Any) -> None:
    async with open_room(database.url) as room:
        job_id = await room.add_job("pay-1")
        room.options = replace(room.options, lock_timeout_seconds=0.1)
        async with open_room_of(room) as impatient, room.pool.acquire() as other:
            holding = other.transaction()
            await holding.start()
            await jobs.lock_payments(other, ["pay-1"])
            async with running(impatient.worker(ScriptedPsp())):
                await until(lambda: _waits_for_lock(room))
                await asyncio.sleep(0.3)
                await holding.rollback()
                await _ended(room, job_id)
        assert await room.attempts(job_id) == ["healed"]


async def test_shutdown_is_bounded_with_the_database_gone(database: Any) -> None:
    """Reported as procrastinate 1591 and procrastinate 1116."""
    async with (
        open_room(database.url) as room,
        database_proxy(database.url) as proxy,
        open_room(proxy.url(database.url)) as behind,
    ):
        await room.add_job("pay-1")
        asked = asyncio.Event()

        async def script(question: Question) -> Answer:
            asked.set()
            await asyncio.sleep(0.1)
            return succeeded(question.payment_id)

        async with running(behind.worker(ScriptedPsp(script), drain_seconds=1)) as stop:
            await asked.wait()
            proxy.black_hole = True
            stop.set()
            started = asyncio.get_running_loop().time()
        assert asyncio.get_running_loop().time() - started < 1 + 1 + 3 + 3 + 1


def open_room_of(room: Room) -> Any:
    """A second room on the same database, with the first one's options."""
    return open_room(room.options.url, options=room.options)


async def _ended(room: Room, job_id: int) -> None:
    async def completed() -> bool:
        return bool((await room.job(job_id))["status"] == "completed")

    await until(completed)


async def _told(room: Room) -> int:
    return room.activity.ended.total()


async def _closed(room: Room, job_id: int) -> bool:
    outcomes = await room.attempts(job_id)
    return bool(outcomes) and None not in outcomes


async def _all_attempted(room: Room, number: int) -> bool:
    count: int = await room.pool.fetchval(
        "SELECT count(*) FROM reconciliation_attempts WHERE outcome IS NOT NULL"
    )
    return count >= number


async def _waits_for_lock(room: Room) -> bool:
    count: int = await room.pool.fetchval(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
        "AND datname = current_database()"
    )
    return count > 0
