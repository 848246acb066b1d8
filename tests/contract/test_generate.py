"""The generated documents: in step with the models, complete, and loud when they drift."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator, ValidationError

from schemas import generate
from schemas.outcome import OutcomeEvent

OUTCOME: dict[str, Any] = {
    "specversion": "1.0",
    "id": "pay-1-7",
    "source": "/payment-reconciler",
    "type": "reconciler.payment.v1",
    "time": "2026-03-04T12:00:00Z",
    "subject": "pay-1",
    "datacontenttype": "application/json",
    "entityversion": "7",
    "data": {
        "payment_id": "pay-1",
        "order_id": "SO-1",
        "status": "succeeded",
        "row_version": 7,
        "erp": {
            "status": "pending",
            "amount": {"minor": 1000, "currency": "EUR"},
            "epoch": 0,
            "version": 3,
        },
        "psp": {
            "psp": "acme-eu",
            "psp_reference": "ch_1",
            "status": "succeeded",
            "amount_minor": 1000,
            "currency": "EUR",
            "captured_minor": 1000,
            "refunded_minor": 0,
            "disputed_minor": 0,
        },
        "open_discrepancies": ["ERP_NOT_SETTLED"],
    },
}


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for child in node.values():
            yield from _references(child)
    elif isinstance(node, list):
        for child in node:
            yield from _references(child)


def test_written_documents_are_those_of_the_models() -> None:
    assert generate.drifted() == []


def test_check_names_each_drifted_file_and_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(generate.ROOT / "json", tmp_path / "json")
    (tmp_path / "json" / "psp-payment.v1.schema.json").write_text("{}")
    (tmp_path / "json" / "left-over.schema.json").write_text("{}")
    changed = generate.drifted(tmp_path)
    assert [path.name for path in changed] == [
        "asyncapi.json",
        "left-over.schema.json",
        "psp-payment.v1.schema.json",
    ]
    assert generate.main(["--check"], root=tmp_path) == 1
    assert "schemas/json/psp-payment.v1.schema.json" in capsys.readouterr().err


def test_writing_ends_drift(tmp_path: Path) -> None:
    generate.write(tmp_path)
    assert generate.drifted(tmp_path) == []


@pytest.mark.parametrize("path", sorted(generate.documents()), ids=str)
def test_json_schemas_are_valid_themselves(path: Path) -> None:
    if path.name.endswith(".schema.json"):
        Draft202012Validator.check_schema(json.loads(generate.documents()[path]))


def test_asyncapi_names_the_four_topics_and_all_its_references_resolve() -> None:
    document = json.loads((generate.ROOT / "asyncapi.json").read_text(encoding="utf-8"))
    assert document["asyncapi"] == "3.0.0"
    assert {channel["address"] for channel in document["channels"].values()} == {
        "erp.payments",
        "psp.payments",
        "reconciler.payments",
        "reconciler.dead-letters",
    }
    for reference in _references(document):
        node = document
        for part in reference.removeprefix("#/").split("/"):
            node = node[part]


def test_outcome_event_validates_by_model_and_by_generated_schema() -> None:
    OutcomeEvent.model_validate(OUTCOME)
    text = (generate.ROOT / "json" / "reconciler-payment.v1.schema.json").read_text("utf-8")
    schema = Draft202012Validator(json.loads(text))
    schema.validate(OUTCOME)
    unseen = OUTCOME["data"] | {"psp": None, "erp": None, "order_id": None}
    schema.validate(OUTCOME | {"data": unseen})
    with pytest.raises(ValidationError):
        schema.validate(OUTCOME | {"data": unseen | {"open_discrepancies": ["UNKNOWN"]}})
