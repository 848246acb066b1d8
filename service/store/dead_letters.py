"""The table `dead_letters`: records that could not become events, with their bytes.

A dead letter is parked until an operator replays or discards it; its row stays. Its status goes on
only by a statement that names the status that was read, so of two operators one is the first.
"""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

from service.domain.events import Origin
from service.store.pool import compact_json
from service.store.rows import columns
from service.store.statements import affected, sql

VALUE_BYTES_MAX: Final = 1 << 20
TEXT_CHARACTERS_MAX: Final = 2_000

Headers = Sequence[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record and why it was parked. `reason` is a code, `error` a sentence without secrets."""

    origin: Origin
    key: bytes | None
    value: bytes | None
    headers: Headers
    reason: str
    error: str
    payment_id: str | None


@dataclass(frozen=True, slots=True)
class Kept:
    """A dead letter as the table holds it: a value of `VALUE_BYTES_MAX` may have been cut."""

    dead_letter_id: int
    status: str
    received_at: datetime
    letter: DeadLetter


@dataclass(frozen=True, slots=True)
class Summary:
    """A dead letter without its bytes. `value_bytes`: how many are kept, None for a null value."""

    dead_letter_id: int
    origin: Origin
    reason: str
    error: str
    payment_id: str | None
    status: str
    received_at: datetime
    value_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which dead letters: all that is given must hold, None holds for any. Received at or after
    `since` and before `until`.
    """

    ids: Sequence[int] | None = None
    status: str | None = None
    reason: str | None = None
    topic: str | None = None
    payment_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    @property
    def parameters(self) -> tuple[Any, ...]:
        """What every statement that selects dead letters takes first."""
        ids = None if self.ids is None else list(self.ids)
        place = (self.status, self.reason, self.topic, self.payment_id)
        return (ids, *place, self.since, self.until)


class Done(NamedTuple):
    """What an operator did to a dead letter."""

    at: datetime
    actor: str
    action: str
    after: dict[str, Any]
    note: str | None


class Counted(NamedTuple):
    """How many have a reason, and the highest id among them."""

    reason: str
    letters: int
    highest_id: int


class Cursor(NamedTuple):
    """A place in the order in which records were written to their topics."""

    origin: Origin
    dead_letter_id: int


BEGINNING: Final = Cursor(Origin("", -1, -1), 0)


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


async def counted(connection: Any, wanted: Wanted) -> list[Counted]:
    """How many there are by reason, most first."""
    rows = await connection.fetch(sql("dead_letter_count"), *wanted.parameters)
    return [Counted(*row) for row in rows]


async def newest(connection: Any, wanted: Wanted, *, limit: int) -> list[Summary]:
    """The dead letters that were parked last, the last first."""
    rows = await connection.fetch(sql("dead_letter_newest"), *wanted.parameters, limit)
    return [_summary(row) for row in rows]


async def page(
    connection: Any, wanted: Wanted, *, after: Cursor, highest_id: int, limit: int
) -> list[Summary]:
    """The next dead letters by topic, partition and offset; none that was parked after
    `highest_id`, so that paging ends while records are still being parked.
    """
    place = (*after.origin, after.dead_letter_id)
    rows = await connection.fetch(
        sql("dead_letter_page"), *wanted.parameters, *place, highest_id, limit
    )
    return [_summary(row) for row in rows]


async def read(connection: Any, dead_letter_id: int) -> Kept | None:
    """One dead letter with its bytes; None: there is none of this id."""
    row = await connection.fetchrow(sql("dead_letter_read"), dead_letter_id)
    if row is None:
        return None
    status, received_at, topic, partition, offset, key, value, headers = row[:8]
    letter = DeadLetter(Origin(topic, partition, offset), key, value, headers_of(headers), *row[8:])
    return Kept(dead_letter_id, status, received_at, letter)


async def history(connection: Any, dead_letter_id: int) -> list[Done]:
    """What operators did to a dead letter, oldest first."""
    rows = await connection.fetch(sql("dead_letter_history"), str(dead_letter_id))
    return [Done(*row) for row in rows]


async def move_on(connection: Any, dead_letter_id: int, *, before: str, after: str) -> bool:
    """Change the status `before` to `after`; False if it was another one by now."""
    tag = await connection.execute(sql("dead_letter_move_on"), dead_letter_id, before, after)
    return affected(tag) == 1


def headers_of(stored: Sequence[tuple[str, Any]]) -> list[tuple[str, bytes | None]]:
    """The record's headers from what the table holds of them."""
    return [(name, _header_bytes(value)) for name, value in stored]


def _summary(row: Any) -> Summary:
    return Summary(row[0], Origin(*row[1:4]), *row[4:])


def _header_bytes(value: str | dict[str, str] | None) -> bytes | None:
    if value is None:
        return None
    return value.encode() if isinstance(value, str) else base64.b64decode(value["base64"])


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
