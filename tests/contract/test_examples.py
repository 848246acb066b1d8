"""Every example in `schemas/examples` does what its folder and its name say."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator, FormatChecker

from schemas.cloudevent import Event, Tombstone
from schemas.generate import ROOT
from schemas.record import cloudevent_of
from schemas.refusal import Reason, Refused
from tests.contract.records import EXAMPLES, Record, record_of

VALID = sorted((EXAMPLES / "valid").iterdir())
VALID_EVENTS = [path for path in VALID if not path.name.startswith("tombstone")]
INVALID = sorted((EXAMPLES / "invalid").iterdir())


def _reason_in(path: Path) -> str:
    return path.name.partition("-")[0]


def _validate(value: Any, schema: str) -> None:
    text = (ROOT / "json" / f"{schema}.schema.json").read_text(encoding="utf-8")
    Draft202012Validator(json.loads(text), format_checker=FormatChecker()).validate(value)


def _events() -> Iterator[tuple[Path, Record, Event]]:
    for path in VALID:
        record = record_of(path)
        event = record.decode()
        if isinstance(event, Event):
            yield path, record, event


@pytest.mark.parametrize("path", VALID, ids=lambda path: path.name)
def test_valid_example_decodes_as_its_name_says(path: Path) -> None:
    event = record_of(path).decode()
    name = path.name.partition(".")[0]
    if isinstance(event, Tombstone):
        assert name == "tombstone"
        assert event.payment_id == "pay-1014"
        return
    assert name.startswith(f"{event.kind}-{event.changekind}")
    assert len(event.digest) == 16
    assert event.time.utcoffset() is not None


@pytest.mark.parametrize("path", VALID_EVENTS, ids=lambda path: path.name)
def test_valid_example_validates_against_the_generated_schemas(path: Path) -> None:
    record = record_of(path)
    assert record.value is not None
    attributes = {
        name: value
        for name, value in cloudevent_of(record.value, record.headers).items()
        if value is not None
    }
    data = attributes.pop("data")
    source, _, version = attributes["type"].rpartition(".")
    patch = "-patch" if attributes.get("changekind") == "patch" else ""
    _validate(attributes, "envelope")
    _validate(data, f"{source.replace('.', '-')}{patch}.{version}")


@pytest.mark.parametrize("path", INVALID, ids=lambda path: path.name)
def test_invalid_example_is_refused_for_the_reason_in_its_name(path: Path) -> None:
    with pytest.raises(Refused) as caught:
        record_of(path).decode()
    assert caught.value.reason == _reason_in(path)
    assert caught.value.field
    assert caught.value.detail.startswith(caught.value.field)
    assert caught.value.detail.isprintable()


def test_every_reason_has_an_invalid_example() -> None:
    assert {_reason_in(path) for path in INVALID} == {reason.value for reason in Reason}


def test_valid_examples_cover_both_modes_kinds_and_changekinds_and_three_exponents() -> None:
    seen: set[Any] = set()
    for _, record, event in _events():
        binary = any(name.lower().startswith("ce_") for name, _ in record.headers)
        seen.add((event.kind, event.changekind))
        seen.add("binary" if binary else "structured")
        money = event.fields.get("amount")
        seen.add(money.currency if money else None)
    both = {(kind, change) for kind in ("erp", "psp") for change in ("snapshot", "patch")}
    assert both | {"binary", "structured", "EUR", "JPY", "KWD"} <= seen
