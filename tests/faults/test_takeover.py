"""A worker that dies or sleeps in the midst of a job: the job is done once, by another.

Times are the database's own, from the rows of the attempts.
"""

import asyncpg

from tests.faults.house import (
    INSERT_JOB,
    INSERT_PAYMENT,
    House,
    logged,
    until,
    until_started,
)
from tests.support.processes import ServiceProcess

WORKER = "reconcile,watch"
TTL_SECONDS, WATCHER_SECONDS = 3, 1
# A process of a busy machine may be late by this much.
SLACK_SECONDS = 8
# One answer takes this long, below the PSP's time-out: enough to be caught in the midst of it.
SLOW = {"PSP__TIMEOUT_SECONDS": "2"}
ANSWER_SECONDS = 1.2

SECOND_CLAIM = """
SELECT extract(epoch FROM second.started_at - first.started_at)
FROM reconciliation_attempts AS first
JOIN reconciliation_attempts AS second ON second.job_id = first.job_id AND second.lease_epoch = 2
WHERE first.lease_epoch = 1
"""
WAITERS = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND wait_event_type = 'Lock' AND state = 'active'
"""


async def claimed_by(house: House, worker: ServiceProcess, *, epoch: int) -> None:
    """Wait until an attempt of this process is open."""

    async def is_claimed() -> bool:
        query = """
            SELECT lease_owner FROM reconciliation_attempts
            WHERE lease_epoch = $1 AND finished_at IS NULL
        """
        owner = await house.connection.fetchval(query, epoch)
        return owner is not None and owner.split("/")[1] == str(worker.pid)

    await until(is_claimed, f"claim {epoch} by process {worker.pid}")


async def asked(house: House, times: int) -> None:
    await until(lambda: house.psp.calls.total() >= times, f"question {times} at the PSP")


async def test_job_of_a_killed_worker_is_taken_over_in_time_and_heals_once(
    worker_house: House,
) -> None:
    """Reported as procrastinate 307 and pgqueuer 630."""
    house = worker_house
    house.know("pay-1")
    house.slow_down(ANSWER_SECONDS)
    first = house.start(WORKER, **SLOW)
    await until_started(first)
    await house.add_job("pay-1")
    await claimed_by(house, first, epoch=1)
    second = house.start(WORKER, **SLOW)
    await asked(house, 1)
    first.kill()
    await until_started(second)
    await house.until_status("pay-1", "succeeded")

    seconds = await house.connection.fetchval(SECOND_CLAIM)
    assert TTL_SECONDS <= seconds <= TTL_SECONDS + WATCHER_SECONDS + SLACK_SECONDS
    assert await house.attempts() == [(1, "expired"), (2, "healed")]
    assert await house.jobs() == [("completed", "healed")]
    assert await house.log_of("pay-1") == [("heal", "applied")]


async def test_paused_owner_that_wakes_up_late_changes_nothing(worker_house: House) -> None:
    """Reported as aegra PR 547."""
    house = worker_house
    house.know("pay-1")
    house.slow_down(ANSWER_SECONDS)
    first = house.start(WORKER, **SLOW)
    await until_started(first)
    await house.add_job("pay-1")
    await asked(house, 1)
    first.pause()
    house.slow_down(0)
    second = house.start(WORKER, **SLOW)
    await house.until_status("pay-1", "succeeded")
    before = await house.everything()

    first.resume()
    await until(lambda: logged(first, "lease.lost") or logged(first, "job.released"), "it noticed")
    assert await house.everything() == before
    assert await house.attempts() == [(1, "expired"), (2, "healed")]
    assert await house.log_of("pay-1") == [("heal", "applied")]
    assert first.running

    second.terminate()
    await second.wait(15)
    house.know("pay-2")
    await house.add_job("pay-2")
    await house.until_status("pay-2", "succeeded")


async def test_owner_paused_inside_its_transaction_is_fenced_by_the_database(
    worker_house: House,
) -> None:
    """It has its answer and stands before the fence: its own clock cannot save it any more."""
    house = worker_house
    house.know("pay-1")
    first = house.start(WORKER)
    await until_started(first)
    await house.connection.execute(INSERT_PAYMENT, "pay-1")
    locker = await asyncpg.connect(house.url)
    async with locker.transaction():
        await locker.execute("SELECT FROM payments FOR UPDATE")
        await house.connection.execute(INSERT_JOB, "pay-1")
        await house.until_count(WAITERS, 1)
        first.pause()
    await locker.close()
    second = house.start(WORKER)
    await claimed_by(house, second, epoch=2)
    first.resume()
    await house.until_status("pay-1", "succeeded")

    await house.until_count("SELECT count(*) FROM reconciliation_jobs WHERE outcome = 'healed'", 1)
    assert await house.log_of("pay-1") == [("heal", "applied")]
    assert await house.attempts() == [(1, "expired"), (2, "healed")]
    (actor,) = await house.rows("SELECT actor FROM payment_events")
    assert actor[0].split("/")[1] == str(second.pid)
