"""One row steers all processes, and no two of them get the same thing of it."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio

from service.store import controls, outbox
from service.store.pool import PoolOptions, open_pool
from service.store.transactions import transaction


@pytest_asyncio.fixture
async def pool(database: Any) -> AsyncIterator[Any]:
    opened = await open_pool(PoolOptions(url=database.url, connections_max=8))
    yield opened
    await opened.close()


async def test_hundred_concurrent_heals_take_exactly_a_hundred(pool: Any) -> None:
    async with transaction(pool) as connection:
        await connection.execute(
            "UPDATE controls SET heals_left = 250,"
            " heals_minute = date_trunc('minute', now()) + interval '5 minutes'"
        )

    async def take() -> int:
        async with transaction(pool) as connection:
            return await controls.take_heals(connection, wanted=1, per_minute=1_000)

    assert await asyncio.gather(*(take() for _ in range(100))) == [1] * 100
    async with transaction(pool) as connection:
        assert (await controls.read(connection)).heals_left == 150


async def test_allowance_gives_what_is_left_and_fills_in_a_new_minute(pool: Any) -> None:
    async with transaction(pool) as connection:
        assert await controls.take_heals(connection, wanted=7, per_minute=10) == 7
        await connection.execute(
            "UPDATE controls SET heals_minute = heals_minute + interval '5 minutes'"
        )
        assert await controls.take_heals(connection, wanted=7, per_minute=10) == 3
        assert await controls.take_heals(connection, wanted=7, per_minute=10) == 0
        await connection.execute(
            "UPDATE controls SET heals_minute = heals_minute - interval '9 minutes'"
        )
        assert await controls.take_heals(connection, wanted=7, per_minute=10) == 7


async def test_setting_changes_only_over_the_version_that_was_seen(pool: Any) -> None:
    async with transaction(pool) as connection:
        seen = await controls.read(connection)
        assert await controls.change(connection, version=seen.version, healing_paused=True)
        assert not await controls.change(connection, version=seen.version, mode="shadow")
        now = await controls.read(connection)
    assert (now.healing_paused, now.mode, now.version) == (True, "enforce", seen.version + 1)


async def test_only_one_relay_at_a_time_and_a_stale_one_marks_nothing(pool: Any) -> None:
    async with transaction(pool) as connection:
        await connection.execute("INSERT INTO outbox (topic, key, value) VALUES ('t', 'k', '{}')")
        first = await controls.claim_relay(connection, owner="a", ttl_seconds=60)
        assert first is not None
        assert await controls.claim_relay(connection, owner="b", ttl_seconds=60) is None
        await connection.execute("UPDATE controls SET relay_until = now() - interval '1 s'")
        second = await controls.claim_relay(connection, owner="b", ttl_seconds=60)
        assert second == first + 1
        assert not await controls.renew_relay(connection, owner="a", epoch=first, ttl_seconds=60)
        [waiting] = await outbox.unpublished(connection, limit=5)
        ids = [waiting.outbox_id]
        assert await outbox.publish(connection, ids, relay_owner="a", relay_epoch=first) == 0
        assert await outbox.publish(connection, ids, relay_owner="b", relay_epoch=second) == 1
        assert await outbox.unpublished(connection, limit=5) == []
