"""What a worker can do next: claim, beat, finish, put back, die, stop."""

from collections.abc import Iterator

from tests.model import table as rows
from tests.model.table import TTL
from tests.model.terms import FINISHED, LOST, Protocol, Step, executed
from tests.model.world import (
    COMMITTING,
    ENDING,
    FAILING,
    RELEASING,
    UNKNOWN,
    WORKING,
    Claim,
    Run,
    Statement,
    Worker,
    World,
    with_run,
)

_OUTCOMES = {FAILING: "failed", RELEASING: "released"}


def worker_steps(protocol: Protocol, world: World, number: int, worker: Worker) -> Iterator[Step]:
    """Everything that one worker can do next."""
    yield from _claims(protocol, world, number, worker)
    yield from _beats(protocol, world, number, worker)
    for run in worker.runs:
        yield from _run(protocol, world, number, worker, run)
    yield from _ends(protocol, world, number, worker)


def _claims(protocol: Protocol, world: World, number: int, worker: Worker) -> Iterator[Step]:
    claim, table = worker.claim, world.table
    if claim:
        yield from _answers(protocol, world, number, worker, claim)
    elif worker.unanswered:
        yield from _release_unknown(protocol, world, number, worker)
    elif len(worker.runs) < protocol.slots and not table.ended:
        statement = Statement("claim", worker.owner, seen_due=table.due)
        after, epoch = executed(protocol, table, statement)
        if epoch:
            served = worker._replace(claim=Claim(TTL, epoch))
            changed = world.with_worker(number, served, after)
            yield Step(
                f"its claim arrives and takes epoch {epoch}", number, changed, statement, epoch
            )
        if len(world.strays) < protocol.strays_max:
            seen_due = table.due and not protocol.guards.claim_rechecks
            late = world.with_worker(number, worker._replace(unanswered=True))._replace(
                strays=(*world.strays, statement._replace(seen_due=seen_due))
            )
            yield Step("gives up a claim that is still under way", number, late)


def _answers(
    protocol: Protocol, world: World, number: int, worker: Worker, claim: Claim
) -> Iterator[Step]:
    trust = claim.trust if protocol.guards.trust_from_sending else TTL
    got = worker._replace(claim=(), runs=(*worker.runs, Run(claim.epoch, trust)))
    yield Step(f"hears that it has epoch {claim.epoch}", number, world.with_worker(number, got))
    gone = worker._replace(claim=(), unanswered=True)
    yield Step("never hears of its claim", number, world.with_worker(number, gone))


def _release_unknown(
    protocol: Protocol, world: World, number: int, worker: Worker
) -> Iterator[Step]:
    """Give back what an unanswered claim may have taken, apart from jobs that are worked on."""
    known = worker._replace(unanswered=False)
    if worker.runs or world.table.releases >= protocol.releases_max:
        yield Step("lets run out what it cannot know of", number, world.with_worker(number, known))
        return
    statement = Statement("release_all", worker.owner)
    after, released = executed(protocol, world.table, statement)
    yield Step(
        "releases what it cannot know of",
        number,
        world.with_worker(number, known, after),
        statement,
        released,
    )
    if protocol.late_release and len(world.strays) < protocol.strays_max:
        yield Step(
            "gives up a release that is still under way",
            number,
            world._replace(strays=(*world.strays, statement)),
        )


def _beats(protocol: Protocol, world: World, number: int, worker: Worker) -> Iterator[Step]:
    """A renewal of all that is held; whoever hears that it has lost an attempt stops it."""
    if not worker.runs or world.table.ended:
        return
    statement = Statement("renew", worker.owner, tuple(run.epoch for run in worker.runs))
    after, renewed = executed(protocol, world.table, statement)
    yield Step(
        "its beat arrives, the answer is lost",
        number,
        world._replace(table=after),
        statement,
        renewed,
    )
    runs = []
    for run in worker.runs:
        if run.epoch in renewed:
            runs.append(run._replace(trust=TTL))
        elif run.stage != WORKING or after.leased_to(worker.owner, run.epoch):
            runs.append(run)
    heard = worker._replace(runs=tuple(runs))
    yield Step(
        "its beat arrives", number, world.with_worker(number, heard, after), statement, renewed
    )
    if len(world.strays) < protocol.strays_max:
        yield Step(
            "gives up a beat that is still under way",
            number,
            world._replace(strays=(*world.strays, statement)),
        )


def _run(protocol: Protocol, world: World, number: int, worker: Worker, run: Run) -> Iterator[Step]:
    if not run.trust:
        yield Step(
            f"no longer trusts epoch {run.epoch}",
            number,
            world.with_worker(number, with_run(worker, run, None)),
            epoch=run.epoch,
        )
    elif run.stage == WORKING:
        ending = world.with_worker(number, with_run(worker, run, run._replace(stage=ENDING)))
        yield Step(f"wants to finish epoch {run.epoch}", number, ending)
    if run.stage == ENDING:
        yield from _finish(protocol, world, number, worker, run)
    elif run.stage == UNKNOWN and run.trust:
        yield from _look_up(protocol, world, number, worker, run)
    elif run.stage in {WORKING, RELEASING, FAILING} and run.trust and not world.table.locked:
        for stage, outcome in _OUTCOMES.items():
            allowed = outcome == "failed" or world.table.releases < protocol.releases_max
            if allowed and run.stage in {WORKING, stage}:
                yield from _put_back(protocol, world, number, run, stage)


def _finish(
    protocol: Protocol, world: World, number: int, worker: Worker, run: Run
) -> Iterator[Step]:
    if world.table.locked:
        return
    statement = Statement("finish", worker.owner, (run.epoch,))
    after, ours = executed(protocol, world.table, statement)
    next_run = run._replace(stage=COMMITTING) if ours else None
    yield Step(
        f"its finish of epoch {run.epoch} arrives",
        number,
        world.with_worker(number, with_run(worker, run, next_run), after),
        statement,
        ours,
        told="" if ours else LOST,
        epoch=run.epoch,
    )


def _look_up(
    protocol: Protocol, world: World, number: int, worker: Worker, run: Run
) -> Iterator[Step]:
    """Learn what became of the commit; the look-up waits for whoever holds the row."""
    again = world.with_worker(number, with_run(worker, run, run._replace(stage=ENDING)))
    if not protocol.guards.commit_looked_up:
        yield Step(f"tries to finish epoch {run.epoch} again, blindly", number, again)
        return
    if world.table.locked:
        return
    statement = Statement("settled", worker.owner, (run.epoch,))
    if not rows.settled(world.table, run.epoch):
        yield Step(f"reads that epoch {run.epoch} did not finish", number, again, statement, False)
        return
    known = world.with_worker(number, with_run(worker, run, None))
    yield Step(
        f"reads that epoch {run.epoch} finished",
        number,
        known,
        statement,
        True,
        told=FINISHED,
        epoch=run.epoch,
    )


def _put_back(
    protocol: Protocol, world: World, number: int, run: Run, stage: str
) -> Iterator[Step]:
    worker, trying = world.workers[number], run._replace(stage=stage)
    outcome = _OUTCOMES[stage]
    statement = Statement("put_back", worker.owner, (run.epoch,), outcome)
    after, done = executed(protocol, world.table, statement)
    name = f"its put-back of epoch {run.epoch} ({outcome}) arrives"
    told = world.with_worker(number, with_run(worker, run, None), after)
    yield Step(name, number, told, statement, done)
    deaf = world.with_worker(number, with_run(worker, run, trying))
    yield Step(f"{name}, the answer is lost", number, deaf._replace(table=after), statement, done)
    if len(world.strays) < protocol.strays_max:
        yield Step(
            f"gives up a put-back of epoch {run.epoch} ({outcome}) that is still under way",
            number,
            deaf._replace(strays=(*world.strays, statement)),
        )


def _ends(protocol: Protocol, world: World, number: int, worker: Worker) -> Iterator[Step]:
    """The process dies, or stops in order; the next one starts at once."""
    name = world.new_owner() if protocol.guards.new_owner_at_start else worker.owner
    fresh = Worker(name)
    if worker == Worker(worker.owner) and world.table.owner != worker.owner:
        return
    yield Step("dies and starts anew", number, world.with_worker(number, fresh))
    if world.table.releases >= protocol.releases_max:
        return
    statement = Statement("release_all", worker.owner)
    after, released = executed(protocol, world.table, statement)
    stopped = world.with_worker(number, fresh, after)
    yield Step("releases all, stops and starts anew", number, stopped, statement, released)
    if len(world.strays) < protocol.strays_max:
        late = world.with_worker(number, fresh)._replace(strays=(*world.strays, statement))
        yield Step("stops and starts anew; its release is still under way", number, late)
