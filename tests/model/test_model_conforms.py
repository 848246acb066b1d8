"""The model is held to the SQL: the same random walks, step by step, on PostgreSQL.

A tick of the model shifts the lease's end back, so that the database's own clock has moved on.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from service.errors import LeaseLost
from service.store import jobs
from service.store.jobs import Ending, Lease, PutBack
from tests.model import table as rows
from tests.model.protocol import steps
from tests.model.table import ATTEMPTS_MAX, TTL, Table
from tests.model.terms import Protocol, Step
from tests.model.world import Statement, World, first_world
from tests.support.reconciling import Room, open_room

WALKS, STEPS_MAX = 60, 25
TICK_SECONDS = 1000

# Left alone these would end most attempts before anything else becomes of them.
SELDOM = frozenset({"release_all", "put_back", "dies", "stops", "gives", "never", "waits"})
PROTOCOL = Protocol(slots=2, strays_max=3, releases_max=3, late_release=True)

OLDER = """
UPDATE reconciliation_jobs
SET lease_until = lease_until - make_interval(secs => $2) WHERE job_id = $1
"""
DUE_NOW = "UPDATE reconciliation_jobs SET run_at = now() WHERE job_id = $1"
ROW = """
SELECT
    status, lease_owner, lease_epoch, attempts, releases, max_attempts,
    ceil(greatest(extract(epoch FROM lease_until - clock_timestamp()), 0) / $2)::int AS left
FROM reconciliation_jobs WHERE job_id = $1
"""


async def test_random_walks_of_the_model_are_what_postgresql_does(database: Any) -> None:
    seen: set[tuple[str, Any]] = set()
    async with open_room(database.url) as room:
        for seed in range(WALKS):
            seen |= await _walk(room, seed)
    for name in ("claim", "finish", "put_back", "release_all", "return_expired", "die", "settled"):
        assert (name, True) in seen, f"no walk has a {name} that did something"
        assert (name, False) in seen, f"no walk has a {name} that was refused"


async def _walk(room: Room, seed: int) -> set[tuple[str, Any]]:
    """One walk; returns which statements did something (True) and which were refused."""
    random = Random(seed)  # noqa: S311 - to repeat, not a secret
    mood = Mood(random)
    world, told, seen = first_world(PROTOCOL.workers), [f"seed {seed}"], set()
    job_id = await room.add_job(f"pay-{seed}", attempts_max=ATTEMPTS_MAX)
    async with _house(room, job_id) as house:
        for _ in range(STEPS_MAX):
            if not (possible := _possible(world)):
                break
            step = mood.choice(possible)
            told.append(step.name)
            if step.statement is not None:
                answer = await house.execute(step.statement)
                assert step.answer is None or answer == step.answer, told
                seen.add((step.statement.name, bool(step.answer)))
            world = step.world
            assert await house.rows() == _as_rows(world.table), told
            if not world.table.locked:
                seen.add(await _finish_by_anybody(house, world.table, random, told))
    return seen


async def _finish_by_anybody(
    house: "House", table: Table, random: Random, told: list[str]
) -> tuple[str, bool]:
    """Whether anybody's finish would be accepted here, of this epoch or one that is over."""
    owner = random.choice((table.owner, table.owner, 1, 2)) or 1
    epoch = max(1, table.epoch - random.choice((0, 0, 1)))
    _, ours = rows.finish(table, PROTOCOL.guards, owner=owner, epoch=epoch)
    statement = Statement("finish", owner, (epoch,))
    assert await house.execute(statement) == ours, (told, statement)
    if ours:
        await house.execute(Statement("roll_back"))
    return "finish", ours


def _possible(world: World) -> list[Step]:
    """The steps that a walk may take. No tick while a transaction holds the row: the end of the
    lease cannot be moved under its lock.
    """
    return [
        step
        for step in steps(PROTOCOL, world)
        if not (world.table.locked and step.statement and step.statement.name == "tick")
    ]


class Mood:
    """What one walk does often and what seldom: walks that differ in it get about more."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._weights: dict[str, float] = {}

    def choice(self, possible: list[Step]) -> Step:
        """One of them, by this walk's weights."""
        (step,) = self._random.choices(possible, [self._weight(each) for each in possible])
        return step

    def _weight(self, step: Step) -> float:
        kind = step.statement.name if step.statement is not None else step.name.split()[0]
        usual = 0.2 if kind in SELDOM else 2.0
        return self._weights.setdefault(kind, usual * self._random.choice((0.3, 1.0, 3.0)))


def _as_rows(table: Table) -> tuple[Any, ...]:
    owner = _name(table.owner) if table.owner else None
    outcomes = ["healed" if each == rows.DONE else each or None for each in table.outcomes]
    return (
        table.status,
        owner,
        table.epoch,
        table.attempts,
        table.releases,
        table.attempts_max,
        table.left,
        outcomes,
    )


def _name(owner: int) -> str:
    return f"host/{owner}/x"


@asynccontextmanager
async def _house(room: Room, job_id: int) -> AsyncIterator["House"]:
    """A house for one walk; whatever is open at its end is rolled back, the job put away."""
    async with room.pool.acquire() as writer:
        house = House(room, writer, job_id)
        try:
            yield house
        finally:
            if writer.is_in_transaction():
                await writer.execute("ROLLBACK")
            await room.pool.execute("DELETE FROM reconciliation_jobs WHERE job_id = $1", job_id)


class House:
    """The job on PostgreSQL. The transaction that has the row is the `writer`'s."""

    def __init__(self, room: Room, writer: Any, job_id: int) -> None:
        self._room = room
        self._pool = room.pool
        self._writer = writer
        self._job_id = job_id

    async def rows(self) -> tuple[Any, ...]:
        """The job and its attempts as everybody sees them."""
        row = await self._pool.fetchrow(ROW, self._job_id, TICK_SECONDS)
        return (*row, await self._room.attempts(self._job_id))

    async def execute(self, statement: Statement) -> Any:
        """Execute a statement of the model as the service does; returns its answer."""
        match statement.name:
            case "tick":
                await self._pool.execute(OLDER, self._job_id, TICK_SECONDS)
            case "claim":
                return await self._claim(_name(statement.owner))
            case "finish":
                return await self._finish(_name(statement.owner), self._leases(statement)[0])
            case "commit":
                await self._writer.execute("COMMIT")
            case "roll_back":
                await self._writer.execute("ROLLBACK")
            case _:
                return await self._on_the_pool(statement)
        return None

    async def _on_the_pool(self, statement: Statement) -> Any:
        owner, leases = _name(statement.owner), self._leases(statement)
        match statement.name:
            case "renew":
                renewed = await jobs.renew(
                    self._pool, owner=owner, leases=leases, ttl_seconds=TTL * TICK_SECONDS
                )
                return frozenset(lease.epoch for lease in renewed)
            case "settled":
                return leases[0] in await jobs.settled(self._pool, leases)
            case "put_back":
                outcome: Any = statement.outcome
                back = PutBack(leases[0], outcome, 0, "as the walk will have it")
                return bool(await jobs.put_back(self._pool, owner=owner, backs=[back]))
            case "release_all":
                return await jobs.release_all(self._pool, owner=owner, error="shutdown") == 1
            case "look":
                return bool(await jobs.abandoned(self._pool, after=jobs.SWEEP_START, limit=5))
            case "return_expired":
                returned = await jobs.return_expired(self._pool, leases)
                await self._due_now()
                return returned == 1
            case "die":
                return await jobs.die(self._pool, leases[0])
        raise ValueError(f"no such statement: {statement.name}")

    async def _claim(self, owner: str) -> int:
        await self._due_now()
        claimed = await jobs.claim(self._pool, owner=owner, slots=5, ttl_seconds=TTL * TICK_SECONDS)
        return claimed[0].lease.epoch if claimed else 0

    async def _finish(self, owner: str, lease: Lease) -> bool:
        """Up to the commit; a finish that is refused rolls back at once."""
        await self._writer.execute("BEGIN")
        try:
            ending = Ending(lease, "healed")
            await jobs.finish(self._writer, owner=owner, endings=[ending])
        except LeaseLost:
            await self._writer.execute("ROLLBACK")
            return False
        return True

    async def _due_now(self) -> None:
        """Backoff is not in the model: what waits is due. A row that is held waits for nothing."""
        if not self._writer.is_in_transaction():
            await self._pool.execute(DUE_NOW, self._job_id)

    def _leases(self, statement: Statement) -> list[Lease]:
        return [Lease(self._job_id, epoch) for epoch in statement.epochs]
