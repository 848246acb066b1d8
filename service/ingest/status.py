"""What ingest tells health and metrics: a snapshot, never a question to a dependency."""

from dataclasses import dataclass
from typing import Literal

PauseReason = Literal["placing", "database", "breaker"]


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """One assigned partition. `lag` is None until the log's end is known."""

    topic: str
    number: int
    next_offset: int | None
    end_offset: int | None
    lag: int | None
    paused: PauseReason | None
    seconds_since_progress: float
    caught_up: bool


@dataclass(frozen=True, slots=True)
class IngestStatus:
    """How ingest is doing. `seconds_since_poll` grows where the fetch loop hangs."""

    kafka_connected: bool
    database_available: bool
    partitions: tuple[PartitionStatus, ...]
    resets_suspected: frozenset[str]
    rebuilds: int
    seconds_since_poll: float
    records_lost: int
