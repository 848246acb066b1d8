"""The known fields of an event's data: after defaults, with money checked, and their digest."""

from collections.abc import Mapping
from hashlib import blake2b
from types import MappingProxyType
from typing import Any, Final, Literal

from schemas.currency import Exponents, exponent_of
from schemas.events import Amount, ErpPatch, PaymentData, PspData, PspPatch, PspStatus
from schemas.money import Money
from schemas.refusal import Reason, Refused
from schemas.units import in_iso_units

ChangeKind = Literal["snapshot", "patch"]

NO_EXCEPTIONS: Final[Exponents] = MappingProxyType({})
DIGEST_BYTES: Final = 16


def known_fields(data: PaymentData, *, exponents: Exponents = NO_EXCEPTIONS) -> dict[str, Any]:
    """A snapshot's fields after defaults, or those a patch sets; `amount` as Money.

    An absent `captured_minor` of a snapshot is None: what it means depends on the status.
    `exponents` are the exceptions a PSP account. They hold for what the PSP says, not for an ERP
    that names the account; sums come out in ISO 4217's minor units (`in_iso_units`).
    Raises Refused bad_amount (unknown currency, no way to ISO's units) and bad_exponent.
    """
    fields = _told(data)
    told_by_psp = isinstance(data, PspData | PspPatch)
    exceptions = exponents.get(data.__dict__["psp"]) if exponents and told_by_psp else None
    amount = fields.get("amount")
    if amount is not None:
        fields["amount"] = _money(amount, exceptions)
    return in_iso_units(fields, exceptions) if exceptions else fields


def accepted_fields(data: PaymentData) -> dict[str, Any]:
    """The fields of data that was accepted when it came, by no exceptions that hold now: what the
    log keeps is not judged again.
    """
    fields = _told(data)
    amount = fields.get("amount")
    if amount is not None:
        fields["amount"] = Money(amount.minor, amount.currency)
    return fields


def _told(data: PaymentData) -> dict[str, Any]:
    values = data.__dict__
    if isinstance(data, ErpPatch | PspPatch):
        given = data.model_fields_set
        return {name: value for name, value in values.items() if name in given}
    return values.copy()


def _money(amount: Amount, exceptions: Mapping[str, int] | None) -> Money:
    currency = amount.currency
    expected = exponent_of(currency, exceptions=exceptions)
    if expected is None:
        remedy = "no currency of ISO 4217; give its three-letter code"
        raise Refused(Reason.BAD_AMOUNT, "data.amount.currency", remedy, value=currency)
    if amount.exponent is not None and amount.exponent != expected:
        remedy = (
            f"{currency} has {expected}; convert the amount, or set an exception of the account"
        )
        raise Refused(Reason.BAD_EXPONENT, "data.amount.exponent", remedy, value=amount.exponent)
    return Money(amount.minor, currency)


def digest_of(fields: Mapping[str, Any], changekind: ChangeKind) -> bytes:
    """16 bytes that are equal exactly if two events of one version say the same.

    Over the canonical form of the known fields after defaults and the changekind; `id`, `time`,
    `source`, unknown fields and a redundant exponent play no part.
    """
    content = {**fields, "": changekind}
    money = content.get("amount")
    if money is not None:
        content["amount"] = f"{money.minor} {money.currency}"
        if changekind == "snapshot" and content.get("captured_minor", 0) is None:
            succeeded = content["status"] == PspStatus.SUCCEEDED
            content["captured_minor"] = money.minor if succeeded else 0
    # Unambiguous: no value holds NUL, no name holds "=", and null is a name without one.
    parts = [
        name if content[name] is None else f"{name}={content[name]}" for name in sorted(content)
    ]
    return blake2b("\0".join(parts).encode(), digest_size=DIGEST_BYTES).digest()
