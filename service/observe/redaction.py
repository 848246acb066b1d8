"""What must never be read in a log line or an error: passwords, tokens, card numbers.

Works on any value that can stand in a log event. It masks too much rather than too little: a
number of 13 to 19 digits that happens to pass the Luhn check is taken for a card number.
"""

import re
from collections.abc import Iterable, Mapping

MASK = "****"
_DEPTH_MAX = 8

_SECRET_KEY = re.compile(
    r"(^|_)(passwords?|passwd|pwd|secrets?|tokens?|authorization|cookie|credentials?"
    r"|(api|secret|private|access)_?key|dsn|urls?)$"
)
# What counts records, versions or money: an integer there is no card number, however long it is.
_COUNTER_KEY = re.compile(r"(^|_)(versions?|epochs?|offsets?|minor|seconds|bytes)$")

# `scheme://user:password@host`; a password may hold any sign, so the last @ of the word counts.
_URL_PASSWORD = re.compile(r"(?P<user>[a-z][a-z0-9+.-]*://[^:/?#\s@]*):\S*@", re.IGNORECASE)
_QUERY_SECRET = re.compile(
    r"(?P<name>\b(?:ssl)?(?:password|passwd|pwd|secret|token|api_?key)=)[^&\s'\"]+", re.IGNORECASE
)
_AUTHORIZATION = re.compile(r"(?P<scheme>\b(?:bearer|basic)\s+)[\w.~+/=-]{6,}", re.IGNORECASE)
# Card numbers are written in one run or in groups with one blank or dash between them; another
# number may stand one blank away, so every window of groups in a longer stretch is looked at.
_DIGIT_GROUPS = re.compile(r"\d(?:[ -]?\d){12,}")
_DIGITS = re.compile(r"\d+")
_CARD_DIGITS = range(13, 20)


def mask_text(text: str) -> str:
    """Mask passwords of URLs and queries, authorization values and card numbers in `text`."""
    text = mask_url_password(text)
    text = _AUTHORIZATION.sub(rf"\g<scheme>{MASK}", text)
    return _DIGIT_GROUPS.sub(_mask_cards, text)


def mask_url_password(text: str) -> str:
    """Mask the password of every URL in `text`, in its authority and in its query."""
    text = _URL_PASSWORD.sub(rf"\g<user>:{MASK}@", text)
    return _QUERY_SECRET.sub(rf"\g<name>{MASK}", text)


def redact(key: str, value: object, *, depth: int = 0) -> object:
    """Give `value` as it may be logged under `key`: masked by its name, else by its content."""
    if value is None or isinstance(value, bool | float):
        return value
    name = key.lower().replace("-", "_")
    if _SECRET_KEY.search(name):
        return MASK
    if isinstance(value, int):
        masked = str(value) if _COUNTER_KEY.search(name) else mask_text(str(value))
        return value if masked == str(value) else masked
    if isinstance(value, str) or depth >= _DEPTH_MAX:
        return mask_text(str(value))
    if isinstance(value, Mapping):
        return {
            mask_text(str(inner)): redact(str(inner), held, depth=depth + 1)
            for inner, held in value.items()
        }
    if isinstance(value, Iterable) and not isinstance(value, bytes | bytearray | memoryview):
        return [redact(key, held, depth=depth + 1) for held in value]
    # Bytes, secrets, dates, exceptions: what a renderer would make of them is what is masked.
    return mask_text(str(value))


def _mask_cards(match: re.Match[str]) -> str:
    stretch = match.group()
    groups = [group.span() for group in _DIGITS.finditer(stretch)]
    masked, kept_from, first = "", 0, 0
    while first < len(groups):
        last = _card_from(stretch, groups, first)
        if last is not None:
            masked += stretch[kept_from : groups[first][0]] + MASK
            kept_from = groups[last][1]
            first = last
        first += 1
    return masked + stretch[kept_from:]


def _card_from(stretch: str, groups: list[tuple[int, int]], first: int) -> int | None:
    """Index of the group with which a card number that begins at `first` ends, or None."""
    found, digits = None, ""
    for last in range(first, min(first + _CARD_DIGITS.stop, len(groups))):
        start, end = groups[last]
        digits += stretch[start:end]
        if len(digits) in _CARD_DIGITS and _passes_luhn(digits):
            found = last
    return found


def _passes_luhn(digits: str) -> bool:
    total = 0
    for place, sign in enumerate(reversed(digits)):
        doubled = int(sign) * 2 if place % 2 else int(sign)
        total += doubled - 9 if doubled > 9 else doubled
    return total % 10 == 0
