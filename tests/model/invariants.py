"""What has to hold in every state, across every step, and for the whole of what can be reached."""

from collections.abc import Iterator

from tests.model import table as rows
from tests.model.table import ATTEMPTS_MAX, DEAD, OPEN, Table
from tests.model.terms import FINISHED, Protocol, Step
from tests.model.world import WORKING, World

ONE_OWNER = "a lease that has not run out is taken from nobody, and no epoch is held twice"
STALE = "a lease that is over changes nothing"
WATCHER = "the watcher touches only what it has found, as it has found it"
EFFECT_AND_END = "an effect commits if and only if its attempt's end commits"
EFFECT_ONCE = "a job has at most one effect"
ATTEMPTS_BOUNDED = "claims minus releases are at most the attempts that a job was given"
ATTEMPT_ROWS = "each claim has an attempt row, closed at most once, all of them once the job ends"
EPOCH_RISES = "the epoch only rises, by one a claim"
DEAD_BY_WATCHER = "only the watcher makes a job dead"
BELIEF = "nobody works in the trust of a lease that somebody else has"
TOLD = "what a worker is told of its end is what happened"
IN_TIME = "no expired lease outlives a round of the watcher and a commit that was under way"
NEVER_STUCK = "from everywhere the job can still end"

ALL = frozenset(
    {
        ONE_OWNER, STALE, WATCHER, EFFECT_AND_END, EFFECT_ONCE, ATTEMPTS_BOUNDED, ATTEMPT_ROWS,
        EPOCH_RISES, DEAD_BY_WATCHER, BELIEF, TOLD, IN_TIME, NEVER_STUCK,
    }
)  # fmt: skip

_FENCED = frozenset({"renew", "finish", "put_back"})
_WATCHERS = frozenset({"return_expired", "die"})


def broken_by(protocol: Protocol, before: World, step: Step) -> Iterator[str]:
    """The invariants that this step, or the state after it, breaks."""
    was, now = before.table, step.world.table
    if step.statement is not None:
        yield from _broken_by_statement(step, was, now)
    if step.told and _told_wrongly(step, now):
        yield TOLD
    if now.epoch not in {was.epoch, was.epoch + (_name(step) == "claim")}:
        yield EPOCH_RISES
    if not _rows_in_order(was, now):
        yield ATTEMPT_ROWS
    if now.effects != now.outcomes.count("done"):
        yield EFFECT_AND_END
    if now.effects > 1:
        yield EFFECT_ONCE
    if len(now.outcomes) - now.releases > ATTEMPTS_MAX:
        yield ATTEMPTS_BOUNDED
    if _believed_wrongly(step.world):
        yield BELIEF
    if now.overdue > protocol.round_ticks + protocol.commit_ticks:
        yield IN_TIME


def _broken_by_statement(step: Step, was: Table, now: Table) -> Iterator[str]:
    statement = step.statement
    if statement is None or was == now:
        return
    name, owner = statement.name, statement.owner
    if name in _FENCED and not any(was.leased_to(owner, epoch) for epoch in statement.epochs):
        yield STALE
    if name == "release_all" and not was.leased_to(owner, was.epoch):
        yield STALE
    if name == "claim" and not was.due:
        yield ONE_OWNER
    if name in _WATCHERS and not _abandoned(was, statement.epochs[0]):
        yield WATCHER
    if now.status == DEAD and name not in _WATCHERS:
        yield DEAD_BY_WATCHER


def _abandoned(table: Table, epoch: int) -> bool:
    unheld = table.expired or (table.status == rows.PENDING and table.worn_out)
    return table.epoch == epoch and unheld and not table.locked


def _told_wrongly(step: Step, table: Table) -> bool:
    finished = table.outcomes[step.epoch - 1] == rows.DONE
    return finished != (step.told == FINISHED)


def _rows_in_order(was: Table, now: Table) -> bool:
    if was.outcomes is now.outcomes and was.status is now.status and was.epoch == now.epoch:
        return True
    kept = all(old in {new, OPEN} for old, new in zip(was.outcomes, now.outcomes, strict=False))
    closed = not now.ended or OPEN not in now.outcomes
    return kept and closed and len(now.outcomes) == now.epoch


def _believed_wrongly(world: World) -> bool:
    """Whether somebody works on an attempt, trusting it, although it or another is elsewhere's.

    Who has handed its end in works no more: from then on the rows decide.
    """
    table, seen = world.table, set()
    for worker in world.workers:
        for run in worker.runs:
            if run.stage != WORKING or not run.trust:
                continue
            if run.epoch in seen or table.epoch != run.epoch:
                return True
            if table.status != rows.PROCESSING or table.owner != worker.owner:
                return True
            seen.add(run.epoch)
    return False


def _name(step: Step) -> str:
    return step.statement.name if step.statement is not None else ""
