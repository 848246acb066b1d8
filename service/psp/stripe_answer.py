"""What Stripe's objects say in the port's words."""

from collections.abc import Mapping
from typing import Any

from schemas.currency import exponent_of
from schemas.events import PspStatus
from schemas.money import Money
from schemas.refusal import Refused
from schemas.units import in_iso_units
from service.psp.body import Nonsense
from service.psp.port import Answered
from service.psp.stripe_objects import Dispute, Intent

_STATUSES: Mapping[str, PspStatus] = {
    "requires_payment_method": PspStatus.PENDING,  # also after a declined try: another may follow
    "requires_confirmation": PspStatus.PENDING,
    "requires_action": PspStatus.PENDING,
    "processing": PspStatus.PENDING,
    "requires_capture": PspStatus.AUTHORISED,
    "canceled": PspStatus.CANCELLED,
    "succeeded": PspStatus.SUCCEEDED,
}
_RUN_OUT = frozenset({"automatic", "expired"})
# An inquiry (warning_…) moves no money; what was won or prevented came back, or as a refund.
_HARMLESS = frozenset(
    {
        "won",
        "prevented",
        "charge_refunded",
        "warning_needs_response",
        "warning_under_review",
        "warning_closed",
    }
)


def answered(
    intent: Intent,
    disputes: tuple[Dispute, ...],
    *,
    account: str,
    exponents: Mapping[str, int],
    request_id: str | None,
) -> Answered:
    """What the intent says, in ISO 4217's minor units; raises Nonsense for what nobody knows.

    `data` holds no personal data and no client secret.
    """
    status = _status(intent)
    fields = _sums_in_iso_units(intent, disputes, status, exponents)
    amount: Money | None = fields["amount"]
    error = intent.last_payment_error
    return Answered(
        status=status.value,
        amount_minor=amount.minor if amount else None,
        currency=amount.currency if amount else None,
        captured_minor=fields["captured_minor"],
        refunded_minor=fields["refunded_minor"],
        disputed_minor=fields["disputed_minor"],
        psp=account,
        psp_reference=intent.id,
        entityversion=None,
        versionepoch=0,
        failure_code=error.code if error else None,
        data=_data(intent, disputes, request_id),
        request_id=request_id,
        method=_method(intent),
    )


def _status(intent: Intent) -> PspStatus:
    status = _STATUSES.get(intent.status)
    if status is None:
        raise Nonsense("status: unknown")
    if status is PspStatus.CANCELLED and intent.cancellation_reason in _RUN_OUT:
        return PspStatus.EXPIRED
    return status


def _sums_in_iso_units(
    intent: Intent,
    disputes: tuple[Dispute, ...],
    status: PspStatus,
    exponents: Mapping[str, int],
) -> dict[str, Any]:
    currency = intent.currency.upper()
    if exponent_of(currency, exceptions=exponents) is None:
        raise Nonsense("currency: unknown")
    charge, captured_minor = intent.latest_charge, intent.amount_received
    # What was never captured is released, not refunded.
    refunded_minor = charge.amount_refunded if charge and captured_minor else 0
    own = {
        "status": status,
        "amount": Money(intent.amount, currency),
        "captured_minor": captured_minor,
        "refunded_minor": refunded_minor,
        "disputed_minor": _disputed_minor(intent, disputes),
    }
    try:
        return in_iso_units(own, exponents)
    except Refused as refusal:
        raise Nonsense(f"{refusal.reason}: {refusal.field}") from None


def _disputed_minor(intent: Intent, disputes: tuple[Dispute, ...]) -> int:
    """What is disputed now or was lost. A dispute in another currency is about all of it."""
    counted = [each for each in disputes if each.status not in _HARMLESS]
    if any(each.currency != intent.currency for each in counted):
        return intent.amount_received
    return sum(each.amount for each in counted)


def _method(intent: Intent) -> str | None:
    details = intent.latest_charge.payment_method_details if intent.latest_charge else None
    if details is not None:
        return details.type
    return intent.payment_method_types[0] if len(intent.payment_method_types) == 1 else None


def _data(intent: Intent, disputes: tuple[Dispute, ...], request_id: str | None) -> dict[str, Any]:
    told = intent.model_dump(mode="json", exclude={"metadata"})
    told["disputes"] = [each.model_dump(mode="json") for each in disputes]
    told["request_id"] = request_id
    return told
