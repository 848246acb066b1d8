"""The truth: what must stand here of a payment, from the PSP's own books and the ERP's last word.

Written from the story's few rules alone; the service's own rules have no part in it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True, slots=True)
class Truth:
    """One payment as it must stand, or as it was found; sums in minor units."""

    status: str
    captured_minor: int
    refunded_minor: int
    disputed_minor: int
    psp_currency: str | None
    psp_reference: str | None
    order_id: str | None
    erp_status: str | None
    erp_amount_minor: int | None
    erp_currency: str | None
    open_discrepancies: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """One field of one payment that is not the truth."""

    payment_id: str
    field: str
    expected: object
    found: object

    def __str__(self) -> str:
        return f"{self.payment_id}: {self.field} should be {self.expected!r}, found {self.found!r}"


def truth_of(erp: Mapping[str, Any], held: Sequence[Mapping[str, Any]]) -> Truth:
    """What must stand of one payment. `held` are the PSP's payments for it, at least one."""
    first = min(held, key=lambda book: (-captured_minor(book), book["psp_reference"]))
    kinds = _open_kinds(erp, first, held)
    return Truth(
        status=_status(erp, first, mismatch=bool({AMOUNT, CURRENCY} & set(kinds))),
        captured_minor=captured_minor(first),
        refunded_minor=first.get("refunded_minor", 0),
        disputed_minor=first.get("disputed_minor", 0),
        psp_currency=first["amount"]["currency"],
        psp_reference=first["psp_reference"],
        order_id=erp["order_id"],
        erp_status=erp["status"],
        erp_amount_minor=erp["amount"]["minor"],
        erp_currency=erp["amount"]["currency"],
        open_discrepancies=kinds,
    )


def differences(expected: Mapping[str, Truth], found: Mapping[str, Truth]) -> list[Difference]:
    """Every field that differs, and every payment that only one side has, by payment id."""
    result: list[Difference] = []
    for payment_id in sorted(expected.keys() | found.keys()):
        wanted, have = expected.get(payment_id), found.get(payment_id)
        if wanted is None or have is None:
            result.append(Difference(payment_id, "payment", _presence(wanted), _presence(have)))
            continue
        for name in (field.name for field in fields(Truth)):
            left, right = getattr(wanted, name), getattr(have, name)
            if left != right:
                result.append(Difference(payment_id, name, left, right))
    return result


def captured_minor(book: Mapping[str, Any]) -> int:
    """What one PSP payment took, before refunds: the amount, where a success names nothing else."""
    default = book["amount"]["minor"] if book["status"] == "succeeded" else 0
    return int(book.get("captured_minor", default))


AMOUNT, CURRENCY = "AMOUNT_MISMATCH", "CURRENCY_MISMATCH"


def _status(erp: Mapping[str, Any], book: Mapping[str, Any], *, mismatch: bool) -> str:
    captured, refunded = captured_minor(book), book.get("refunded_minor", 0)
    if book.get("disputed_minor", 0):
        return "disputed"
    if captured and refunded:
        return "refunded" if refunded >= captured else "partially_refunded"
    if captured:
        return "pending" if mismatch else "succeeded"
    return "cancelled" if erp["status"] == "cancelled" else str(book["status"])


def _open_kinds(
    erp: Mapping[str, Any], book: Mapping[str, Any], held: Sequence[Mapping[str, Any]]
) -> tuple[str, ...]:
    captured = captured_minor(book)
    kept = captured - book.get("refunded_minor", 0)
    other_currency = book["amount"]["currency"] != erp["amount"]["currency"]
    keeping = [one for one in held if captured_minor(one) > one.get("refunded_minor", 0)]
    wrong = {
        CURRENCY: captured > 0 and other_currency,
        AMOUNT: captured > 0 and not other_currency and captured != erp["amount"]["minor"],
        "PAID_AFTER_CANCEL": erp["status"] == "cancelled" and kept > 0,
        "DUPLICATE_CAPTURE": len(keeping) > 1,
        "REFUND_MISSING": (
            erp["status"] == "refunded" and kept > 0 and not book.get("disputed_minor", 0)
        ),
    }
    return tuple(sorted(kind for kind, is_open in wrong.items() if is_open))


def _presence(truth: Truth | None) -> str:
    return "absent" if truth is None else "present"
