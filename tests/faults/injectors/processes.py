"""Faults of the service's own processes."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from tests.faults.fleet import KILLED, Member, State
from tests.faults.plan import Fault, Kind
from tests.faults.sabotage import AWAY, session
from tests.faults.stage import Stage

# Held for less than anybody's lock_timeout; looked for until the moment has to do.
_LOOK_SECONDS = 0.02
_LOOKS = 30
_CATCH_SECONDS = 4.0
_HOLD = """
SELECT FROM payments WHERE payment_id IN (
    SELECT payment_id FROM reconciliation_jobs
    WHERE status = 'processing' AND lease_owner LIKE $1
) FOR UPDATE
"""
_WAITS = """
SELECT count(*) > 0 FROM pg_stat_activity
WHERE application_name LIKE $1 AND wait_event_type = 'Lock'
    AND query LIKE '-- Lock the payments that jobs are about to change%'
"""


async def kill(stage: Stage, fault: Fault) -> None:
    """SIGKILL, and a start after a while."""
    member = stage.fleet.members[fault.process]
    async with member.busy:
        code = await member.kill()
        if code != KILLED:
            stage.fleet.failures.append(f"{member.name} had ended with {code} before SIGKILL")
        await asyncio.sleep(fault.seconds)
        member.start()
        await member.until_up()


async def terminate(stage: Stage, fault: Fault) -> None:
    """SIGTERM under load, and a start after a while."""
    member = stage.fleet.members[fault.process]
    async with member.busy:
        await stage.fleet.end(member)
        await asyncio.sleep(fault.seconds)
        member.start()
        await member.until_up()


async def pause(stage: Stage, fault: Fault) -> None:
    """SIGSTOP past the leases, then SIGCONT."""
    member = stage.fleet.members[fault.process]
    async with member.busy:
        member.hold()
        try:
            await asyncio.sleep(fault.seconds)
        finally:
            member.release()


async def pause_inside(stage: Stage, fault: Fault) -> None:
    """SIGSTOP while its transaction waits for a payment that we hold, SIGCONT past the lease.

    It wakes up with the answer in its hand and the transaction alive: the fence alone can tell it
    that the job is no longer its own. Where nothing of it waits in time it is stopped all the same.
    """
    member = stage.fleet.members[fault.process]
    async with member.busy:
        try:
            async with asyncio.timeout(_CATCH_SECONDS), session(stage.postgres.url) as connection:
                await _catch(connection, member)
        except AWAY:
            member.hold()
        try:
            await asyncio.sleep(fault.seconds)
        finally:
            member.release()


async def _catch(connection: Any, member: Member) -> None:
    """Hold the payments whose jobs the process has, until it waits for one of them: stop it then,
    before they are let go.
    """
    pid = member.service.pid
    while True:
        async with connection.transaction():
            looks = _LOOKS if await connection.fetch(_HOLD, f"%/{pid}/%") else 0
            for _ in range(looks):
                await asyncio.sleep(_LOOK_SECONDS)
                # Within a transaction the sessions would look as they did at the first look.
                await connection.execute("SELECT pg_stat_clear_snapshot()")
                if await connection.fetchval(_WAITS, f"%/{pid}"):
                    member.hold()
                    return
        await asyncio.sleep(_LOOK_SECONDS)


async def block(stage: Stage, fault: Fault) -> None:
    """A main thread that does nothing, not even heartbeats. One that only starts is left alone."""
    member = stage.fleet.members[fault.process]
    async with member.busy:
        if member.state is not State.UP:
            return
        member.block(fault.seconds)
        await asyncio.sleep(fault.seconds)
        member.note_up()


PROCESSES: Mapping[Kind, Callable[[Stage, Fault], Awaitable[None]]] = {
    Kind.KILL: kill,
    Kind.TERMINATE: terminate,
    Kind.PAUSE: pause,
    Kind.PAUSE_INSIDE: pause_inside,
    Kind.BLOCK: block,
}
