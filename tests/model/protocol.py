"""The steps that can come next: of the workers, of the watcher, of the network, of time.

A statement's effect and its answer are steps apart. An answer may be lost; a statement whose
sender has died or given up may still arrive, after anything else (a stray).
"""

from collections.abc import Iterator

from tests.model import table as rows
from tests.model.terms import FINISHED, Protocol, Step, executed
from tests.model.workers import worker_steps
from tests.model.world import COMMITTING, UNKNOWN, Page, Run, Statement, Worker, World, with_run


def steps(protocol: Protocol, world: World) -> Iterator[Step]:
    """Everything that can happen next."""
    yield from _time(protocol, world)
    yield from _transaction(protocol, world)
    yield from _watcher(protocol, world)
    for number, worker in enumerate(world.workers):
        yield from worker_steps(protocol, world, number, worker)
    for stray in world.strays:
        yield from _stray(protocol, world, stray)


def _time(protocol: Protocol, world: World) -> Iterator[Step]:
    """A tick, unless the watcher's round or the end of a transaction is overdue."""
    watched = protocol.guards.watcher_runs
    if world.table.ended:
        return
    if watched and (world.page or world.since_round >= protocol.round_ticks):
        return
    table = rows.aged(world.table)
    if table.locked_for > protocol.commit_ticks or table.overdue > 3:
        return
    workers = tuple(_older(worker) for worker in world.workers)
    yield Step(
        "a tick passes",
        -1,
        world._replace(table=table, workers=workers, since_round=world.since_round + watched),
        Statement("tick"),
    )


def _older(worker: Worker) -> Worker:
    runs = tuple(run._replace(trust=max(run.trust - 1, 0)) for run in worker.runs)
    claim = worker.claim and worker.claim._replace(trust=max(worker.claim.trust - 1, 0))
    return worker._replace(runs=runs, claim=claim)


def _transaction(protocol: Protocol, world: World) -> Iterator[Step]:
    """The end of the transaction that has the row: with its sender, or without one."""
    epoch = world.table.locked
    if not epoch:
        return
    committed = rows.commit(world.table, protocol.guards)
    statement, cancelled = Statement("commit", 0, (epoch,)), Statement("roll_back", 0, (epoch,))
    number, run = _committing(world, epoch)
    aborted = rows.roll_back(world.table)
    if run is None:
        yield Step("the commit arrives", -1, world._replace(table=committed), statement)
        yield Step("the server rolls back", -1, world._replace(table=aborted), cancelled)
        return
    worker = world.workers[number]
    gone, deaf = with_run(worker, run, None), with_run(worker, run, run._replace(stage=UNKNOWN))
    yield Step(
        f"its commit of epoch {epoch} arrives",
        number,
        world.with_worker(number, gone, committed),
        statement,
        told=FINISHED,
        epoch=epoch,
    )
    yield Step(
        f"its commit of epoch {epoch} arrives, the answer is lost",
        number,
        world.with_worker(number, deaf, committed),
        statement,
    )
    yield Step(
        f"its commit of epoch {epoch} never arrives",
        number,
        world.with_worker(number, deaf, aborted),
        cancelled,
    )
    yield Step(
        f"waits no longer for its commit of epoch {epoch}",
        number,
        world.with_worker(number, deaf),
    )


def _committing(world: World, epoch: int) -> tuple[int, Run | None]:
    for number, worker in enumerate(world.workers):
        for run in worker.runs:
            if run.stage == COMMITTING and run.epoch == epoch:
                return number, run
    return -1, None


def _stray(protocol: Protocol, world: World, stray: Statement) -> Iterator[Step]:
    if world.table.locked and stray.name in {"put_back", "die"}:
        return
    after, answer = executed(protocol, world.table, stray)
    others = list(world.strays)
    others.remove(stray)
    yield Step(
        f"a late {stray.name} of owner {stray.owner} arrives",
        -1,
        world._replace(table=after, strays=tuple(others)),
        stray,
        answer,
    )


def _watcher(protocol: Protocol, world: World) -> Iterator[Step]:
    """A round: the page is read without locks; what is on it is dealt with under them, later."""
    guards, table, page = protocol.guards, world.table, world.page
    if not guards.watcher_runs:
        return
    if not page:
        found = table.expired or (table.status == rows.PENDING and table.worn_out)
        if found or world.since_round:
            page = Page(table.epoch, table.worn_out) if found else ()
            looked = world._replace(page=page, since_round=0)
            yield Step("the watcher looks", -1, looked, Statement("look"), bool(found))
        return
    name = "die" if page.worn_out else "return_expired"
    if name == "die" and not guards.watcher_ends_worn_out:
        yield Step("the watcher passes over it", -1, world._replace(page=()))
        return
    statement = Statement(name, 0, (page.epoch,))
    if not (table.locked and name == "die"):
        after, done = executed(protocol, table, statement)
        dealt = world._replace(page=(), table=after)
        yield Step(f"the watcher's {name} arrives", -1, dealt, statement, done)
    if len(world.strays) < protocol.strays_max:
        late = world._replace(
            page=(), strays=(*world.strays, statement), since_round=protocol.round_ticks
        )
        yield Step(f"the watcher gives up a {name} that is still under way", -1, late)
