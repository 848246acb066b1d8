"""Dead letters as the relay copies them to their topic."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from service.domain.events import Origin
from service.store.dead_letters import VALUE_BYTES_MAX, Headers, headers_of
from service.store.statements import sql


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A parked record with its bytes, and why it was parked."""

    dead_letter_id: int
    origin: Origin
    key: bytes | None
    value: bytes | None
    headers: Headers
    reason: str
    error: str

    @property
    def value_bytes(self) -> int | None:
        """How large the record's value is; None for a null one, and where a part may be missing."""
        if self.value is None or len(self.value) >= VALUE_BYTES_MAX:
            return None
        return len(self.value)


async def read(connection: Any, dead_letter_ids: Collection[int]) -> dict[int, Copy]:
    """The dead letters that are still there, by id."""
    rows = await connection.fetch(sql("dead_letter_copy"), list(dead_letter_ids))
    return {row[0]: _copy(row) for row in rows}


def _copy(row: Any) -> Copy:
    dead_letter_id, topic, partition, offset, key, value, headers, reason, error = row
    return Copy(
        dead_letter_id=dead_letter_id,
        origin=Origin(topic, partition, offset),
        key=key,
        value=value,
        headers=headers_of(headers),
        reason=reason,
        error=error,
    )
