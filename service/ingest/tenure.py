"""What this consumer holds from one assignment of the group to the next revocation."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from service.ingest.batch import Batch
from service.ingest.breaker import Breaker, BreakerLimits
from service.ingest.positions import Placement
from service.store.offsets import Partition, Position


@dataclass(frozen=True, slots=True)
class Standing:
    """What the database must hold of a partition of which nothing is under way."""

    next_offset: int
    caught_up: bool

    def agrees(self, position: Position | None) -> bool:
        """Whether it does. No row, or one that has not reached the log's end yet where we have, is
        an older state.
        """
        if position is None or position.next_offset != self.next_offset:
            return False
        return position.caught_up_at is not None or not self.caught_up


@dataclass(slots=True)
class Track:
    """One partition: what the database holds of it and how far it has been fetched.

    Not `placed`: its position has to be read from the database (again) before anything is fetched;
    `known` says that it has been read once, so that `stored` tells how far the database stands.
    `waiting_since` is when it last had nothing to wait for: records came, it was paused, or no
    lag was left.
    """

    partition: Partition
    breaker: Breaker
    progress_at: float
    placed: bool = False
    known: bool = False
    stored: int = 0
    highest: int = 0
    fetched: int = 0
    caught_up: bool = False
    end: int | None = None
    waiting_since: float = 0

    def take(self, placement: Placement) -> None:
        """Begin where the database says."""
        self.stored = self.fetched = placement.position.next_offset
        self.highest = placement.position.highest_offset
        self.caught_up = placement.caught_up
        self.placed = self.known = True

    @property
    def idle(self) -> bool:
        """Whether all that was fetched is stored."""
        return self.placed and self.fetched == self.stored

    @property
    def standing(self) -> Standing | None:
        """What the database must hold; None while a batch or a placing is under way."""
        return Standing(self.stored, self.caught_up) if self.idle else None


class Tenure:
    """The partitions of one assignment. Once it is `over`, batches fetched in it are dropped."""

    def __init__(
        self,
        partitions: Iterable[Partition],
        *,
        limits: BreakerLimits,
        clock: Callable[[], float],
    ) -> None:
        self.over = asyncio.Event()
        self._clock = clock
        self.tracks = {
            partition: Track(
                partition=partition,
                breaker=Breaker(limits, clock=clock),
                progress_at=clock(),
                waiting_since=clock(),
            )
            for partition in sorted(partitions)
        }

    @property
    def unplaced(self) -> list[Track]:
        """The partitions whose position has to be read."""
        return [track for track in self.tracks.values() if not track.placed]

    def fits(self, batch: Batch) -> bool:
        """Whether the batch goes on exactly where the database stands."""
        return not self.over.is_set() and all(
            self.tracks[partition].stored == span.start for partition, span in batch.spans.items()
        )

    def stored(self, batch: Batch) -> None:
        """Note that the batch is committed."""
        for partition, span in batch.spans.items():
            track = self.tracks[partition]
            if span.next_offset > track.stored:
                track.progress_at = self._clock()
            track.stored = span.next_offset
            track.highest = max(track.highest, span.next_offset)
            track.caught_up = track.caught_up or span.caught_up

    def drop(self, batch: Batch) -> None:
        """Forget the batch: its partitions are read again from the database's offsets."""
        for partition in batch.spans:
            self.tracks[partition].placed = False

    def displace(self) -> None:
        """Read every position again."""
        for track in self.tracks.values():
            track.placed = False

    @property
    def standings(self) -> dict[Partition, Standing]:
        """What the database must hold of the partitions of which nothing is under way."""
        return {
            partition: standing
            for partition, track in self.tracks.items()
            if (standing := track.standing) is not None
        }

    def displace_moved(
        self, before: Mapping[Partition, Standing], rows: Mapping[Partition, Position]
    ) -> list[Partition]:
        """Read the positions again that somebody else has moved; gives their partitions.

        `before` are the standings from before `rows` were read: a partition that has moved by
        itself meanwhile, or has something under way now, is left to its next batch. Whatever is
        decided here, the fence guards every write.
        """
        moved = [
            partition
            for partition, standing in before.items()
            if self.tracks[partition].standing == standing
            and not standing.agrees(rows.get(partition))
        ]
        for partition in moved:
            self.tracks[partition].placed = False
        return moved
