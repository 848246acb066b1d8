"""Breadth-first search through all that can happen: the shortest way to a broken promise.

Worlds that differ only in the names of workers and owners are one. The bounds of the protocol
make the worlds finite, so that a search that ends has seen all of them.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tests.model.invariants import NEVER_STUCK, broken_by
from tests.model.protocol import steps
from tests.model.table import OPEN, Table
from tests.model.terms import Protocol, Step
from tests.model.world import World, canonical, first_world

Ways = dict[World, World | None]


@dataclass(frozen=True, slots=True)
class Violation:
    """Which invariants broke, and the steps that led there from the beginning."""

    broken: frozenset[str]
    trace: tuple[Step, ...]

    def __str__(self) -> str:
        lines = [f"broken: {'; '.join(sorted(self.broken))}"]
        for number, step in enumerate(self.trace, start=1):
            lines.append(f"{number:3}. {_in_words(step):78} {_row_in_words(step.world.table)}")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Explored:
    """All that was seen: `complete` if nothing was left, `violation` None if nothing broke."""

    states: int
    transitions: int
    complete: bool
    violation: Violation | None = None


@dataclass(slots=True)
class _Search:
    """Which world each was first reached from, and all the worlds it was reached from."""

    parents: Ways
    before: dict[World, list[World]] = field(default_factory=dict)
    transitions: int = 0


def explore(
    protocol: Protocol, *, states_max: int = 100_000, ignored: frozenset[str] = frozenset()
) -> Explored:
    """Search until an invariant that is not `ignored` breaks, or everything has been seen."""
    first = canonical(first_world(protocol.workers))
    search = _Search(parents={first: None})
    waiting = deque([first])
    violation = None
    while waiting and violation is None and len(search.parents) < states_max:
        world = waiting.popleft()
        for after in _next_worlds(protocol, world, ignored):
            search.transitions += 1
            if after is None:
                violation = _broken_after(protocol, search.parents, world, ignored)
                break
            search.before.setdefault(after, []).append(world)
            if after not in search.parents:
                search.parents[after] = world
                waiting.append(after)
    complete = not waiting and violation is None
    if complete and NEVER_STUCK not in ignored:
        violation = _stuck(protocol, search)
    return Explored(len(search.parents), search.transitions, complete, violation)


def _next_worlds(
    protocol: Protocol, world: World, ignored: frozenset[str]
) -> Iterator[World | None]:
    """The worlds that can come next; None for a step that breaks an invariant."""
    for step in steps(protocol, world):
        broken = not ignored.issuperset(broken_by(protocol, world, step))
        yield None if broken else canonical(step.world)


def _broken_after(
    protocol: Protocol, parents: Ways, world: World, ignored: frozenset[str]
) -> Violation:
    """The way to this world, and the first step from it that breaks something."""
    trace = _retold(protocol, _way_to(parents, world))
    last = trace[-1].world if trace else first_world(protocol.workers)
    for step in steps(protocol, last):
        if broken := frozenset(broken_by(protocol, last, step)) - ignored:
            return Violation(broken, (*trace, step))
    raise AssertionError("a way that was found is not found again")


def _stuck(protocol: Protocol, search: _Search) -> Violation | None:
    """The way to the nearest world from which the job cannot end any more."""
    ending = deque(world for world in search.parents if world.table.ended)
    can_end = set(ending)
    while ending:
        for world in search.before.get(ending.popleft(), ()):
            if world not in can_end:
                can_end.add(world)
                ending.append(world)
    for world in search.parents:
        if world not in can_end:
            trace = _retold(protocol, _way_to(search.parents, world))
            return Violation(frozenset({NEVER_STUCK}), trace)
    return None


def _way_to(parents: Ways, world: World) -> list[World]:
    way = [world]
    while (parent := parents[way[-1]]) is not None:
        way.append(parent)
    return way[::-1]


def _retold(protocol: Protocol, way: Iterable[World]) -> tuple[Step, ...]:
    """The same way with workers and owners that keep their names."""
    world, trace = first_world(protocol.workers), []
    for wanted in list(way)[1:]:
        step = next(each for each in steps(protocol, world) if canonical(each.world) == wanted)
        trace.append(step)
        world = step.world
    return tuple(trace)


def _in_words(step: Step) -> str:
    who = f"worker {step.worker + 1}: " if step.worker >= 0 else ""
    answer = step.answer if not isinstance(step.answer, frozenset) else sorted(step.answer)
    return f"{who}{step.name}" + ("" if step.answer is None else f" -> {answer}")


def _row_in_words(table: Table) -> str:
    lease = f"owner {table.owner}, {table.left} ticks left, " if table.owner else ""
    outcomes = ", ".join(each if each != OPEN else "open" for each in table.outcomes)
    return f"{table.status}, {lease}epoch {table.epoch}, effects {table.effects} [{outcomes}]"
