"""When a storm is over: all that was sent is taken in, nothing is due, the outbox is empty."""

from typing import Any

from tests.faults.sabotage import AWAY, session
from tests.faults.stage import Stage

QUIET_SECONDS = 60.0
# Far above the first look at a new payment, far below the next look at one that stays pending.
SOON_SECONDS = 5.0

_POSITIONS = """
SELECT topic, partition, next_offset FROM consumer_offsets WHERE consumer_group = $1
"""
_WAITING = """
SELECT
    (
        SELECT count(*) FROM payments
        WHERE next_check_at < clock_timestamp() + make_interval(secs => $1)
    ) AS checks_due,
    (
        SELECT count(*) FROM reconciliation_jobs WHERE status IN ('pending', 'processing')
    ) AS jobs_open,
    (SELECT count(*) FROM outbox WHERE published_at IS NULL) AS outbox_unpublished
"""
_RELAY = "SELECT relay_owner FROM controls WHERE relay_owner IS NOT NULL"
_EXPIRE = "UPDATE controls SET relay_until = clock_timestamp() WHERE relay_owner = $1"

Ends = dict[tuple[str, int], int]


async def unrest(stage: Stage, ends: Ends) -> dict[str, int]:
    """What is still to be done: name -> how much, nothing once it is quiet."""
    try:
        async with session(stage.postgres.url) as connection:
            rows = await connection.fetch(_POSITIONS, stage.topics.group_id)
            waiting = dict(await connection.fetchrow(_WAITING, SOON_SECONDS))
    except AWAY as error:
        return {f"database: {type(error).__name__}": 1}
    stored = {(row[0], row[1]): row[2] for row in rows}
    lag = sum(max(0, end - stored.get(place, 0)) for place, end in ends.items())
    return {name: number for name, number in {"lag": lag, **waiting}.items() if number}


async def expire_dead_relay(stage: Stage) -> None:
    """End at once the relay's lease of a process that is gone: half a minute that nobody misses."""
    alive = {str(member.service.pid) for member in stage.fleet.members if member.service.running}
    async with session(stage.postgres.url) as connection:
        owner: Any = await connection.fetchval(_RELAY)
        if owner is not None and owner.split("/")[1] not in alive:
            await connection.execute(_EXPIRE, owner)
