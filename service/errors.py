"""The exception tree of the service; whatever leaves a command carries the exit code of its class.

ReconcilerError                 1  the root: something here went wrong and has a name
├── ConfigurationError          2  settings that cannot work: names setting, value, rule and remedy
├── SchemaError                 3  the database is not migrated to what this version needs
├── StaleWrite                  1  fewer rows changed than were named: roll the transaction back
├── LeaseLost                   1  the job belongs to another attempt: write nothing
├── OffsetFenced                1  another consumer moved the partition's offset: roll back
├── TopicRecreated              4  offsets of the database do not fit the topic: a person decides
└── SupervisionError            5  a background coroutine failed too often: the process ends
"""

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class Problem:
    """One setting that cannot work, in words that may be shown to anybody: never a secret."""

    setting: str
    value: str
    allowed: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.setting} is {self.value}; allowed: {self.allowed}; remedy: {self.remedy}"


class ReconcilerError(Exception):
    """The root of all errors raised by this service."""

    exit_code: ClassVar[int] = 1


class ConfigurationError(ReconcilerError):
    """Settings that cannot work; its text is one line a problem, secrets masked."""

    exit_code: ClassVar[int] = 2

    def __init__(self, *problems: Problem | str) -> None:
        self.problems = problems
        super().__init__("\n".join(str(problem) for problem in problems))


class SchemaError(ReconcilerError):
    """The database's schema is older or newer than this version of the service can work with."""

    exit_code: ClassVar[int] = 3


class StaleWrite(ReconcilerError):  # noqa: N818 - named after what happened, as operators say it
    """A statement changed other rows than it named; the transaction must roll back."""


class LeaseLost(ReconcilerError):  # noqa: N818 - named after what happened, as operators say it
    """The lease expired or belongs to another attempt; the transaction must roll back."""


class OffsetFenced(ReconcilerError):  # noqa: N818 - named after what happened, as operators say it
    """The stored offset is not the one this consumer read from; the transaction must roll back."""


class TopicRecreated(ReconcilerError):  # noqa: N818 - named after what happened
    """The stored offset lies outside the topic: it was deleted and made anew, or cut."""

    exit_code: ClassVar[int] = 4


class SupervisionError(ReconcilerError):
    """A supervised coroutine ended, or crashed more often than its bounds allow."""

    exit_code: ClassVar[int] = 5
