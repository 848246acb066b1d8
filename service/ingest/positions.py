"""Where to read on: the database's offset decides, checked against what the log still holds."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from service.errors import OffsetFenced, ReconcilerError, TopicRecreated
from service.store import offsets
from service.store.offsets import Move, Partition, Position


@dataclass(frozen=True, slots=True)
class LogBounds:
    """The first offset that a partition's log holds, and the one after its last."""

    beginning: int
    end: int


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a partition is read on; `lost` records were deleted before they could be read."""

    position: Position
    lost: int
    caught_up: bool


async def place(
    connection: Any, group: str, bounds: Mapping[Partition, LogBounds]
) -> dict[Partition, Placement]:
    """Find each partition's position in the caller's transaction, in (topic, partition) order.

    A partition that was never consumed starts at the log's beginning. A position below it goes on
    there, and one at the log's end is caught up; both are stored. Raises TopicRecreated for a
    position above the end, and OffsetFenced if a position moves meanwhile.
    """
    placements = {}
    for partition in sorted(bounds):
        placements[partition] = await _place_one(connection, group, partition, bounds[partition])
    return placements


async def _place_one(
    connection: Any, group: str, partition: Partition, log: LogBounds
) -> Placement:
    await offsets.create(connection, group, partition, next_offset=log.beginning)
    position = await offsets.read(connection, group, partition)
    if position is None:
        raise OffsetFenced(f"the offset row of {partition.topic} {partition.number} went away")
    check_end(partition, position, log)
    start = max(position.next_offset, log.beginning)
    caught_up = position.caught_up_at is None and start == log.end
    if start != position.next_offset or caught_up:
        move = Move(partition, position.next_offset, start, caught_up)
        if not await offsets.advance(connection, group, [move]):
            raise OffsetFenced(f"the offset of {partition.topic} {partition.number} moved")
    lost = start - position.next_offset
    highest = max(position.highest_offset, start)
    return Placement(
        position=replace(position, next_offset=start, highest_offset=highest),
        lost=lost,
        caught_up=caught_up or position.caught_up_at is not None,
    )


def check_end(partition: Partition, position: Position, log: LogBounds) -> None:
    """Raise TopicRecreated if the log ends before the stored position."""
    if position.next_offset > log.end:
        raise TopicRecreated(
            f"topic {partition.topic}, partition {partition.number}: the stored offset is "
            f"{position.next_offset}, but the log ends at {log.end}. The topic was deleted and "
            "made anew, or has lost data. Check what happened, then say where to read on: "
            f"`reconciler offsets set --topic {partition.topic} --partition {partition.number} "
            "--to earliest` reads everything that the log holds now."
        )


@dataclass(frozen=True, slots=True)
class Relocation:
    """A position as an operator wants it.

    `skipped` offsets of the log will not be read, `lost` ones the log no longer holds. `recreated`:
    the log is not the one that was consumed, so its offsets mean other records.
    """

    position: Position
    skipped: int
    lost: int
    recreated: bool


def relocate(
    partition: Partition,
    stored: Position | None,
    log: LogBounds,
    *,
    to: int,
    recreated: bool = False,
) -> Relocation:
    """What becomes of a stored position (None: never consumed) that is moved to offset `to`. Pure.

    A position beyond the log's end shows that the topic was made anew; `recreated` says so where
    the new log has grown past it already. The highest offset then begins anew too: else the stale
    events of the new log would be taken for a replay and not logged. Raises ReconcilerError for an
    offset that the log does not hold.
    """
    if not log.beginning <= to <= log.end:
        raise ReconcilerError(
            f"topic {partition.topic}, partition {partition.number} holds the offsets from "
            f"{log.beginning} to {log.end} (where the next record will be), and {to} lies outside;"
            " give one of these, or `--to earliest` or `--to latest`"
        )
    if stored is None:
        return Relocation(Position(to, log.beginning), to - log.beginning, 0, recreated)
    if recreated or max(stored.next_offset, stored.highest_offset) > log.end:
        position = replace(stored, next_offset=to, highest_offset=log.beginning)
        return Relocation(position, to - log.beginning, 0, recreated=True)
    unread = max(stored.next_offset, log.beginning)
    return Relocation(
        position=replace(stored, next_offset=to),
        skipped=max(0, to - unread),
        lost=unread - stored.next_offset,
        recreated=False,
    )
