"""Declarations: JSON documents in the settings that say how a source's records are to be read.

Wrong ones are found when the settings are read, and the error names path, value and remedy.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from schemas.refusal import shown, shown_text

_WRONG: Final = "wrong_declaration"


class BadDeclaration(ValueError):  # noqa: N818 - a declaration is bad; the name says which noun
    """A declaration that cannot work: `path` in it, the value there, and what to write instead."""

    def __init__(self, path: str, value: str, remedy: str) -> None:
        self.path = path
        self.remedy = remedy
        super().__init__(f"{path} is {value}: {remedy}")


class Declared(BaseModel):
    """A part of a declaration: unknown names are errors, nothing is converted."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True
    )


Part = TypeVar("Part", bound=Declared)


def declared(part: type[Part], document: Mapping[str, Any]) -> Part:
    """The declaration in `document`. Raises BadDeclaration with the first thing that is wrong."""
    try:
        return part.model_validate(dict(document))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
    raise _bad(first)


def wrong(remedy: str) -> PydanticCustomError:
    """What a validator of a declaration raises; `remedy` tells what to write instead."""
    return PydanticCustomError(_WRONG, "{remedy}", {"remedy": remedy})


def _bad(error: ErrorDetails) -> BadDeclaration:
    path = ".".join(str(part) for part in error["loc"]) or "the declaration"
    if error["type"] == "missing":
        return BadDeclaration(path, "absent", "required; declare it")
    if error["type"] == "extra_forbidden":
        return BadDeclaration(path, shown(error["input"]), "no such name; see the declared ones")
    return BadDeclaration(shown_text(path), shown(error["input"]), error["msg"])
