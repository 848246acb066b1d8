"""Faults of PostgreSQL: the server itself, and foreign sessions in it."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from random import Random
from typing import Any

import asyncpg

from tests.faults.plan import Fault, Kind
from tests.faults.sabotage import AWAY, SERVICE_SESSIONS, administer, again_and_again
from tests.faults.stage import Stage

_ROWS_MAX = 40
_STEP_SECONDS = 0.01
_FAIL = "UPDATE storm.failing SET share = 0.1"
_LATEST = "SELECT payment_id FROM payments ORDER BY updated_at DESC LIMIT $1"
_LOCK_PAYMENT = "SELECT FROM payments WHERE payment_id = $1 FOR UPDATE"
_LOCK_ALL = (
    "SELECT FROM payments FOR UPDATE",
    "SELECT FROM reconciliation_jobs FOR UPDATE",
    "SELECT FROM consumer_offsets FOR UPDATE",
)
# Nobody of ours takes jobs or positions before payments, nor payments from the last to the first.
_LOCK_FIRST = {
    "jobs": "SELECT FROM reconciliation_jobs WHERE status = 'processing' FOR UPDATE",
    "offsets": "SELECT FROM consumer_offsets FOR UPDATE",
}


async def stop_server(stage: Stage, fault: Fault) -> None:
    """A clean stop: sessions end with 57P01."""
    await stage.postgres.stop()
    await asyncio.sleep(fault.seconds)
    await stage.postgres.start()


async def kill_server(stage: Stage, fault: Fault) -> None:
    """As a power cut does it."""
    await stage.postgres.kill()
    await asyncio.sleep(fault.seconds)
    await stage.postgres.start()


async def read_only(stage: Stage, fault: Fault) -> None:
    """What a demoted primary says: 25006."""
    reload = "SELECT pg_reload_conf()"
    try:
        await administer(
            stage.postgres.url, "ALTER SYSTEM SET default_transaction_read_only = on", reload
        )
        await asyncio.sleep(fault.seconds)
    finally:
        await administer(
            stage.postgres.url, "ALTER SYSTEM RESET default_transaction_read_only", reload
        )


async def full(stage: Stage, fault: Fault) -> None:
    """Take every slot, the service's own too: 53300."""
    loop = asyncio.get_running_loop()
    until = loop.time() + fault.seconds
    held: list[Any] = []
    try:
        while loop.time() < until:
            try:
                held.append(await asyncpg.connect(stage.postgres.url, timeout=2))
            except AWAY:
                await _make_room(held)
    finally:
        for connection in held:
            connection.terminate()


async def _make_room(held: list[Any]) -> None:
    """End some of the service's sessions, for us to take their slots."""
    await asyncio.sleep(0.05)
    try:
        if held:
            await held[0].execute(SERVICE_SESSIONS, 0.5)
    except AWAY:
        held.clear()


async def terminate_backends(stage: Stage, fault: Fault) -> None:
    """Every now and then some of the service's sessions: 57P01."""

    async def harm(connection: Any) -> None:
        await connection.execute(SERVICE_SESSIONS, stage.rng.uniform(0.1, 0.9))
        await asyncio.sleep(stage.rng.uniform(0.1, 0.8))

    await again_and_again(stage.postgres.url, fault.seconds, harm)


async def deadlocks(stage: Stage, fault: Fault) -> None:
    """Lock what the service locks, the other way round: 40P01, the service is the victim."""
    harm = partial(_lock_backwards, stage.rng)
    await again_and_again(stage.postgres.url, fault.seconds, harm)


async def _lock_backwards(rng: Random, connection: Any) -> None:
    first = rng.choice(("jobs", "offsets", ""))
    if first:
        await connection.execute(_LOCK_FIRST[first])
        await asyncio.sleep(_STEP_SECONDS)
    latest = [row[0] for row in await connection.fetch(_LATEST, _ROWS_MAX)]
    for payment_id in sorted(latest, reverse=True):
        await connection.execute(_LOCK_PAYMENT, payment_id)
        await asyncio.sleep(_STEP_SECONDS)


async def locks(stage: Stage, fault: Fault) -> None:
    """Hold every row of a table for longer than anybody's lock_timeout: 55P03."""

    async def harm(connection: Any) -> None:
        await connection.execute(stage.rng.choice(_LOCK_ALL))
        await asyncio.sleep(stage.rng.uniform(1.1, 1.8))

    await again_and_again(stage.postgres.url, fault.seconds, harm)


async def serialization(stage: Stage, fault: Fault) -> None:
    """A share of all statements and of all commits asks to be tried again."""
    url = stage.postgres.url
    try:
        await administer(url, _FAIL)
        await asyncio.sleep(fault.seconds)
    finally:
        await administer(url, "UPDATE storm.failing SET share = 0")


DATABASE: Mapping[Kind, Callable[[Stage, Fault], Awaitable[None]]] = {
    Kind.POSTGRES_STOP: stop_server,
    Kind.POSTGRES_KILL: kill_server,
    Kind.READ_ONLY: read_only,
    Kind.POSTGRES_FULL: full,
    Kind.TERMINATE_BACKENDS: terminate_backends,
    Kind.DEADLOCKS: deadlocks,
    Kind.LOCKS: locks,
    Kind.SERIALIZATION: serialization,
}
