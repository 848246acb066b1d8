"""Write the JSON Schemas and the AsyncAPI document from the models, or check the written ones.

`python -m schemas.generate` writes; with `--check` it exits 1 and names each drifted file.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from schemas.asyncapi import asyncapi_document
from schemas.events import Envelope, ErpData, ErpPatch, PspData, PspPatch
from schemas.outcome import OutcomeEvent

ROOT: Final = Path(__file__).parent

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_JSON_SCHEMAS: Final[dict[str, type[BaseModel]]] = {
    "envelope": Envelope,
    "erp-payment.v1": ErpData,
    "erp-payment-patch.v1": ErpPatch,
    "psp-payment.v1": PspData,
    "psp-payment-patch.v1": PspPatch,
    "reconciler-payment.v1": OutcomeEvent,
}


class ContractSchema(GenerateJsonSchema):
    """JSON Schema without `default: null`: an absent field is absent, it does not become null."""

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        """The field's schema, with its default unless that is null."""
        described = super().default_schema(schema)
        if described.get("default", 0) is None:
            del described["default"]
        return described


def documents() -> dict[Path, str]:
    """Every generated file's path below `schemas/`, with the text that belongs into it."""
    written = {
        Path("json") / f"{name}.schema.json": _text(
            {
                "$schema": _DIALECT,
                "$id": f"urn:payment-reconciler:{name}",
                **model.model_json_schema(schema_generator=ContractSchema),
            }
        )
        for name, model in _JSON_SCHEMAS.items()
    }
    written[Path("asyncapi.json")] = _text(asyncapi_document(ContractSchema))
    return written


def drifted(root: Path = ROOT) -> list[Path]:
    """The generated files below `root` that are absent, differ, or are generated no more."""
    expected = documents()
    differing = [
        path
        for path, text in expected.items()
        if not (root / path).is_file() or (root / path).read_text(encoding="utf-8") != text
    ]
    present = (file.relative_to(root) for file in (root / "json").glob("*"))
    return sorted(differing + [path for path in present if path not in expected])


def write(root: Path = ROOT) -> None:
    """Write every generated file below `root`."""
    (root / "json").mkdir(exist_ok=True)
    for path, text in documents().items():
        (root / path).write_text(text, encoding="utf-8")


def main(arguments: Sequence[str] | None = None, *, root: Path = ROOT) -> int:
    """Write below `root`, or with `--check` compare; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m schemas.generate", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 on drift")
    if not parser.parse_args(arguments).check:
        write(root)
        return 0
    found = drifted(root)
    for path in found:
        sys.stderr.write(f"schemas/{path.as_posix()} has drifted: run python -m schemas.generate\n")
    return 1 if found else 0


def _text(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.exit(main())
