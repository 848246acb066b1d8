"""Stripe webhook events."""

from typing import Any

CREATED = 1719835200


def webhook(kind: str, thing: dict[str, Any], *, created: int = CREATED) -> dict[str, Any]:
    """A webhook event about an object."""
    return {
        "id": f"evt_{kind}",
        "object": "event",
        "type": kind,
        "created": created,
        "livemode": True,
        "data": {"object": thing},
    }


def intent(**changes: Any) -> dict[str, Any]:
    """A PaymentIntent."""
    return {
        "id": "pi_1",
        "object": "payment_intent",
        "status": "succeeded",
        "amount": 1860,
        "amount_received": 1860,
        "currency": "eur",
        "metadata": {"payment_id": "pay-1"},
        **changes,
    }


def charge(**changes: Any) -> dict[str, Any]:
    """A Charge of that intent."""
    return {
        "id": "ch_1",
        "object": "charge",
        "payment_intent": "pi_1",
        "status": "succeeded",
        "captured": True,
        "amount": 1860,
        "amount_captured": 1860,
        "amount_refunded": 0,
        "currency": "eur",
        "metadata": {"payment_id": "pay-1"},
        **changes,
    }


def dispute(**changes: Any) -> dict[str, Any]:
    """A Dispute of that charge, which names no payment."""
    return {
        "id": "dp_1",
        "object": "dispute",
        "payment_intent": "pi_1",
        "charge": "ch_1",
        "status": "needs_response",
        "amount": 1860,
        "currency": "eur",
        "metadata": {},
        **changes,
    }
