"""Foreign amounts as exact minor units of ISO 4217: no float, no rounding, no guessed unit."""

import re
from decimal import Decimal
from typing import Any, Final

from schemas.currency import ISO_4217
from schemas.refusal import Reason, Refused
from schemas.strict_json import INT64_MAX
from schemas.units import rescaled

_DECIMAL = re.compile(r"([0-9]{1,40})(?:\.([0-9]{1,40}))?", re.ASCII)
_DIGITS_MAX: Final = 30


def iso_exponent(currency: str, field: str) -> int:
    """The decimal digits of a currency's minor unit. Raises Refused bad_amount for no currency."""
    exponent = ISO_4217.get(currency)
    if exponent is None:
        remedy = "no currency of ISO 4217; give its three-letter code"
        raise Refused(Reason.BAD_AMOUNT, field, remedy, value=currency)
    return exponent


def decimal_minor(text: str, exponent: int, field: str) -> int:
    """`18.60` with exponent 3 is 18600. Raises Refused bad_amount for a sign, a separator, an
    exponent, and for more digits than the currency has (zeros at the end aside).
    """
    match = _DECIMAL.fullmatch(text)
    if match is None:
        remedy = "give digits with a point, such as 18.60, without sign or separators"
        raise Refused(Reason.BAD_AMOUNT, field, remedy, value=text)
    fraction = (match[2] or "").rstrip("0")
    if len(fraction) > exponent:
        remedy = f"the currency has {exponent} decimal digits; send no fraction of its minor unit"
        raise Refused(Reason.BAD_AMOUNT, field, remedy, value=text)
    return _within_range(int(match[1] + fraction.ljust(exponent, "0")), field)


def number_minor(value: Any, exponent: int, field: str) -> int:
    """A JSON number of major units that was read exactly (int or Decimal), or its text."""
    if isinstance(value, Decimal):
        sign, digits, power = value.as_tuple()
        if sign or not isinstance(power, int) or abs(power) + len(digits) > _DIGITS_MAX:
            raise _no_amount(value, field)
        return decimal_minor(f"{value:f}", exponent, field)
    if type(value) is int:
        return decimal_minor(str(value), exponent, field)
    return decimal_minor(amount_text(value, field), exponent, field)


def amount_text(value: Any, field: str) -> str:
    """The amount as text. Raises Refused bad_amount; for a float it names the remedy."""
    if isinstance(value, float | Decimal):
        remedy = "a JSON number with a point; send a string, or declare the unit 'number'"
        raise Refused(Reason.BAD_AMOUNT, field, remedy, value=float(value))
    if not isinstance(value, str):
        raise Refused(Reason.BAD_AMOUNT, field, "give a string such as '18.60'", value=value)
    return value


def whole_minor(value: Any, field: str) -> int:
    """An amount that is minor units already: a JSON integer >= 0, or its digits as text."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= _DIGITS_MAX:
        return _within_range(int(value), field)
    if type(value) is not int or value < 0:
        raise _no_amount(value, field)
    return value


def iso_minor(minor: int, field: str, *, own: int, iso: int) -> int:
    """A source's minor units with `own` decimal digits in ISO's, which have `iso`.

    Raises Refused bad_exponent where that is not exact: an amount is never rounded.
    """
    scaled = rescaled(minor, own=own, iso=iso)
    if scaled is None:
        remedy = f"sent with {own} decimal digits, the currency has {iso}: not a whole amount"
        raise Refused(Reason.BAD_EXPONENT, field, remedy, value=minor)
    return _within_range(scaled, field)


def _within_range(minor: int, field: str) -> int:
    if minor > INT64_MAX:
        raise Refused(Reason.BAD_AMOUNT, field, "beyond 64 bits of minor units", value=minor)
    return minor


def _no_amount(value: Any, field: str) -> Refused:
    return Refused(Reason.BAD_AMOUNT, field, "give a whole number, 0 or more", value=value)
