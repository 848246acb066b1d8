"""From a Kafka record to one CloudEvent: structured mode, or binary mode with `ce_` headers."""

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any, Final

from schemas import strict_json
from schemas.refusal import Reason, Refused
from schemas.validation import object_of

Headers = Sequence[tuple[str, bytes | None]]

STRUCTURED_TYPE: Final = "application/cloudevents+json"

_CLOUDEVENTS_TYPE: Final = "application/cloudevents"
_PREFIX: Final = "ce_"
_CONTENT_TYPE: Final = "content-type"


def cloudevent_of(value: bytes, headers: Headers) -> dict[str, Any]:
    """The attributes of the record's CloudEvent, with its parsed data under `data`.

    Attributes that are null are left out, as CloudEvents wants it. Raises Refused.
    """
    known = _known_headers(headers)
    content_type = known.pop(_CONTENT_TYPE, "")
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type != STRUCTURED_TYPE and media_type.startswith(_CLOUDEVENTS_TYPE):
        remedy = f"send one event a record as {STRUCTURED_TYPE}"
        raise Refused(Reason.UNKNOWN_VALUE, _CONTENT_TYPE, remedy, value=content_type)
    parsed = strict_json.parse(value)
    if known and media_type != STRUCTURED_TYPE:
        _refuse_foreign_type(media_type, _CONTENT_TYPE)
        return {**known, "data": parsed}
    return _structured(parsed)


def _known_headers(headers: Headers) -> dict[str, str]:
    """The `ce_` headers without their prefix, and the content type; names in any case."""
    known: dict[str, str] = {}
    for header, raw in headers:
        name = header.lower()
        if raw is None or not (name.startswith(_PREFIX) or name == _CONTENT_TYPE):
            continue
        text = _header_text(header, raw)
        name = name.removeprefix(_PREFIX)
        if known.setdefault(name, text) != text:
            raise Refused(Reason.DUPLICATE_KEY, header, "given twice with different values")
    return known


def _header_text(header: str, raw: bytes) -> str:
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise Refused(Reason.NOT_UTF8, header, "encode the header's value as UTF-8") from None
    if "\x00" in text:
        raise Refused(Reason.BAD_TEXT, header, "holds NUL; send plain text", value=text)
    return text


def _structured(parsed: Any) -> dict[str, Any]:
    if not isinstance(parsed, dict) or "specversion" not in parsed:
        remedy = (
            "no CloudEvent; send one JSON object with specversion '1.0', "
            "or the attributes as ce_ headers"
        )
        raise Refused(Reason.MISSING_FIELD, "specversion", remedy)
    event = parsed
    if None in parsed.values() or "data_base64" in parsed:
        event = {name: value for name, value in parsed.items() if value is not None}
    if "datacontenttype" in event:
        _refuse_foreign_type(event["datacontenttype"], "datacontenttype")
    if "data_base64" in event:
        event["data"] = _decoded_data(event)
    return event


def _refuse_foreign_type(value: Any, field: str) -> None:
    """Data is JSON: `application/json`, or any type that ends in `+json`; absent means JSON."""
    if value == "application/json":
        return
    media_type = value.partition(";")[0].strip().lower() if isinstance(value, str) else None
    if media_type is None or not (media_type == "" or media_type.endswith(("/json", "+json"))):
        raise Refused(Reason.UNKNOWN_VALUE, field, "send the data as application/json", value=value)


def _decoded_data(event: Mapping[str, Any]) -> dict[str, Any]:
    field = "data_base64"
    encoded = event[field]
    if "data" in event:
        raise Refused(Reason.DUPLICATE_KEY, field, "data is given too; send one of the two")
    try:
        raw = base64.b64decode(encoded, validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise Refused(Reason.NOT_JSON, field, "not base64; send the data as JSON") from None
    return object_of(strict_json.parse(raw, field=field), field)
