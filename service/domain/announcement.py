"""The outgoing event's data: a payment's view and its open discrepancies."""

from datetime import datetime
from typing import Any

from service.domain.events import Announcement
from service.domain.payment import Payment
from service.domain.status import deciding


def announcement(payment: Payment, *, now: datetime) -> Announcement:
    """What is told of `payment` at its present row version, which orders the outgoing events."""
    return Announcement(
        payment_id=payment.payment_id,
        row_version=payment.row_version,
        data=view(payment),
        at=now,
    )


def view(payment: Payment) -> dict[str, Any]:
    """The payment as consumers and people see it, JSON values only."""
    return {
        "payment_id": payment.payment_id,
        "order_id": payment.erp.fields.get("order_id"),
        "status": payment.status,
        "row_version": payment.row_version,
        "erp": _erp(payment),
        "psp": _psp(payment),
        "open_discrepancies": payment.open_kinds,
    }


def _erp(payment: Payment) -> dict[str, Any] | None:
    erp = payment.erp
    if not erp.seen:
        return None
    amount = erp.fields.get("amount")
    return {
        "status": erp.fields.get("status"),
        "amount": {"minor": amount.minor, "currency": amount.currency} if amount else None,
        "epoch": erp.newest.epoch,
        "version": erp.newest.version,
    }


def _psp(payment: Payment) -> dict[str, Any] | None:
    chosen = deciding(payment)
    if chosen is None:
        return None
    facts = chosen.facts
    return {
        "psp": chosen.psp,
        "psp_reference": chosen.psp_reference,
        "status": facts.status,
        "amount_minor": facts.amount.minor if facts.amount else None,
        "currency": facts.amount.currency if facts.amount else None,
        "captured_minor": facts.captured_minor,
        "refunded_minor": facts.refunded_minor,
        "disputed_minor": facts.disputed_minor,
    }
