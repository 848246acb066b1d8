"""One job has one owner, and an owner whose lease is over changes nothing."""

import asyncio
from typing import Any

import pytest

from service.errors import LeaseLost
from service.store import controls, jobs
from service.store.jobs import Ending, Lease, PutBack
from tests.support.reconciling import Room, open_room, until


async def test_twenty_claimers_of_one_job_have_one_winner(database: Any) -> None:
    async with open_room(database.url, connections_max=20) as room:
        job_id = await room.add_job("pay-1")
        claims = await asyncio.gather(
            *(
                jobs.claim(room.pool, owner=f"host/{number}/x", slots=5, ttl_seconds=60)
                for number in range(20)
            )
        )
        winners = [claimed for claimed in claims if claimed]
        assert [[job.lease for job in claimed] for claimed in winners] == [[Lease(job_id, 1)]]
        assert await room.attempts(job_id) == [None]


async def test_claim_takes_no_more_than_the_free_slots_and_the_longest_due_first(
    database: Any,
) -> None:
    async with open_room(database.url) as room:
        for name in ("late", "early", "middle"):
            await room.add_job(name)
        for name, seconds in (("late", 1), ("middle", 2), ("early", 3)):
            await room.pool.execute(
                "UPDATE reconciliation_jobs SET run_at = now() - make_interval(secs => $2) "
                "WHERE payment_id = $1",
                name,
                seconds,
            )
        claimed = await jobs.claim(room.pool, owner="o", slots=2, ttl_seconds=60)
        assert [job.payment_id for job in claimed] == ["early", "middle"]


async def test_nothing_is_claimed_while_healing_is_paused(database: Any) -> None:
    async with open_room(database.url) as room:
        await room.add_job("pay-1")
        assert await controls.change(room.pool, version=0, healing_paused=True)
        assert await jobs.claim(room.pool, owner="o", slots=5, ttl_seconds=60) == []


async def test_hundred_concurrent_decrements_of_the_heal_cap_end_exactly_a_hundred_lower(
    database: Any,
) -> None:
    async with open_room(database.url, connections_max=20) as room:
        await room.pool.execute(
            "UPDATE controls SET heals_left = 150, heals_minute = date_trunc('minute', now()) "
            "+ interval '1 hour'"
        )
        taken = await asyncio.gather(
            *(controls.take_heals(room.pool, wanted=1, per_minute=1000) for _ in range(100))
        )
        assert sum(taken) == 100
        assert (await controls.read(room.pool)).heals_left == 50


@pytest.mark.parametrize("gone", ["another owner", "a newer epoch", "expired"])
async def test_stale_worker_cannot_finish_renew_or_release(database: Any, gone: str) -> None:
    async with open_room(database.url) as room:
        job_id = await room.add_job("pay-1")
        job = await room.claim_one("first")
        owner, lease = "first", job.lease
        if gone == "another owner":
            owner = "second"
        else:
            await room.expire(job_id)
        if gone == "a newer epoch":
            await room.claim_one("first")
        before = await room.job(job_id), await room.attempts(job_id)
        await _try_everything(room, owner, lease)
        assert (await room.job(job_id), await room.attempts(job_id)) == before


async def test_lookup_of_an_unanswered_commit_waits_until_it_has_ended(database: Any) -> None:
    async with open_room(database.url) as room:
        await room.add_job("pay-1")
        lease = (await room.claim_one("o")).lease
        async with room.pool.acquire() as writer:
            running = writer.transaction()
            await running.start()
            await jobs.finish(writer, owner="o", endings=[Ending(lease, "healed")])
            looking = asyncio.create_task(jobs.settled(room.pool, [lease]))
            await until(lambda: _waits_for_lock(room))
            await running.commit()
        assert await looking == {lease: "healed"}


async def _waits_for_lock(room: Room) -> bool:
    count: int = await room.pool.fetchval(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
        "AND datname = current_database()"
    )
    return count > 0


async def _try_everything(room: Room, owner: str, lease: Lease) -> None:
    async with room.pool.acquire() as connection:
        assert not await jobs.fence(connection, owner=owner, leases=[lease])
        with pytest.raises(LeaseLost):
            await _finish(connection, owner, [lease])
        assert not await jobs.renew(connection, owner=owner, leases=[lease], ttl_seconds=60)
        assert not await jobs.held(connection, owner=owner, leases=[lease])
        back = PutBack(lease, "released", 0, "late")
        assert not await jobs.put_back(connection, owner=owner, backs=[back])


async def test_one_lost_lease_rolls_the_whole_transaction_back(database: Any) -> None:
    async with open_room(database.url) as room:
        kept_id, lost_id = await room.add_job("kept"), await room.add_job("lost")
        claimed = await jobs.claim(room.pool, owner="o", slots=5, ttl_seconds=60)
        await room.expire(lost_id)
        async with room.pool.acquire() as connection:
            with pytest.raises(LeaseLost):
                await _finish(connection, "o", [job.lease for job in claimed])
        assert (await room.job(kept_id))["status"] == "processing"
        assert await room.attempts(kept_id) == [None]


async def test_each_claim_opens_one_attempt_and_each_is_closed_once(database: Any) -> None:
    async with open_room(database.url) as room:
        job_id = await room.add_job("pay-1")
        await room.claim_one("first")
        await room.expire(job_id)
        second = await room.claim_one("second")
        back = PutBack(second.lease, "released", 0, "timeout: slow")
        assert await jobs.put_back(room.pool, owner="second", backs=[back]) == {second.lease}
        third = await room.claim_one("third")
        failed = PutBack(third.lease, "failed", 0, "KeyError")
        await jobs.put_back(room.pool, owner="third", backs=[failed])
        fourth = await room.claim_one("fourth")
        await jobs.finish(room.pool, owner="fourth", endings=[Ending(fourth.lease, "consistent")])
        assert await room.attempts(job_id) == ["expired", "released", "failed", "consistent"]
        row = await room.job(job_id)
        assert (row["attempts"], row["releases"], row["lease_epoch"]) == (4, 1, 4)


async def test_renewal_passes_over_a_row_that_is_locked_and_calls_it_held(database: Any) -> None:
    async with open_room(database.url) as room:
        await room.add_job("busy")
        await room.add_job("idle")
        claimed = await jobs.claim(room.pool, owner="o", slots=5, ttl_seconds=60)
        leases = {job.payment_id: job.lease for job in claimed}
        async with room.pool.acquire() as locker, locker.transaction():
            await jobs.fence(locker, owner="o", leases=[leases["busy"]])
            renewed = await jobs.renew(
                room.pool, owner="o", leases=list(leases.values()), ttl_seconds=60
            )
            assert renewed == {leases["idle"]}
            assert await jobs.held(room.pool, owner="o", leases=[leases["busy"]])


async def test_shutdown_release_makes_jobs_due_at_once_and_leaves_those_of_others(
    database: Any,
) -> None:
    async with open_room(database.url) as room:
        mine = await room.add_job("mine")
        await room.claim_one("me")
        theirs = await room.add_job("theirs")
        await room.claim_one("them")
        assert await jobs.release_all(room.pool, owner="me", error="shutdown") == 1
        assert await room.attempts(mine) == ["released"]
        assert (await room.job(theirs))["status"] == "processing"
        assert (await room.claim_one("next")).payment_id == "mine"


async def _finish(connection: Any, owner: str, leases: list[Lease]) -> None:
    async with connection.transaction():
        endings = [Ending(lease, "healed") for lease in leases]
        await jobs.finish(connection, owner=owner, endings=endings)
