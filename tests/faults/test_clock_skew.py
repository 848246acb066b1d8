"""A process whose wall clock is an hour off: leases, retries and due times stay the database's.

The clocks are libfaketime's; without that library these tests are skipped.
"""

import os
import subprocess
import sys
import time
from collections.abc import Mapping

import pytest

from tests.faults.house import House, until, until_logged, until_started
from tests.support.events import erp_event
from tests.support.processes import ServiceProcess, ServiceProcesses
from tests.support.skew import faketime_library, skewed

pytestmark = pytest.mark.skipif(faketime_library() is None, reason="libfaketime is not installed")

HOUR_SECONDS = 3600
SLACK_SECONDS = 60
WORKER = "reconcile,watch"
TTL_SECONDS = 5.0
# One answer takes most of a lease.
SLOW = {
    "LEASE__TTL_SECONDS": str(TTL_SECONDS),
    "PSP__BUDGET_SECONDS": "4.5",
    "PSP__TIMEOUT_SECONDS": "4.5",
    "LEASE__CONCURRENCY": "3",
}
ANSWER_SECONDS = 3.5
CLOCKS = "import time; print(time.time(), time.monotonic())"
SECOND_CLAIM = """
SELECT extract(epoch FROM second.started_at - first.started_at)::float8
FROM reconciliation_attempts AS first
JOIN reconciliation_attempts AS second ON second.job_id = first.job_id AND second.lease_epoch = 2
WHERE first.lease_epoch = 1
"""
TIMES = """
SELECT extract(epoch FROM clock_timestamp() - written.at)::float8 FROM (
    SELECT received_at FROM payment_events
    UNION ALL SELECT created_at FROM payments
    UNION ALL SELECT updated_at FROM payments
    UNION ALL SELECT pending_since FROM payments
    UNION ALL SELECT created_at FROM reconciliation_jobs
    UNION ALL SELECT run_at FROM reconciliation_jobs
    UNION ALL SELECT finished_at FROM reconciliation_jobs
    UNION ALL SELECT started_at FROM reconciliation_attempts
    UNION ALL SELECT finished_at FROM reconciliation_attempts
    UNION ALL SELECT created_at FROM outbox
    UNION ALL SELECT published_at FROM outbox
    UNION ALL SELECT caught_up_at FROM consumer_offsets
    UNION ALL SELECT updated_at FROM consumer_offsets
) AS written (at)
WHERE written.at IS NOT NULL
"""

an_hour_off = pytest.mark.parametrize("skew", [HOUR_SECONDS, -HOUR_SECONDS])


@pytest.fixture
def start(services: ServiceProcesses) -> "Start":
    """Starts processes whose clocks are wrong."""
    return Start(services)


class Start:
    def __init__(self, services: ServiceProcesses) -> None:
        self._services = services

    def __call__(self, settings: Mapping[str, str], roles: str, skew: float) -> ServiceProcess:
        process = self._services.new()
        process.start(("run", "--roles", roles), env={**settings, **skewed(skew)})
        return process


@an_hour_off
def test_wall_clock_of_a_child_is_shifted_and_its_monotonic_clock_is_not(skew: float) -> None:
    before = time.time(), time.monotonic()
    told = subprocess.run(
        [sys.executable, "-c", CLOCKS],
        env={**os.environ, **skewed(skew)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    after = time.time(), time.monotonic()
    wall, monotonic = map(float, told.split())
    # The library keeps whole seconds of the start apart from their fractions.
    assert before[0] - 1 <= wall - skew <= after[0] + 1
    assert before[1] <= monotonic <= after[1]


@an_hour_off
async def test_leases_are_neither_taken_too_early_nor_lost_between_clocks_an_hour_apart(
    worker_house: House, start: Start, skew: float
) -> None:
    """Reported as db-scheduler 433."""
    house = worker_house
    names = [f"pay-{number}" for number in range(6)]
    house.know(*names)
    house.slow_down(ANSWER_SECONDS)
    right = house.start(WORKER, **SLOW)
    wrong = start(house.settings(**SLOW), WORKER, skew)
    await until_started(right)
    await until_started(wrong)
    for name in names:
        await house.add_job(name)
    await house.until_count("SELECT count(*) FROM payments WHERE status = 'succeeded'", 6)

    assert await house.attempts() == [(1, "healed")] * 6
    owners = await house.rows("SELECT DISTINCT lease_owner FROM reconciliation_attempts")
    assert {int(owner[0].split("/")[1]) for owner in owners} == {right.pid, wrong.pid}
    assert await house.rows("SELECT count(*) FROM payment_events") == [(6,)]


@an_hour_off
async def test_job_of_a_killed_worker_is_taken_over_after_its_ttl_by_the_database(
    worker_house: House, start: Start, skew: float
) -> None:
    """Reported as db-scheduler 433. By its own clock it would come an hour too early or late."""
    house = worker_house
    house.know("pay-1")
    house.slow_down(ANSWER_SECONDS)
    right = house.start(WORKER, **SLOW)
    await until_started(right)
    await house.add_job("pay-1")
    await until(lambda: house.psp.calls.total() > 0, "the PSP is asked")
    right.kill()
    wrong = start(house.settings(**SLOW), WORKER, skew)
    await until_started(wrong)
    await house.until_status("pay-1", "succeeded")

    assert await house.attempts() == [(1, "expired"), (2, "healed")]
    ((seconds,),) = await house.rows(SECOND_CLAIM)
    # The killed one may have renewed its lease once more.
    assert TTL_SECONDS <= seconds < SLACK_SECONDS


@an_hour_off
async def test_retries_due_times_and_history_of_a_process_an_hour_off_are_the_databases(
    house: House, start: Start, skew: float
) -> None:
    """Reported as db-scheduler 433."""
    half_an_hour = "UPDATE payments SET next_check_at = now() + interval '30 minutes'"
    await house.add_job("later")
    await house.connection.execute("DELETE FROM reconciliation_jobs")
    await house.connection.execute(half_an_hour)
    house.psp.outage = True
    settings = house.settings(PSP__BREAKER_OPEN_SECONDS="1")
    wrong = start(settings, "ingest,reconcile,watch", skew)
    await until_started(wrong)
    await house.send(erp_event("pay-1", 1), erp_event("pay-2", 1))
    await house.until_count("SELECT count(DISTINCT payment_id) FROM reconciliation_jobs", 2)
    await until_logged(wrong, "job.released")
    await house.until_count(
        "SELECT count(*) FROM reconciliation_jobs WHERE releases > 0 "
        "AND run_at BETWEEN now() - interval '1 minute' AND now() + interval '1 minute'",
        2,
    )
    house.know("pay-1", status="pending")
    house.know("pay-2")
    house.psp.outage = False
    await house.until_status("pay-2", "succeeded")
    await house.until_count("SELECT count(finished_at) FROM reconciliation_jobs", 2)
    await house.until_count("SELECT count(*) FROM outbox WHERE published_at IS NULL", 0)

    ages = [age for (age,) in await house.rows(TIMES)]
    assert len(ages) > 20
    assert max(map(abs, ages)) < SLACK_SECONDS
    ((wait,),) = await house.rows(
        "SELECT extract(epoch FROM next_check_at - now())::float8 FROM payments "
        "WHERE payment_id = 'pay-1'"
    )
    assert 0 < wait <= 60  # the first step of the poll plan
    assert await house.rows("SELECT count(*) FROM reconciliation_jobs") == [(2,)]
