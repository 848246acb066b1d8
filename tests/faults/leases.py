"""No lease that ran out is left lying while somebody could pick it up: looked at all the time.

Counted is only what nothing excuses. The database has been without faults, and one process that
watches has been up, neither stopped nor blocked, for longer than the bound: then no lease may be
over for longer than the bound.
"""

import asyncio
from typing import Any

from tests.faults.plan import OF_DATABASE, Fault
from tests.faults.sabotage import AWAY, session
from tests.faults.stage import Stage

WATCHER_SECONDS = 1.0
SLACK_SECONDS = 8.0
"""A busy machine, and the pauses of a process that has lost its connections a moment ago."""
BOUND_SECONDS = WATCHER_SECONDS + SLACK_SECONDS
SAMPLE_SECONDS = 0.5

_OVERDUE = """
SELECT job_id, lease_epoch, extract(epoch FROM clock_timestamp() - lease_until)::float8
FROM reconciliation_jobs
WHERE status = 'processing' AND lease_until < clock_timestamp() - make_interval(secs => $1)
"""


class LeaseWatch:
    """`samples` counts the looks that could have found one."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._faults = 0
        self._calm_since = asyncio.get_running_loop().time()
        self.samples = 0
        self._overdue: dict[tuple[int, int], float] = {}

    @property
    def overdue(self) -> list[str]:
        """Each once, with the longest time that it was seen lying."""
        return [
            f"lease {epoch} of job {job_id} was over for {seconds:.1f} s and nobody took note"
            for (job_id, epoch), seconds in self._overdue.items()
        ]

    def begin(self, fault: Fault) -> None:
        """A fault begins."""
        if fault.place[0] in OF_DATABASE:
            self._faults += 1

    def end(self, fault: Fault) -> None:
        """It is over."""
        if fault.place[0] in OF_DATABASE:
            self._faults -= 1
            self._calm_since = asyncio.get_running_loop().time()

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            try:
                async with session(self._stage.postgres.url) as connection:
                    while True:
                        await self._look(connection)
                        await asyncio.sleep(SAMPLE_SECONDS)
            except AWAY:
                await asyncio.sleep(SAMPLE_SECONDS)

    async def _look(self, connection: Any) -> None:
        rows = await connection.fetch(_OVERDUE, BOUND_SECONDS)
        if not self._nothing_excuses():
            return
        self.samples += 1
        self._overdue |= {(job_id, epoch): seconds for job_id, epoch, seconds in rows}

    def _nothing_excuses(self) -> bool:
        now = asyncio.get_running_loop().time()
        up = (member.up_since for member in self._stage.fleet.members if member.watches)
        since = max(self._calm_since, min(up))
        return not self._faults and now - since > BOUND_SECONDS
