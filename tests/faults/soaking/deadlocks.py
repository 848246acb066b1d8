"""Deadlocks that PostgreSQL's log tells of: those among the service's own statements, and those
that a foreign session made on purpose.

Only foreign sessions lock rows with plain FOR UPDATE; the service asks for FOR NO KEY UPDATE.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_DETECTED = "deadlock detected"
_FOREIGN = "FOR UPDATE"


@dataclass(frozen=True, slots=True)
class Deadlock:
    """One cycle: the log's own words about it."""

    text: str

    @property
    def foreign(self) -> bool:
        """Whether a session that is not the service's has a part in it."""
        return _FOREIGN in self.text


def deadlocks_in(lines: Sequence[str]) -> Iterator[Deadlock]:
    """Every deadlock of a log, with the detail that follows it. What a trigger only calls a
    deadlock is none.
    """
    for number, line in enumerate(lines):
        if "ERROR:" not in line or _DETECTED not in line:
            continue
        detail = [line]
        for following in lines[number + 1 :]:
            if "DETAIL:" not in following and not following.startswith("\t"):
                break
            detail.append(following)
        yield Deadlock("\n".join(detail))
