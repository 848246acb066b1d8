"""What Stripe's objects say of a payment: each a part, in the contract's words.

An object of whatever API release is read by the fields that it has; a status that is not listed
here is refused.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from schemas.refusal import Reason, Refused
from schemas.sources.amounts import iso_exponent, iso_minor, whole_minor
from schemas.sources.reading import at, optional_text_at, text_at

STRIPE_EXPONENTS: Final[Mapping[str, int]] = {"ISK": 2, "UGX": 2, "MGA": 0}
"""Where Stripe's minor unit departs from ISO 4217. ISK and UGX have no minor unit any more, but are
still sent with two digits, which are 00. Three-decimal currencies are sent as ISO has them.
"""

_INTENT_STATUSES: Final = {
    "requires_payment_method": "pending",  # also after a declined try: another may follow
    "requires_source": "pending",
    "requires_confirmation": "pending",
    "requires_action": "pending",
    "requires_source_action": "pending",
    "processing": "pending",
    "requires_capture": "authorised",
    "succeeded": "succeeded",
    "canceled": "cancelled",
}
_EXPIRY_REASONS: Final = frozenset({"automatic", "expired"})

# An inquiry (warning_…) moves no money; charge_refunded and prevented gave it back as a refund.
_DISPUTED: Final = {
    "warning_needs_response": False,
    "warning_under_review": False,
    "warning_closed": False,
    "needs_response": True,
    "under_review": True,
    "lost": True,
    "won": False,
    "charge_refunded": False,
    "prevented": False,
}

OwnExponents = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Part:
    """Some of a PSP payment's fields, as a patch carries them."""

    psp_reference: str
    fields: dict[str, Any]


def _intent(thing: dict[str, Any], own: OwnExponents) -> Part:
    fields: dict[str, Any] = {
        "status": _intent_status(thing),
        "amount": _amount(thing, own),
        "failure_code": optional_text_at(thing, "last_payment_error.code"),
    }
    if thing.get("amount_received") is not None:
        fields["captured_minor"] = _minor(thing, "amount_received", own)
    return Part(text_at(thing, "id"), fields)


def _intent_status(thing: dict[str, Any]) -> str:
    status = text_at(thing, "status")
    meaning = _meaning(_INTENT_STATUSES, status)
    if status == "canceled" and thing.get("cancellation_reason") in tuple(_EXPIRY_REASONS):
        return "expired"
    return meaning


def _charge(thing: dict[str, Any], own: OwnExponents) -> Part | None:
    intent = _reference(thing, "payment_intent")
    status = _charge_status(thing)
    if intent is not None and status == "failed":
        return None
    captured = _captured(thing, own) if status == "succeeded" else 0
    # The rest of an authorisation that is let go is called refunded too, though never captured.
    refunded = _minor(thing, "amount_refunded", own) if captured else 0
    fields: dict[str, Any] = {"captured_minor": captured, "refunded_minor": refunded}
    if intent is None:
        fields["status"] = status
        fields["amount"] = _amount(thing, own)
        fields["failure_code"] = optional_text_at(thing, "failure_code")
    return Part(intent or text_at(thing, "id"), fields)


def _charge_status(thing: dict[str, Any]) -> str:
    """Early releases have no status but `paid`, and no `captured`: all was captured at once."""
    status = thing.get("status")
    if status is None and isinstance(thing.get("paid"), bool):
        status = "succeeded" if thing["paid"] else "failed"
    if status in ("succeeded", "paid"):
        if thing.get("captured", True) or thing.get("amount_captured"):
            return "succeeded"
        return "cancelled" if thing.get("refunded") is True else "authorised"
    return _meaning({"pending": "pending", "failed": "failed"}, status)


def _captured(thing: dict[str, Any], own: OwnExponents) -> int:
    name = "amount" if thing.get("amount_captured") is None else "amount_captured"
    return _minor(thing, name, own)


def _refund(thing: dict[str, Any], own: OwnExponents) -> Part:
    _minor(thing, "amount", own)
    return Part(_payment_reference(thing), {})


def _dispute(thing: dict[str, Any], own: OwnExponents) -> Part:
    minor = _minor(thing, "amount", own)
    status = text_at(thing, "status")
    disputed = _DISPUTED.get(status)
    if disputed is None:
        raise _unknown_status(status)
    return Part(_payment_reference(thing), {"disputed_minor": minor if disputed else 0})


def _payment_reference(thing: dict[str, Any]) -> str:
    reference = _reference(thing, "payment_intent") or _reference(thing, "charge")
    if reference is None:
        remedy = "neither payment_intent nor charge is given; one tells which payment it is about"
        raise Refused(Reason.MISSING_FIELD, "payment_intent", remedy)
    return reference


def _reference(thing: dict[str, Any], name: str) -> str | None:
    """The id of a related object, which stands there itself or expanded."""
    related = thing.get(name)
    return optional_text_at(thing, f"{name}.id" if isinstance(related, dict) else name)


def _amount(thing: dict[str, Any], own: OwnExponents) -> dict[str, Any]:
    currency = _currency(thing)
    exponent = iso_exponent(currency, "currency")
    return {"minor": _minor(thing, "amount", own), "currency": currency, "exponent": exponent}


def _minor(thing: dict[str, Any], name: str, own: OwnExponents) -> int:
    value = at(thing, name)
    if value is None:
        raise Refused(Reason.MISSING_FIELD, name, "required; give it a value")
    currency = _currency(thing)
    iso = iso_exponent(currency, "currency")
    return iso_minor(whole_minor(value, name), name, own=own.get(currency, iso), iso=iso)


def _currency(thing: dict[str, Any]) -> str:
    return text_at(thing, "currency").upper()


def _meaning(statuses: Mapping[str, str], status: Any) -> str:
    meaning = statuses.get(status) if isinstance(status, str) else None
    if meaning is None:
        raise _unknown_status(status)
    return meaning


def _unknown_status(status: Any) -> Refused:
    remedy = "no status that this decoder maps; add it, it is never taken for another"
    return Refused(Reason.UNKNOWN_VALUE, "status", remedy, value=status)


READERS: Final[Mapping[str, Callable[[dict[str, Any], OwnExponents], Part | None]]] = {
    "payment_intent": _intent,
    "charge": _charge,
    "refund": _refund,
    "dispute": _dispute,
}
