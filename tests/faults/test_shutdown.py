"""SIGTERM, once or twice, at good and at bad moments: the end is bounded and gives jobs back."""

import signal
import time
from pathlib import Path

import pytest

from service.sandbox.postgres import EmbeddedPostgres
from tests.faults.house import House, logged, until, until_health, until_started
from tests.support.events import erp_event
from tests.support.processes import ServiceProcess, ServiceProcesses

WORKER = "reconcile,watch"
DRAIN_SECONDS = 3
# Ingest, relay and closing may take this much beyond the drain before the process ends itself.
GRACE_SECONDS = 15
SLOW = {"PSP__TIMEOUT_SECONDS": "2", "LEASE__DRAIN_SECONDS": str(DRAIN_SECONDS)}


async def stop(process: ServiceProcess, *, within_seconds: float) -> tuple[int, float]:
    """SIGTERM; the exit code and the seconds it took."""
    sent_at = time.monotonic()
    process.terminate()
    code = await process.wait(within_seconds)
    return code, time.monotonic() - sent_at


async def until_asked(house: House) -> None:
    await until(lambda: house.psp.calls.total() > 0, "a question reaches the PSP")


async def test_drain_lets_a_running_job_finish(worker_house: House) -> None:
    house = worker_house
    house.know("pay-1")
    house.slow_down(1.0)
    worker = house.start(WORKER, **SLOW)
    await until_started(worker)
    await house.add_job("pay-1")
    await until_asked(house)
    code, _ = await stop(worker, within_seconds=DRAIN_SECONDS + GRACE_SECONDS)
    assert code == 0
    assert await house.jobs() == [("completed", "healed")]
    assert await house.attempts() == [(1, "healed")]
    assert logged(worker, "process.stopped")


async def test_drain_gives_back_what_does_not_finish_due_at_once_and_uncounted(
    worker_house: House,
) -> None:
    """Reported as procrastinate 307 and pgqueuer 630."""
    house = worker_house
    house.know("pay-1")
    house.slow_down(60.0)
    # The questions of one attempt outlast the drain.
    times = {"PSP__TIMEOUT_SECONDS": "9", "PSP__BUDGET_SECONDS": "9", "LEASE__TTL_SECONDS": "10"}
    worker = house.start(WORKER, **{**SLOW, **times, "LEASE__DRAIN_SECONDS": "1"})
    await until_started(worker)
    await house.add_job("pay-1")
    await until_asked(house)
    code, seconds = await stop(worker, within_seconds=1 + GRACE_SECONDS)
    assert code == 0
    assert seconds < 1 + GRACE_SECONDS
    assert await house.attempts() == [(1, "released")]
    query = """
        SELECT status, attempts - releases, run_at <= now(), lease_owner FROM reconciliation_jobs
    """
    assert await house.rows(query) == [("pending", 0, True, None)]


async def test_readiness_falls_during_the_drain_and_liveness_stays(worker_house: House) -> None:
    house = worker_house
    house.know("pay-1")
    house.slow_down(1.8)
    worker = house.start(WORKER, **SLOW)
    await until_health(worker, "/readyz", 200)
    await house.add_job("pay-1")
    await until_asked(house)
    worker.terminate()
    await until_health(worker, "/readyz", 503)
    assert (await worker.health("/livez"))[0] == 200
    assert await worker.wait(DRAIN_SECONDS + GRACE_SECONDS) == 0


async def test_second_signal_ends_it_at_once(worker_house: House) -> None:
    house = worker_house
    house.slow_down(60.0)
    times = {"PSP__TIMEOUT_SECONDS": "29", "PSP__BUDGET_SECONDS": "29", "LEASE__TTL_SECONDS": "30"}
    worker = house.start(WORKER, **{**SLOW, **times, "LEASE__DRAIN_SECONDS": "25"})
    await until_started(worker)
    await house.add_job("pay-1")
    await until_asked(house)
    worker.terminate()
    await until(lambda: logged(worker, "process.stop_requested"), "the drain begins")
    code, seconds = await stop(worker, within_seconds=10)
    assert code == 128 + signal.SIGTERM
    assert seconds < 5


@pytest.mark.parametrize("silent", [False, True], ids=["refuses", "silent"])
async def test_stop_is_bounded_with_the_database_gone(
    own_postgres: EmbeddedPostgres, house: House, *, silent: bool
) -> None:
    """Reported as procrastinate 1591 and procrastinate 1116."""
    service = house.start(DATABASE__URL=own_postgres.url, DATABASE__CONNECT_TIMEOUT_SECONDS="1")
    await until_health(service, "/readyz", 200)
    if silent:
        own_postgres.pause()
    else:
        await own_postgres.kill()
    await house.send(erp_event("pay-1", 1))
    await until_health(service, "/readyz", 503)
    code, seconds = await stop(service, within_seconds=DRAIN_SECONDS + GRACE_SECONDS + 5)
    assert code == 0
    assert seconds < DRAIN_SECONDS + GRACE_SECONDS


async def test_stop_while_it_waits_for_its_first_connection(
    own_postgres: EmbeddedPostgres, worker_house: House
) -> None:
    await own_postgres.stop()
    service = worker_house.start(WORKER, DATABASE__URL=own_postgres.url)
    await until_health(service, "/livez", 200)
    code, _ = await stop(service, within_seconds=DRAIN_SECONDS + GRACE_SECONDS)
    assert code == 0


async def test_signal_during_the_imports_is_not_lost(
    worker_house: House, services: ServiceProcesses
) -> None:
    service = services.new()
    service.start(("run", "--roles", WORKER), env=worker_house.settings())
    await until(lambda: imports_have_begun(service.pid), "the handlers stand")
    assert not logged(service, "process.starting")
    code, _ = await stop(service, within_seconds=30)
    assert code == 0
    assert not logged(service, "process.started")


def imports_have_begun(pid: int) -> bool:
    """Whether the process catches SIGTERM already, as the kernel knows."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    caught = next(line for line in status if line.startswith("SigCgt:"))
    return bool(int(caught.split()[1], 16) & 1 << (signal.SIGTERM - 1))
