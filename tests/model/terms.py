"""The bounds of the model, what a step is, and the statements by their names."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from tests.model import table as rows
from tests.model.guards import ALL_ON, Guards
from tests.model.table import Table
from tests.model.world import Statement, World

FINISHED, LOST = "finished", "lost"


@dataclass(frozen=True, slots=True)
class Protocol:
    """The guards, and the bounds that keep the model finite.

    `late_release` lets a release of "all that this owner holds" arrive after it was given up.
    """

    guards: Guards = ALL_ON
    workers: int = 2
    slots: int = 2
    strays_max: int = 1
    releases_max: int = 1
    round_ticks: int = 1
    commit_ticks: int = 1
    late_release: bool = False


class Step(NamedTuple):
    """What happened: a name to read, the statement that was executed with its answer (if one
    was), what its run was told of its end (if it was), and the world after it.
    """

    name: str
    worker: int
    world: World
    statement: Statement | None = None
    answer: object = None
    told: str = ""
    epoch: int = 0


def executed(protocol: Protocol, table: Table, statement: Statement) -> tuple[Table, Any]:
    """What a statement makes of the rows, and its answer."""
    guards, owner, epochs = protocol.guards, statement.owner, statement.epochs
    match statement.name:
        case "claim":
            return rows.claim(table, guards, owner=owner, seen_due=statement.seen_due)
        case "renew":
            renewed = set()
            for epoch in epochs:
                table, done = rows.renew(table, guards, owner=owner, epoch=epoch)
                renewed |= {epoch} if done else set()
            return table, frozenset(renewed)
        case "finish":
            return rows.finish(table, guards, owner=owner, epoch=epochs[0])
        case "put_back":
            return rows.put_back(
                table, guards, owner=owner, epoch=epochs[0], outcome=statement.outcome
            )
        case "release_all":
            return rows.release_all(table, guards, owner=owner)
        case "return_expired":
            return rows.return_expired(table, guards, epoch=epochs[0])
        case "die":
            return rows.die(table, guards, epoch=epochs[0])
    raise ValueError(f"no such statement: {statement.name}")
