"""What health and metrics tell of the database: sampled, never asked by a probe."""

from dataclasses import dataclass
from typing import Any

from service.store.statements import sql


@dataclass(frozen=True, slots=True)
class Figures:
    """One look at the tables. `open_kinds` counts the open discrepancies by kind; `heals_left` is
    None until a heal is taken from this minute's allowance.
    """

    pending_oldest_seconds: float
    pending: int
    dead_letters_parked: int
    jobs_due_oldest_seconds: float
    stuck: int
    outbox_unpublished: int
    outbox_oldest_seconds: float
    healing_paused: bool
    mode: str
    heals_left: int | None
    open_kinds: dict[str, int]


async def read(connection: Any) -> Figures:
    """Count; bounded by the session's statement time-out."""
    row = await connection.fetchrow(sql("figures"))
    kinds = await connection.fetch(sql("figures_discrepancies"))
    return Figures(**dict(row), open_kinds=dict(kinds))


async def ping(connection: Any) -> None:
    """One round trip. Raises whatever the database raises."""
    await connection.fetchval(sql("database_now"))
