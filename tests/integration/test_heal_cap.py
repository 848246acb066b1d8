"""The heals of a minute are counted over all processes together."""

import asyncio
from collections.abc import Sequence
from typing import Any

from service.sandbox.psp_server import Faults, PspServer
from tests.support.events import psp_answer
from tests.support.reconciling import Room, ScriptedPsp, open_room, running
from tests.support.waiting import eventually

JOBS, ALLOWED, PROCESSES = 40, 7, 3
# An allowance that no new minute fills again while the test runs.
ALLOW = "UPDATE controls SET heals_left = $1, heals_minute = now() + interval '1 hour'"
ATTEMPTED = "SELECT count(DISTINCT job_id) FROM reconciliation_attempts WHERE outcome IS NOT NULL"


async def test_processes_together_heal_no_more_than_the_minute_allows(
    database: Any, services: Any
) -> None:
    slow = Faults(latency_seconds=0.3)
    async with open_room(database.url) as room, PspServer(faults=slow) as psp:
        await _prepare(room)
        await room.pool.execute("UPDATE controls SET healing_paused = true")
        for number in range(JOBS):
            psp.put(f"pay-{number}", psp_answer(f"pay-{number}", minor=1000))
        settings = {
            "RECONCILER_DATABASE__URL": database.url,
            "RECONCILER_PSP__BASE_URL": psp.url,
            "RECONCILER_LEASE__CLAIM_POLL_SECONDS": "0.1",
            "RECONCILER_LEASE__CONCURRENCY": "4",
        }
        processes = [services.new() for _ in range(PROCESSES)]
        for process in processes:
            process.start(("run", "--roles", "reconcile,watch"), env=settings)
        await eventually(lambda: _all_ready(processes), within_seconds=60)
        await room.pool.execute("UPDATE controls SET healing_paused = false")
        await eventually(lambda: _all_attempted(room), within_seconds=60)
        owners = await room.pool.fetchval(
            "SELECT count(DISTINCT lease_owner) FROM reconciliation_attempts"
        )
        assert owners == PROCESSES
        await _prove(room)


async def test_workers_of_groups_at_once_heal_no_more_than_the_minute_allows(
    database: Any,
) -> None:
    """Whatever sizes the groups have in which the workers ask for heals."""
    async with open_room(database.url, connections_max=30) as room:
        await _prepare(room)
        workers = [room.worker(ScriptedPsp(), concurrency=5 + number) for number in range(5)]
        async with (
            running(workers[0]),
            running(workers[1]),
            running(workers[2]),
            running(workers[3]),
            running(workers[4]),
        ):
            await eventually(lambda: _all_attempted(room), within_seconds=30)
        await _prove(room)


async def test_new_minute_fills_the_allowance_again(database: Any) -> None:
    async with open_room(database.url) as room:
        await _prepare(room)
        async with running(room.worker(ScriptedPsp())):
            await eventually(lambda: _all_attempted(room), within_seconds=30)
            await _prove(room)
            await room.pool.execute(
                "UPDATE controls SET heals_minute = now() - interval '2 minutes'"
            )
            await room.pool.execute(
                "UPDATE reconciliation_jobs SET run_at = now() WHERE status = 'pending'"
            )
            await eventually(lambda: _all_healed(room), within_seconds=30)


async def _prepare(room: Room) -> None:
    await asyncio.gather(*(room.add_job(f"pay-{number}") for number in range(JOBS)))
    await room.pool.execute(ALLOW, ALLOWED)


async def _all_ready(processes: Sequence[Any]) -> bool:
    answers = [await process.health("/readyz") for process in processes]
    return all(status == 200 for status, _ in answers)


async def _all_attempted(room: Room) -> bool:
    return bool(await room.pool.fetchval(ATTEMPTED) == JOBS)


async def _all_healed(room: Room) -> bool:
    healed = await room.pool.fetchval("SELECT count(*) FROM payments WHERE status = 'succeeded'")
    return bool(healed == JOBS)


async def _prove(room: Room) -> None:
    statuses = await room.pool.fetch("SELECT status, count(*) FROM payments GROUP BY status")
    assert dict(map(tuple, statuses)) == {"succeeded": ALLOWED, "pending": JOBS - ALLOWED}
    assert await room.pool.fetchval("SELECT count(*) FROM outbox") == ALLOWED
    assert await room.pool.fetchval("SELECT heals_left FROM controls") == 0
    waiting = await room.pool.fetchval(
        "SELECT count(*) FROM reconciliation_jobs WHERE status = 'pending' AND releases = 1"
        " AND run_at > now() + interval '20 seconds' AND last_error = 'no heals left'"
    )
    assert waiting == JOBS - ALLOWED
