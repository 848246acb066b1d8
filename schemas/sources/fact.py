"""A fact: one thing that happened at a PSP, of a provider that sends no state and no version."""

from dataclasses import dataclass
from datetime import datetime

from schemas.money import Money


@dataclass(frozen=True, slots=True, order=True)
class Fact:
    """One notification item. `payment_id` is the merchant's reference of the payment.

    `psp_reference` is the item's own reference and `original_reference` that of what it modifies,
    empty if nothing. `success` tells whether what `event_code` names came about. `minor` is in ISO
    4217's minor units, not the provider's own.
    """

    payment_id: str
    psp: str
    psp_reference: str
    original_reference: str
    event_code: str
    success: bool
    currency: str
    minor: int
    event_date: datetime
    reason: str = ""
    action: str = ""

    @property
    def amount(self) -> Money:
        """What the fact is about, at most; never negative."""
        return Money(self.minor, self.currency)

    @property
    def key(self) -> tuple[str, str, str, str, bool, str]:
        """What makes two deliveries the same fact."""
        return (
            self.psp,
            self.payment_id,
            self.psp_reference,
            self.event_code,
            self.success,
            self.original_reference,
        )
