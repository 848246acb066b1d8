"""Where one PSP payment stands, by its events or by an answer, and how final that is."""

from dataclasses import dataclass

from schemas.money import Money
from service.domain.views import SourceView


@dataclass(slots=True)
class PspFacts:
    """Status and gross sums in minor units of the amount's currency; never changed in place."""

    status: str | None
    amount: Money | None
    captured_minor: int
    refunded_minor: int
    disputed_minor: int

    @property
    def paid(self) -> bool:
        """Whether the PSP took money, or says that it did."""
        return self.captured_minor > 0 or self.status == "succeeded"

    @property
    def kept_minor(self) -> int:
        """What was captured and not refunded; below zero where more went back than came."""
        return self.captured_minor - self.refunded_minor


FINAL = 3
"""Facts of this finality or above are a final answer of the PSP."""

_FINALITY = {
    None: 0,
    "pending": 1,
    "authorised": 2,
    "failed": 3,
    "cancelled": 3,
    "expired": 3,
    "succeeded": 4,
}
_CAPTURED, _PARTIALLY_REFUNDED, _GIVEN_BACK = 4, 5, 6


def event_facts(view: SourceView) -> PspFacts:
    """What the events say. An absent `captured_minor` means the amount if succeeded, else
    nothing.
    """
    get = view.fields.get
    status, amount, captured = get("status"), get("amount"), get("captured_minor")
    if captured is None:
        captured = amount.minor if amount is not None and status == "succeeded" else 0
    refunded, disputed = get("refunded_minor") or 0, get("disputed_minor") or 0
    return PspFacts(status, amount, captured, refunded, disputed)


def finality(facts: PspFacts) -> int:
    """Rank: pending < authorised < failed, cancelled, expired < succeeded < partially refunded <
    refunded, disputed.
    """
    if facts.disputed_minor > 0:
        return _GIVEN_BACK
    if facts.captured_minor > 0:
        if facts.refunded_minor >= facts.captured_minor:
            return _GIVEN_BACK
        return _PARTIALLY_REFUNDED if facts.refunded_minor > 0 else _CAPTURED
    return _FINALITY[facts.status]
