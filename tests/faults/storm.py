"""A storm: a workload is sent while a plan's faults strike; then quiet has to come by itself.

    async with Storm.open(kafka, plan=draw(7), workloads=iter([Workload(7, 200)])) as storm:
        await storm.run(12)
        await storm.quiet()
        await storm.stop()
        violations = await storm.check()

`kafka` is a running `ProxiedKafka`; one serves any number of storms, one after the other.
"""

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Self

from tests.faults.checker import check, read_sent, read_topic
from tests.faults.injectors import INJECTORS
from tests.faults.leases import LeaseWatch
from tests.faults.plan import STORM_SECONDS, Fault, Plan
from tests.faults.quiet import QUIET_SECONDS, expire_dead_relay, unrest
from tests.faults.sabotage import session
from tests.faults.sending import Sender
from tests.faults.soaking.deadlocks import deadlocks_in
from tests.faults.stage import ProxiedKafka, Stage
from tests.faults.workload import Told, Workload
from tests.support.waiting import eventually

LOOK_SECONDS = 0.25
PORTIONS_PER_SECOND = 5.0
BURST_PORTIONS_MAX = 16

_COUNTS = """
SELECT
    (SELECT count(*) FROM payment_events WHERE kind IN ('erp', 'psp')) AS logged,
    (SELECT count(*) FROM payment_events WHERE kind = 'heal' AND outcome = 'applied') AS heals,
    (SELECT count(*) FROM reconciliation_attempts) AS attempts,
    (SELECT count(*) FROM reconciliation_attempts WHERE outcome = 'expired') AS expired
"""


@dataclass(slots=True)
class Struck:
    """A fault as it was: from when to when, in seconds of the storm; None while it lasts."""

    fault: Fault
    began: float
    ended: float | None = None

    def __str__(self) -> str:
        until = "…" if self.ended is None else f"{self.ended:.1f}"
        return f"{self.began:5.1f} to {until:>5} s  {self.fault}"


class Storm:
    """One run of a plan. `stage` has the servers, `stage.fleet.services` the processes."""

    def __init__(
        self, stage: Stage, plan: Plan, workloads: Iterator[Workload], directory: Path
    ) -> None:
        self.stage = stage
        self.plan = plan
        self.directory = directory
        self.told: list[Told] = []
        self.struck: list[Struck] = []
        self.unrest: Mapping[str, int] = {}
        self._workloads = workloads
        self._sender = Sender(stage)
        self._leases = LeaseWatch(stage)
        self._began_at = 0.0

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        kafka: ProxiedKafka,
        *,
        plan: Plan,
        workloads: Iterator[Workload],
        directory: Path | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> AsyncIterator[Self]:
        """Start everything, and wait until every process works.

        `workloads` may be without end: what is begun is sent to its end. Logs go to `directory`,
        by default a new one that stays. `settings` are `GROUP__NAME`, and go before all others.
        """
        directory = directory or Path(tempfile.mkdtemp(prefix=f"storm-{plan.seed}-"))
        async with Stage.open(kafka, plan, directory, settings or {}) as stage:
            storm = cls(stage, plan, workloads, directory)
            await stage.fleet.start()
            looking = asyncio.create_task(storm._look())
            leases = asyncio.create_task(storm._leases.run())
            try:
                yield storm
            finally:
                await _cancel(looking, leases)
                await storm._sender.close()

    @property
    def sent(self) -> int:
        """How many records are in the log for certain."""
        return self._sender.sent

    @property
    def ends(self) -> dict[tuple[str, int], int]:
        """Up to where each partition's log was written for certain."""
        return self._sender.ends

    @property
    def failures(self) -> list[str]:
        """What has gone wrong so far: processes that ended, leases left lying."""
        return [*self.stage.fleet.failures, *self._leases.overdue]

    @property
    def lease_looks(self) -> int:
        """How often a lease left lying would have been a violation."""
        return self._leases.samples

    async def run(self, seconds: float = STORM_SECONDS) -> None:
        """Send for so long, while the plan's faults strike; return when the last one is over."""
        self._began_at = asyncio.get_running_loop().time()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._send(seconds))
            for fault in self.plan.faults:
                group.create_task(self._strike(fault))
        await expire_dead_relay(self.stage)

    async def quiet(self, within_seconds: float = QUIET_SECONDS) -> None:
        """Wait until nothing is left to do, or a process has failed.

        Raises AssertionError with what is left.
        """

        async def is_quiet() -> bool:
            self.unrest = await unrest(self.stage, self.ends)
            return not self.unrest or bool(self.failures)

        try:
            await eventually(is_quiet, within_seconds=within_seconds, every_seconds=0.2)
        except AssertionError:
            raise AssertionError(f"no quiet within {within_seconds:.0f} s: {self.unrest}") from None

    async def stop(self) -> None:
        """SIGTERM to all processes: each has to end with 0."""
        await self.stage.fleet.stop()

    async def check(self) -> list[str]:
        """All that is wrong: how processes ended, leases left lying, and the whole history."""
        servers, topics = self.stage.kafka.bootstrap_servers, self.stage.topics
        sent = await read_sent(servers, {"erp": topics.erp, "psp": topics.psp})
        outcomes = await read_topic(servers, topics.outcome)
        copies = await read_topic(servers, topics.dead_letter)
        async with session(self.stage.postgres.url) as connection:
            violations = await check(
                connection,
                sent=sent,
                told=Told.joined(self.told),
                outcomes=outcomes,
                dead_letter_copies=copies,
                group=topics.group_id,
            )
            data = Path(await connection.fetchval("SHOW data_directory"))
        log = await asyncio.to_thread(shutil.copy, data.parent / "postgres.log", self.directory)
        return [*self.failures, *violations, *_own_deadlocks(Path(log))]

    async def counts(self) -> dict[str, int]:
        """What it has left in the database, in numbers."""
        async with session(self.stage.postgres.url) as connection:
            return dict(await connection.fetchrow(_COUNTS))

    def seconds(self) -> float:
        """How long it lasts already."""
        return asyncio.get_running_loop().time() - self._began_at

    async def _send(self, seconds: float) -> None:
        """In bursts over all the time; a story that has begun is told to its end.

        A burst lets two processes write the same payments at the same time.
        """
        rng = Random(self.plan.seed)  # noqa: S311 - to be repeated, not a secret
        for workload in self._workloads:
            workload.tell(self.stage.psp)
            self.told.append(workload.told)
            portions = list(workload.portions())
            pace = min(1 / PORTIONS_PER_SECOND, seconds / (len(portions) + 1))
            while portions:
                size = rng.randint(1, BURST_PORTIONS_MAX)
                burst, portions = portions[:size], portions[size:]
                await self._sender.send([record for portion in burst for record in portion])
                if self.seconds() < seconds:
                    await asyncio.sleep(pace * len(burst))
            if self.seconds() >= seconds:
                return

    async def _strike(self, fault: Fault) -> None:
        await asyncio.sleep(max(0.0, fault.at_seconds - self.seconds()))
        struck = Struck(fault, self.seconds())
        self.struck.append(struck)
        self._leases.begin(fault)
        try:
            await INJECTORS[fault.kind](self.stage, fault)
        finally:
            self._leases.end(fault)
        struck.ended = self.seconds()

    async def _look(self) -> None:
        while True:
            self.stage.fleet.look()
            await asyncio.sleep(LOOK_SECONDS)


def _own_deadlocks(log: Path) -> list[str]:
    """Cycles in which no foreign session had a part: our own statements never deadlock."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return [f"own deadlock: {each.text}" for each in deadlocks_in(lines) if not each.foreign]


async def _cancel(*tasks: "asyncio.Task[None]") -> None:
    for task in tasks:
        task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.gather(*tasks)
