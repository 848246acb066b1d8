"""`reconciler offsets show`: where the group stands, beside what the log holds."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from service import assembly
from service.commands.reachable import reaching
from service.connections import pool_options
from service.errors import ConfigurationError
from service.ingest.positions import LogBounds
from service.ingest.topic_log import BrokerSilent, open_log
from service.settings import Settings
from service.store import offsets
from service.store.offsets import Partition, StoredOffset
from service.store.pool import connect

_CLOSE_SECONDS = 5


@dataclass(frozen=True, slots=True)
class _Line:
    """A partition as it is shown; what is not known is None."""

    partition: Partition
    stored: StoredOffset | None
    log: LogBounds | None

    def values(self) -> dict[str, Any]:
        """Name -> value, in the order in which they are shown."""
        position = self.stored.position if self.stored else None
        log = self.log
        behind = max(0, log.end - position.next_offset) if log and position else None
        caught_up_at = position.caught_up_at if position else None
        return {
            "topic": self.partition.topic,
            "partition": self.partition.number,
            "next_offset": position.next_offset if position else None,
            "highest_offset": position.highest_offset if position else None,
            "log_beginning": log.beginning if log else None,
            "log_end": log.end if log else None,
            "lag": behind,
            "caught_up_at": caught_up_at.isoformat() if caught_up_at else None,
            "updated_at": self.stored.updated_at.isoformat() if self.stored else None,
        }


async def show(settings: Settings, *, as_json: bool) -> int:
    """Print a row a partition. Without the broker its columns stay empty, with a note on stderr."""
    lines = await _lines(settings)
    if as_json:
        sys.stdout.write(json.dumps([line.values() for line in lines], indent=2) + "\n")
        return 0
    console = Console(highlight=False, markup=False)
    if console.is_terminal:
        console.print(_table(lines))
        return 0
    for line in lines:
        text = ", ".join(f"{name} {_text(held)}" for name, held in _worded(line).items())
        console.print(text, soft_wrap=True)
    return 0


async def _lines(settings: Settings) -> list[_Line]:
    topics = (settings.kafka.erp_topic, settings.kafka.psp_topic)
    stored = await _stored(settings)
    logs = await _logs(settings, topics)
    return [
        _Line(partition, stored.get(partition), logs.get(partition))
        for partition in sorted(stored.keys() | logs.keys())
    ]


async def _stored(settings: Settings) -> dict[Partition, StoredOffset]:
    options = pool_options(settings.database, application_name="reconciler-offsets")
    async with reaching("RECONCILER_DATABASE__URL"):
        connection = await connect(options)
        try:
            rows = await offsets.stored(connection, settings.kafka.group_id)
        finally:
            await connection.close(timeout=_CLOSE_SECONDS)
    return {row.partition: row for row in rows}


async def _logs(settings: Settings, topics: Sequence[str]) -> Mapping[Partition, LogBounds]:
    try:
        async with open_log(assembly.kafka_options(settings)) as log:
            return await log.bounds(await log.partitions(topics))
    except (BrokerSilent, ConfigurationError) as error:
        sys.stderr.write(f"reconciler: {error}; what the log holds is not shown\n")
        return {}


def _table(lines: Sequence[_Line]) -> Table:
    table = Table()
    for name in _HEADINGS:
        table.add_column(name, justify="left" if name in _TEXTS else "right")
    for line in lines:
        table.add_row(*(_text(held) for held in _worded(line).values()))
    return table


def _worded(line: _Line) -> dict[str, Any]:
    return dict(zip(_HEADINGS, line.values().values(), strict=True))


_TEXTS = ("topic", "caught up", "updated")
_HEADINGS = (
    *("topic", "partition", "next", "highest", "log begins", "log ends", "lag"),
    *("caught up", "updated"),
)


def _text(held: Any) -> str:
    return "-" if held is None else str(held)
