"""A breach: something done to a history, and the claims that have to say so."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.faults.checking.history import History

Commit = Callable[[History], None]


@dataclass(frozen=True)
class Breach:
    """Something that must not be in a history, and the claims that find it."""

    claims: frozenset[str]
    commit: Commit

    @property
    def name(self) -> str:
        """In words."""
        return getattr(self.commit, "__name__", "")


BREACHES: list[Breach] = []


def breach(*claims: str) -> Callable[[Commit], Commit]:
    """Take a function that breaks a history, and the claims that have to say so."""

    def take(commit: Commit) -> Commit:
        BREACHES.append(Breach(frozenset(claims), commit))
        return commit

    return take


def first(rows: list[Any], **wanted: Any) -> Any:
    """The first row with these values."""
    return next(row for row in rows if all(row[name] == value for name, value in wanted.items()))
