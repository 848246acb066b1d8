"""`reconciler offsets set`: a partition's position moved by compare and set, with an audit row."""

import asyncio
import random
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

from rich.console import Console

from service import assembly
from service.commands.reachable import reaching
from service.commands.source_topic import require_partitions, require_source_topic, time_of
from service.connections import pool_options
from service.errors import ConfigurationError, ReconcilerError
from service.ingest.positions import LogBounds, Relocation, relocate
from service.ingest.topic_log import TopicLog, open_log
from service.settings import Settings
from service.store import offsets, operator_actions
from service.store.faults import Reaction, reaction
from service.store.offsets import Partition, Position
from service.store.operator_actions import Action
from service.store.pool import connect

TRIES_MAX = 5
_PAUSE_SECONDS = 0.2
_CLOSE_SECONDS = 5

_End = Literal["earliest", "latest"]
_ENDS: Final[Mapping[str, _End]] = {"earliest": "earliest", "latest": "latest"}
Target = int | _End | datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the operator asks for. `skip`: records may be left unread. `recreated`: the topic is
    another one under its old name, whatever its offsets look like.
    """

    topic: str
    partition: int
    to: Target
    skip: bool
    recreated: bool
    actor: str
    note: str | None


def target(to: str, to_time: str) -> Target:
    """What `--to` or `--to-time` names. Raises ConfigurationError unless it is exactly one."""
    if bool(to) == bool(to_time):
        raise ConfigurationError("say where to: one of --to and --to-time")
    if to_time:
        return time_of("--to-time", to_time)
    if to in _ENDS:
        return _ENDS[to]
    if to.isascii() and to.isdigit():
        return int(to)
    raise ConfigurationError(f"--to is {to!r}; allowed: an offset, earliest, latest")


async def put(settings: Settings, wanted: Wanted) -> int:
    """Move a position, with a row in the audit trail, and print before and after.

    Raises ConfigurationError for a topic or partition that there is not, ReconcilerError for an
    offset outside the log, for records that would be left unread without `skip`, and where running
    consumers move the position on each time it is tried.
    """
    require_source_topic(settings, wanted.topic)
    options = pool_options(settings.database, application_name="reconciler-offsets")
    async with open_log(assembly.kafka_options(settings)) as log:
        await require_partitions(log, wanted.topic, [wanted.partition])
        async with reaching("RECONCILER_DATABASE__URL"):
            connection = await connect(options)
            try:
                await move(connection, log, settings.kafka.group_id, wanted)
            finally:
                await connection.close(timeout=_CLOSE_SECONDS)
    return 0


async def move(connection: Any, log: TopicLog, group: str, wanted: Wanted) -> None:
    """Move over the position read; if a consumer was faster, read and try again."""
    partition = Partition(wanted.topic, wanted.partition)
    for tried in range(TRIES_MAX):
        if tried:
            await asyncio.sleep(random.uniform(_PAUSE_SECONDS / 2, _PAUSE_SECONDS))  # noqa: S311
        before = await offsets.read(connection, group, partition)
        # After the position: an end read before it would look as if the topic had been made anew.
        bounds = (await log.bounds([partition]))[partition]
        to = await _offset(log, partition, bounds, wanted.to)
        planned = relocate(partition, before, bounds, to=to, recreated=wanted.recreated)
        _require_skip(partition, planned, skip=wanted.skip)
        if before == planned.position:
            _print("unchanged:", partition, before)
            return
        if await _put(connection, group, before, planned, wanted):
            _tell(partition, before, planned)
            return
    raise ReconcilerError(
        f"consumers moved the position of {partition.topic} {partition.number} on each of the"
        f" {TRIES_MAX} times that it was tried; nothing was changed: say it again, or stop the"
        " processes that ingest for a moment"
    )


async def _put(
    connection: Any, group: str, before: Position | None, planned: Relocation, wanted: Wanted
) -> bool:
    """One transaction: the position, only from where it was read, and the audit trail."""
    partition, after = Partition(wanted.topic, wanted.partition), planned.position
    try:
        async with connection.transaction():
            if before is None:
                done = await offsets.create(
                    connection,
                    group,
                    partition,
                    next_offset=after.next_offset,
                    highest_offset=after.highest_offset,
                )
            else:
                done = await offsets.put(
                    connection, group, partition, expected=before.next_offset, position=after
                )
            if done:
                await operator_actions.record(connection, _action(group, before, planned, wanted))
    except Exception as error:
        # A consumer's batch that holds the row for long counts as one that was faster.
        if reaction(error) is not Reaction.RETRY:
            raise
        return False
    return done


def _action(group: str, before: Position | None, planned: Relocation, wanted: Wanted) -> Action:
    return Action(
        actor=wanted.actor,
        action="offsets.set",
        subject=f"{wanted.topic}/{wanted.partition}",
        before=_audited(before),
        after={
            **_audited(planned.position),
            "group": group,
            "skipped": planned.skipped,
            "recreated": planned.recreated,
        },
        note=wanted.note,
    )


def _audited(position: Position | None) -> dict[str, Any]:
    if position is None:
        return {}
    return {"next_offset": position.next_offset, "highest_offset": position.highest_offset}


async def _offset(log: TopicLog, partition: Partition, bounds: LogBounds, to: Target) -> int:
    if isinstance(to, int):
        return to
    if isinstance(to, datetime):
        found = (await log.offsets_at([partition], to))[partition]
        return bounds.end if found is None else max(found, bounds.beginning)
    return bounds.beginning if to == "earliest" else bounds.end


def _require_skip(partition: Partition, planned: Relocation, *, skip: bool) -> None:
    if planned.skipped and not skip:
        raise ReconcilerError(
            f"{planned.skipped} records of {partition.topic} {partition.number} would never be"
            f" read (up to offset {planned.position.next_offset}); nothing was changed:"
            " say --skip if that is meant"
        )


def _tell(partition: Partition, before: Position | None, planned: Relocation) -> None:
    _print("before:", partition, before)
    _print("after: ", partition, planned.position)
    out = Console(highlight=False, markup=False)
    if planned.recreated:
        out.print("the topic was made anew: what it holds counts as never consumed", soft_wrap=True)
    if planned.skipped:
        out.print(f"{planned.skipped} records will not be read", soft_wrap=True)
    if planned.lost:
        out.print(f"{planned.lost} records before them are gone from the log", soft_wrap=True)


def _print(when: str, partition: Partition, position: Position | None) -> None:
    held = "never consumed"
    if position is not None:
        held = f"next offset {position.next_offset}, highest {position.highest_offset}"
    Console(highlight=False, markup=False).print(
        f"{when} {partition.topic} {partition.number}: {held}", soft_wrap=True
    )
