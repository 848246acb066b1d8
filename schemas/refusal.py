"""Why a record is refused: one closed list of reasons, and the error that carries one of them.

A refusal is about the record's bytes, never about our state: the same record is refused for the
same reason each time, so it can be parked with its bytes and replayed after its producer is mended.
"""

import re
from enum import StrEnum
from typing import Any, Final

SHOWN_CHARACTERS_MAX: Final = 64

_ABSENT: Final = object()
_LONG_NUMBER = re.compile(r"(?<!\d)\d(?:[ -]?\d){11,18}(?!\d)", re.ASCII)


class Reason(StrEnum):
    """The reason codes: public, they stand in dead letters, metrics and logs."""

    NOT_UTF8 = "not_utf8"  # the value, or a header that we read, is not UTF-8
    NOT_JSON = "not_json"  # not one JSON text: syntax, trailing bytes, byte order mark, empty
    REGISTRY_FRAMED = "registry_framed"  # starts with magic byte 0: a schema registry's framing
    DUPLICATE_KEY = "duplicate_key"  # one name twice in an object or among the ce_ headers
    NOT_FINITE = "not_finite"  # NaN, Infinity, or a number beyond a double such as 1e400
    TOO_DEEP = "too_deep"  # arrays and objects nested deeper than 32
    TOO_LARGE = "too_large"  # a value over 1 MiB
    BAD_TEXT = "bad_text"  # NUL or a lone surrogate: text that PostgreSQL cannot keep
    INTEGER_RANGE = "integer_range"  # an integer outside signed 64 bits, or a negative version
    BAD_TIME = "bad_time"  # not RFC 3339, without an offset, or a year outside 1-9999
    KEY_MISMATCH = "key_mismatch"  # the record key is not the payment id in `subject`
    MISSING_FIELD = "missing_field"  # a required field is absent, null or empty
    UNKNOWN_VALUE = "unknown_value"  # a value outside what the contract lists for its field
    BAD_AMOUNT = "bad_amount"  # not an integer >= 0 of minor units, or an unknown currency
    BAD_EXPONENT = "bad_exponent"  # the exponent differs from ISO 4217's and no exception holds
    UNKNOWN_TYPE = "unknown_type"  # an event type that this contract does not have


class Refused(ValueError):  # noqa: N818 - the contract's word: a record is refused, not in error
    """A record that the contract refuses.

    `reason` is the code, `field` the dotted path of the culprit (`value` for the whole),
    `detail` a sentence with field, value (shortened, card numbers masked) and remedy, and
    `payment_id` the payment it speaks of, where that could be read.
    """

    def __init__(
        self,
        reason: Reason,
        field: str,
        remedy: str,
        *,
        value: Any = _ABSENT,
        payment_id: str | None = None,
    ) -> None:
        self.reason = reason
        self.field = shown_text(field)
        self.payment_id = payment_id
        got = "" if value is _ABSENT else f" is {shown(value)}"
        self.detail = f"{self.field}{got}: {remedy}"
        super().__init__(f"{reason}: {self.detail}")


def shown(value: Any) -> str:
    """A value as a person may see it: short, printable, card numbers masked, no containers."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "an array"
    if isinstance(value, str):
        return f"'{shown_text(value)}'"
    return shown_text(repr(value))


def shown_text(text: str) -> str:
    """Text with card numbers masked, then cut: a cut must not hide half a number from the mask.

    NUL, lone surrogates and the like are escaped: a refusal itself must be storable.
    """
    masked = _LONG_NUMBER.sub(_mask_card, text[: 4 * SHOWN_CHARACTERS_MAX])
    if not masked.isprintable():
        masked = repr(masked)[1:-1]
    if len(masked) <= SHOWN_CHARACTERS_MAX:
        return masked
    return masked[: SHOWN_CHARACTERS_MAX - 1] + "…"


def _mask_card(match: re.Match[str]) -> str:
    """Mask 12 to 19 digits with a correct check digit (Luhn): what a card number looks like."""
    digits = [int(digit) for digit in match[0] if digit.isdigit()]
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
    if (sum(digits[-1::-2]) + sum(doubled)) % 10:
        return match[0]
    return "*" * 8 + match[0][-4:]
