"""What a replay reads again of each partition: up to where the group stands, and no further."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from service.ingest.positions import LogBounds, check_end
from service.ingest.topic_log import TopicLog
from service.store.offsets import Partition, Position


@dataclass(frozen=True, slots=True)
class Stretch:
    """What is read again of a partition: from `start` up to `end`.

    Below `highest_offset` everything was consumed before. `gone` records lay before `start` and
    are not in the log any more.
    """

    partition: Partition
    start: int
    end: int
    highest_offset: int
    gone: int = 0


async def stretches(
    log: TopicLog, positions: Mapping[Partition, Position], *, since: int | datetime
) -> list[Stretch]:
    """What to read again: from an offset or a time up to where the group stands.

    A beginning that the log does not hold any more is moved to what it holds. Raises BrokerSilent,
    and TopicRecreated for a position beyond the log's end: the log is another one then.
    """
    bounds = await log.bounds(positions)
    for partition, position in positions.items():
        check_end(partition, position, bounds[partition])
    wanted: Mapping[Partition, int | None]
    if isinstance(since, datetime):
        wanted = await log.offsets_at(positions, since)
    else:
        wanted = dict.fromkeys(positions, since)
    return [
        _stretch(partition, position, wanted[partition], bounds[partition])
        for partition, position in sorted(positions.items())
    ]


def _stretch(
    partition: Partition, position: Position, wanted: int | None, log: LogBounds
) -> Stretch:
    end = position.next_offset
    first = end if wanted is None else min(wanted, end)
    start = min(max(first, log.beginning), end)
    return Stretch(partition, start, end, position.highest_offset, gone=start - first)
