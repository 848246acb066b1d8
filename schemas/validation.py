"""From pydantic's errors to the contract's reasons: the first error of a record is its refusal."""

from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from schemas.refusal import Reason, Refused

Model = TypeVar("Model", bound=BaseModel)

_REASONS: Final = frozenset(reason.value for reason in Reason)


def validated(model: type[Model], value: object) -> Model:
    """The value as `model`; raises Refused with the first thing that is wrong."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
    raise _refusal(first)


def _refusal(error: ErrorDetails) -> Refused:
    field = ".".join(str(part) for part in error["loc"])
    reason = _reason(error)
    if reason is Reason.MISSING_FIELD:
        return Refused(reason, field, "required; give it a value")
    return Refused(reason, field, _remedy(reason, error), value=error["input"])


def _reason(error: ErrorDetails) -> Reason:
    if error["type"] in _REASONS:
        return Reason(error["type"])
    if error["type"] in {"missing", "string_too_short"}:
        return Reason.MISSING_FIELD
    field = str(error["loc"][-1])
    if field == "exponent":
        return Reason.BAD_EXPONENT
    if _is_minor(field):
        return Reason.BAD_AMOUNT
    if error["input"] is None:
        return Reason.MISSING_FIELD
    return Reason.BAD_AMOUNT if field in {"amount", "currency"} else Reason.UNKNOWN_VALUE


def _remedy(reason: Reason, error: ErrorDetails) -> str:
    if reason is Reason.BAD_AMOUNT and _is_minor(str(error["loc"][-1])):
        return "give a JSON integer of minor units, 0 or more, without a point or quotes"
    return error["msg"]


def _is_minor(field: str) -> bool:
    return field == "minor" or field.endswith("_minor")


def object_of(value: Any, field: str) -> dict[str, Any]:
    """The value if it is a JSON object; raises Refused unknown_value."""
    if not isinstance(value, dict):
        raise Refused(Reason.UNKNOWN_VALUE, field, "give a JSON object", value=value)
    return value
