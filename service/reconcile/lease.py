"""Leases as this process sees them.

The database's clock alone decides who owns a job. What is kept here only shortens the trust: a
lease counts from the moment its claim or renewal was *sent*, minus a margin, so that a process that
cannot reach the database stops its jobs before somebody else may start them.
"""

import asyncio
import os
import secrets
import socket
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from service.store.jobs import Job, Lease


def new_owner() -> str:
    """`host/pid/random`: new at every start, so that nobody answers for a dead process's jobs."""
    return f"{socket.gethostname()}/{os.getpid()}/{secrets.token_hex(4)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTerms:
    """For whom and how long jobs are leased, in seconds.

    `margin_seconds` is what the local trust ends before the lease. `statement_seconds` bounds
    connect and renewal together, well below the lease.
    """

    owner: str
    ttl_seconds: float = 60.0
    heartbeat_seconds: float = 15.0
    margin_seconds: float = 5.0
    statement_seconds: float = 5.0

    def __post_init__(self) -> None:
        if self.ttl_seconds < 3 * self.heartbeat_seconds:
            raise ValueError("a lease must outlast three heartbeats")
        if not 0 <= self.margin_seconds < self.ttl_seconds - self.heartbeat_seconds:
            raise ValueError("the margin must leave room for a heartbeat")


@dataclass(slots=True, eq=False)
class HeldJob:
    """A job that this process works on.

    `ending` says that its end is being written: from then on the fence in the database decides.
    """

    job: Job
    trusted_until: float
    runner: "asyncio.Task[None] | None" = None
    ending: bool = False

    def cancel(self, reason: str) -> None:
        """Stop working on it; nothing is written."""
        if self.runner is not None:
            self.runner.cancel(reason)


class HeldJobs:
    """The jobs of this process, by lease; the heartbeat renews exactly these."""

    def __init__(self, terms: LeaseTerms, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.terms = terms
        self._clock = clock
        self._held: dict[Lease, HeldJob] = {}

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[HeldJob]:
        return iter(tuple(self._held.values()))

    def now(self) -> float:
        """The monotonic clock that trust is counted on."""
        return self._clock()

    def take(self, job: Job, *, sent_at: float) -> HeldJob:
        """Hold a job whose claim was sent at `sent_at`."""
        held = HeldJob(job, trusted_until=self._trusted_from(sent_at))
        self._held[job.lease] = held
        return held

    def drop(self, held: HeldJob) -> None:
        """Hold it no longer."""
        self._held.pop(held.job.lease, None)

    def get(self, lease: Lease) -> HeldJob | None:
        """The job held under this very lease."""
        return self._held.get(lease)

    def leases(self) -> set[Lease]:
        """All that have to be renewed."""
        return set(self._held)

    def renewed(self, leases: Collection[Lease], *, sent_at: float) -> None:
        """Trust these leases anew, from when their renewal was sent."""
        for lease in leases:
            if held := self._held.get(lease):
                held.trusted_until = max(held.trusted_until, self._trusted_from(sent_at))

    def trusts(self, held: HeldJob) -> bool:
        """Whether the lease cannot have run out, as far as this process knows."""
        return self._clock() < held.trusted_until

    def trust_ends_at(self) -> float:
        """When the first of the leases stops being trusted; infinity if none is held."""
        return min((held.trusted_until for held in self._held.values()), default=float("inf"))

    def _trusted_from(self, sent_at: float) -> float:
        return sent_at + self.terms.ttl_seconds - self.terms.margin_seconds
