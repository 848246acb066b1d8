"""The story on the stage: sending, the kill, the wait for rest, the look at what stands."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

from service.lifecycle import Deadline
from service.sandbox import SandboxError
from service.sandbox.ledger import Progress
from service.sandbox.outcome import Outcome
from service.sandbox.processes import ServiceProcess
from service.sandbox.report import Report
from service.sandbox.sending import open_producer, send
from service.sandbox.stage import Stage
from service.sandbox.story import Story

_POLL_SECONDS = 0.2
_HELD_POLL_SECONDS = 0.02
# A commit that was under way when the worker died lands within this time, or never.
_AFTERMATH_SECONDS = 0.5
_KILLS_MAX = 3


@dataclass(frozen=True, slots=True)
class Kill:
    """The worker that was killed, and the jobs that it held then."""

    pid: int
    jobs: Sequence[int]


class Performance:
    """One run of a story. Raises SandboxError that names what did not come in time."""

    def __init__(
        self, story: Story, stage: Stage, report: Report, *, within_seconds: float
    ) -> None:
        self._story = story
        self._stage = stage
        self._report = report
        self._within_seconds = within_seconds
        self._deadline = Deadline(within_seconds)
        self._progress = Progress()
        self._sending_began = self._ingest_ended = time.monotonic()

    async def play(self) -> Outcome:
        """Play it to its end and read what came of it."""
        kill = await self._send_and_kill()
        await self._until_at_rest()
        ledger = self._stage.ledger
        return Outcome(
            story=self._story,
            progress=self._progress,
            duplicates=await self._stage.service.duplicates(),
            refusals=await ledger.refusals(),
            found=await ledger.payments(),
            healed=await ledger.healed(self._story.lost),
            interrupted=len(kill.jobs),
            taken_over=await ledger.taken_over(kill.jobs, kill.pid),
            ingest_seconds=self._ingest_ended - self._sending_began,
        )

    async def _send_and_kill(self) -> Kill:
        """Send everything; a worker beside the service dies while its jobs wait for a slow PSP."""
        worker = self._stage.worker
        with self._stage.slow_psp():
            await worker.ready()
            self._report.phase(f"a second process, {worker.pid}, only works on jobs")
            await self._send()
            for _ in range(_KILLS_MAX):
                kill = await self._kill(worker)
                if kill.jobs:
                    self._report.phase(f"killed it in the midst of {len(kill.jobs)} jobs")
                    return kill
                worker = await self._stage.launch_worker()
        raise SandboxError(f"no job was cut off in {_KILLS_MAX} kills")

    async def _send(self) -> None:
        places, records = self._stage.places, self._story.records
        self._report.phase(f"sending {len(records):,} records")
        self._sending_began = time.monotonic()
        async with open_producer(places.bootstrap_servers) as producer:
            await send(producer, records, places.topics, wait_for=self._until_ingested)
        await self._until_ingested(len(records))
        self._ingest_ended = time.monotonic()
        self._report.phase("every record is ingested; what still pends is checked at the PSP")

    async def _kill(self, worker: ServiceProcess) -> Kill:
        """Kill the worker once it holds jobs; those it holds still, after its last commit."""
        while not await self._stage.ledger.held_jobs(worker.pid):
            worker.check()
            self._give_up_in_time(["a job in the hands of the worker"])
            await asyncio.sleep(_HELD_POLL_SECONDS)
        await worker.kill()
        await asyncio.sleep(_AFTERMATH_SECONDS)
        return Kill(worker.pid, await self._stage.ledger.held_jobs(worker.pid))

    async def _until_ingested(self, records: int) -> None:
        while self._progress.ingested < records:
            await self._look([f"{records - self._progress.ingested:,} records not ingested"])

    async def _until_at_rest(self) -> None:
        """Until nothing is under way or due."""
        self._progress = await self._stage.ledger.progress()
        while missing := self._progress.missing(len(self._story.records)):
            await self._look(missing)

    async def _look(self, missing: Sequence[str]) -> None:
        """Wait a moment and see where things stand; `missing` is what is waited for."""
        self._give_up_in_time(missing)
        self._stage.service.check()
        await asyncio.sleep(_POLL_SECONDS)
        self._progress = await self._stage.ledger.progress()
        self._report.figures(self._progress.figures())

    def _give_up_in_time(self, missing: Sequence[str]) -> None:
        if self._deadline.passed:
            reason = f"gave up after {self._within_seconds:g} s; missing: {', '.join(missing)}"
            raise SandboxError("\n".join([reason, *self._stage.service.errors()]))
