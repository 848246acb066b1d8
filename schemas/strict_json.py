"""Exact JSON: what two readers could understand differently is refused, never repaired.

The standard library's scanner does the work in C; its hooks see every object and every number.
Text and depth are walked only where the bytes say that they could be wrong.
"""

import json
import math
from typing import Any, Final, NoReturn

from schemas.refusal import Reason, Refused, shown

VALUE_BYTES_MAX: Final = 1 << 20
DEPTH_MAX: Final = 32
INT64_MIN: Final = -(1 << 63)
INT64_MAX: Final = (1 << 63) - 1

_INT64_CHARACTERS_MAX: Final = len(str(INT64_MIN))
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


def parse(raw: bytes, *, field: str = "value") -> Any:
    """Parse one JSON text; `field` is the name that a refusal gives to the whole.

    Raises Refused: too_large, registry_framed, not_utf8, not_json, duplicate_key, not_finite,
    integer_range, too_deep, bad_text.
    """
    if len(raw) > VALUE_BYTES_MAX or raw[:1] in {b"\x00", b"\xef", b""}:
        _refuse_by_first_look(raw, field)
    try:
        value = _DECODER.decode(raw.decode())
    except UnicodeDecodeError as error:
        remedy = f"byte {error.start} is not UTF-8; encode the value as UTF-8"
        raise Refused(Reason.NOT_UTF8, field, remedy) from None
    except json.JSONDecodeError as error:
        remedy = f"{error.msg} at character {error.pos}; send one JSON text"
        raise Refused(Reason.NOT_JSON, field, remedy) from None
    except RecursionError:
        raise _too_deep(field) from None
    could_be_deep = raw.count(b"{") + raw.count(b"[") > DEPTH_MAX
    # NUL and surrogates can only come from an escape: raw they are no JSON and no UTF-8.
    if could_be_deep or b"\\u" in raw:
        _inspect(value, field)
    return value


def _refuse_by_first_look(raw: bytes, field: str) -> None:
    if len(raw) > VALUE_BYTES_MAX:
        remedy = f"{len(raw)} bytes; at most {VALUE_BYTES_MAX} are read"
        raise Refused(Reason.TOO_LARGE, field, remedy)
    if not raw:
        raise Refused(Reason.NOT_JSON, field, "empty; send one JSON text, or null for a tombstone")
    if raw[0] == 0:
        remedy = (
            "starts with magic byte 0, a schema registry's framing; "
            "set the producer's value serializer to plain JSON, or strip the framing"
        )
        raise Refused(Reason.REGISTRY_FRAMED, field, remedy)
    if raw.startswith(_BYTE_ORDER_MARK):
        remedy = "starts with a byte order mark; encode as UTF-8 without one"
        raise Refused(Reason.NOT_JSON, field, remedy)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise Refused(Reason.DUPLICATE_KEY, twice, "given twice in one object; send it once")
    return value


def _integer(text: str) -> int:
    # Digits are counted first: converting thousands of them is slow, and above 4300 an error.
    if len(text) < _INT64_CHARACTERS_MAX - 1:
        return int(text)
    if len(text) > _INT64_CHARACTERS_MAX or not INT64_MIN <= int(text) <= INT64_MAX:
        remedy = f"{shown(text)} is outside signed 64 bits; send it as a string"
        raise Refused(Reason.INTEGER_RANGE, "number", remedy)
    return int(text)


def _float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise Refused(Reason.NOT_FINITE, "number", "beyond a double's range", value=text)
    return value


def _constant(text: str) -> NoReturn:
    raise Refused(Reason.NOT_FINITE, "number", "not a JSON number; leave it out", value=text)


def _too_deep(field: str) -> Refused:
    return Refused(Reason.TOO_DEEP, field, f"nested deeper than {DEPTH_MAX}; flatten it")


def _inspect(value: Any, field: str) -> None:
    """Refuse what is too deep and text that cannot be stored; by a stack of our own."""
    containers: list[tuple[dict[str, Any] | list[Any], int, str]] = [([value], 0, field)]
    while containers:
        container, depth, field = containers.pop()
        if depth > DEPTH_MAX:
            raise _too_deep(field)
        for name, item in _items(container, field):
            if isinstance(item, str):
                _refuse_bad_text(item, name)
            elif isinstance(item, dict | list):
                containers.append((item, depth + 1, name))


def _items(container: dict[str, Any] | list[Any], field: str) -> list[tuple[str, Any]]:
    if isinstance(container, list):
        return [(field, item) for item in container]
    for name in container:
        _refuse_bad_text(name, name)
    return list(container.items())


def _refuse_bad_text(text: str, field: str) -> None:
    if "\x00" in text or any("\ud800" <= character <= "\udfff" for character in text):
        remedy = "holds NUL or a lone surrogate, which PostgreSQL cannot keep; send plain text"
        raise Refused(Reason.BAD_TEXT, field, remedy, value=text)


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_object,
    parse_int=_integer,
    parse_float=_float,
    parse_constant=_constant,
)
