"""Serialization failures and deadlocks at every change of a job, and none of our own making."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from service.psp.port import Answer, Question, Unavailable
from service.reconcile.scheduler import Scheduler, SchedulerTerms
from service.reconcile.watcher import Watcher, WatcherTerms
from service.store import jobs
from service.store.statements import sql
from tests.support.reconciling import (
    OUTCOME_TOPIC,
    RULES,
    Room,
    ScriptedPsp,
    open_room,
    running,
    short_lease,
    succeeded,
    until,
)

FAILURES = 3
FAIL_SOME = """
CREATE SEQUENCE failures;
CREATE FUNCTION fail_some() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN
    IF nextval('failures') <= {failures} THEN
        RAISE EXCEPTION 'injected' USING ERRCODE = '{sqlstate}';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER failing BEFORE {event} ON reconciliation_jobs
FOR EACH ROW {condition} EXECUTE FUNCTION fail_some();
"""
# Which change of a job fails, by the part that makes it.
STEPS = {
    "scheduler": ("INSERT", ""),
    "claim": ("UPDATE", "WHEN (OLD.lease_epoch < NEW.lease_epoch)"),
    "heartbeat": (
        "UPDATE",
        "WHEN (OLD.lease_epoch = NEW.lease_epoch AND OLD.lease_until < NEW.lease_until)",
    ),
    "completion": ("UPDATE", "WHEN (NEW.status = 'completed')"),
    "put back": ("UPDATE", "WHEN (OLD.releases < NEW.releases)"),
    "watcher, expired": ("UPDATE", "WHEN (NEW.status = 'pending' AND OLD.lease_owner = 'gone')"),
    "watcher, dead": ("UPDATE", "WHEN (NEW.status = 'dead')"),
}
CHURN_SECONDS, CHURN_SECONDS_MAX = 6, 12
ENDS_MIN = 500
UNHAPPY = ("released", "expired", "lost", "dead")
COME_DUE = """
UPDATE payments SET status = 'pending', next_check_at = now()
WHERE payment_id IN (
    SELECT payment_id FROM payments ORDER BY payment_id FOR NO KEY UPDATE SKIP LOCKED
)
"""
LOSE_SOME = """
UPDATE reconciliation_jobs SET lease_until = now() - interval '1 second'
WHERE job_id IN (
    SELECT job_id FROM reconciliation_jobs WHERE status = 'processing'
    ORDER BY job_id LIMIT 5 FOR NO KEY UPDATE SKIP LOCKED
)
"""
ARE_FINISHED = """
INSERT INTO reconciliation_jobs (payment_id, reason, run_at, status, outcome, finished_at)
SELECT
    'done-' || number, 'due', now() - number * interval '1 second', 'completed', 'consistent', now()
FROM generate_series(1, 200000) AS number
"""
ARE_DUE = """
INSERT INTO reconciliation_jobs (payment_id, reason)
SELECT 'due-' || number, 'due' FROM generate_series(1, 50) AS number
"""
# The indexes of open jobs alone, and the one by which those that were found are changed.
BY_INDEX = {"reconciliation_jobs_open", "reconciliation_jobs_one_open", "reconciliation_jobs_pkey"}
EXPLAIN = "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "


@pytest.mark.parametrize("sqlstate", ["40001", "40P01"])
@pytest.mark.parametrize("step", STEPS)
async def test_conflict_is_tried_again_and_ends_no_part(
    database: Any, step: str, sqlstate: str
) -> None:
    """Reported as oban 1030, oban 1132 and graphile 387."""
    event, condition = STEPS[step]
    async with open_room(database.url) as room:
        await _a_job_for_each_part(room)
        await room.pool.execute(
            FAIL_SOME.format(failures=FAILURES, sqlstate=sqlstate, event=event, condition=condition)
        )
        psp = ScriptedPsp()

        async def script(question: Question) -> Answer:
            if len(psp.asked) == 1:
                return Unavailable("server_error", None, "status 503")
            if step == "heartbeat":
                await until(lambda: _failed_enough(room))
            return succeeded(question.payment_id)

        psp.script = script
        async with _all_parts(room, psp):
            await until(lambda: _status(room, "due", "completed"))
            await until(lambda: _status(room, "expired", "completed"))
            await until(lambda: _status(room, "worn-out", "dead"))
        assert await _failed_enough(room)
        for name in ("due", "expired"):
            assert (await room.payment(name))["status"] == "succeeded"
        healed = "SELECT count(*) FROM payment_events WHERE payment_id <> 'worn-out'"
        assert await room.pool.fetchval(healed) == 2


async def test_worker_is_the_victim_of_a_real_deadlock_and_ends_the_job_all_the_same(
    database: Any,
) -> None:
    """Reported as oban 1030, oban 1132 and graphile 387. Another locks in the wrong order."""
    async with open_room(database.url) as room:
        await room.add_job("pay-1")
        async with room.pool.acquire() as other:

            async def script(question: Question) -> Answer:
                await _lock_job(other)
                return succeeded(question.payment_id)

            async with running(room.worker(ScriptedPsp(script))):
                await _cross(room, other)
                await until(lambda: _status(room, "pay-1", "completed"))
        await until(lambda: _deadlocks(room.pool))
        assert await _deadlocks(room.pool) == 1


async def test_watcher_is_the_victim_of_a_real_deadlock_and_ends_the_job_all_the_same(
    database: Any,
) -> None:
    """Reported as oban 1030, oban 1132 and graphile 387. Another locks in the wrong order."""
    async with open_room(database.url) as room:
        job_id = await room.add_job("pay-1", attempts_max=1)
        await room.claim_one("gone")
        await room.expire(job_id)
        async with room.pool.acquire() as other:
            await _lock_job(other)
            async with _watching(room):
                await _cross(room, other)
                await until(lambda: _status(room, "pay-1", "dead"))
        await until(lambda: _deadlocks(room.pool))
        assert await _deadlocks(room.pool) == 1


async def test_parts_of_several_processes_never_deadlock_each_other(database: Any) -> None:
    """Reported as pg-boss 282. Everybody locks in one order, jobs by id."""
    async with open_room(database.url, connections_max=30) as room:
        for number in range(60):
            await room.add_payment(f"pay-{number}")
        async with AsyncExitStack() as stack:
            for _ in range(3):
                parts = _all_parts(room, ScriptedPsp(_silent_now_and_then()), concurrency=8)
                await stack.enter_async_context(parts)
            await _churn(room)
    alone = await database.connect()
    await until(lambda: _is_alone(alone))
    assert await _deadlocks(alone) == 0


async def test_claim_reads_no_more_where_many_jobs_are_finished(database: Any) -> None:
    """Reported as pg-boss 228 and procrastinate 1225."""
    async with open_room(database.url) as room:
        await room.pool.execute(ARE_DUE)
        await room.pool.execute("VACUUM ANALYZE reconciliation_jobs")
        few = await _claim_plan(room)
        await room.pool.execute("DELETE FROM reconciliation_jobs")
        await room.pool.execute(ARE_FINISHED)
        await room.pool.execute(ARE_DUE)
        await room.pool.execute("VACUUM ANALYZE reconciliation_jobs")
        many = await _claim_plan(room)
    assert set(_scans(many)) <= BY_INDEX
    assert _blocks(few) / 2 < _blocks(many) < 2 * _blocks(few)


async def _a_job_for_each_part(room: Room) -> None:
    """A payment to schedule, a job whose worker is gone, and one that is worn out besides."""
    await room.add_job("expired")
    await room.add_job("worn-out", attempts_max=1)
    await jobs.claim(room.pool, owner="gone", slots=2, ttl_seconds=60)
    # Due later: it comes back by the watcher, and not by the next claim.
    await room.pool.execute(
        "UPDATE reconciliation_jobs SET lease_until = now() - interval '1 second', "
        "run_at = now() + interval '1 minute'"
    )
    await room.pool.execute("UPDATE payments SET next_check_at = NULL")
    await room.add_payment("due")


@asynccontextmanager
async def _all_parts(room: Room, psp: ScriptedPsp, *, concurrency: int = 10) -> AsyncIterator[None]:
    """The coroutines of one process."""
    watcher = WatcherTerms(
        actor="watcher", outcome_topic=OUTCOME_TOPIC, rules=RULES, interval_seconds=0.1
    )
    # Two attempts, so that jobs die among those that are lost again and again.
    scheduler = SchedulerTerms(consumer_group="nobody", interval_seconds=0.1, attempts_max=2)
    worker = room.worker(psp, concurrency=concurrency, lease=short_lease())
    async with running(worker) as stop, asyncio.TaskGroup() as group:
        runs = (
            Watcher(room.pool, terms=watcher, activity=room.activity),
            Scheduler(room.pool, terms=scheduler, activity=room.activity),
        )
        for each in runs:
            group.create_task(each.run(stop))
        try:
            yield
        finally:
            stop.set()


@asynccontextmanager
async def _watching(room: Room) -> AsyncIterator[None]:
    terms = WatcherTerms(
        actor="watcher", outcome_topic=OUTCOME_TOPIC, rules=RULES, interval_seconds=0.1
    )
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(Watcher(room.pool, terms=terms, activity=room.activity).run(stop))
        try:
            yield
        finally:
            stop.set()


async def _lock_job(other: Any) -> None:
    # Whoever notices the deadlock is its victim: this one is too patient to notice.
    await other.execute("SET deadlock_timeout = '1min'")
    await other.execute("BEGIN")
    await other.execute("SELECT FROM reconciliation_jobs FOR NO KEY UPDATE")


async def _cross(room: Room, other: Any) -> None:
    """Wait until the part has locked the payment and waits for the job; then want the payment."""
    await until(lambda: _waits_for_lock(room))
    await other.execute("SELECT FROM payments FOR NO KEY UPDATE")
    await other.execute("COMMIT")


async def _churn(room: Room) -> None:
    """Let payments come due and leases run out, for a while and until every end was seen."""
    clock, ended = asyncio.get_running_loop().time, room.activity.ended
    began_at = clock()
    while clock() - began_at < CHURN_SECONDS or not (
        ended.total() > ENDS_MIN and all(ended[each] for each in UNHAPPY)
    ):
        assert clock() - began_at < CHURN_SECONDS_MAX, f"not every end was seen: {ended}"
        await room.pool.execute(COME_DUE)
        await room.pool.execute(LOSE_SOME)
        await room.pool.execute(
            "UPDATE reconciliation_jobs SET run_at = now() WHERE job_id IN (SELECT job_id FROM "
            "reconciliation_jobs WHERE status = 'pending' FOR NO KEY UPDATE SKIP LOCKED)"
        )
        await asyncio.sleep(0.05)


def _silent_now_and_then() -> Any:
    numbers = itertools.count()

    async def script(question: Question) -> Answer:
        number = next(numbers)
        await asyncio.sleep(0.01 * (number % 5))
        if number % 5 == 0:
            return Unavailable("server_error", None, "status 503")
        return succeeded(question.payment_id)

    return script


async def _claim_plan(room: Room) -> dict[str, Any]:
    """How the claim of 20 jobs was executed; it is undone."""
    async with room.pool.acquire() as connection:
        undone = connection.transaction()
        await undone.start()
        text = await connection.fetchval(EXPLAIN + sql("job_claim"), "me", 20, 60.0)
        await undone.rollback()
    plan: dict[str, Any] = json.loads(text)[0]["Plan"]
    return plan


def _scans(plan: dict[str, Any]) -> list[str]:
    """The indexes by which the plan reads the jobs, or how it reads them without one."""
    found = [name for child in plan.get("Plans", []) for name in _scans(child)]
    if "Index Name" in plan and "jobs" in plan["Index Name"]:
        found.append(plan["Index Name"])
    elif plan.get("Relation Name") == "reconciliation_jobs" and "Scan" in plan["Node Type"]:
        found.append(plan["Node Type"])
    return found


def _blocks(plan: dict[str, Any]) -> int:
    blocks: int = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
    return blocks


async def _failed_enough(room: Room) -> bool:
    return bool(await room.pool.fetchval("SELECT last_value FROM failures") > FAILURES)


async def _status(room: Room, payment_id: str, status: str) -> bool:
    found = await room.pool.fetchval(
        "SELECT status FROM reconciliation_jobs WHERE payment_id = $1", payment_id
    )
    return bool(found == status)


async def _deadlocks(connection: Any) -> int:
    """As the statistics tell, which arrive a moment later."""
    number: int = await connection.fetchval(
        "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    )
    return number


async def _is_alone(connection: Any) -> bool:
    number = await connection.fetchval(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    )
    return bool(number == 1)


async def _waits_for_lock(room: Room) -> bool:
    count: int = await room.pool.fetchval(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
        "AND datname = current_database()"
    )
    return count > 0
