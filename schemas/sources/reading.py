"""Read foreign JSON by dotted paths: what is absent, null or of another kind is told apart."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal

from pydantic_core import PydanticCustomError

from schemas import strict_json
from schemas.attributes import utc_time
from schemas.events import PAYMENT_ID_CHARACTERS_MAX
from schemas.refusal import Reason, Refused

TimeForm = Literal["rfc3339", "sql", "epoch_seconds", "epoch_millis", "epoch_micros"]

TEXT_CHARACTERS_MAX: Final = 256

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_HOURS_ONLY = re.compile(r"(:\d\d(?:\.\d+)?[+-]\d\d)$", re.ASCII)
_MICROS: Final = {"epoch_seconds": 1_000_000, "epoch_millis": 1000, "epoch_micros": 1}


def document_of(value: bytes) -> dict[str, Any] | None:
    """The record's JSON object; None for the JSON text `null`. Raises Refused."""
    parsed = strict_json.parse(value)
    if parsed is not None and not isinstance(parsed, dict):
        raise Refused(Reason.UNKNOWN_VALUE, "value", "send one JSON object", value=parsed)
    return parsed


def at(document: Any, path: str) -> Any:
    """What stands at a dotted path, None if nothing does; a number steps into an array.

    A name that holds dots itself is found too, if it is the rest of the path.
    """
    found, rest = document, path
    while rest:
        if isinstance(found, dict) and rest in found:
            return found[rest]
        name, _, rest = rest.partition(".")
        if isinstance(found, dict):
            found = found.get(name)
        elif isinstance(found, list) and name.isdigit() and int(name) < len(found):
            found = found[int(name)]
        else:
            return None
    return found


def text_at(document: Any, path: str, *, characters_max: int = TEXT_CHARACTERS_MAX) -> str:
    """The text at a path; a whole number is taken as its digits. Raises Refused."""
    text = optional_text_at(document, path, characters_max=characters_max)
    if text is None:
        raise Refused(Reason.MISSING_FIELD, path, "required; give it a value")
    return text


def optional_text_at(
    document: Any, path: str, *, characters_max: int = TEXT_CHARACTERS_MAX
) -> str | None:
    """The text at a path, None if absent, null or empty. Raises Refused unknown_value."""
    value = at(document, path)
    if type(value) is int:
        value = str(value)
    if value is None or value == "":
        return None
    if not isinstance(value, str) or len(value) > characters_max:
        remedy = f"give text of at most {characters_max} characters"
        raise Refused(Reason.UNKNOWN_VALUE, path, remedy, value=value)
    return value


def payment_id_at(document: Any, path: str) -> str | None:
    """The payment id at a path, None if it is not there. Raises Refused unknown_value."""
    return optional_text_at(document, path, characters_max=PAYMENT_ID_CHARACTERS_MAX)


def time_of(value: Any, form: TimeForm, field: str) -> datetime:
    """A source's time in UTC. Raises Refused bad_time, for times without an offset too."""
    try:
        if form in _MICROS:
            return _EPOCH + timedelta(microseconds=_count_of(value) * _MICROS[form])
        return utc_time(_rfc3339(value) if form == "sql" else value)
    except (AttributeError, OverflowError, PydanticCustomError, ValueError):
        remedy = f"give a time as {form}, with its offset if it is text, year 1 to 9999"
        raise Refused(Reason.BAD_TIME, field, remedy, value=value) from None


def micros_of(time: datetime) -> int:
    """Microseconds since 1970: how a time counts as a version."""
    return (time - _EPOCH) // timedelta(microseconds=1)


def _rfc3339(text: str) -> str:
    """`2006-01-02 15:04:05+01`, as databases print it, with a T and the offset's minutes."""
    return _HOURS_ONLY.sub(r"\1:00", text.replace(" ", "T", 1))


def _count_of(value: Any) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 20:
        value = int(value)
    if type(value) is not int or value < 0:
        raise ValueError
    return value
