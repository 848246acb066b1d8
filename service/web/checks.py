"""Every check of the health bodies: the closed list, and which probe listens to which.

Liveness asks only whether a restart would help. Readiness asks whether this process can do its
work: without the database or its heartbeat it cannot; without the broker it still heals, so that
is a warning.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Final


class Status(IntEnum):
    """Ordered: a larger one is worse."""

    PASS = 0
    WARN = 1
    FAIL = 2

    @property
    def text(self) -> str:
        """As in the body."""
        return self.name.lower()


class Probe(Enum):
    """Who asks."""

    LIVENESS = "livez"
    READINESS = "readyz"
    HEALTH = "health"


@dataclass(frozen=True, slots=True)
class CheckRule:
    """How a check counts: for whom, how bad it can be, how old it may be, what silence means."""

    probes: frozenset[Probe]
    worst: Status = Status.WARN
    age_seconds_max: float | None = 60.0
    stale: Status = Status.WARN


_PEOPLE: Final = frozenset({Probe.HEALTH})
_WORK: Final = frozenset({Probe.READINESS, Probe.HEALTH})
_LIFE: Final = frozenset({Probe.LIVENESS, Probe.HEALTH})
_FAILS: Final = Status.FAIL

RULES: Final = {
    # Round trip of a SELECT; the sampler's time-out is shorter than the largest age.
    "postgres:responseTime": CheckRule(_WORK, worst=_FAILS, age_seconds_max=30.0, stale=_FAILS),
    # The migration the database is at, read when it is first reached; newer is a rollout under way.
    "postgres:schema": CheckRule(_WORK, worst=_FAILS, age_seconds_max=None),
    # Whether the client has a connection to any broker.
    "kafka:connection": CheckRule(_WORK),
    # Number of partitions; none is healthy where replicas outnumber partitions.
    "kafka:assignment": CheckRule(_WORK),
    # Records behind, a row a partition.
    "kafka:lag": CheckRule(_PEOPLE),
    # Jobs held of the slots there are.
    "lease:workers": CheckRule(_PEOPLE),
    # Time since the last good round of renewals; longer than a lease: no job would be kept.
    "lease:heartbeatAge": CheckRule(_WORK, worst=_FAILS),
    # Time since the watcher last finished a round.
    "watcher:lastSuccessAge": CheckRule(_PEOPLE, age_seconds_max=300.0),
    # Age of the oldest pending payment.
    "payments:oldestPendingAge": CheckRule(_PEOPLE, age_seconds_max=300.0),
    # Parked dead letters.
    "payments:deadLetters": CheckRule(_PEOPLE, age_seconds_max=300.0),
    # Open discrepancies.
    "discrepancies:open": CheckRule(_PEOPLE, age_seconds_max=300.0),
    # How late a due callback ran; its own silence is the sign of a blocked loop.
    "runtime:eventLoopLag": CheckRule(_LIFE, worst=_FAILS, age_seconds_max=10.0, stale=_FAILS),
    # Supervised coroutines, a row each; published at every change, so age says nothing.
    "runtime:tasks": CheckRule(_LIFE, worst=_FAILS, age_seconds_max=None),
}


def worst(statuses: Iterable[Status]) -> Status:
    """The worst of `statuses`; pass where there is none."""
    return max(statuses, default=Status.PASS)
