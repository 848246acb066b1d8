"""A world of one payment: what the PSP and the ERP hold in their own books, the messages under
way, and what must stand here in the end. It knows none of the service's rules.
"""

from dataclasses import dataclass, field
from typing import Any

from schemas.money import Money
from service.domain.events import SourceEvent
from service.domain.healing import Found, Missing
from service.psp.port import Question
from tests.unit import domain_events as make

ORDERED = Money(1000, "EUR")
NEGATIVE = ("failed", "cancelled", "expired")
WAITING = ("pending", "authorised")


@dataclass
class Attempt:
    """One payment in the PSP's books. `silent` says that its last change was never told."""

    reference: str
    status: str = "pending"
    amount: Money = ORDERED
    captured: int = 0
    refunded: int = 0
    disputed: int = 0
    version: int = 0
    silent: bool = False
    told_whole: bool = True

    @property
    def book(self) -> dict[str, Any]:
        return {
            "amount": self.amount,
            "captured_minor": self.captured,
            "refunded_minor": self.refunded,
            "disputed_minor": self.disputed,
        }


@dataclass
class World:
    """`counts_versions` is whether the PSP's answers carry a version."""

    counts_versions: bool
    attempts: list[Attempt] = field(default_factory=list)
    erp_status: str = "pending"
    erp_version: int = 0
    under_way: list[SourceEvent] = field(default_factory=list)

    def erp_says(self, status: str) -> None:
        self.erp_status, self.erp_version = status, self.erp_version + 1
        named = self.attempts[-1].reference if self.attempts else None
        self.under_way.append(make.erp(self.erp_version, status, psp_reference=named))

    def psp_tells(self, attempt: Attempt, *, lost: bool = False, patch: bool = False) -> None:
        """Tell of a change of `attempt`; a patch only where all before it was told."""
        attempt.version += 1
        attempt.silent = lost
        patch = patch and attempt.told_whole and attempt.version > 1
        attempt.told_whole = attempt.told_whole and not lost
        if lost:
            return
        reference = attempt.reference
        if patch:
            fields = {"status": attempt.status, **attempt.book}
            event = make.psp_patch(attempt.version, reference=reference, **fields)
        else:
            event = make.psp(attempt.version, attempt.status, reference=reference, **attempt.book)
        self.under_way.append(event)

    def answer(self, question: Question) -> Found | Missing:
        """The PSP's answer; asked by the payment's id, it tells of the last attempt."""
        known = {each.reference: each for each in self.attempts}
        if question.psp_reference is not None:
            attempt = known.get(question.psp_reference)
        else:
            attempt = self.attempts[-1] if self.attempts else None
        if attempt is None:
            return Missing()
        version = attempt.version if self.counts_versions else None
        return make.found(
            attempt.status, version=version, reference=attempt.reference, **attempt.book
        )

    def truth(self) -> tuple[str, set[str], set[str]]:
        """The status, the discrepancies that must be open, and those that may be."""
        if not self.attempts:
            if self.erp_status == "cancelled":
                return "cancelled", set(), set()
            return "pending", {"MISSING_AT_PSP"}, {"STUCK_PENDING"}
        first = min(self.attempts, key=_rank)
        must, may = self._wrong(first), {"STUCK_PENDING"}
        if self.erp_status == "paid" and not first.captured:
            (must if first.status in NEGATIVE else may).add("ERP_PAID_PSP_NOT")
        return self._status(first, must), must, may

    def _status(self, first: Attempt, wrong: set[str]) -> str:
        if first.disputed:
            return "disputed"
        if first.refunded:
            return "refunded" if first.refunded == first.captured else "partially_refunded"
        if first.captured:
            return "pending" if wrong & {"AMOUNT_MISMATCH", "CURRENCY_MISMATCH"} else "succeeded"
        return "cancelled" if self.erp_status == "cancelled" else first.status

    def _wrong(self, first: Attempt) -> set[str]:
        kept = first.captured - first.refunded
        other_currency = first.amount.currency != ORDERED.currency
        wrong = {
            "CURRENCY_MISMATCH": first.captured > 0 and other_currency,
            "AMOUNT_MISMATCH": first.captured not in {0, ORDERED.minor} and not other_currency,
            "PAID_AFTER_CANCEL": self.erp_status == "cancelled" and kept > 0,
            "REFUND_MISSING": self.erp_status == "refunded" and kept > 0 and not first.disputed,
            "DUPLICATE_CAPTURE": sum(a.captured > a.refunded for a in self.attempts) > 1,
        }
        return {kind for kind, is_wrong in wrong.items() if is_wrong}


def _rank(attempt: Attempt) -> tuple[int, int, str]:
    telling = ("failed", "pending", "authorised", "succeeded", "refunded", "disputed")
    said = "failed" if attempt.status in NEGATIVE else attempt.status
    if attempt.refunded:
        said = "refunded"
    if attempt.disputed:
        said = "disputed"
    return (-attempt.captured, -telling.index(said), attempt.reference)
