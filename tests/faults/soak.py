"""`python -m tests.faults.soak --minutes 20`: steady load and random faults, then quiet, the
checker, and what became of memory, connections and the event loop.

It ends with 0 if every promise held, no two statements of our own deadlocked and nothing grew; with
1 otherwise. The first process is never ended, so that one life lasts for all of it.
"""

import argparse
import asyncio
import contextlib
import logging
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from random import Random

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from tests.faults.plan import Kind, Plan, draw
from tests.faults.soaking.deadlocks import deadlocks_in
from tests.faults.soaking.flatness import RULES
from tests.faults.soaking.report import Soaked, table_of_figures, table_of_lives
from tests.faults.soaking.sampler import Sampler
from tests.faults.stage import ProxiedKafka
from tests.faults.storm import Storm
from tests.faults.workload import endless
from tests.support.kafka import MissingTool

MINUTES = 20.0
FAULTS_SHARE = 0.3
"""Of a storm's faults: one in about five seconds."""
QUIET_SECONDS = 150.0
LINE_SECONDS = 30.0
_MINUTE_SECONDS = 60.0
_ENDING = frozenset({Kind.KILL, Kind.TERMINATE})
# A payment that stays pending is looked at once more, and then no more before the end.
_SETTINGS = {
    "RECONCILE__POLL_PLAN_SECONDS": "60,86400",
    "RECONCILE__NOT_FOUND_GRACE_SECONDS": "30",
    "LEASE__ATTEMPTS_MAX": "100",
}


def thinned(plan: Plan) -> Plan:
    """A storm's plan with fewer faults, and none that ends the first process."""
    rng = Random(plan.seed)  # noqa: S311 - a soak to repeat, not a secret
    kept = tuple(
        fault
        for fault in plan.faults
        if rng.random() < FAULTS_SHARE and not (fault.kind in _ENDING and fault.process == 0)
    )
    return replace(plan, faults=kept)


async def soak(seed: int, seconds: float, console: Console) -> Soaked:
    """Soak for so long, and read what came of it."""
    plan = thinned(draw(seed, seconds=seconds))
    directory = Path(tempfile.mkdtemp(prefix=f"soak-{seed}-"))
    proxied = ProxiedKafka.new()
    async with (
        proxied.kafka,
        Storm.open(
            proxied,
            plan=plan,
            workloads=endless(seed),
            directory=directory,
            settings=_SETTINGS,
        ) as storm,
    ):
        soaked = await _soaked(storm, seconds, console)
        shutil.copy(storm.stage.postgres.log_file, directory)
    if soaked.wrong:
        console.print(f"the logs are in {directory}")
    else:
        shutil.rmtree(directory)
    return soaked


async def _soaked(storm: Storm, seconds: float, console: Console) -> Soaked:
    sampler, violations = Sampler(storm), []
    async with _beside(sampler.run(), _told(storm, sampler, seconds, console)):
        try:
            await storm.run(seconds)
            await storm.quiet(QUIET_SECONDS)
        except AssertionError as error:
            violations.append(str(error))
    await sampler.look()
    await storm.stop()
    counts = await storm.counts()
    try:
        violations += await storm.check()
    except (OSError, TimeoutError) as error:
        violations.append(f"the history could not be read: {error!r}")
    log = storm.stage.postgres.log_file.read_text(encoding="utf-8", errors="replace")
    return Soaked(
        seed=storm.plan.seed,
        seconds=seconds,
        sent=storm.sent,
        counts=counts,
        faults=Counter(str(each.fault.kind) for each in storm.struck),
        lives=sampler.lives,
        moments=sampler.moments,
        left_behind=sampler.left_behind,
        deadlocks=list(deadlocks_in(log.splitlines())),
        violations=violations,
    )


@asynccontextmanager
async def _beside(*runs: Coroutine[None, None, None]) -> AsyncIterator[None]:
    """Run coroutines beside the block, and end them with it."""
    tasks = [asyncio.create_task(run) for run in runs]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks)


async def _told(storm: Storm, sampler: Sampler, seconds: float, console: Console) -> None:
    """Progress: a bar on a terminal, a line now and then elsewhere."""
    if not console.is_terminal:
        while True:
            await asyncio.sleep(LINE_SECONDS)
            console.print(f"{storm.seconds():5.0f} s  {_in_words(storm, sampler)}")
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("soaking", total=seconds)
        while True:
            words = _in_words(storm, sampler)
            progress.update(bar, completed=storm.seconds(), description=words)
            await asyncio.sleep(1)


def _in_words(storm: Storm, sampler: Sampler) -> str:
    memory = [life.looks[-1].rss_bytes for life in sampler.lives if life.looks]
    behind = sampler.moments[-1].records_behind if sampler.moments else 0
    return (
        f"{storm.sent:,} records, {behind:,} behind, {len(storm.struck)} faults,"
        f" {max(memory, default=0) / 2**20:.0f} MiB at most, {len(storm.failures)} failures"
    )


def _say(soaked: Soaked, console: Console) -> None:
    console.print(table_of_lives(soaked))
    console.print(table_of_figures(soaked))
    console.print(RULES)
    for each in soaked.wrong[:100]:
        console.print(each, markup=False)
    console.print("FAILED" if soaked.wrong else "passed")


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line, soak, leave with the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=MINUTES)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    # Its complaints about a broker that is away are the point, and thousands.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    plain = Console()
    console = Console(width=None if plain.is_terminal else 180, highlight=False)
    try:
        soaked = asyncio.run(soak(given.seed, given.minutes * _MINUTE_SECONDS, console))
    except MissingTool as missing:
        console.print(f"no soak without Apache Kafka: {missing}")
        sys.exit(1)
    _say(soaked, console)
    sys.exit(1 if soaked.wrong else 0)


if __name__ == "__main__":
    main()
