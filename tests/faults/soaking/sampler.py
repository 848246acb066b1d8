"""Looks at every process and at the database again and again, while a storm is under way."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Any

import asyncpg
from prometheus_client.parser import text_string_to_metric_families

from tests.faults.fleet import Member, State
from tests.faults.sabotage import session
from tests.faults.soaking.samples import Life, Look, Moment
from tests.faults.storm import Storm

SAMPLE_SECONDS = 2.0
CALM_SECONDS = 10.0
"""A process that has been let go for so long owes nothing to the fault that held it."""
_ANSWER_SECONDS = 1.5
_LAG = "reconciler_event_loop_lag_seconds"

_SESSIONS = """
SELECT application_name, count(*) FROM pg_stat_activity
WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() GROUP BY 1
"""
_AGES = """
SELECT
    (
        SELECT coalesce(max(extract(epoch FROM clock_timestamp() - lease_until)), 0)::float8
        FROM reconciliation_jobs WHERE status = 'processing' AND lease_until < clock_timestamp()
    ) AS expired_lease_seconds,
    (
        SELECT coalesce(max(extract(epoch FROM clock_timestamp() - next_check_at)), 0)::float8
        FROM payments WHERE next_check_at < clock_timestamp()
    ) AS overdue_check_seconds,
    (
        SELECT coalesce(max(extract(epoch FROM clock_timestamp() - created_at)), 0)::float8
        FROM outbox WHERE published_at IS NULL
    ) AS outbox_seconds,
    (SELECT coalesce(sum(next_offset), 0)::bigint FROM consumer_offsets) AS taken_in
"""
_AWAY = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError)
_SERVICE = "payment-reconciler "


class Sampler:
    """`lives` by process and start, from when it works; `moments` of the database; `left_behind`:
    sessions of processes that are gone, as the last look found them.
    """

    def __init__(self, storm: Storm) -> None:
        self._storm = storm
        self._lives: dict[tuple[str, int], Life] = {}
        self.moments: list[Moment] = []
        self.left_behind: dict[str, int] = {}

    @property
    def lives(self) -> list[Life]:
        """All lives, by process and start."""
        return [self._lives[key] for key in sorted(self._lives)]

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(SAMPLE_SECONDS)

    async def look(self) -> None:
        """Look once at everything."""
        sessions = await self._of_database()
        members = self._storm.stage.fleet.members
        told = await asyncio.gather(*(_metrics_of(member) for member in members))
        for member, metrics in zip(members, told, strict=True):
            self._of_process(member, metrics, sessions)

    async def _of_database(self) -> Mapping[int, int] | None:
        """Sessions by the process that has them, None while the database is away."""
        try:
            async with session(self._storm.stage.postgres.url) as connection:
                rows = await connection.fetch(_SESSIONS)
                ages: dict[str, Any] = dict(await connection.fetchrow(_AGES))
        except _AWAY:
            return None
        behind = max(0, sum(self._storm.ends.values()) - int(ages.pop("taken_in")))
        sessions = {PurePath(name).name: number for name, number in rows if _SERVICE in name}
        self.moments.append(
            Moment(
                at_seconds=self._storm.seconds(),
                connections=sum(sessions.values()),
                records_behind=behind,
                **ages,
            )
        )
        alive = {
            str(member.service.pid)
            for member in self._storm.stage.fleet.members
            if member.service.running
        }
        self.left_behind = {pid: number for pid, number in sessions.items() if pid not in alive}
        return {int(pid): number for pid, number in sessions.items() if pid.isdigit()}

    def _of_process(
        self, member: Member, metrics: dict[str, float], sessions: Mapping[int, int] | None
    ) -> None:
        service = member.service
        if not service.running or member.state is State.STARTING:
            return
        seen = _seen_by_kernel(service.pid)
        if seen is None:
            return
        now = asyncio.get_running_loop().time()
        key = (member.name, member.starts)
        self._lives.setdefault(key, Life(*key)).looks.append(
            Look(
                at_seconds=self._storm.seconds(),
                rss_bytes=seen["rss"],
                threads=seen["threads"],
                files=seen["files"],
                connections=None if sessions is None else sessions.get(service.pid, 0),
                lag_seconds=metrics.get(_LAG),
                calm=member.state is State.UP and now - member.up_since > CALM_SECONDS,
                metrics=metrics,
            )
        )


def _seen_by_kernel(pid: int) -> dict[str, int] | None:
    """Memory, threads and open files; None if it has ended meanwhile."""
    process = Path("/proc") / str(pid)
    try:
        lines = (process / "status").read_text(encoding="utf-8").splitlines()
        files = sum(1 for _ in (process / "fd").iterdir())
    except (FileNotFoundError, ProcessLookupError):
        return None
    status = {name: text.split() for name, _, text in (line.partition(":") for line in lines)}
    if "VmRSS" not in status:
        return None
    rss = int(status["VmRSS"][0]) * 1024
    return {"rss": rss, "threads": int(status["Threads"][0]), "files": files}


async def _metrics_of(member: Member) -> dict[str, float]:
    """Every metric by name, summed over its labels; nothing where it does not answer in time."""
    if member.state is not State.UP:
        return {}
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            _, text = await member.service.health("/metrics")
    except (OSError, TimeoutError):
        return {}
    sums: dict[str, float] = defaultdict(float)
    for family in text_string_to_metric_families(text or ""):
        for sample in family.samples:
            sums[sample.name] += sample.value
    return dict(sums)
