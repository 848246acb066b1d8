"""The table `reconciliation_jobs`: who may work on what, and until when.

A lease is (job, epoch): each claim raises the epoch, so a worker that was paused past its lease
and wakes up late names an epoch that is over, and changes nothing. Only the database's clock
decides. Finish, renewal and put-back all match job, epoch, owner, state and a lease that has not
run out. The attempts are written by the same statements: each claim opens one, each end closes it.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

from service.errors import LeaseLost
from service.store.rows import columns
from service.store.statements import sql


class Lease(NamedTuple):
    """A right to work on a job that ends when the next one on it begins."""

    job_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Job:
    """A claimed job. `attempts` counts this claim; `releases` those that ended without a fault."""

    lease: Lease
    payment_id: str
    reason: str
    attempts: int
    releases: int


class Ending(NamedTuple):
    """How a job ends under a lease."""

    lease: Lease
    outcome: str


class PutBack(NamedTuple):
    """A job given back under a lease, due again after `delay_seconds`.

    `released` counts as no attempt, `failed` does. `error` may be shown to operators.
    """

    lease: Lease
    outcome: Literal["released", "failed"]
    delay_seconds: float
    error: str


class Cursor(NamedTuple):
    """Where a sweep has got to, in the order of the open jobs."""

    run_at: datetime
    job_id: int


SWEEP_START = Cursor(datetime(1970, 1, 1, tzinfo=UTC), 0)


@dataclass(frozen=True, slots=True)
class Abandoned:
    """A job whose lease ran out, or whose attempts are used up (`worn_out`)."""

    cursor: Cursor
    lease: Lease
    payment_id: str
    worn_out: bool


class Scheduled(NamedTuple):
    """How many payments were due, and how many of them had no open job and got one."""

    due: int
    inserted: int


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job as operators see it."""

    job_id: int
    payment_id: str
    reason: str
    status: str
    run_at: datetime
    lease_owner: str | None
    lease_until: datetime | None
    lease_epoch: int
    attempts: int
    releases: int
    max_attempts: int
    outcome: str | None
    last_error: str | None
    created_at: datetime
    finished_at: datetime | None


async def claim(connection: Any, *, owner: str, slots: int, ttl_seconds: float) -> list[Job]:
    """Take up to `slots` due jobs, those due longest first; none while healing is paused."""
    rows = await connection.fetch(sql("job_claim"), owner, slots, ttl_seconds)
    return [Job(Lease(row[0], row[1]), *row[2:]) for row in rows]


async def renew(
    connection: Any, *, owner: str, leases: Collection[Lease], ttl_seconds: float
) -> set[Lease]:
    """Renew leases; returns those renewed. The others are busy or lost: ask `held`."""
    rows = await connection.fetch(sql("lease_renew"), owner, *_arrays(leases), ttl_seconds)
    return {Lease(*row) for row in rows}


async def held(connection: Any, *, owner: str, leases: Collection[Lease]) -> set[Lease]:
    """The leases that `owner` still has, without waiting for anybody's lock."""
    rows = await connection.fetch(sql("lease_held"), owner, *_arrays(leases))
    return {Lease(*row) for row in rows}


async def owned(connection: Any, *, owner: str) -> set[Lease]:
    """Every lease that `owner` has, whether it knows of it or not."""
    return {Lease(*row) for row in await connection.fetch(sql("lease_owned"), owner)}


async def lock_payments(connection: Any, payment_ids: Collection[str]) -> Mapping[str, int]:
    """Lock the payments that jobs are about to change, before the jobs; returns row versions."""
    rows = await connection.fetch(sql("lease_lock_payments"), sorted(payment_ids))
    return {row[0]: row[1] for row in rows}


async def fence(connection: Any, *, owner: str, leases: Collection[Lease]) -> set[Lease]:
    """Lock the jobs until the transaction ends; returns the leases that `owner` still has."""
    rows = await connection.fetch(sql("lease_lock"), owner, *_arrays(leases))
    return {Lease(*row) for row in rows}


async def finish(connection: Any, *, owner: str, endings: Sequence[Ending]) -> None:
    """End jobs and their attempts within the caller's transaction.

    Raises LeaseLost if any lease is over: the whole transaction must roll back.
    """
    rows = [(*ending.lease, ending.outcome) for ending in endings]
    counts = await connection.fetchrow(sql("job_finish"), owner, *columns(rows, whole=_LEASE))
    if tuple(counts) != (len(rows), len(rows)):
        lost = len(rows) - min(counts)
        raise LeaseLost(f"{lost} of {len(rows)} jobs belong to another attempt by now")


async def settled(connection: Any, leases: Collection[Lease]) -> Mapping[Lease, str]:
    """The outcomes of the jobs that ended under these leases, after any running commit of theirs.

    It tells what became of a transaction whose commit was not answered.
    """
    rows = await connection.fetch(sql("lease_settled"), *_arrays(leases))
    return {Lease(row[0], row[1]): row[2] for row in rows if row[2] is not None}


async def put_back(connection: Any, *, owner: str, backs: Sequence[PutBack]) -> set[Lease]:
    """Give jobs back; returns those that were still `owner`'s."""
    rows = [
        (*back.lease, back.outcome, float(back.delay_seconds), back.error) for back in sorted(backs)
    ]
    returned = await connection.fetch(sql("job_put_back"), owner, *columns(rows, whole=_LEASE))
    return {Lease(*row) for row in returned}


async def release_all(connection: Any, *, owner: str, error: str) -> int:
    """Give back, due at once, every job that `owner` holds; returns how many. The last statement of
    an owner: carried out late, it would take back what was claimed after it.
    """
    count: int = await connection.fetchval(sql("lease_release_all"), owner, error)
    return count


async def abandoned(connection: Any, *, after: Cursor, limit: int) -> list[Abandoned]:
    """The next page of jobs that nobody works on any more."""
    return [
        Abandoned(Cursor(row[0], row[1]), Lease(row[1], row[2]), row[3], worn_out=row[4])
        for row in await connection.fetch(sql("job_expired"), *after, limit)
    ]


async def return_expired(connection: Any, leases: Collection[Lease]) -> int:
    """Make jobs due again whose leases ran out and that have attempts left; returns how many."""
    return len(await connection.fetch(sql("job_return_expired"), *_arrays(leases)))


async def die(connection: Any, lease: Lease) -> bool:
    """End a job that has no attempts left; False if somebody was faster."""
    count: int = await connection.fetchval(sql("job_die"), *lease)
    return count == 1


async def schedule(connection: Any, *, limit: int, max_attempts: int) -> Scheduled:
    """Turn up to `limit` due payments into jobs; payments that somebody holds wait a round."""
    due, inserted = await connection.fetchrow(sql("job_schedule"), limit, max_attempts)
    return Scheduled(due, inserted)


async def oldest_expired_seconds(connection: Any) -> float:
    """How long ago the oldest lease ran out that nobody has taken note of; 0.0 for none."""
    seconds: float = await connection.fetchval(sql("lease_oldest_expired"))
    return seconds


async def of_payment(connection: Any, payment_id: str, *, limit: int) -> list[JobRow]:
    """A payment's jobs, the newest first."""
    return [JobRow(*row) for row in await connection.fetch(sql("job_list"), payment_id, limit)]


_LEASE = frozenset({0, 1})


def _arrays(leases: Collection[Lease]) -> list[list[Any]]:
    """Job ids and epochs in job order, the order in which everybody locks them."""
    return columns(sorted(leases), whole=_LEASE) if leases else [[], []]
