"""The table `consumer_offsets`: where each group stands, committed with what it has written.

`next_offset` is the fence: a consumer moves it on only from where it believes it to be, so one
that has lost its partition without knowing cannot write.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from service.store.rows import columns
from service.store.statements import affected, sql


class Partition(NamedTuple):
    """A partition of a topic."""

    topic: str
    number: int


@dataclass(frozen=True, slots=True)
class Position:
    """Where a group stands. Below `highest_offset` everything has been consumed at least once."""

    next_offset: int
    highest_offset: int
    caught_up_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Move:
    """A step from `expected` to `next_offset`; `caught_up` says that no lag is left there."""

    partition: Partition
    expected: int
    next_offset: int
    caught_up: bool = False


@dataclass(frozen=True, slots=True)
class StoredOffset:
    """A row as operators see it."""

    partition: Partition
    position: Position
    updated_at: datetime


async def create(
    connection: Any,
    group: str,
    partition: Partition,
    *,
    next_offset: int,
    highest_offset: int | None = None,
) -> bool:
    """Create the row of a partition that was never consumed, `highest_offset` being `next_offset`
    if nothing else is said; False if there is one: it decides and stays.
    """
    highest = next_offset if highest_offset is None else highest_offset
    tag = await connection.execute(sql("offset_create"), group, *partition, next_offset, highest)
    return affected(tag) == 1


async def read(connection: Any, group: str, partition: Partition) -> Position | None:
    """The stored position; None if this partition was never consumed."""
    row = await connection.fetchrow(sql("offset_read"), group, *partition)
    return Position(*row) if row else None


async def stored(connection: Any, group: str) -> list[StoredOffset]:
    """Every row of a group, by topic and partition."""
    return [
        StoredOffset(Partition(row[0], row[1]), Position(*row[2:5]), row[5])
        for row in await connection.fetch(sql("offset_list"), group)
    ]


async def advance(connection: Any, group: str, moves: Sequence[Move]) -> bool:
    """Move positions; False if any stood elsewhere: the caller has to roll back."""
    ordered = sorted(moves, key=lambda move: move.partition)
    rows = [(*move.partition, move.expected, move.next_offset, move.caught_up) for move in ordered]
    tag = await connection.execute(
        sql("offset_advance"), group, *columns(rows, whole=frozenset({1, 2, 3}))
    )
    return affected(tag) == len(rows)


async def put(
    connection: Any, group: str, partition: Partition, *, expected: int, position: Position
) -> bool:
    """Put a position anywhere, back too; False if it stood elsewhere than `expected`.

    For an operator's word alone: consumers `advance`. `caught_up_at` stays as it is.
    """
    tag = await connection.execute(
        sql("offset_set"),
        group,
        *partition,
        expected,
        position.next_offset,
        position.highest_offset,
    )
    return affected(tag) == 1
