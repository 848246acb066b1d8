"""Who works on the job, what is on its way, and how worlds that differ in names alone are one."""

from typing import NamedTuple

from tests.model.table import Table

WORKING, ENDING, COMMITTING, UNKNOWN = "working", "ending", "committing", "unknown"
RELEASING, FAILING = "releasing", "failing"


class Run(NamedTuple):
    """A worker's hold of one attempt: for how many ticks it trusts the lease, how far it is.

    `working` asks the PSP; `ending` has sent the finish; `committing` has sent the commit;
    `unknown` has heard nothing of it; `releasing` and `failing` have sent the put-back.
    """

    epoch: int
    trust: int
    stage: str = WORKING


class Claim(NamedTuple):
    """A claim whose answer is under way: what trust is left of it, and the epoch it took."""

    trust: int
    epoch: int


class Worker(NamedTuple):
    """A process. `unanswered` says that a claim may have taken something that nobody works on.

    A paused worker needs no mark: it is one whose steps do not come while its clock goes on.
    """

    owner: int
    runs: tuple[Run, ...] = ()
    claim: tuple[()] | Claim = ()
    unanswered: bool = False


class Statement(NamedTuple):
    """A statement, and with whose name and epochs it comes; `outcome` is a put-back's."""

    name: str
    owner: int = 0
    epochs: tuple[int, ...] = ()
    outcome: str = ""
    seen_due: bool = False


class Page(NamedTuple):
    """What the watcher has read and not dealt with."""

    epoch: int
    worn_out: bool


class World(NamedTuple):
    """Everything at one moment. `strays` are statements under way that nobody waits for."""

    table: Table
    workers: tuple[Worker, ...]
    strays: tuple[Statement, ...] = ()
    page: tuple[()] | Page = ()
    since_round: int = 0

    def with_worker(self, number: int, worker: Worker, table: Table | None = None) -> "World":
        """The world with one worker changed, and the table if given."""
        workers = (*self.workers[:number], worker, *self.workers[number + 1 :])
        return self._replace(workers=workers, table=self.table if table is None else table)

    def new_owner(self) -> int:
        """A name that nobody has and nothing mentions."""
        used = {worker.owner for worker in self.workers} | {each.owner for each in self.strays}
        return next(name for name in range(1, 99) if name not in used | {self.table.owner})


def first_world(workers: int) -> World:
    """One due job, and workers that have just started."""
    return World(Table(), tuple(Worker(number + 1) for number in range(workers)))


_FORGOTTEN = dict.fromkeys(("expired", "released", "failed"), "closed")


def canonical(world: World) -> World:
    """The same world with workers in a fixed order and owners named in that order.

    Workers differ in nothing but their names, and names are only ever compared.
    """
    table, strays = world.table, world.strays
    mentioned = {table.owner, *(each.owner for each in strays)}
    workers = sorted(
        world.workers, key=lambda each: (each[1:], each.owner in mentioned, each.owner)
    )
    names = {0: 0}
    for owner in (*(each.owner for each in workers), table.owner, *(each.owner for each in strays)):
        if owner not in names:
            names[owner] = len(names)
    if strays:
        strays = tuple(sorted(each._replace(owner=names[each.owner]) for each in strays))
    outcomes = tuple([_FORGOTTEN.get(each, each) for each in table.outcomes])
    if table.owner != names[table.owner] or table.outcomes != outcomes:
        table = table._replace(owner=names[table.owner], outcomes=outcomes)
    named = tuple([Worker(names[each.owner], *each[1:]) for each in workers])
    return World(table, named, strays, world.page, world.since_round)


def with_run(worker: Worker, run: Run, changed: Run | None) -> Worker:
    """The worker with one of its runs changed, or without it."""
    runs = tuple(changed if each is run else each for each in worker.runs)
    return worker._replace(runs=tuple(each for each in runs if each is not None))
