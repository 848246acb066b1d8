"""Dead letters as the relay copies them to their topic."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from service.domain.events import Origin
from service.store.statements import sql


@dataclass(frozen=True, slots=True)
class Copy:
    """A parked record with its bytes and why it was parked."""

    origin: Origin
    key: bytes | None
    value: bytes | None
    reason: str
    error: str


async def read(connection: Any, dead_letter_ids: Collection[int]) -> dict[int, Copy]:
    """The dead letters that are still there, by id."""
    rows = await connection.fetch(sql("dead_letter_copy"), list(dead_letter_ids))
    return {row[0]: Copy(Origin(*row[1:4]), *row[4:]) for row in rows}
