"""The demo: the real service on real parts lives through a story, and every payment is checked.

Start the parts and the service, send the story, kill a worker in the midst of its jobs, wait until
the story has come to rest, and compare each payment with the truth.
"""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass

from service.sandbox import SandboxError
from service.sandbox.interruption import Interruption
from service.sandbox.performance import Performance
from service.sandbox.report import Report
from service.sandbox.stage import Stage
from service.sandbox.story import tell


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """What to tell and on what. `kafka` is HOST:PORT and `database` a URL; None embeds them.

    `lost_share` is the share of the PSP's successes that no event tells of. The demo gives up when
    the service has been ready for `give_up_seconds`, longer in proportion for over 2,000 payments.
    """

    payments: int = 2_000
    seed: int = 7
    kafka: str | None = None
    database: str | None = None
    serve: bool = False
    lost_share: float = 0.05
    give_up_seconds: float = 120

    @property
    def within_seconds(self) -> float:
        """How long a story of this size may take."""
        return self.give_up_seconds * max(1.0, self.payments / 2_000)


async def run_demo(options: DemoOptions) -> int:
    """Run the demo; returns 0 if and only if every payment and every record is as it must be.

    A signal ends it, and every process it started, with a shell's code for that signal.
    """
    with Interruption() as interruption, Report() as report:
        try:
            return await _told(options, report, interruption)
        except SandboxError as error:
            report.line(f"the demo failed: {error}")
            return 1
        except asyncio.CancelledError:
            # Ours to take only where a signal asked for it, and then the demo is at its end.
            if interruption.exit_code is None:
                raise
            report.line("interrupted")
            return interruption.exit_code


async def _told(options: DemoOptions, report: Report, interruption: Interruption) -> int:
    story = tell(options.payments, options.seed, lost_share=options.lost_share)
    report.phase(f"seed {story.seed}: {story.in_words()}")
    async with AsyncExitStack() as stack:
        stage = await stack.enter_async_context(
            Stage(story, kafka=options.kafka, database=options.database, tell=report.phase)
        )
        performance = Performance(story, stage, report, within_seconds=options.within_seconds)
        outcome = await performance.play()
        failures = outcome.failures()
        report.end(outcome.figures())
        report.failures(failures)
        if failures:
            report.failures([f"service log: {line}" for line in stage.service.errors()])
        report.line(outcome.verdict())
        if options.serve:
            report.line(f"serving {stage.service.health_url} until Ctrl-C or SIGTERM")
            await interruption.wait()
    return 1 if failures else 0
