"""Claims, ends and heals that do not belong together."""

from dataclasses import replace
from typing import Any

from tests.faults.breaking.breach import breach, first
from tests.faults.checking.history import History


def of_payment(rows: list[Any], payment_id: str) -> Any:
    return first(rows, payment_id=payment_id)


def heal_of(history: History) -> Any:
    """A log row of a heal that changed a status."""
    return next(row for row in history.log if row["kind"] == "heal" and "status" in row["changes"])


@breach("claims_closed_once")
def attempt_left_open(history: History) -> None:
    history.attempts[0]["finished_at"] = None


@breach("claims_closed_once")
def attempt_without_a_claim(history: History) -> None:
    row = {**history.attempts[0], "lease_epoch": 9, "attempt": 9, "outcome": "expired"}
    history.attempts.append(row)


@breach("claims_closed_once")
def attempts_raised_by_one(history: History) -> None:
    history.jobs[0]["attempts"] += 1


@breach("attempts_bounded")
def release_not_counted(history: History) -> None:
    history.jobs[0]["releases"] += 1


@breach("attempts_bounded")
def too_many_attempts(history: History) -> None:
    history.jobs[0]["max_attempts"] = 0


@breach("no_lease_left")
def lease_left(history: History) -> None:
    history.jobs[0]["lease_owner"] = "host/1/x"


@breach("ended_once")
def job_ended_twice(history: History) -> None:
    ended = first(history.attempts, outcome="discrepancy")
    job = first(history.jobs, job_id=ended["job_id"])
    job["lease_epoch"] = job["attempts"] = 2
    history.attempts.append({**ended, "lease_epoch": 2, "attempt": 2})


@breach("effect_with_its_end")
def heal_and_end_in_two_transactions(history: History) -> None:
    first(history.attempts, outcome="healed")["xmin"] = "0"


@breach("effect_with_its_end")
def heal_written_by_a_former_owner(history: History) -> None:
    first(history.attempts, outcome="healed")["lease_owner"] = "elsewhere/1/former"


@breach("effect_with_its_end")
def heal_of_a_job_that_says_consistent(history: History) -> None:
    attempt = first(history.attempts, outcome="healed")
    job = first(history.jobs, job_id=attempt["job_id"])
    attempt["outcome"] = job["outcome"] = "consistent"


@breach("healed_once")
def success_not_healed(history: History) -> None:
    healed = {row["payment_id"] for row in history.log if row["kind"] == "heal"}
    missed = history.told.expected.keys() - healed
    history.told = replace(history.told, heal_only=frozenset({min(missed)}))


@breach("healed_once", "announced_once")
def healed_twice(history: History) -> None:
    heal = heal_of(history)
    payment = of_payment(history.payments, heal["payment_id"])
    payment["row_version"] += 1
    history.log.append({**heal, "row_version": payment["row_version"]})
