"""`reconciler replay`: part of a topic applied again, beside a running service."""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from rich.console import Console

from service import assembly
from service.commands.progress import progress_bar
from service.commands.reachable import reaching
from service.commands.source_topic import require_partitions, require_source_topic, time_of
from service.connections import pool_options
from service.errors import ConfigurationError, ReconcilerError
from service.ingest.options import IngestOptions
from service.ingest.replay_writer import DryWriter, ReplayWriter
from service.ingest.stretches import Stretch, stretches
from service.ingest.topic_log import open_log
from service.ingest.topic_replay import Replay
from service.lifecycle import StopSignals
from service.observe.logs import configure_logs
from service.settings import Settings
from service.store import offsets, operator_actions
from service.store.offsets import Partition, Position
from service.store.operator_actions import Action
from service.store.pool import open_pool
from service.store.transactions import transaction

OUTCOMES = ("applied", "stale", "duplicate", "conflict", "quarantined")
_CONNECTIONS_MAX = 2
_CLOSE_SECONDS = 5
_AUDIT_SECONDS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the operator asks for. `partitions` empty: all of the topic."""

    topic: str
    since: int | datetime
    partitions: tuple[int, ...]
    dry_run: bool
    actor: str
    note: str | None


def since(from_time: str, from_offset: int | None) -> int | datetime:
    """Where to begin. Raises ConfigurationError unless exactly one is given."""
    if bool(from_time) == (from_offset is not None):
        raise ConfigurationError("say from where: one of --from-time and --from-offset")
    return time_of("--from-time", from_time) if from_offset is None else from_offset


async def replay(settings: Settings, wanted: Wanted, signals: StopSignals) -> int:
    """Replay; 0 if it came to its end, 1 if a signal or an outage ended it before.

    Raises ConfigurationError for a topic or partition that there is not, and ReconcilerError where
    nothing could be begun.
    """
    require_source_topic(settings, wanted.topic)
    stop = signals.attach(asyncio.get_running_loop())
    configure_logs("WARNING", settings.log.format)
    options = assembly.ingest_options(settings)
    async with open_log(assembly.kafka_options(settings)) as log:
        partitions = await require_partitions(log, wanted.topic, wanted.partitions)
        async with reaching("RECONCILER_DATABASE__URL"):
            pool = await _pool(settings)
        try:
            async with reaching("RECONCILER_DATABASE__URL"):
                positions = await _positions(pool, options, partitions)
            ranges = await stretches(log, positions, since=wanted.since)
            writer = _writer(pool, options, dry_run=wanted.dry_run)
            running = Replay(log, writer, options=options, stretches=ranges)
            return await _see_through(_Course(wanted, ranges, running), pool, stop)
        finally:
            await _close(pool)


@dataclass(frozen=True, slots=True)
class _Course:
    """A replay, what was asked for, and what it had to read."""

    wanted: Wanted
    ranges: Sequence[Stretch]
    running: Replay

    @property
    def to_read(self) -> int:
        return sum(each.end - each.start for each in self.ranges)

    @property
    def unread(self) -> list[Stretch]:
        """Where the replay has not come to the end of a partition, from where it is to go on."""
        reached = self.running.reached
        return [
            replace(each, start=reached[each.partition])
            for each in self.ranges
            if reached[each.partition] < each.end
        ]


async def _see_through(course: _Course, pool: Any, stop: asyncio.Event) -> int:
    cut_by = await _watched(course, stop)
    _print_sum(course)
    if cut_by is not None:
        sys.stderr.write(f"reconciler: {_where_to_go_on(course, cut_by)}\n")
    audited = course.wanted.dry_run or await _audited(course, pool, cut_by or "done")
    return 0 if cut_by is None and audited else 1


async def _watched(course: _Course, stop: asyncio.Event) -> str | None:
    """Run under a progress bar; what ended it before its end, if anything did."""
    with progress_bar() as progress:
        bar = progress.add_task(course.wanted.topic, total=course.to_read)
        try:
            done = await course.running.run(
                stop, on_progress=lambda passed: progress.advance(bar, passed)
            )
        except ReconcilerError as error:
            return str(error)
    return None if done else "interrupted by a signal"


def _where_to_go_on(course: _Course, cut_by: str) -> str:
    if not course.unread:
        return f"{cut_by}; yet all was applied"
    kept, dry = "what was applied stays", ""
    if course.wanted.dry_run:
        kept, dry = "nothing is written by a dry run", " --dry-run"
    commands = [
        f"reconciler replay --topic {each.partition.topic}"
        f" --partition {each.partition.number} --from-offset {each.start}{dry}"
        for each in course.unread
    ]
    return "\n  ".join([f"{cut_by}; {kept}; go on with:", *commands])


def _print_sum(course: _Course) -> None:
    running, out = course.running, Console(highlight=False, markup=False)
    counted = ", ".join(f"{outcome} {running.counts[outcome]}" for outcome in OUTCOMES)
    read = f"{running.records} records of {course.wanted.topic} read again"
    if running.ignored:
        read += f" ({running.ignored} without an event)"
    dry = "dry run, nothing was written: " if course.wanted.dry_run else ""
    out.print(f"{dry}{read}: {counted}", soft_wrap=True)
    if running.gone:
        out.print(
            f"{running.gone} records before them are gone from the log: only a backup has them",
            soft_wrap=True,
        )
    if not course.to_read:
        out.print("nothing lies between there and where the group stands", soft_wrap=True)


async def _audited(course: _Course, pool: Any, ended: str) -> bool:
    """Leave one row in the audit trail; False, with a note, if the database does not take it."""
    wanted, running = course.wanted, course.running
    action = Action(
        actor=wanted.actor,
        action="replay",
        subject=wanted.topic,
        after={
            "since": str(wanted.since),
            "partitions": {
                str(each.partition.number): {
                    "start": each.start,
                    "end": each.end,
                    "reached": running.reached[each.partition],
                }
                for each in course.ranges
            },
            "outcomes": {outcome: running.counts[outcome] for outcome in OUTCOMES},
            "gone": running.gone,
            "ended": ended,
        },
        note=wanted.note,
    )
    try:
        async with asyncio.timeout(_AUDIT_SECONDS), transaction(pool) as connection:
            await operator_actions.record(connection, action)
    except Exception as error:  # noqa: BLE001 - told, and the command fails by it
        sys.stderr.write(f"reconciler: no row in operator_actions ({type(error).__name__})\n")
        return False
    return True


def _writer(pool: Any, options: IngestOptions, *, dry_run: bool) -> ReplayWriter:
    kind = DryWriter if dry_run else ReplayWriter
    return kind(
        pool,
        options.apply,
        acquire_timeout_seconds=options.acquire_timeout_seconds,
        backoff_max_seconds=options.backoff_max_seconds,
        on_retry=lambda _: None,
    )


async def _pool(settings: Settings) -> Any:
    options = pool_options(settings.database, application_name="reconciler-replay")
    return await open_pool(replace(options, connections_min=1, connections_max=_CONNECTIONS_MAX))


async def _positions(
    pool: Any, options: IngestOptions, partitions: Sequence[Partition]
) -> Mapping[Partition, Position]:
    """Where the group stands now. Raises ReconcilerError if it stands nowhere in them."""
    async with transaction(pool) as connection:
        rows = await offsets.stored(connection, options.apply.group)
    positions = {row.partition: row.position for row in rows if row.partition in partitions}
    if not positions:
        raise ReconcilerError(
            f"the group {options.apply.group} has consumed nothing of {partitions[0].topic} yet:"
            " there is nothing to read again"
        )
    return positions


async def _close(pool: Any) -> None:
    """Within bounds: with the database gone, by force."""
    try:
        async with asyncio.timeout(_CLOSE_SECONDS):
            await pool.close()
    except TimeoutError:
        pool.terminate()
