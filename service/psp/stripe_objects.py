"""Stripe's objects as far as they are read, and what they say in the port's words."""

from collections.abc import Mapping
from enum import Enum
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from schemas import strict_json
from schemas.currency import exponent_of
from schemas.events import MinorUnits, PspStatus
from schemas.money import Money
from schemas.refusal import Refused
from schemas.units import in_iso_units
from schemas.validation import object_of, validated
from service.psp.body import Nonsense
from service.psp.port import Answered

Text = Annotated[str, Field(min_length=1, max_length=256)]

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


class _Object(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)


class PaymentMethodDetails(_Object):
    """How a charge was paid."""

    type: Text


class Charge(_Object):
    """The expanded `latest_charge`."""

    id: Text
    amount_captured: MinorUnits
    amount_refunded: MinorUnits
    disputed: bool
    payment_method_details: PaymentMethodDetails | None = None


class PaymentError(_Object):
    """Why the last try to pay was declined."""

    code: Text | None = None


class Intent(_Object):
    """A PaymentIntent: one try of a customer to pay, with one charge that succeeds at most."""

    id: Text
    object: Literal["payment_intent"]
    status: Text
    amount: MinorUnits
    amount_received: MinorUnits
    currency: Text
    created: int
    latest_charge: Charge | None
    metadata: dict[str, str] = {}
    cancellation_reason: Text | None = None
    last_payment_error: PaymentError | None = None
    payment_method_types: tuple[Text, ...] = Field(default=(), strict=False)

    def telling(self) -> tuple[int, bool, bool, int]:
        """Most captured first, then authorised, then not cancelled, then the newest."""
        return (
            self.amount_received,
            self.status == "requires_capture",
            self.status != "canceled",
            self.created,
        )


class Dispute(_Object):
    """A customer's claim against a charge."""

    object: Literal["dispute"]
    amount: MinorUnits
    currency: Text
    status: Text


class _IntentList(_Object):
    object: Literal["search_result"]
    data: tuple[Intent, ...] = Field(strict=False)


class _DisputeList(_Object):
    object: Literal["list"]
    data: tuple[Dispute, ...] = Field(strict=False)


class _Error(_Object):
    code: Text
    message: str = ""


class _Failure(_Object):
    error: _Error


class NoSuchIntent(Enum):
    """What a 404 in Stripe's own words means."""

    NOWHERE = "nowhere"
    OTHER_MODE = "other mode"


_Read = TypeVar("_Read", bound=BaseModel)


def intent_of(body: bytes) -> Intent:
    """The intent of a 200; raises Nonsense for anything else."""
    return _read(Intent, body)


def intents_of(body: bytes) -> tuple[Intent, ...]:
    """The intents of a search; raises Nonsense for anything else."""
    return _read(_IntentList, body).data


def disputes_of(body: bytes) -> tuple[Dispute, ...]:
    """The disputes of a list; raises Nonsense for anything else."""
    return _read(_DisputeList, body).data


def refusal_of(body: bytes) -> NoSuchIntent:
    """What Stripe's own 404 means; raises Nonsense for anybody else's."""
    try:
        error = _read(_Failure, body).error
    except Nonsense:
        raise Nonsense("404 without the provider's own word for it") from None
    if error.code != "resource_missing":
        raise Nonsense("404 for another reason than a missing payment")
    # A key of the other mode does not see the payment, which proves nothing.
    elsewhere = "similar object exists in" in error.message
    return NoSuchIntent.OTHER_MODE if elsewhere else NoSuchIntent.NOWHERE


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


def _read(model: type[_Read], body: bytes) -> _Read:
    try:
        return validated(model, object_of(strict_json.parse(body), "body"))
    except Refused as refusal:
        raise Nonsense(f"{refusal.reason}: {refusal.field}") from None


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
