"""The table `controls`: one row by which all processes are steered.

Operators' settings change by `version`. The heal allowance and the relay's lease are single
statements that lock the row themselves, and leave `version` alone.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from service.store.statements import affected, sql


@dataclass(frozen=True, slots=True)
class Controls:
    """What is set now."""

    healing_paused: bool
    mode: str
    heals_left: int
    heals_minute: datetime
    version: int


async def read(connection: Any) -> Controls:
    """Read the row."""
    return Controls(*await connection.fetchrow(sql("control_read")))


async def change(
    connection: Any, *, version: int, healing_paused: bool | None = None, mode: str | None = None
) -> bool:
    """Change what is given (None: as it is); False if the row has moved on from `version`."""
    tag = await connection.execute(sql("control_set"), version, healing_paused, mode)
    return affected(tag) == 1


async def take_heals(connection: Any, *, wanted: int, per_minute: int) -> int:
    """Take up to `wanted` heals from the minute's allowance of all processes; returns how many."""
    taken: int = await connection.fetchval(sql("control_take_heals"), wanted, per_minute)
    return taken


async def claim_relay(connection: Any, *, owner: str, ttl_seconds: float) -> int | None:
    """Become the relay; returns the epoch that fences it, or None if another one is."""
    epoch: int | None = await connection.fetchval(sql("control_claim_relay"), owner, ttl_seconds)
    return epoch


async def renew_relay(connection: Any, *, owner: str, epoch: int, ttl_seconds: float) -> bool:
    """Stay the relay; False if the lease was lost."""
    tag = await connection.execute(sql("control_renew_relay"), owner, epoch, ttl_seconds)
    return affected(tag) == 1


async def release_relay(connection: Any, *, owner: str, epoch: int) -> bool:
    """Stop being the relay; False if it was lost before."""
    return affected(await connection.execute(sql("control_release_relay"), owner, epoch)) == 1
