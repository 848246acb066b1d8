"""Decimals as Kafka Connect writes them in JSON: base64 of an unscaled two's complement number."""

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

from schemas.refusal import Reason, Refused

CONNECT_DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"

_SCALE = re.compile(r"[0-9]{1,2}", re.ASCII)
_VARIABLE_SCALE: Final = frozenset({"scale", "value"})
_BYTES_MAX: Final = 24
_SCALE_MAX: Final = 38


def base64_decimal(value: Any, scale: int, field: str) -> str:
    """The number as decimal text, exact. Raises Refused bad_amount."""
    remedy = "not base64 of a decimal; set the connector's decimal.handling.mode to string"
    try:
        raw = base64.b64decode(value, validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise Refused(Reason.BAD_AMOUNT, field, remedy, value=value) from None
    if not 0 < len(raw) <= _BYTES_MAX or not 0 <= scale <= _SCALE_MAX:
        raise Refused(Reason.BAD_AMOUNT, field, remedy, value=value)
    unscaled = int.from_bytes(raw, "big", signed=True)
    digits = tuple(int(digit) for digit in str(abs(unscaled)))
    return f"{Decimal((int(unscaled < 0), digits, -scale)):f}"


def decimals_as_text(row: Mapping[str, Any], scales: Mapping[str, int]) -> dict[str, Any]:
    """The row with its decimal columns as decimal text: those whose scale the schema gives, and
    those that carry their scale themselves. Raises Refused bad_amount.
    """
    return {name: _plain(value, scales.get(name), name) for name, value in row.items()}


def column_scales(schema: Any, member: str) -> dict[str, int]:
    """Column -> scale of the decimal columns that a Connect schema describes under `member`."""
    return {
        column["field"]: int(column["parameters"]["scale"])
        for described in _fields(schema)
        if described.get("field") == member
        for column in _fields(described)
        if _is_decimal(column)
    }


def _plain(value: Any, scale: int | None, field: str) -> Any:
    if scale is not None and isinstance(value, str):
        return base64_decimal(value, scale, field)
    if isinstance(value, dict) and value.keys() == _VARIABLE_SCALE:
        if type(value["scale"]) is not int:
            raise Refused(Reason.BAD_AMOUNT, field, "give the scale as a whole number")
        return base64_decimal(value["value"], value["scale"], field)
    return value


def _fields(schema: Any) -> Iterator[dict[str, Any]]:
    fields = schema.get("fields") if isinstance(schema, dict) else None
    for field in fields if isinstance(fields, list) else ():
        if isinstance(field, dict):
            yield field


def _is_decimal(column: Mapping[str, Any]) -> bool:
    parameters = column.get("parameters")
    return (
        column.get("name") == CONNECT_DECIMAL
        and isinstance(column.get("field"), str)
        and isinstance(parameters, dict)
        and _SCALE.fullmatch(str(parameters.get("scale"))) is not None
    )
