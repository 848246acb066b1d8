"""The status of a payment: a function of both views, without history."""

from service.domain.facts import FINAL, PspFacts, event_facts, finality
from service.domain.payment import Payment, PspPayment, Status
from service.domain.views import SourceView

__all__ = [
    "FINAL",
    "deciding",
    "derive",
    "event_facts",
    "finality",
    "same_money",
]

WAITING = frozenset({Status.PENDING, Status.AUTHORISED})
"""The PSP has not decided yet, or its answer is in dispute."""
NEGATIVE = frozenset({Status.FAILED, Status.CANCELLED, Status.EXPIRED})
"""No money came, as far as is known."""

_AS_THE_PSP_SAYS = {
    "authorised": Status.AUTHORISED,
    "failed": Status.FAILED,
    "cancelled": Status.CANCELLED,
    "expired": Status.EXPIRED,
}
_TELLING = {"succeeded": 4, "authorised": 3, "pending": 2, None: 0}
_DISPUTED, _REFUNDED, _LOST = 6, 5, 1


def derive(erp: SourceView, facts: PspFacts | None) -> Status:
    """The first rule that holds gives the status; the ERP's "paid" and "refunded" alone move
    nothing.
    """
    if facts is not None:
        captured, refunded = facts.captured_minor, facts.refunded_minor
        if facts.disputed_minor > 0:
            return Status.DISPUTED
        if captured > 0 and refunded >= captured:
            return Status.REFUNDED
        if captured > 0 and refunded > 0:
            return Status.PARTIALLY_REFUNDED
        if facts.paid:
            return Status.SUCCEEDED if same_money(erp, facts) else Status.PENDING
    if erp.fields.get("status") == "cancelled":
        return Status.CANCELLED
    if facts is None:
        return Status.PENDING
    return _AS_THE_PSP_SAYS.get(facts.status or "", Status.PENDING)


def deciding(payment: Payment) -> PspPayment | None:
    """The PSP payment that decides: most captured (before refunds), then the most telling status,
    then the smallest reference.
    """
    psp_payments = payment.psp_payments
    if len(psp_payments) < 2:
        return next(iter(psp_payments.values()), None)
    return min(psp_payments.values(), key=_deciding_key)


def same_money(erp: SourceView, facts: PspFacts) -> bool:
    """Whether what was captured is the ERP's amount to the unit; true while the ERP has named
    none.
    """
    expected = erp.fields.get("amount")
    if expected is None:
        return True
    same_currency = facts.amount is not None and facts.amount.currency == expected.currency
    return same_currency and facts.captured_minor == expected.minor


def refund_awaited(payment: Payment) -> bool:
    """Whether the ERP says refunded while the PSP still keeps money that nobody disputes."""
    if payment.erp.fields.get("status") != "refunded":
        return False
    chosen = deciding(payment)
    return chosen is not None and chosen.facts.kept_minor > 0 and chosen.facts.disputed_minor == 0


def answer_awaited(payment: Payment) -> bool:
    """Whether the PSP's answer could still change the payment.

    True while pending or authorised; for failed, cancelled and expired ones until one final
    answer; while an observation is doubted; and while the ERP says refunded and the PSP does not.
    """
    if payment.status in WAITING:
        return True
    if payment.status in NEGATIVE and payment.schedule.final_answer_at is None:
        return True
    for psp_payment in payment.psp_payments.values():
        if psp_payment.observation is not None and psp_payment.observation.doubted:
            return True
    return refund_awaited(payment)


def _deciding_key(psp_payment: PspPayment) -> tuple[int, int, str, str]:
    facts = psp_payment.facts
    if facts.disputed_minor > 0:
        telling = _DISPUTED
    elif facts.refunded_minor > 0:
        telling = _REFUNDED
    else:
        telling = _TELLING.get(facts.status, _LOST)
    return (-facts.captured_minor, -telling, psp_payment.psp_reference, psp_payment.psp)
