"""Stripe's objects as far as they are read: strict, and silent about values when they refuse."""

from enum import Enum
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from schemas import strict_json
from schemas.events import MinorUnits
from schemas.refusal import Refused
from schemas.validation import object_of, validated
from service.psp.body import Nonsense

Text = Annotated[str, Field(min_length=1, max_length=256)]


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


def _read(model: type[_Read], body: bytes) -> _Read:
    try:
        return validated(model, object_of(strict_json.parse(body), "body"))
    except Refused as refusal:
        raise Nonsense(f"{refusal.reason}: {refusal.field}") from None
