"""What goes wrong in a storm, and when: drawn from a seed, so that a storm can be told again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random

from tests.support.skew import faketime_library

STORM_SECONDS = 12.0
FAULTS_MIN, FAULTS_MAX = 6, 10
HOUR_SECONDS = 3600.0
FULL, HEALING = "ingest,reconcile,watch", "reconcile,watch"


class Place(StrEnum):
    """Where a fault strikes. In one place there is one at a time; places overlap freely."""

    PROCESS = "process"
    POSTGRES = "postgres"
    SESSIONS = "postgres sessions"
    TO_POSTGRES = "way to postgres"
    KAFKA = "kafka"
    TO_KAFKA = "way to kafka"
    PSP = "psp"


class Kind(StrEnum):
    """What may go wrong."""

    KILL = "SIGKILL, started again"
    PAUSE = "SIGSTOP past the lease, SIGCONT"
    PAUSE_INSIDE = "SIGSTOP in the midst of a job's transaction, SIGCONT past the lease"
    TERMINATE = "SIGTERM under load, started again"
    BLOCK = "event loop blocked"

    POSTGRES_STOP = "postgres stopped, started again"
    POSTGRES_KILL = "postgres killed, started again"
    READ_ONLY = "postgres read-only"
    POSTGRES_FULL = "no connection slots left"

    TERMINATE_BACKENDS = "pg_terminate_backend"
    DEADLOCKS = "rows locked in the opposite order"
    SERIALIZATION = "40001 and 40P01 at statements and commits"
    LOCKS = "rows locked for longer than lock_timeout"

    POSTGRES_SLOW = "postgres answers late"
    POSTGRES_CUT = "connections to postgres cut"
    POSTGRES_SILENT = "way to postgres is a black hole"
    COMMIT_LOST = "answers to COMMIT lost"
    MESSAGES_LOST = "connections to postgres cut before or after single messages"

    KAFKA_STOP = "kafka stopped, started again"
    KAFKA_PAUSE = "kafka SIGSTOP, SIGCONT"

    KAFKA_SLOW = "kafka answers late"
    KAFKA_CUT = "connections to kafka cut"
    KAFKA_SILENT = "way to kafka is a black hole"

    PSP_SLOW = "psp answers late"
    PSP_OUTAGE = "psp answers 503"
    PSP_REFUSES = "psp refuses connections"
    PSP_SILENT = "psp times out"
    PSP_NONSENSE = "psp answers nonsense"
    PSP_THROTTLES = "psp answers 429"


@dataclass(frozen=True, slots=True)
class Nature:
    """Where a kind strikes, for how long, and how often it is drawn against its neighbours."""

    place: Place
    seconds: tuple[float, float]
    weight: float = 1.0


NATURES: Mapping[Kind, Nature] = {
    Kind.KILL: Nature(Place.PROCESS, (0.2, 1.5), 2),
    Kind.PAUSE: Nature(Place.PROCESS, (3.5, 7.0), 2),
    Kind.PAUSE_INSIDE: Nature(Place.PROCESS, (3.5, 6.0), 3),
    Kind.TERMINATE: Nature(Place.PROCESS, (0.2, 1.0)),
    Kind.BLOCK: Nature(Place.PROCESS, (1.5, 4.5)),
    Kind.POSTGRES_STOP: Nature(Place.POSTGRES, (0.5, 3.0)),
    Kind.POSTGRES_KILL: Nature(Place.POSTGRES, (0.3, 2.0)),
    Kind.READ_ONLY: Nature(Place.POSTGRES, (1.0, 3.0)),
    Kind.POSTGRES_FULL: Nature(Place.POSTGRES, (1.0, 2.5)),
    Kind.TERMINATE_BACKENDS: Nature(Place.SESSIONS, (0.5, 3.0)),
    Kind.DEADLOCKS: Nature(Place.SESSIONS, (2.0, 4.0)),
    Kind.SERIALIZATION: Nature(Place.SESSIONS, (2.0, 5.0)),
    Kind.LOCKS: Nature(Place.SESSIONS, (1.5, 3.0)),
    Kind.POSTGRES_SLOW: Nature(Place.TO_POSTGRES, (1.0, 4.0), 0.5),
    Kind.POSTGRES_CUT: Nature(Place.TO_POSTGRES, (0.1, 1.5)),
    Kind.POSTGRES_SILENT: Nature(Place.TO_POSTGRES, (1.0, 5.0)),
    Kind.COMMIT_LOST: Nature(Place.TO_POSTGRES, (1.0, 4.0), 3),
    Kind.MESSAGES_LOST: Nature(Place.TO_POSTGRES, (1.0, 4.0), 2),
    Kind.KAFKA_STOP: Nature(Place.KAFKA, (0.2, 1.0), 0.5),
    Kind.KAFKA_PAUSE: Nature(Place.KAFKA, (1.0, 5.0)),
    Kind.KAFKA_SLOW: Nature(Place.TO_KAFKA, (1.0, 4.0), 0.5),
    Kind.KAFKA_CUT: Nature(Place.TO_KAFKA, (0.1, 1.5)),
    Kind.KAFKA_SILENT: Nature(Place.TO_KAFKA, (1.0, 5.0)),
    Kind.PSP_SLOW: Nature(Place.PSP, (2.0, 5.0)),
    Kind.PSP_OUTAGE: Nature(Place.PSP, (1.0, 4.0)),
    Kind.PSP_REFUSES: Nature(Place.PSP, (1.0, 3.0), 0.5),
    Kind.PSP_SILENT: Nature(Place.PSP, (1.0, 4.0)),
    Kind.PSP_NONSENSE: Nature(Place.PSP, (1.0, 5.0)),
    Kind.PSP_THROTTLES: Nature(Place.PSP, (1.0, 4.0), 0.5),
}
OF_DATABASE = frozenset({Place.POSTGRES, Place.SESSIONS, Place.TO_POSTGRES})
OUTSIDE = frozenset({Place.KAFKA, Place.TO_KAFKA, Place.PSP})
EVERYWHERE = frozenset(Place)


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """One thing that goes wrong, from the start of the storm. `process` counts from 0."""

    at_seconds: float
    seconds: float
    kind: Kind
    process: int = -1

    @property
    def place(self) -> tuple[Place, int]:
        """Where it strikes; each process is a place of its own."""
        return NATURES[self.kind].place, self.process

    def collides(self, other: "Fault") -> bool:
        """Whether both strike the same place at the same time."""
        apart = (
            self.at_seconds + self.seconds <= other.at_seconds
            or other.at_seconds + other.seconds <= self.at_seconds
        )
        return self.place == other.place and not apart

    def __str__(self) -> str:
        who = f", process {self.process + 1}" if self.process >= 0 else ""
        return f"{self.kind}{who}, {self.seconds:.1f} s"


@dataclass(frozen=True, slots=True)
class Part:
    """One process: its roles, and by how much its clock is wrong for its whole life."""

    roles: str
    skew_seconds: float = 0.0

    def __str__(self) -> str:
        if not self.skew_seconds:
            return self.roles
        missing = "" if faketime_library() else " (left out: no libfaketime)"
        return f"{self.roles}, clock {self.skew_seconds / HOUR_SECONDS:+.0f} h{missing}"


@dataclass(frozen=True, slots=True)
class Plan:
    """All of a storm. The same seed and length give the same plan."""

    seed: int
    parts: tuple[Part, ...]
    faults: tuple[Fault, ...]


def draw(seed: int, *, seconds: float = STORM_SECONDS) -> Plan:
    """Draw the processes and 6 to 10 faults for every twelve seconds, by their times.

    One at least strikes a process, one the database, and one the broker or the PSP.
    """
    rng = Random(seed)  # noqa: S311 - a storm to repeat, not a secret
    parts = _parts(rng)
    faults: list[Fault] = []
    for start in range(max(1, round(seconds / STORM_SECONDS))):
        offset = start * STORM_SECONDS
        length = min(STORM_SECONDS, seconds)
        must: list[frozenset[Place]] = [frozenset({Place.PROCESS}), OF_DATABASE, OUTSIDE]
        number = rng.randint(FAULTS_MIN, FAULTS_MAX)
        for places in [*must, *[EVERYWHERE] * (number - len(must))]:
            _add(faults, places, rng, processes=len(parts), window=(offset, length))
    return Plan(seed, parts, tuple(sorted(faults)))


def _parts(rng: Random) -> tuple[Part, ...]:
    roles = [FULL, FULL, HEALING] if rng.random() < 0.7 else [FULL, FULL]
    skewed = rng.randrange(len(roles)) if rng.random() < 0.6 else None
    skew_seconds = rng.choice((-HOUR_SECONDS, HOUR_SECONDS))
    return tuple(
        Part(each, skew_seconds if number == skewed else 0.0) for number, each in enumerate(roles)
    )


def _add(
    faults: list[Fault],
    places: frozenset[Place],
    rng: Random,
    *,
    processes: int,
    window: tuple[float, float],
) -> None:
    """Draw a fault in one of `places` that collides with none drawn before."""
    kinds = [kind for kind, nature in NATURES.items() if nature.place in places]
    weights = [NATURES[kind].weight for kind in kinds]
    offset, length = window
    for _ in range(100):
        kind = rng.choices(kinds, weights)[0]
        seconds = min(rng.uniform(*NATURES[kind].seconds), length)
        at_seconds = offset + rng.uniform(0, length - seconds)
        process = rng.randrange(processes) if NATURES[kind].place is Place.PROCESS else -1
        fault = Fault(round(at_seconds, 2), round(seconds, 2), kind, process)
        if not _crowded(fault, faults):
            faults.append(fault)
            return


def _crowded(fault: Fault, faults: Sequence[Fault]) -> bool:
    """Whether the place is taken, or Kafka would start twice in twelve seconds."""
    if any(fault.collides(one) for one in faults):
        return True
    near = (one for one in faults if abs(one.at_seconds - fault.at_seconds) < STORM_SECONDS)
    return fault.kind is Kind.KAFKA_STOP and any(one.kind is fault.kind for one in near)
