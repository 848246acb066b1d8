"""Jobs whose worker is gone come back, and those that cannot succeed end for a person to see."""

from typing import Any

from service.store import jobs
from tests.support.reconciling import Room, open_room

FREEZE_JOB = """
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'this row cannot be changed'; END $$;
CREATE TRIGGER frozen BEFORE UPDATE ON reconciliation_jobs
FOR EACH ROW WHEN (OLD.payment_id LIKE 'bad%') EXECUTE FUNCTION refuse();
"""
LEASE_THAT_RAN_OUT = """
WITH job AS (
    UPDATE reconciliation_jobs
    SET
        status = 'processing', lease_owner = 'gone', lease_until = now() - interval '1 second',
        lease_epoch = 1, attempts = $2
    WHERE job_id = $1
    RETURNING job_id
)
INSERT INTO reconciliation_attempts (job_id, lease_epoch, attempt, lease_owner)
SELECT job_id, 1, $2, 'gone' FROM job
"""


async def test_expired_job_is_due_at_once_after_its_first_expiry(database: Any) -> None:
    async with open_room(database.url) as room:
        job_id = await _expired(room, "pay-1")
        await room.watcher().round()
        row = await room.job(job_id)
        assert (row["status"], row["lease_owner"], row["lease_epoch"]) == ("pending", None, 1)
        assert await room.attempts(job_id) == ["expired"]
        assert (await room.claim_one("next")).lease.epoch == 2
        assert room.activity.ended["expired"] == 1


async def test_later_expiries_back_off_within_the_doubling_wait(database: Any) -> None:
    async with open_room(database.url) as room:
        ids = [await _expired(room, f"pay-{number}", attempts=3) for number in range(20)]
        await room.watcher().round()
        waits = [
            (await room.job(job_id))["run_at"] - await room.pool.fetchval("SELECT now()")
            for job_id in ids
        ]
        seconds = [wait.total_seconds() for wait in waits]
        assert max(seconds) <= 2**3
        assert len({round(each, 3) for each in seconds}) > 10
        assert max(seconds) > 1


async def test_job_that_kills_its_worker_ends_dead_and_opens_stuck_pending(database: Any) -> None:
    """Reported as blnk queue recovery and hindsight 2675. What cannot be explained is reviewed."""
    async with open_room(database.url) as room:
        job_id = await room.add_job("poison", attempts_max=3)
        for _ in range(3):
            await room.pool.execute("UPDATE reconciliation_jobs SET run_at = now()")
            await room.claim_one("o")
            await room.expire(job_id)
            await room.watcher().round()
        row = await room.job(job_id)
        assert (row["status"], row["lease_owner"], row["lease_epoch"]) == ("dead", None, 3)
        assert await room.attempts(job_id) == ["expired", "expired", "expired"]
        assert await jobs.claim(room.pool, owner="o", slots=5, ttl_seconds=60) == []
        kinds = await room.pool.fetch("SELECT kind FROM discrepancies WHERE status = 'open'")
        assert [kind[0] for kind in kinds] == ["STUCK_PENDING"]
        payment = await room.payment("poison")
        now = await room.pool.fetchval("SELECT now()")
        assert 23 < (payment["next_check_at"] - now).total_seconds() / 3600 <= 24
        assert payment["row_version"] == 2
        assert await room.pool.fetchval("SELECT count(*) FROM outbox") == 1


async def test_releases_do_not_bring_a_job_nearer_to_its_end(database: Any) -> None:
    async with open_room(database.url) as room:
        job_id = await room.add_job("pay-1", attempts_max=2)
        for _ in range(5):
            job = await room.claim_one("o")
            back = jobs.PutBack(job.lease, "released", 0, "timeout")
            assert await jobs.put_back(room.pool, owner="o", backs=[back])
        await room.watcher().round()
        row = await room.job(job_id)
        assert (row["status"], row["attempts"], row["releases"]) == ("pending", 5, 5)


async def test_live_lease_is_left_alone(database: Any) -> None:
    """Reported as hexpm PR 1825."""
    async with open_room(database.url) as room:
        job_id = await room.add_job("pay-1")
        await room.claim_one("o")
        await room.watcher().round()
        assert (await room.job(job_id))["lease_owner"] == "o"


async def test_one_bad_row_does_not_keep_the_others_waiting(database: Any) -> None:
    async with open_room(database.url) as room:
        bad = await _expired(room, "bad-1")
        good = [await _expired(room, f"good-{number}") for number in range(3)]
        await room.pool.execute(FREEZE_JOB)
        await room.watcher().round()
        assert (await room.job(bad))["status"] == "processing"
        for job_id in good:
            assert (await room.job(job_id))["status"] == "pending"


async def test_full_page_of_bad_rows_does_not_hide_the_later_ones(database: Any) -> None:
    """Reported as river PR 1318."""
    async with open_room(database.url) as room:
        for number in range(4):
            await _expired(room, f"bad-{number}")
        good = await _expired(room, "good")
        await room.pool.execute(FREEZE_JOB)
        await room.watcher(page_max=2).round()
        assert (await room.job(good))["status"] == "pending"


async def test_one_bad_row_does_not_keep_others_from_ending(database: Any) -> None:
    async with open_room(database.url) as room:
        bad = await _expired(room, "bad-1", attempts=8)
        good = await _expired(room, "good", attempts=8)
        await room.pool.execute(FREEZE_JOB)
        await room.watcher().round()
        assert (await room.job(bad))["status"] == "processing"
        assert (await room.job(good))["status"] == "dead"


async def test_job_finished_meanwhile_is_not_brought_back(database: Any) -> None:
    """Reported as river 1302."""
    async with open_room(database.url) as room:
        job_id = await _expired(room, "pay-1")
        (page,) = await jobs.abandoned(room.pool, after=jobs.SWEEP_START, limit=5)
        second = await room.claim_one("second")
        ending = jobs.Ending(second.lease, "consistent")
        await jobs.finish(room.pool, owner="second", endings=[ending])
        assert await jobs.return_expired(room.pool, [page.lease]) == 0
        assert not await jobs.die(room.pool, page.lease)
        assert (await room.job(job_id))["status"] == "completed"


async def test_oldest_expired_lease_is_told_in_seconds(database: Any) -> None:
    """Reported as river 1258."""
    async with open_room(database.url) as room:
        assert await jobs.oldest_expired_seconds(room.pool) == 0
        await _expired(room, "pay-1")
        await room.pool.execute(
            "UPDATE reconciliation_jobs SET lease_until = now() - interval '100 seconds'"
        )
        await room.watcher().round()
        assert 100 <= room.activity.oldest_expired_seconds < 130


async def _expired(room: Room, payment_id: str, *, attempts: int = 1) -> int:
    """A job whose worker is gone since its `attempts`th claim."""
    job_id = await room.add_job(payment_id)
    await room.pool.execute(LEASE_THAT_RAN_OUT, job_id, attempts)
    return job_id
