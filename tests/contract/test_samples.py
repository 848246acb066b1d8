"""Public samples, where they are at hand: everything parses or is refused with a reason."""

import json
from pathlib import Path
from typing import Any

import pytest

from schemas.cloudevent import decode
from schemas.refusal import Reason, Refused
from schemas.strict_json import parse
from tests.contract.records import refusal_of

SAMPLES = Path(__file__).resolve().parents[3] / "shared" / "samples"

# Valid JSON that two readers understand differently, or that PostgreSQL cannot keep.
_REFUSED_THOUGH_JSON = {
    "y_object_duplicated_key_and_value.json": Reason.DUPLICATE_KEY,
    "y_object_escaped_null_in_key.json": Reason.BAD_TEXT,
    "y_string_null_escape.json": Reason.BAD_TEXT,
}


def _files(family: str) -> list[Any]:
    folder = SAMPLES / family
    if not folder.is_dir():
        mark = pytest.mark.skip(reason=f"samples of the family {family} are not at hand")
        return [pytest.param(folder, marks=mark, id=family)]
    return [pytest.param(path, id=path.name) for path in sorted(folder.glob("*.json"))]


@pytest.mark.parametrize("path", _files("jsontestsuite"))
def test_json_sample_parses_or_is_refused_as_its_name_wants(path: Path) -> None:
    refusal = refusal_of(lambda: parse(path.read_bytes()))
    reason = refusal.reason if refusal else None
    if path.name.startswith("n_"):
        assert reason is not None
    if path.name.startswith("y_"):
        assert reason is _REFUSED_THOUGH_JSON.get(path.name)


@pytest.mark.parametrize("path", _files("cloudevents"))
def test_foreign_cloudevent_is_refused_for_its_version_type_or_attributes(path: Path) -> None:
    written = json.loads(path.read_text(encoding="utf-8"))
    value, headers = written, []
    if isinstance(written, dict) and "headers" in written:
        value = written["value"]
        headers = [(name, text.encode()) for name, text in written["headers"].items()]
    with pytest.raises(Refused) as caught:
        decode(key=None, value=json.dumps(value).encode(), headers=headers)
    assert caught.value.reason in {
        Reason.UNKNOWN_TYPE,
        Reason.UNKNOWN_VALUE,
        Reason.MISSING_FIELD,
        Reason.NOT_JSON,
    }
