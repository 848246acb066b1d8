"""Small named plots: what the sources say about one payment, and where it ends.

A plot is a function that tells one payment's events on its `Cast` and one entry in `PLOTS`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Source = Literal["erp", "psp"]


@dataclass(frozen=True, slots=True)
class Said:
    """One event of a source: its version of the payment and the data.

    `patch` holds only what changed. `losable` marks a success that nothing later repeats, so that
    losing it leaves the payment pending here until somebody asks the PSP.
    """

    source: Source
    version: int
    data: Mapping[str, Any]
    patch: bool = False
    losable: bool = False
    lost: bool = False


@dataclass(slots=True)
class Cast:
    """One payment while its plot is told: ids, money, and what has been said so far.

    `erp` and `held` grow to what the ERP says last and what the PSP holds at the end, by
    reference. `counts_versions` is false for accounts whose answers carry no version.
    """

    payment_id: str
    order_id: str
    psp: str
    reference: str
    amount: Mapping[str, Any]
    counts_versions: bool
    plot: str = ""
    said: list[Said] = field(default_factory=list)
    erp: dict[str, Any] = field(default_factory=dict)
    held: dict[str, dict[str, Any]] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)

    @property
    def minor(self) -> int:
        """The ordered amount in minor units."""
        return int(self.amount["minor"])

    def order(self, status: str) -> None:
        """The ERP says `status`: the first time as a snapshot, then as a patch for odd amounts."""
        first = not self.erp
        self.erp.update(order_id=self.order_id, status=status, amount=dict(self.amount))
        patch = not first and self.minor % 2 == 1
        data = {"status": status} if patch else dict(self.erp)
        self.said.append(Said("erp", self._next("erp"), data, patch=patch))

    def pay(self, status: str, *, reference: str | None = None, **fields: Any) -> None:
        """The PSP says `status` of one of its payments, as a snapshot with `fields` beside it."""
        self.said.append(self._paid(status, reference or self.reference, fields))

    def pay_and_forget(self, status: str, *, losable: bool = False, **fields: Any) -> None:
        """The PSP's last word; `losable` ones may get lost on their way."""
        said = self._paid(status, self.reference, fields)
        self.said.append(Said("psp", said.version, said.data, losable=losable))

    def lose(self, status: str, **fields: Any) -> None:
        """The PSP changes its books, and the event never arrives."""
        said = self._paid(status, self.reference, fields)
        self.said.append(Said("psp", said.version, said.data, lost=True))

    def _paid(self, status: str, reference: str, fields: Mapping[str, Any]) -> Said:
        data = {
            "psp": self.psp,
            "psp_reference": reference,
            "status": status,
            "amount": dict(self.amount),
            **fields,
        }
        self.held[reference] = data
        return Said("psp", self._next(reference), data)

    def _next(self, stream: str) -> int:
        self.versions[stream] = self.versions.get(stream, 0) + 1
        return self.versions[stream]


def paid(cast: Cast) -> None:
    """Ordered, authorised, captured; the ERP follows."""
    _authorised(cast)
    cast.pay_and_forget("succeeded", losable=True)
    if cast.minor % 3:
        cast.order("paid")


def declined(cast: Cast) -> None:
    """The PSP refuses the card."""
    cast.order("pending")
    cast.pay("pending")
    cast.pay("failed", failure_code="card_declined")


def cancelled(cast: Cast) -> None:
    """The customer cancels before paying."""
    cast.order("pending")
    cast.pay("pending")
    cast.order("cancelled")
    cast.pay("cancelled")


def expired(cast: Cast) -> None:
    """Nobody captures the authorisation in time."""
    _authorised(cast)
    cast.pay("expired")


def uncaptured(cast: Cast) -> None:
    """Authorised, and so it stays: the shop has not shipped yet."""
    _authorised(cast)


def second_try(cast: Cast) -> None:
    """The first card is refused, the second one pays; the refusal may well arrive last."""
    cast.order("pending")
    cast.pay("failed", reference=f"{cast.reference}_1", failure_code="insufficient_funds")
    cast.pay("authorised")
    cast.pay("succeeded")
    cast.order("paid")


def refunded(cast: Cast) -> None:
    """Paid and given back whole."""
    _settled(cast)
    cast.pay("succeeded", refunded_minor=cast.minor)
    cast.order("refunded")


def partly_refunded(cast: Cast) -> None:
    """Paid, a part given back."""
    _settled(cast)
    cast.pay("succeeded", refunded_minor=cast.minor // 4 + 1)


def refund_lost(cast: Cast) -> None:
    """The ERP knows of the refund; the PSP's event about it is lost."""
    _settled(cast)
    cast.order("refunded")
    cast.lose("succeeded", refunded_minor=cast.minor)


def refund_missing(cast: Cast) -> None:
    """The ERP says refunded, the PSP keeps the money: a case for a person."""
    _settled(cast)
    cast.order("refunded")


def disputed(cast: Cast) -> None:
    """The customer's bank takes the money back."""
    _settled(cast)
    cast.pay("succeeded", disputed_minor=cast.minor)


def paid_after_cancel(cast: Cast) -> None:
    """The shop cancels while the customer pays: a case for a person."""
    cast.order("pending")
    cast.pay("authorised")
    cast.order("cancelled")
    cast.pay("succeeded")


def short_capture(cast: Cast) -> None:
    """The PSP took less than was ordered: never healed, a case for a person."""
    _authorised(cast)
    cast.pay("succeeded", captured_minor=cast.minor - 1)


def double_capture(cast: Cast) -> None:
    """The customer pays twice: a case for a person."""
    cast.order("pending")
    cast.pay("succeeded")
    cast.pay("succeeded", reference=f"{cast.reference}_2")
    cast.order("paid")


def _authorised(cast: Cast) -> None:
    cast.order("pending")
    cast.pay("pending")
    cast.pay("authorised")


def _settled(cast: Cast) -> None:
    _authorised(cast)
    cast.pay("succeeded")
    cast.order("paid")


Plot = Callable[[Cast], None]

PLOTS: Mapping[Plot, int] = {
    declined: 60,
    cancelled: 50,
    expired: 20,
    uncaptured: 10,
    second_try: 30,
    refunded: 30,
    partly_refunded: 20,
    refund_lost: 5,
    refund_missing: 5,
    disputed: 10,
    paid_after_cancel: 5,
    short_capture: 5,
    double_capture: 5,
}
"""Each plot's share in 1,000 payments, at least one of each; `paid` has the rest."""


def plots_for(payments: int) -> list[Plot]:
    """One plot a payment, in the plots' order."""
    plots = [plot for plot, share in PLOTS.items() for _ in range(max(1, share * payments // 1000))]
    return [*plots, *[paid] * (payments - len(plots))][:payments]
