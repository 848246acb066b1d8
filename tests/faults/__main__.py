"""`python -m tests.faults`: storms by their seeds, each told in one line, or whole if it fails.

It ends with 0 if every storm left everything right, and with 1 at the first that did not.
"""

import argparse
import asyncio
import logging
import sys
import time
from collections.abc import Sequence

from rich.console import Console

from tests.faults.seed import Outcome, run_seed
from tests.faults.stage import ProxiedKafka
from tests.support.kafka import MissingTool


async def run(seeds: Sequence[int], *, keep_going: bool, console: Console) -> bool:
    """Run one storm after the other on one Kafka; whether all went well."""
    kafka = ProxiedKafka.new()
    failed: list[int] = []
    began = time.monotonic()
    async with kafka.kafka:
        for seed in seeds:
            outcome = await run_seed(kafka, seed)
            _tell(outcome, console)
            if outcome.violations:
                failed.append(seed)
                if not keep_going:
                    break
    seconds = time.monotonic() - began
    verdict = f"failed: {', '.join(map(str, failed))}" if failed else "all passed"
    console.print(f"{len(seeds)} seeds in {seconds / 60:.1f} minutes, {verdict}")
    return not failed


def main() -> None:
    """Read the command line, run, leave with the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.faults", description="Storms of faults, each drawn from its seed."
    )
    parser.add_argument("--seed", type=int, help="one storm")
    parser.add_argument("--seeds", type=int, default=3, help="so many, one after the other")
    parser.add_argument("--first", type=int, default=1, help="the first one's seed")
    parser.add_argument("--keep-going", action="store_true", help="go on after a failure")
    given = parser.parse_args()
    row = range(given.first, given.first + given.seeds)
    seeds = [given.seed] if given.seed is not None else list(row)
    # Its complaints about a broker that is away are the point, and thousands.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    console = Console(highlight=False, soft_wrap=True)
    try:
        passed = asyncio.run(run(seeds, keep_going=given.keep_going, console=console))
    except MissingTool as missing:
        console.print(f"no storm without Apache Kafka: {missing}")
        passed = False
    sys.exit(0 if passed else 1)


def _tell(outcome: Outcome, console: Console) -> None:
    console.print(outcome.line, markup=False)
    if outcome.violations:
        console.print(outcome.report(), markup=False)


if __name__ == "__main__":
    main()
