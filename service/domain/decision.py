"""What comes of asking the PSP: what is written, and how the job ended."""

from dataclasses import dataclass
from enum import StrEnum

from service.domain.fold import Folded
from service.domain.payment import Payment
from service.domain.replies import Missing, Reply
from service.domain.status import WAITING


class JobOutcome(StrEnum):
    """How a job ended."""

    HEALED = "healed"
    CONSISTENT = "consistent"
    STILL_PENDING = "still_pending"
    DISCREPANCY = "discrepancy"
    NOT_FOUND = "not_found"
    SUPERSEDED = "superseded"
    SHADOW = "shadow"


@dataclass(frozen=True, slots=True)
class Decision:
    """What is written: the folded payment with its log and announcements, and the job's outcome."""

    folded: Folded
    outcome: JobOutcome


def outcome_of(before: Payment, after: Payment, reply: Reply) -> JobOutcome:
    """How a job ends whose answer made `after` of `before`."""
    if isinstance(reply, Missing):
        return JobOutcome.NOT_FOUND
    if after.status is not before.status:
        return JobOutcome.HEALED
    if after.open_kinds:
        return JobOutcome.DISCREPANCY
    if after.status in WAITING:
        return JobOutcome.STILL_PENDING
    return JobOutcome.CONSISTENT
