"""The heartbeat survives its connection, and stops jobs that it can no longer vouch for."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from service.reconcile.heartbeat import Heartbeat
from service.reconcile.lease import HeldJob, HeldJobs, LeaseTerms
from service.store import jobs
from tests.support.proxy import database_proxy
from tests.support.reconciling import Room, open_room, until

QUICK = LeaseTerms(
    owner="me", ttl_seconds=1.0, heartbeat_seconds=0.05, margin_seconds=0.2, statement_seconds=0.3
)


async def test_lease_is_renewed_again_and_again(database: Any) -> None:
    async with open_room(database.url) as room:
        await room.add_job("pay-1")
        held = HeldJobs(QUICK)
        job = await _take(room, held)
        async with _beating(room, held):
            await asyncio.sleep(2 * QUICK.ttl_seconds)
            assert held.trusts(job)
        assert await _owner(room) == "me"


async def test_lost_connection_is_opened_anew_before_a_lease_is_lost(database: Any) -> None:
    async with open_room(database.url) as room:
        await room.add_job("pay-1")
        held = HeldJobs(QUICK)
        job = await _take(room, held)
        async with _beating(room, held):
            await until(lambda: _beaten(room))
            await room.pool.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE application_name = 'heart'"
            )
            await until(lambda: _failed(room))
            await asyncio.sleep(QUICK.ttl_seconds)
            assert held.trusts(job)
            assert not _runner(job).cancelled()
        assert await _owner(room) == "me"


async def test_job_is_cancelled_when_the_database_is_silent_past_the_trust(database: Any) -> None:
    async with (
        open_room(database.url) as room,
        database_proxy(database.url) as proxy,
        open_room(proxy.url(database.url)) as behind,
    ):
        await room.add_job("pay-1")
        held = HeldJobs(QUICK)
        job = await _take(room, held)
        async with _beating(behind, held):
            proxy.black_hole = True
            async with asyncio.timeout(QUICK.ttl_seconds + QUICK.statement_seconds):
                await asyncio.wait([_runner(job)])
        assert _runner(job).cancelled()
        assert behind.activity.ended == {"lost": 1}
        assert len(held) == 0


async def test_lost_lease_cancels_its_job_and_no_other(database: Any) -> None:
    async with open_room(database.url) as room:
        held = HeldJobs(QUICK)
        await room.add_job("lost")
        lost = await _take(room, held)
        await room.add_job("kept")
        kept = await _take(room, held)
        async with _beating(room, held):
            await room.pool.execute(
                "UPDATE reconciliation_jobs SET lease_epoch = 2 WHERE payment_id = 'lost'"
            )
            async with asyncio.timeout(5):
                await asyncio.wait([_runner(lost)])
            assert _runner(lost).cancelled()
            assert not _runner(kept).done()


async def test_job_whose_row_is_busy_is_not_taken_for_lost(database: Any) -> None:
    async with open_room(database.url) as room:
        await room.add_job("pay-1")
        held = HeldJobs(QUICK)
        job = await _take(room, held)
        async with room.pool.acquire() as other, other.transaction():
            assert await jobs.fence(other, owner="me", leases=[job.job.lease])
            async with _beating(room, held):
                await until(lambda: _beaten(room, rounds=3))
                assert not _runner(job).done()


async def test_job_whose_end_is_being_written_is_left_to_the_fence(database: Any) -> None:
    async with open_room(database.url) as room:
        await room.add_job("pay-1")
        held = HeldJobs(QUICK)
        job = await _take(room, held)
        job.ending = True
        async with _beating(room, held):
            await room.pool.execute(
                "UPDATE reconciliation_jobs SET status = 'completed', outcome = 'healed', "
                "lease_owner = NULL, lease_until = NULL"
            )
            await until(lambda: _beaten(room, rounds=3))
            assert not _runner(job).done()


async def _take(room: Room, held: HeldJobs) -> HeldJob:
    sent_at = held.now()
    job = held.take(await room.claim_one("me", ttl_seconds=QUICK.ttl_seconds), sent_at=sent_at)
    job.runner = asyncio.create_task(asyncio.Event().wait())  # type: ignore[arg-type] # runs for ever
    return job


def _runner(job: HeldJob) -> "asyncio.Task[None]":
    assert job.runner is not None
    return job.runner


@asynccontextmanager
async def _beating(room: Room, held: HeldJobs) -> AsyncIterator[None]:
    async def connect() -> Any:
        connection = await room.connect()
        await connection.execute("SET application_name = 'heart'")
        return connection

    async def answers() -> bool:
        return True

    heart = Heartbeat(connect, held, room.activity, answers=answers)
    beating = asyncio.create_task(heart.run())
    try:
        yield
    finally:
        beating.cancel()
        await asyncio.wait([beating])
        for job in held:
            job.cancel("end of the test")


async def _beaten(room: Room, *, rounds: int = 1) -> bool:
    for _ in range(rounds):
        before = room.activity.heartbeat_at

        async def again(before: float | None = before) -> bool:
            return room.activity.heartbeat_at != before

        await until(again)
    return True


async def _failed(room: Room) -> int:
    return room.activity.heartbeat_failures


async def _owner(room: Room) -> Any:
    return await room.pool.fetchval("SELECT lease_owner FROM reconciliation_jobs")
