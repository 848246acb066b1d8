"""A job from its claim to its end, with a PSP that answers, keeps silent, or takes its time."""

import asyncio
from typing import Any

from service.psp.port import Answer, NotFound, Question, Unavailable
from service.reconcile.lease import LeaseTerms
from service.store import jobs
from tests.support.reconciling import (
    Room,
    ScriptedPsp,
    answered,
    open_room,
    running,
    short_lease,
    succeeded,
    until,
)


async def test_success_that_was_missed_here_is_healed_with_log_and_outgoing_event(
    database: Any,
) -> None:
    async with open_room(database.url) as room:
        job_id = await room.add_job("pay-1")
        async with running(room.worker(ScriptedPsp())):
            await _ended(room, job_id)
        assert (await room.job(job_id))["outcome"] == "healed"
        payment = await room.payment("pay-1")
        assert (payment["status"], payment["row_version"]) == ("succeeded", 2)
        assert payment["next_check_at"] is None
        log = await room.pool.fetchrow("SELECT * FROM payment_events")
        assert (log["kind"], log["outcome"]) == ("heal", "applied")
        assert log["changes"]["status"] == ["pending", "succeeded"]
        assert await room.pool.fetchval("SELECT value->>'entityversion' FROM outbox") == "2"
        assert await room.attempts(job_id) == ["healed"]


async def test_late_older_event_after_a_heal_turns_nothing_back(database: Any) -> None:
    async with open_room(database.url) as room:
        first = await room.add_job("pay-1")
        psp = ScriptedPsp(_always(lambda name: succeeded(name, version=5)))
        async with running(room.worker(psp)):
            await _ended(room, first)
            await room.pool.execute("UPDATE payments SET status = 'pending'")
            psp.script = _always(lambda name: answered(name, "failed", version=4))
            second = await room.pool.fetchval(
                "INSERT INTO reconciliation_jobs (payment_id, reason) VALUES ('pay-1', 'due') "
                "RETURNING job_id"
            )
            await _ended(room, second)
        row = await room.pool.fetchrow("SELECT psp_version, psp_status FROM psp_payments")
        assert tuple(row) == (5, "succeeded")
        outcomes = await room.pool.fetch("SELECT outcome FROM payment_events ORDER BY log_id")
        assert [each[0] for each in outcomes] == ["applied", "stale"]


async def test_other_amount_opens_a_mismatch_and_heals_nothing(database: Any) -> None:
    async with open_room(database.url) as room:
        job_id = await room.add_job("pay-1")
        psp = ScriptedPsp(_always(lambda name: succeeded(name, minor=999)))
        async with running(room.worker(psp)):
            await _ended(room, job_id)
        assert (await room.job(job_id))["outcome"] == "discrepancy"
        assert (await room.payment("pay-1"))["status"] == "pending"
        assert await room.pool.fetchval("SELECT kind FROM discrepancies") == "AMOUNT_MISMATCH"


async def test_no_answer_is_a_recorded_release_that_counts_as_no_attempt(database: Any) -> None:
    async with open_room(database.url) as room:
        job_id = await room.add_job("pay-1", attempts_max=2)
        silence = Unavailable("timeout", None, "no answer in time")
        replies: list[Answer] = [silence] * 4
        psp = ScriptedPsp()

        async def script(question: Question) -> Answer:
            return replies.pop() if replies else succeeded(question.payment_id)

        psp.script = script
        async with running(room.worker(psp)):
            await _ended(room, job_id)
        row = await room.job(job_id)
        assert (row["outcome"], row["attempts"], row["releases"]) == ("healed", 5, 4)
        assert await room.attempts(job_id) == ["released"] * 4 + ["healed"]
        assert row["last_error"] == "timeout: no answer in time"


async def test_silence_is_as_long_as_the_psp_asks_for(database: Any) -> None:
    async with open_room(database.url) as room:
        job_id = await room.add_job("pay-1")
        psp = ScriptedPsp(_always(lambda _: Unavailable("server_error", 90.0, "status 503")))
        async with running(room.worker(psp)):
            await until(lambda: _releases(room, job_id))
        wait = (await room.job(job_id))["run_at"] - await room.pool.fetchval("SELECT now()")
        assert 80 < wait.total_seconds() <= 91


async def test_open_breaker_pauses_claiming_instead_of_churning(database: Any) -> None:
    async with open_room(database.url) as room:
        for number in range(30):
            await room.add_job(f"pay-{number}")
        psp = ScriptedPsp(_always(lambda _: Unavailable("breaker_open", 60.0, "left alone")))
        async with running(room.worker(psp, concurrency=2)):
            await until(lambda: _count(room, "releases >= 1"))
            await asyncio.sleep(0.5)
        assert len(psp.asked) == 2


async def test_our_own_bug_counts_as_an_attempt_and_ends_dead(database: Any) -> None:
    async with open_room(database.url) as room:
        job_id = await room.add_job("poison", attempts_max=3)

        async def script(_: Question) -> Answer:
            raise KeyError("token=abcdef1234567890")

        async with running(room.worker(ScriptedPsp(script))):
            await until(lambda: _count(room, "attempts = 3 AND status = 'pending'"))
        assert await room.attempts(job_id) == ["failed"] * 3
        row = await room.job(job_id)
        assert row["last_error"].startswith("KeyError: ")
        assert "abcdef1234567890" not in row["last_error"]
        await room.watcher().round()
        assert (await room.job(job_id))["status"] == "dead"
        assert await room.pool.fetchval("SELECT kind FROM discrepancies") == "STUCK_PENDING"


async def test_job_of_ten_leases_is_claimed_once_while_its_heart_beats(database: Any) -> None:
    """Reported as pgqueuer 430 and pgqueuer 323."""
    async with open_room(database.url) as room:
        job_id = await room.add_job("pay-1")
        ended = asyncio.Event()

        async def script(question: Question) -> Answer:
            await ended.wait()
            return succeeded(question.payment_id)

        slow, idle = ScriptedPsp(script), ScriptedPsp()
        terms = short_lease()
        async with (
            running(room.worker(slow, lease=terms)),
            running(room.worker(idle, lease=short_lease())),
        ):
            await until(lambda: _count(room, "status = 'processing'"))
            await asyncio.sleep(10 * terms.ttl_seconds)
            ended.set()
            await _ended(room, job_id)
        row = await room.job(job_id)
        assert (row["outcome"], row["attempts"], row["lease_epoch"]) == ("healed", 1, 1)
        assert (len(slow.asked), len(idle.asked)) in {(1, 0), (0, 1)}


async def test_payment_that_moved_meanwhile_is_asked_about_again(database: Any) -> None:
    """Reported as pay-connector ChargeNotificationProcessor: read again, decide again."""
    async with open_room(database.url) as room:
        job_id = await room.add_job("pay-1")
        psp = ScriptedPsp()

        async def script(question: Question) -> Answer:
            if len(psp.asked) == 1:
                await room.pool.execute("UPDATE payments SET row_version = row_version + 1")
                return answered(question.payment_id, "failed")
            return succeeded(question.payment_id)

        psp.script = script
        async with running(room.worker(psp)):
            await _ended(room, job_id)
        assert len(psp.asked) == 2
        assert (await room.payment("pay-1"))["status"] == "succeeded"
        assert await room.attempts(job_id) == ["healed"]


async def test_payment_that_keeps_moving_is_asked_about_three_times_and_released(
    database: Any,
) -> None:
    async with open_room(database.url) as room:
        job_id = await room.add_job("pay-1")

        async def script(question: Question) -> Answer:
            await room.pool.execute("UPDATE payments SET row_version = row_version + 1")
            return succeeded(question.payment_id)

        psp = ScriptedPsp(script)
        async with running(room.worker(psp, backoff_max_seconds=60)):
            await until(lambda: _releases(room, job_id))
            assert len(psp.asked) == 3
        assert (await room.payment("pay-1"))["status"] == "pending"


async def test_payment_that_events_settled_is_not_asked_about(database: Any) -> None:
    async with open_room(database.url) as room:
        job_id = await room.add_job("pay-1")
        await room.pool.execute("UPDATE payments SET status = 'succeeded'")
        psp = ScriptedPsp()
        async with running(room.worker(psp)):
            await _ended(room, job_id)
        assert psp.asked == []
        assert (await room.job(job_id))["outcome"] == "superseded"
        assert (await room.payment("pay-1"))["next_check_at"] is None


async def test_psp_that_does_not_know_the_payment_is_believed_the_second_time(
    database: Any,
) -> None:
    async with open_room(database.url) as room:
        job_id = await room.add_job("pay-1")
        async with running(room.worker(ScriptedPsp(_always(lambda _: NotFound())))):
            await _ended(room, job_id)
            assert await room.pool.fetchval("SELECT count(*) FROM discrepancies") == 0
            await room.pool.execute(
                "UPDATE payments SET not_found_since = now() - interval '11 minutes'"
            )
            await room.pool.execute(
                "INSERT INTO reconciliation_jobs (payment_id, reason) VALUES ('pay-1', 'due')"
            )
            await until(lambda: room.pool.fetchval("SELECT kind FROM discrepancies"))
        assert await room.pool.fetchval("SELECT kind FROM discrepancies") == "MISSING_AT_PSP"
        assert (await room.payment("pay-1"))["status"] == "pending"


async def test_shutdown_lets_running_jobs_end_and_gives_the_rest_back(database: Any) -> None:
    async with open_room(database.url) as room:
        quick, stuck = await room.add_job("quick"), await room.add_job("stuck")
        stopping = asyncio.Event()

        async def script(question: Question) -> Answer:
            await stopping.wait()
            if question.payment_id == "stuck":
                await asyncio.Event().wait()
            return succeeded(question.payment_id)

        psp = ScriptedPsp(script)
        async with running(room.worker(psp, drain_seconds=0.5)) as stop:
            await until(lambda: _count(room, "status = 'processing'", number=2))
            stop.set()
            stopping.set()
        assert (await room.job(quick))["outcome"] == "healed"
        row = await room.job(stuck)
        assert (row["status"], row["releases"], row["lease_owner"]) == ("pending", 1, None)
        assert await room.attempts(stuck) == ["released"]
        assert (await room.claim_one("next")).lease.job_id == stuck


async def test_jobs_of_a_claim_whose_answer_was_lost_are_given_back_and_claimed_again(
    database: Any,
) -> None:
    """The claim commits, then the read of its payments waits for too long: nobody works on them."""
    async with open_room(database.url) as room:
        job_id = await room.add_job("pay-1")
        locker = await database.connect()
        given_back = "SELECT count(*) FROM reconciliation_attempts WHERE error LIKE '%not answered'"
        lock = locker.transaction()
        await lock.start()
        await locker.execute("LOCK TABLE payments IN ACCESS EXCLUSIVE MODE")
        async with running(room.worker(ScriptedPsp(), claim_seconds=0.3)):
            await until(lambda: room.pool.fetchval(given_back))
            await lock.rollback()
            await _ended(room, job_id)
        *lost, last = await room.attempts(job_id)
        assert (set(lost), last) == ({"released"}, "healed")
        row = await room.job(job_id)
        assert (row["attempts"], row["releases"]) == (len(lost) + 1, len(lost))


async def test_lease_taken_away_cancels_the_job_and_nothing_is_written(database: Any) -> None:
    async with open_room(database.url) as room:
        job_id = await room.add_job("pay-1")
        cancelled = asyncio.Event()

        async def script(_: Question) -> Answer:
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()
            raise AssertionError

        terms = LeaseTerms(
            owner="a/1/x", ttl_seconds=30, heartbeat_seconds=0.05, statement_seconds=1
        )
        async with running(room.worker(ScriptedPsp(script), lease=terms)) as stop:
            await until(lambda: _count(room, "status = 'processing'"))
            await room.pool.execute(
                "UPDATE reconciliation_jobs SET lease_owner = 'b/2/y', lease_epoch = 2"
            )
            async with asyncio.timeout(5):
                await cancelled.wait()
            stop.set()
        row = await room.job(job_id)
        assert (row["lease_owner"], row["status"], row["releases"]) == ("b/2/y", "processing", 0)
        assert room.activity.ended["lost"] == 1


async def test_claims_of_a_full_queue_do_not_wait_for_the_poll(database: Any) -> None:
    async with open_room(database.url) as room:
        for number in range(60):
            await room.add_job(f"pay-{number}")
        worker = room.worker(ScriptedPsp(), concurrency=2)
        started = asyncio.get_running_loop().time()
        async with running(worker):
            await until(lambda: _count(room, "status = 'completed'", number=60))
        # 30 claims of two: at the poll's pace of 50 ms they would take longer than this.
        assert asyncio.get_running_loop().time() - started < 30 * 0.05
        assert await jobs.claim(room.pool, owner="o", slots=5, ttl_seconds=60) == []


def _always(answer: Any) -> Any:
    async def script(question: Question) -> Answer:
        reply: Answer = answer(question.payment_id)
        return reply

    return script


async def _ended(room: Room, job_id: int) -> None:
    async def completed() -> bool:
        return bool((await room.job(job_id))["status"] == "completed")

    await until(completed)


async def _releases(room: Room, job_id: int) -> int:
    releases: int = (await room.job(job_id))["releases"]
    return releases


async def _count(room: Room, condition: str, *, number: int = 1) -> bool:
    count: int = await room.pool.fetchval(
        f"SELECT count(*) FROM reconciliation_jobs WHERE {condition}"  # noqa: S608 - a test's own words
    )
    return count >= number
