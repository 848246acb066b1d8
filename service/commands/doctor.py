"""`reconciler doctor`: what is set, and whether each dependency answers."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError
from rich.console import Console
from rich.table import Table

from migrations import runner
from service.connections import kafka_connection, never_open, pool_options, psp_account
from service.decoders import sources_of
from service.diagnosis.database import POOLER_REMEDY, STATEMENT_REMEDY, database_trouble
from service.diagnosis.kafka import broker_trouble
from service.errors import ReconcilerError
from service.observe.redaction import mask_text
from service.psp.account import open_psp
from service.psp.port import Question, Unavailable
from service.settings import Settings
from service.store import sessions
from service.store.pool import PoolOptions, connect

_TRY_SECONDS = 30
_KAFKA_SECONDS = 10
_REQUEST_MS = 5_000
_CLOSE_SECONDS = 5
_SERVER_VERSION_MIN = 15
_PROBE_PAYMENT_ID = "reconciler-doctor"


@dataclass(frozen=True, slots=True)
class Finding:
    """Whether a dependency is as the service needs it, and what was seen."""

    well: bool
    seen: str


async def examine(settings: Settings) -> int:
    """Print the settings and a line a dependency; 0 if all of them are well, else 1."""
    console = Console(width=None if Console().is_terminal else 120, highlight=False)
    table = Table("setting", "value", title="Effective settings", title_justify="left")
    for name, value in settings.masked().items():
        table.add_row(name, value)
    console.print(table)
    findings = {
        "decoders": await _try(lambda: _decoders(settings)),
        "postgres": await _try(lambda: _postgres(settings)),
        "kafka": await _try(lambda: _kafka(settings)),
        "psp": await _try(lambda: _psp(settings)),
    }
    for name, finding in findings.items():
        mark = "[green]well[/]" if finding.well else "[red]FAIL[/]"
        console.print(f"{name:<9} {mark}  {finding.seen}", soft_wrap=True)
    return 0 if all(finding.well for finding in findings.values()) else 1


async def _try(probe: Callable[[], Awaitable[Finding]]) -> Finding:
    try:
        async with asyncio.timeout(_TRY_SECONDS):
            return await probe()
    except ReconcilerError as error:
        return Finding(False, str(error))
    except TimeoutError:
        return Finding(False, f"no answer within {_TRY_SECONDS} s")
    except Exception as error:  # noqa: BLE001 - the doctor's job is to tell of any failure
        return Finding(False, mask_text(f"{type(error).__name__}: {error}"))


async def _decoders(settings: Settings) -> Finding:
    kafka = settings.kafka
    sources_of(settings)
    return Finding(True, f"ERP {kafka.erp_decoder}, PSP {kafka.psp_decoder}")


async def _postgres(settings: Settings) -> Finding:
    options = pool_options(settings.database, application_name="reconciler-doctor")
    try:
        state = await runner.state(partial(connect, options))
        async with _connection(options) as connection, _connection(options) as second:
            major = connection.get_server_version().major
            trouble = await _pooler_trouble(connection, second, options)
    except Exception as error:  # noqa: BLE001 - told as it is
        return Finding(False, database_trouble(error))
    if major < _SERVER_VERSION_MIN:
        return Finding(False, f"PostgreSQL {major}; {_SERVER_VERSION_MIN} or newer is needed")
    if trouble:
        return Finding(False, f"PostgreSQL {major}, {trouble}")
    ready = state in {runner.SchemaState.CURRENT, runner.SchemaState.NEWER}
    remedy = "" if ready else ": run `reconciler migrate`"
    return Finding(ready, f"PostgreSQL {major}, schema {state}{remedy}")


@asynccontextmanager
async def _connection(options: PoolOptions) -> AsyncIterator[Any]:
    connection = await connect(options)
    try:
        yield connection
    finally:
        await connection.close(timeout=_CLOSE_SECONDS)


async def _pooler_trouble(connection: Any, second: Any, options: PoolOptions) -> str | None:
    """What a pooler between us and the server takes away, or None."""
    unlike = await sessions.unlike_limits(connection, options)
    if unlike:
        return f"but a session is not limited by {', '.join(unlike)}: {POOLER_REMEDY}"
    if options.prepared_statements and not await sessions.keeps_statements(connection, second):
        return f"but prepared statements get lost: {STATEMENT_REMEDY}"
    return None


async def _kafka(settings: Settings) -> Finding:
    connection = kafka_connection(settings.kafka)
    wanted = [settings.kafka.erp_topic, settings.kafka.psp_topic]
    try:
        described = await _topics(connection, wanted)
    except (KafkaError, OSError, TimeoutError) as error:
        return Finding(False, await broker_trouble(connection, error))
    absent = [name for name in wanted if described.get(name, {}).get("error_code", 1) != 0]
    if absent:
        return Finding(False, f"reached, but there is no topic {' nor '.join(absent)}")
    counts = ", ".join(f"{name} ({len(described[name]['partitions'])})" for name in wanted)
    return Finding(True, f"reached, topics (partitions): {counts}")


async def _topics(connection: Mapping[str, Any], names: list[str]) -> dict[str, Any]:
    # What the library would log of a failure is told by the finding.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    client = AIOKafkaAdminClient(**connection, request_timeout_ms=_REQUEST_MS)
    try:
        async with asyncio.timeout(_KAFKA_SECONDS):
            await client.start()
            return {topic["topic"]: topic for topic in await client.describe_topics(names)}
    finally:
        await client.close()


async def _psp(settings: Settings) -> Finding:
    async with open_psp(psp_account(settings), breaker=never_open()) as psp:
        answer = await psp.ask(Question(payment_id=_PROBE_PAYMENT_ID))
    if isinstance(answer, Unavailable):
        return Finding(False, f"no answer ({answer.reason}): {answer.detail}")
    return Finding(True, "answers")
