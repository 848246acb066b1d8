"""The table `dead_letters`: records that could not become events, with their bytes."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from service.domain.events import Origin
from service.store.pool import compact_json
from service.store.rows import columns
from service.store.statements import sql

VALUE_BYTES_MAX: Final = 1 << 20
TEXT_CHARACTERS_MAX: Final = 2_000


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record and why it was parked. `reason` is a code, `error` a sentence without secrets."""

    origin: Origin
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    reason: str
    error: str
    payment_id: str | None


async def insert(connection: Any, letters: Sequence[DeadLetter], *, topic: str | None) -> None:
    """Park records; one parked before stays as it is.

    `topic` is the dead-letter topic for the relay's copy: its outbox row names the dead letter,
    whose bytes the relay reads from here. None: no copy.
    """
    rows = [
        (
            *letter.origin,
            letter.key,
            letter.value if letter.value is None else letter.value[:VALUE_BYTES_MAX],
            compact_json([[_storable(name), _header(value)] for name, value in letter.headers]),
            letter.reason,
            _storable(letter.error)[:TEXT_CHARACTERS_MAX],
            letter.payment_id,
        )
        for letter in letters
    ]
    arrays = columns(rows, whole=frozenset({1, 2}))
    await connection.execute(sql("dead_letter_insert"), topic, *arrays)


def _header(value: bytes | None) -> str | dict[str, str] | None:
    """A header's value as text, or its base64 where it is no text that jsonb can keep."""
    if value is None:
        return None
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = "\x00"
    return {"base64": base64.b64encode(value).decode()} if "\x00" in text else text


def _storable(text: str) -> str:
    """Text without NUL and lone surrogates, which PostgreSQL cannot keep."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\x00", "\\x00")
