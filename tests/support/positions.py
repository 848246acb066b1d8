"""Where a group stands, as a test asks for it."""

from typing import Any

from service.store import offsets


async def caught_up(connection: Any, group: str) -> bool:
    """Whether the group has rows, and each has once reached its log's end."""
    rows = await offsets.stored(connection, group)
    return bool(rows) and all(row.position.caught_up_at is not None for row in rows)
