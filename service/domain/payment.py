"""A payment as the pure rules see it: two views, what follows from them, its poll bookkeeping."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from schemas.outcome import DiscrepancyKind as Kind
from schemas.outcome import PaymentStatus as Status
from service.domain.facts import PspFacts, event_facts, finality
from service.domain.views import SourceView

__all__ = ["Case", "Kind", "Observation", "Payment", "PspFacts", "PspPayment", "Schedule", "Status"]


@dataclass(slots=True)
class Observation:
    """A PSP's answer that carried no version.

    `doubted` says that a less final event was applied after it, so the PSP is asked again: an
    answer that agrees with the events ends it, one that repeats it ends the doubt.
    """

    facts: PspFacts
    at: datetime
    doubted: bool = False


@dataclass(slots=True)
class PspPayment:
    """One payment at one provider account: what its events say and what it answered when asked.

    `facts` follow from both: what the events say, or the observation where that is more final.
    """

    psp: str
    psp_reference: str
    row_version: int = 0
    view: SourceView = field(default_factory=SourceView)
    observation: Observation | None = None
    facts: PspFacts = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        self.facts = event_facts(self.view)
        observed = self.observation
        if observed is not None and finality(observed.facts) > finality(self.facts):
            self.facts = observed.facts

    @property
    def key(self) -> tuple[str, str]:
        """(provider account, reference): unique within a payment."""
        return (self.psp, self.psp_reference)


@dataclass(slots=True)
class Case:
    """A discrepancy whose facts still disagree (`holds`), open or closed by a person meanwhile.

    `discrepancy_id` is None until the database has given one.
    """

    kind: Kind
    discrepancy_id: int | None = None
    status: str = "open"
    holds: bool = True
    version: int = 0
    amount_at_risk_minor: int | None = None
    currency: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def open(self) -> bool:
        """Whether a person still has to look at it."""
        return self.status == "open"


@dataclass(slots=True)
class Schedule:
    """Poll bookkeeping: when the PSP is asked next and what came of asking.

    `checks` counts answers since the status last changed. `final_answer_at` is the time of the
    PSP's final answer for the present status. `not_found_since` is the time of the first of the
    "not found" answers in a row. `check_wanted`: a doubt is to be settled by the PSP's next
    answer, whatever the status.
    """

    pending_since: datetime | None = None
    checks: int = 0
    next_check_at: datetime | None = None
    not_found_since: datetime | None = None
    final_answer_at: datetime | None = None
    check_wanted: bool = False


@dataclass(slots=True)
class Payment:
    """One row a payment. `row_version` is the version read; a visible change raises it by one.

    `status_since` is when it got its present status, None before its first event.
    """

    payment_id: str
    row_version: int = 0
    status: Status = Status.PENDING
    erp: SourceView = field(default_factory=SourceView)
    psp_payments: Mapping[tuple[str, str], PspPayment] = field(default_factory=dict)
    cases: Mapping[Kind, Case] = field(default_factory=dict)
    schedule: Schedule = field(default_factory=Schedule)
    created_at: datetime | None = None
    status_since: datetime | None = None

    def copy(self) -> "Payment":
        """A copy for the step that makes the next payment to fill in."""
        return Payment(
            self.payment_id,
            self.row_version,
            self.status,
            self.erp,
            self.psp_payments,
            self.cases,
            self.schedule,
            self.created_at,
            self.status_since,
        )

    @property
    def open_kinds(self) -> list[str]:
        """The kinds of its open discrepancies, sorted."""
        if not self.cases:
            return []
        return sorted(kind.value for kind, case in self.cases.items() if case.open)

    @property
    def in_conflict(self) -> bool:
        """Whether the newest version of a view came with two contents."""
        if self.erp.conflict:
            return True
        for psp_payment in self.psp_payments.values():  # noqa: SIM110 - a generator costs thrice
            if psp_payment.view.conflict:
                return True
        return False
