"""Runs measurements: each in a process and on a database of its own, in turns, then verified."""

import asyncio
import secrets
import sys
from asyncio.subprocess import PIPE
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tests.benchmarks.loading import load_jobs, produced, settle_down
from tests.benchmarks.order import Kind, Measured, Order
from tests.benchmarks.servers import fresh_database
from tests.benchmarks.verification import verify

_CHILD = "tests.benchmarks.child"
_LAST_WORDS = 2_000

Runs = dict[Kind, list[Measured]]


class ChildFailed(Exception):  # noqa: N818 - named after what happened
    """The measured process broke; the text is its last words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much, how often, and where. `profiles` is a directory for one profile a run."""

    server: str
    rounds: int
    concurrency: int
    profiles: Path | None
    tell: Callable[[str], None]


async def measure_ingest(plan: Plan, bootstrap_servers: str, payments: int) -> Runs:
    """Memory-fed and Kafka-fed in turns; Kafka holds every record before the first of them."""
    run = secrets.token_hex(4)
    order = Order(
        kind="kafka",
        database_url="",
        payments=payments,
        bootstrap_servers=bootstrap_servers,
        topics=(f"bench-{run}.erp.payments", f"bench-{run}.psp.payments"),
    )
    plan.tell(f"producing {order.workload.events:,} events")
    async with produced(bootstrap_servers, order.workload):
        return await _in_turns(plan, order, ("memory", "kafka"))


async def measure_jobs(plan: Plan, number: int) -> Runs:
    """Due jobs, worked off by one process."""
    order = Order(kind="jobs", database_url="", payments=number, concurrency=plan.concurrency)
    return await _in_turns(plan, order, ("jobs",))


async def _in_turns(plan: Plan, order: Order, kinds: Sequence[Kind]) -> Runs:
    runs: Runs = {kind: [] for kind in kinds}
    for number in range(1, plan.rounds + 1):
        for kind in kinds:
            profile = str(plan.profiles / f"{kind}-{number}.txt") if plan.profiles else None
            # A group of its own: Kafka's copy of another run's positions must not matter.
            group = f"bench-{secrets.token_hex(4)}"
            measured = await _once(plan, replace(order, kind=kind, group=group, profile=profile))
            runs[kind].append(measured)
            plan.tell(f"{kind} {number}/{plan.rounds}: {measured.rate:,.0f}/s")
    return runs


async def _once(plan: Plan, order: Order) -> Measured:
    async with fresh_database(plan.server) as url:
        placed = replace(order, database_url=url)
        if order.kind == "jobs":
            await load_jobs(url, order.payments)
        await settle_down(url)
        measured = await _in_child(placed)
        await verify(placed)
        return measured


async def _in_child(order: Order) -> Measured:
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", _CHILD, stdin=PIPE, stdout=PIPE, stderr=PIPE
    )
    try:
        said, complained = await child.communicate(order.to_line().encode())
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    if child.returncode != 0:
        raise ChildFailed(complained.decode(errors="replace")[-_LAST_WORDS:])
    return Measured.from_line(said.decode())
