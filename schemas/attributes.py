"""Attributes of a CloudEvent that need more than a type: time, source version, trace parent."""

import re
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from pydantic import PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from schemas.refusal import Reason
from schemas.strict_json import INT64_MAX

VERSION_CHARACTERS_MAX: Final = 32

_RFC3339 = re.compile(
    r"(\d{4}-\d\d-\d\d[Tt]\d\d:\d\d):(\d\d)(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)
_DECIMAL = re.compile(r"-?[0-9]+")
_TRACEPARENT = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
)


def utc_time(value: object) -> datetime:
    """An RFC 3339 time with offset, as an aware time in UTC.

    Fractions beyond microseconds are cut; a leap second becomes the last microsecond before it.
    Raises PydanticCustomError bad_time, also where UTC's year would be outside 1-9999.
    """
    match = _RFC3339.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise _bad_time()
    text = match[0]
    if match[2] == "60":
        text = f"{match[1]}:59.999999{match[4]}"
    try:
        return datetime.fromisoformat(text.upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        raise _bad_time() from None


def _bad_time() -> PydanticCustomError:
    return PydanticCustomError(
        Reason.BAD_TIME, "give RFC 3339 with an offset and a year from 1 to 9999"
    )


def version_number(value: object) -> int:
    """A source version or epoch: a decimal string or a JSON integer, 0 to 2^63-1.

    Raises PydanticCustomError unknown_value (no number of that form) or integer_range.
    """
    if type(value) is int:
        number = value
    elif isinstance(value, str) and _DECIMAL.fullmatch(value):
        # So many digits are out of range whatever they are, and slow to convert.
        number = int(value) if len(value) <= VERSION_CHARACTERS_MAX else INT64_MAX + 1
    else:
        raise PydanticCustomError(Reason.UNKNOWN_VALUE, "give a decimal string such as '42'")
    if not 0 <= number <= INT64_MAX:
        raise PydanticCustomError(Reason.INTEGER_RANGE, "give a version from 0 to 2^63-1")
    return number


def trace_parent(value: object) -> str | None:
    """A W3C traceparent; an invalid one is none, for tracing must not refuse a payment."""
    if isinstance(value, str) and _TRACEPARENT.fullmatch(value):
        return value
    return None


_VERSION_SCHEMA: dict[str, Any] = {
    "anyOf": [
        {"type": "string", "pattern": "^[0-9]+$", "maxLength": VERSION_CHARACTERS_MAX},
        {"type": "integer", "minimum": 0, "maximum": INT64_MAX},
    ]
}

UtcTime = Annotated[
    datetime, PlainValidator(utc_time), WithJsonSchema({"type": "string", "format": "date-time"})
]
VersionNumber = Annotated[int, PlainValidator(version_number), WithJsonSchema(_VERSION_SCHEMA)]
TraceParent = Annotated[
    str | None, PlainValidator(trace_parent), WithJsonSchema({"type": ["string", "null"]})
]
