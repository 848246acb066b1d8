"""Each claim ends once, and a heal is in the books if and only if its job's end is.

The log row of a heal and the end of its attempt are written in one transaction: both rows carry
its number.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from tests.faults.checking.history import History, Row

JOB_OUTCOMES = frozenset(
    {"healed", "consistent", "still_pending", "discrepancy", "not_found", "superseded", "shadow"}
)


def claims_closed_once(history: History) -> Iterator[str]:
    """One attempt row a claim, numbered as the lease epoch, each closed."""
    epochs: dict[int, list[Row]] = defaultdict(list)
    for row in history.attempts:
        epochs[row["job_id"]].append(row)
        if row["finished_at"] is None or row["outcome"] is None:
            yield f"job {row['job_id']}: attempt {row['lease_epoch']} is not closed"
        if row["attempt"] != row["lease_epoch"]:
            yield (
                f"job {row['job_id']}: attempt {row['attempt']} has the lease epoch"
                f" {row['lease_epoch']}"
            )
    for job in history.jobs:
        found = [row["lease_epoch"] for row in epochs.pop(job["job_id"], [])]
        if found != list(range(1, job["lease_epoch"] + 1)) or job["attempts"] != job["lease_epoch"]:
            yield (
                f"job {job['job_id']} was claimed {job['lease_epoch']} times, counts"
                f" {job['attempts']} attempts and has the attempt rows {found}"
            )
    for job_id in epochs:
        yield f"job {job_id} has attempts and is not there"


def attempts_bounded(history: History) -> Iterator[str]:
    """Releases are counted; attempts without them stay within the maximum, dead jobs are at it."""
    released = Counter(row["job_id"] for row in history.attempts if row["outcome"] == "released")
    for job in history.jobs:
        name, used = f"job {job['job_id']}", job["attempts"] - job["releases"]
        if job["releases"] != released[job["job_id"]]:
            yield f"{name} counts {job['releases']} releases of {released[job['job_id']]}"
        if used > job["max_attempts"]:
            yield f"{name} has used {used} attempts of {job['max_attempts']}"
        if job["status"] == "dead" and used < job["max_attempts"]:
            yield f"{name} is dead after {used} attempts of {job['max_attempts']}"


def no_lease_left(history: History) -> Iterator[str]:
    """At rest nobody holds a job."""
    for job in history.jobs:
        if job["status"] == "processing" or job["lease_owner"] or job["lease_until"]:
            yield f"job {job['job_id']} is {job['status']}, held by {job['lease_owner']}"


def ended_once(history: History) -> Iterator[str]:
    """A completed job has one attempt with its outcome, the last one; others have none."""
    ends: dict[int, list[Row]] = defaultdict(list)
    for row in history.attempts:
        if row["outcome"] in JOB_OUTCOMES:
            ends[row["job_id"]].append(row)
    for job in history.jobs:
        found = [(row["lease_epoch"], row["outcome"]) for row in ends[job["job_id"]]]
        completed = job["status"] == "completed"
        wanted = [(job["lease_epoch"], job["outcome"])] if completed else []
        if found != wanted:
            yield f"job {job['job_id']} is {job['status']}, should end {wanted}, ended {found}"


def effect_with_its_end(history: History) -> Iterator[str]:
    """A job that healed changed the status in the transaction of its end, written by the owner of
    the claim that ended, and nothing else that is not a source's event changes a status.
    """
    payment_of = {job["job_id"]: job["payment_id"] for job in history.jobs}
    ends = {
        (row["xmin"], payment_of.get(row["job_id"])): row
        for row in history.attempts
        if row["outcome"] in JOB_OUTCOMES
    }
    effects: dict[tuple[Any, Any], list[Row]] = defaultdict(list)
    for row in history.log:
        if row["kind"] == "heal" and row["outcome"] == "applied" and _by_answer(row):
            effects[row["xmin"], row["payment_id"]].append(row)
    for key, rows in effects.items():
        end = ends.get(key)
        ids = [row["log_id"] for row in rows]
        if end is None:
            yield f"{key[1]}: log {ids} is a heal in a transaction that ended no job"
        elif _moves_status(rows) and end["outcome"] != "healed":
            yield f"{key[1]}: log {ids} heals, and job {end['job_id']} ended {end['outcome']}"
        elif {row["actor"] for row in rows} != {end["lease_owner"]}:
            yield f"{key[1]}: log {ids} is not written by {end['lease_owner']}, whose claim ended"
    for key, end in ends.items():
        if end["outcome"] == "healed" and not _moves_status(effects.get(key, [])):
            yield f"{key[1]}: job {end['job_id']} says healed, and the log has no heal"


def healed_once(history: History) -> Iterator[str]:
    """No payment is healed to one status twice, and what only healing can bring is healed."""
    heals: Counter[tuple[str, str]] = Counter()
    for row in history.log:
        if row["kind"] == "heal" and row["outcome"] == "applied" and "status" in row["changes"]:
            heals[row["payment_id"], row["changes"]["status"][1]] += 1
    for (payment_id, status), times in heals.items():
        if times > 1:
            yield f"{payment_id} was healed to {status} {times} times"
    for payment_id in sorted(history.told.heal_only):
        status = history.told.expected[payment_id].status
        if not heals[payment_id, status]:
            yield f"{payment_id} was not healed to {status}, and no event told of it"


def _by_answer(row: Row) -> bool:
    """Whether it is an answer's effect; sweeps and deaths of jobs only open and close cases."""
    return row["psp"] is not None or "status" in row["changes"]


def _moves_status(rows: Sequence[Row]) -> bool:
    return any("status" in row["changes"] for row in rows)
