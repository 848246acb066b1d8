"""`python -m tests.benchmarks [ingest|jobs]`: rates beside their ceilings, measured in one run.

It ends with 0 whatever the rates are, and with 1 if something broke or the data ended wrong.
"""

import argparse
import asyncio
import os
import platform
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from service.sandbox import SandboxError
from tests.benchmarks.measuring import ChildFailed, Plan, measure_ingest, measure_jobs
from tests.benchmarks.report import Row, ingest_rows, job_rows, table_of
from tests.benchmarks.servers import NotDurable, broker, database_server, described
from tests.benchmarks.verification import WrongEnd
from tests.benchmarks.workload import EVENTS_A_PAYMENT, PARTITIONS
from tests.support.kafka import MissingTool

EVENTS = 100_000
JOBS = 20_000
ROUNDS = 3
QUICK_SHARE = 10
COUNTED = (
    "Counted: ingest from Kafka from the assignment of the partitions until the last offset is "
    "committed with its batch; fed from memory from the reading of the positions until the last "
    "commit; jobs from the first claim until the last job's end is committed. Everything is "
    "produced or inserted before; each run has a process and a database of its own."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The command line."""

    what: str | None
    events: int
    jobs: int
    rounds: int
    concurrency: int
    kafka: str | None
    database: str | None
    profiles: Path | None


async def run(options: Options, console: Console) -> None:
    """Measure and tell. Raises what broke."""
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(database_server(options.database))
        console.print(f"{_machine()}; {await described(server)}")
        plan = Plan(
            server=server,
            rounds=options.rounds,
            concurrency=options.concurrency,
            profiles=options.profiles,
            tell=console.print,
        )
        rows: list[Row] = []
        if options.what != "jobs":
            rows += await _ingest(options, plan)
        if options.what != "ingest":
            console.print(f"{options.jobs:,} due jobs, {options.concurrency} at a time")
            rows += job_rows(await measure_jobs(plan, options.jobs))
    console.print(table_of(rows))
    console.print(f"Median (least to most) of {options.rounds}. {COUNTED}")
    if options.profiles is not None:
        console.print(f"Profiled, so the rates count for nothing: see {options.profiles}")


async def _ingest(options: Options, plan: Plan) -> list[Row]:
    try:
        async with broker(options.kafka) as address:
            plan.tell(f"Apache Kafka, 2 topics of {PARTITIONS} partitions")
            payments = options.events // EVENTS_A_PAYMENT
            return ingest_rows(await measure_ingest(plan, address, payments))
    except MissingTool as missing:
        plan.tell(f"Ingest is not measured: {missing}")
        return []


def main() -> int:
    """Parse, run, and turn what broke into an exit code."""
    console = Console(soft_wrap=True, highlight=False)
    try:
        asyncio.run(run(_options(), console))
    except (ChildFailed, NotDurable, SandboxError, WrongEnd) as error:
        console.print(f"{type(error).__name__}: {error}", markup=False)
        return 1
    return 0


def _options() -> Options:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("what", nargs="?", choices=("ingest", "jobs"))
    parser.add_argument("--events", type=int, default=EVENTS, help="events to ingest")
    parser.add_argument("--jobs", type=int, default=JOBS, help="due jobs")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="runs of each measurement")
    parser.add_argument("--quick", action="store_true", help="a tenth of it, once: a smoke test")
    parser.add_argument("--concurrency", type=int, default=100, help="jobs at a time")
    parser.add_argument("--kafka", metavar="HOST:PORT", help="a broker that runs already")
    parser.add_argument("--database", metavar="URL", help="a server that runs already")
    parser.add_argument("--profile", type=Path, metavar="DIR", help="write sampled profiles there")
    given = parser.parse_args()
    share = QUICK_SHARE if given.quick else 1
    return Options(
        what=given.what,
        events=given.events // share,
        jobs=given.jobs // share,
        rounds=1 if given.quick else given.rounds,
        concurrency=given.concurrency,
        kafka=given.kafka,
        database=given.database,
        profiles=given.profile,
    )


def _machine() -> str:
    load = os.getloadavg()[0]
    return (
        f"{os.cpu_count()} cores, load {load:.1f} before the start, "
        f"{platform.python_implementation()} {platform.python_version()}"
    )


if __name__ == "__main__":
    raise SystemExit(main())
