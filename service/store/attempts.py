"""The table `reconciliation_attempts`: one row a claim, closed once by whatever ended it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from service.store.statements import sql


@dataclass(frozen=True, slots=True)
class Attempt:
    """One claim of a job. `outcome` is the job's, or released, expired, failed; None: it runs."""

    job_id: int
    lease_epoch: int
    attempt: int
    lease_owner: str
    started_at: datetime
    finished_at: datetime | None
    outcome: str | None
    error: str | None


async def of_job(connection: Any, job_id: int) -> list[Attempt]:
    """The attempts at a job, in order."""
    return [Attempt(*row) for row in await connection.fetch(sql("attempt_list"), job_id)]
