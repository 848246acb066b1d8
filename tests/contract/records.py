"""Kafka records from example files.

`*.json` is a record's value alone. `*.record.json` is a whole record: `key`, `headers` (pairs), and
`value` (JSON), `value_base64`, or `value_parts` (texts with how often each is repeated). A key or
header that is no text is `{"base64": "…"}`.
"""

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import schemas
from schemas.cloudevent import Event, Tombstone, decode
from schemas.refusal import Refused

EXAMPLES = Path(schemas.__file__).parent / "examples"


@dataclass(frozen=True)
class Record:
    """What Kafka hands over."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]

    def decode(self) -> Event | Tombstone:
        return decode(key=self.key, value=self.value, headers=self.headers)


def refusal_of(reading: Callable[[], object]) -> Refused | None:
    """How a reading is refused, None if it is not; any other exception goes on."""
    try:
        reading()
    except Refused as refusal:
        return refusal
    return None


def record_of(path: Path) -> Record:
    if not path.name.endswith(".record.json"):
        return Record(key=None, value=path.read_bytes(), headers=[])
    written = json.loads(path.read_text(encoding="utf-8"))
    return Record(
        key=_bytes_of(written["key"]),
        value=_value_of(written),
        headers=[(name, _bytes_of(value)) for name, value in written["headers"]],
    )


def _bytes_of(written: Any) -> bytes | None:
    if isinstance(written, dict):
        return base64.b64decode(written["base64"])
    return None if written is None else str(written).encode()


def _value_of(written: dict[str, Any]) -> bytes | None:
    if "value_base64" in written:
        return base64.b64decode(written["value_base64"])
    if "value_parts" in written:
        return "".join(text * times for text, times in written["value_parts"]).encode()
    value = written["value"]
    return None if value is None else json.dumps(value).encode()
