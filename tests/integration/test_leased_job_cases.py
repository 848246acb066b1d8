"""Failures of other leased job queues, each reproduced in its kind on this one."""

import asyncio
import time
from typing import Any

import pytest
from structlog.testing import capture_logs

from service.observe.metrics import Metrics
from service.psp.breaker import CircuitBreaker
from service.psp.port import Answer, Question
from service.reconcile.heartbeat import SILENT_LEASES_MAX
from service.reconcile.lease import LeaseTerms, new_owner
from service.reports import healing_report, watcher_report
from service.store import jobs
from service.store.jobs import Lease, PutBack
from service.web.checks import Probe, Status
from service.web.samplers import sample_loop_lag
from service.web.snapshot import HealthBoard, Phase
from tests.support.reconciling import (
    Room,
    ScriptedPsp,
    open_room,
    running,
    short_lease,
    succeeded,
    until,
)

LONG_AGO = """
WITH job AS (
    UPDATE reconciliation_jobs
    SET created_at = now() - interval '7 days', run_at = now() - interval '7 days'
)
UPDATE reconciliation_attempts SET started_at = now() - interval '7 days'
"""
FREEZE_JOBS = """
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'this row cannot be changed'; END $$;
CREATE TRIGGER frozen BEFORE UPDATE ON reconciliation_jobs
FOR EACH ROW EXECUTE FUNCTION refuse();
"""
DAYS_91_SECONDS = 91 * 86_400.0


async def test_owner_with_the_host_and_pid_of_a_dead_one_hides_no_orphan(database: Any) -> None:
    """Reported as procrastinate 1518 and oban 862."""
    dead, successor = new_owner(), new_owner()
    assert dead.rsplit("/", 1)[0] == successor.rsplit("/", 1)[0]
    assert dead != successor
    async with open_room(database.url) as room:
        job_id = await room.add_job("pay-1")
        await room.claim_one(dead, ttl_seconds=0.3)
        async with running(room.worker(ScriptedPsp(), lease=short_lease(successor))):
            await _until_ended(room, job_id)
        assert await room.attempts(job_id) == ["expired", "healed"]


async def test_old_job_whose_lease_is_live_is_left_to_its_worker(database: Any) -> None:
    """Reported as hexpm PR 1825."""
    async with open_room(database.url) as room:
        job_id = await room.add_job("pay-1")
        await room.claim_one("me")
        await room.pool.execute(LONG_AGO)
        await room.watcher().round()
        assert await jobs.claim(room.pool, owner="next", slots=5, ttl_seconds=60) == []
        assert await room.attempts(job_id) == [None]


async def test_age_of_the_oldest_expired_lease_is_a_metric_until_somebody_takes_it(
    database: Any,
) -> None:
    """Reported as river 1258: jobs that ran for 91 days."""
    metrics = Metrics("test")

    async def gauge(room: Room) -> float:
        with capture_logs():  # the trace of a refused row takes its time to be printed
            await room.watcher().round()
        report()
        value = metrics.registry.get_sample_value("reconciler_lease_expired_oldest_seconds")
        assert value is not None
        return value

    async with open_room(database.url) as room:
        report = watcher_report(room.activity, metrics, interval_seconds=30)
        assert await gauge(room) == 0
        job_id = await room.add_job("pay-1")
        await room.claim_one("gone")
        await room.pool.execute(
            "UPDATE reconciliation_jobs SET lease_until = now() - interval '91 days'"
        )
        await room.pool.execute(FREEZE_JOBS)
        assert DAYS_91_SECONDS <= await gauge(room) < DAYS_91_SECONDS + 60
        await room.pool.execute("DROP TRIGGER frozen ON reconciliation_jobs")
        assert await gauge(room) >= DAYS_91_SECONDS
        assert (await room.job(job_id))["status"] == "pending"
        assert await gauge(room) == 0
    rounds = metrics.registry.get_sample_value("reconciler_watcher_rounds_total", {"result": "ok"})
    assert rounds == 4


async def test_job_that_ignores_its_cancellation_is_counted_and_commits_nothing(
    database: Any,
) -> None:
    """Reported as river 1291: it keeps its slot, as everybody can see, until it lets go."""
    stubborn, let_go = asyncio.Event(), asyncio.Event()

    async def script(question: Question) -> Answer:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stubborn.set()
        await let_go.wait()
        return succeeded(question.payment_id)

    async with open_room(database.url) as room:
        job_id = await room.add_job("pay-1")
        psp = ScriptedPsp(script)
        async with running(room.worker(psp, concurrency=1, lease=_quick_beats("first"))):
            await until(lambda: _asked(psp))
            await room.expire(job_id)
            await room.claim_one("second")
            async with asyncio.timeout(5):
                await stubborn.wait()
            assert room.activity.ended == {"lost": 1}
            assert (room.activity.slots_used, room.activity.slots_free) == (1, 0)
            let_go.set()
            await until(lambda: _is(lambda: room.activity.slots_free == 1))
        assert await room.attempts(job_id) == ["expired", None]
        assert (await room.payment("pay-1"))["status"] == "pending"
        assert await room.pool.fetchval("SELECT count(*) FROM payment_events") == 0


async def test_heartbeat_goes_on_while_no_connection_of_the_pool_is_free(database: Any) -> None:
    """Reported as good_job 1417."""
    lease = short_lease()
    answer = asyncio.Event()

    async def script(question: Question) -> Answer:
        await answer.wait()
        return succeeded(question.payment_id)

    async with (
        open_room(database.url) as outside,
        open_room(database.url, connections_max=2) as room,
    ):
        job_id = await outside.add_job("pay-1")
        psp = ScriptedPsp(script)
        async with running(room.worker(psp, lease=lease)):
            await until(lambda: _asked(psp))
            async with room.pool.acquire(), room.pool.acquire():
                await asyncio.sleep(4 * lease.ttl_seconds)
                assert await jobs.claim(outside.pool, owner="o", slots=1, ttl_seconds=60) == []
            answer.set()
            await _until_ended(outside, job_id)
        assert await outside.attempts(job_id) == ["healed"]


async def test_process_whose_heartbeat_alone_fails_is_not_ready_and_then_ends(
    database: Any,
) -> None:
    """Reported as solid_queue 778."""
    lease = short_lease()
    metrics = Metrics("test")
    async with open_room(database.url) as room:
        board = HealthBoard()
        board.enter(Phase.RUNNING)
        ttl = lease.ttl_seconds
        report = healing_report(room.activity, CircuitBreaker(5, 30), metrics, ttl_seconds=ttl)
        worker = _worker_without_heartbeat(room, lease)
        started_at = time.monotonic()
        ending = asyncio.create_task(worker.run(asyncio.Event()))

        def readiness() -> Status:
            board.publish(*report())
            return board.view(Probe.READINESS).status

        await until(lambda: _is(lambda: readiness() is Status.FAIL))
        assert not ending.done()
        with pytest.raises(ExceptionGroup) as raised:
            async with asyncio.timeout(30):
                await ending
        assert time.monotonic() - started_at > SILENT_LEASES_MAX * ttl
        assert "heartbeats keep failing" in str(raised.value.exceptions[0])


async def test_worker_outlives_an_outage_of_many_leases(database: Any) -> None:
    """Nothing answers, so nobody knows that the heartbeat is at fault."""
    lease = short_lease()
    async with open_room(database.url) as room:
        worker = _worker_without_heartbeat(room, lease)
        await room.pool.close()
        stop = asyncio.Event()
        ending = asyncio.create_task(worker.run(stop))
        await asyncio.wait([ending], timeout=2 * SILENT_LEASES_MAX * lease.ttl_seconds)
        assert not ending.done()
        stop.set()
        async with asyncio.timeout(30):
            await ending


async def test_crash_at_the_last_attempt_leaves_a_dead_job_that_people_see(database: Any) -> None:
    """Reported as graphile 254."""
    async with open_room(database.url) as room:
        job_id = await room.add_job("pay-1", attempts_max=1)
        await room.claim_one("gone")
        await room.expire(job_id)
        assert await jobs.claim(room.pool, owner="next", slots=5, ttl_seconds=60) == []
        await room.watcher().round()
        assert (await room.job(job_id))["status"] == "dead"
        assert await room.attempts(job_id) == ["expired"]
        assert await room.pool.fetchval("SELECT kind FROM discrepancies") == "STUCK_PENDING"
        assert room.activity.ended["dead"] == 1


async def test_recoveries_and_releases_never_raise_the_attempts_allowed(database: Any) -> None:
    """Reported as chancy: a poison job would live for ever."""
    async with open_room(database.url) as room:
        job_id = await room.add_job("poison", attempts_max=4)
        for number in range(4):
            job = await room.claim_one(f"owner-{number}")
            if number % 2:
                back = PutBack(job.lease, "failed", 0, "KeyError")
                await jobs.put_back(room.pool, owner=f"owner-{number}", backs=[back])
            else:
                await room.expire(job_id)
                await room.watcher().round()
            await room.pool.execute("UPDATE reconciliation_jobs SET run_at = now()")
            assert (await room.job(job_id))["max_attempts"] == 4
        await room.watcher().round()
        row = await room.job(job_id)
        assert (row["status"], row["attempts"], row["max_attempts"]) == ("dead", 4, 4)


async def test_loop_that_was_blocked_past_the_lease_is_seen_fenced_and_reported(
    database: Any,
) -> None:
    """Reported as agno PR 9512."""
    lease = short_lease("blocked")
    metrics = Metrics("test")

    async def script(question: Question) -> Answer:
        time.sleep(2 * lease.ttl_seconds + 1)  # noqa: ASYNC251 - this is the fault
        return succeeded(question.payment_id)

    async with open_room(database.url) as room:
        board = HealthBoard()
        stop = asyncio.Event()
        job_id = await room.add_job("pay-1")
        with capture_logs() as told:
            sampling = asyncio.create_task(sample_loop_lag(board, metrics, stop=stop))
            async with running(room.worker(ScriptedPsp(script), lease=lease)) as stop_worker:
                await until(lambda: _is(lambda: room.activity.ended["lost"]))
                stop_worker.set()
            await until(lambda: _is(lambda: _lag(metrics) > 1))
        assert board.view(Probe.HEALTH).checks["runtime:eventLoopLag"][0].status is Status.WARN
        assert "event_loop.blocked" in {line["event"] for line in told}
        stop.set()
        await sampling
        assert (await room.payment("pay-1"))["status"] == "pending"
        assert await room.pool.fetchval("SELECT count(*) FROM payment_events") == 0
        assert await jobs.oldest_expired_seconds(room.pool) > 0
        assert await room.attempts(job_id) == [None]


async def test_renewal_that_outlives_its_lease_does_not_renew_the_successors(
    database: Any,
) -> None:
    """Reported as aegra PR 547: even if the successor is the same owner."""
    async with open_room(database.url) as room:
        job_id = await room.add_job("pay-1")
        first = await room.claim_one("me", ttl_seconds=5)
        await room.expire(job_id)
        second = await room.claim_one("me", ttl_seconds=5)
        assert (first.lease, second.lease) == (Lease(job_id, 1), Lease(job_id, 2))
        before = (await room.job(job_id))["lease_until"]
        late = await jobs.renew(room.pool, owner="me", leases=[first.lease], ttl_seconds=3600)
        assert late == set()
        assert (await room.job(job_id))["lease_until"] == before
        assert await jobs.held(room.pool, owner="me", leases=[first.lease]) == set()


async def test_renewal_that_waited_past_the_lease_renews_nothing(database: Any) -> None:
    """Reported as aegra PR 547: it was sent in time, and executed too late."""
    async with open_room(database.url) as room:
        job_id = await room.add_job("pay-1")
        lease = (await room.claim_one("me", ttl_seconds=0.5)).lease
        async with room.pool.acquire() as locker, locker.transaction():
            await locker.execute("LOCK TABLE reconciliation_jobs IN ACCESS EXCLUSIVE MODE")
            renewing = asyncio.create_task(
                jobs.renew(room.pool, owner="me", leases=[lease], ttl_seconds=60)
            )
            await until(lambda: _waits_for_lock(room))
            await locker.execute("SELECT pg_sleep(0.6)")
        assert await renewing == set()
        assert (await room.claim_one("next")).lease == Lease(job_id, 2)


def _quick_beats(owner: str) -> LeaseTerms:
    return LeaseTerms(owner=owner, ttl_seconds=30, heartbeat_seconds=0.05, statement_seconds=1)


def _worker_without_heartbeat(room: Room, lease: LeaseTerms) -> Any:
    """A worker whose heartbeat finds no connection: the server has no more of them to give."""

    async def refuse() -> Any:
        raise ConnectionRefusedError("too many connections")

    room.connect = refuse  # type: ignore[method-assign] # the one thing that is broken in this room
    return room.worker(ScriptedPsp(), lease=lease)


def _lag(metrics: Metrics) -> float:
    return metrics.registry.get_sample_value("reconciler_event_loop_lag_seconds") or 0.0


async def _until_ended(room: Room, job_id: int) -> None:
    async def completed() -> bool:
        return bool((await room.job(job_id))["status"] == "completed")

    await until(completed)


async def _asked(psp: ScriptedPsp) -> int:
    return len(psp.asked)


async def _is(fact: Any) -> Any:
    return fact()


async def _waits_for_lock(room: Room) -> bool:
    count: int = await room.pool.fetchval(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
        "AND datname = current_database()"
    )
    return count > 0
