"""From a provider account's own units to the minor units of ISO 4217: exactly, or not at all.

Everything inside speaks ISO's minor units, so that an ERP's amount, two accounts of one payment and
the sums that people read can be compared. An account that counts otherwise (ISK in hundredths, say)
is converted once, where its words are read.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from schemas.currency import ISO_4217
from schemas.events import PspStatus
from schemas.money import Money
from schemas.refusal import Reason, Refused
from schemas.strict_json import INT64_MAX

SUMS: Final = ("captured_minor", "refunded_minor", "disputed_minor")


def in_iso_units(fields: dict[str, Any], exceptions: Mapping[str, int]) -> dict[str, Any]:
    """The known fields of a `psp` event or answer with every sum in ISO's minor units.

    Sums that no whole number of ISO's minor units equals are never rounded: all of them stay in the
    account's units and the amount becomes None, which equals no amount of an ERP.
    Raises Refused for a patch with a sum and no amount, for its currency is not known here, and for
    a sum beyond 64 bits.
    """
    amount: Money | None = fields.get("amount")
    if amount is None:
        _refuse_sum_without_currency(fields)
        return fields
    own = exceptions.get(amount.currency)
    iso = ISO_4217.get(amount.currency)
    if own is None or iso is None or own == iso:
        return fields
    sums = dict(_sums(fields, amount))
    exact = {name: rescaled(minor, own=own, iso=iso) for name, minor in sums.items()}
    if None in exact.values():
        return {**fields, **_kept(fields, amount), "amount": None}
    for name, minor in exact.items():
        if minor is not None and minor > INT64_MAX:
            raise Refused(Reason.BAD_AMOUNT, f"data.{name}", "beyond 64 bits in ISO's minor units")
    minor = exact.pop("amount")
    return {**fields, **exact, "amount": Money(minor or 0, amount.currency)}


def rescaled(minor: int, *, own: int, iso: int) -> int | None:
    """`minor` units of exponent `own` as units of exponent `iso`; None where that is no integer."""
    factor: int = 10 ** abs(iso - own)
    if iso >= own:
        return minor * factor
    whole, rest = divmod(minor, factor)
    return None if rest else whole


def _sums(fields: Mapping[str, Any], amount: Money) -> Iterator[tuple[str, int]]:
    yield "amount", amount.minor
    for name in SUMS:
        if fields.get(name) is not None:
            yield name, fields[name]


def _kept(fields: Mapping[str, Any], amount: Money) -> dict[str, int]:
    """What an absent `captured_minor` of a success stands for, as the amount will not tell it."""
    by_amount = "captured_minor" in fields and fields["captured_minor"] is None
    if by_amount and fields.get("status") == PspStatus.SUCCEEDED:
        return {"captured_minor": amount.minor}
    return {}


def _refuse_sum_without_currency(fields: Mapping[str, Any]) -> None:
    for name in SUMS:
        if fields.get(name):
            remedy = "send the amount beside it: this account counts some currencies its own way"
            raise Refused(Reason.BAD_AMOUNT, f"data.{name}", remedy)
