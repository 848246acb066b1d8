"""`reconciler doctor`: what is set, and whether each dependency answers."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from aiokafka.admin import AIOKafkaAdminClient
from rich.console import Console
from rich.table import Table

from migrations import runner
from service.commands.reachable import reason
from service.connections import kafka_connection, never_open, pool_options, psp_account
from service.decoders import sources_of
from service.errors import ReconcilerError
from service.observe.redaction import mask_text
from service.psp.account import open_psp
from service.psp.port import Question, Unavailable
from service.settings import Settings
from service.store.pool import connect

_TRY_SECONDS = 30
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
    open_connection = partial(connect, options)
    try:
        state = await runner.state(open_connection)
        connection = await open_connection()
    except Exception as error:  # noqa: BLE001 - told as it is
        return Finding(False, reason("RECONCILER_DATABASE__URL", error))
    try:
        major = connection.get_server_version().major
    finally:
        await connection.close(timeout=_TRY_SECONDS)
    if major < _SERVER_VERSION_MIN:
        return Finding(False, f"PostgreSQL {major}; {_SERVER_VERSION_MIN} or newer is needed")
    ready = state in {runner.SchemaState.CURRENT, runner.SchemaState.NEWER}
    remedy = "" if ready else ": run `reconciler migrate`"
    return Finding(ready, f"PostgreSQL {major}, schema {state}{remedy}")


async def _kafka(settings: Settings) -> Finding:
    kafka = settings.kafka
    client = AIOKafkaAdminClient(**kafka_connection(kafka))
    await client.start()
    try:
        wanted = [kafka.erp_topic, kafka.psp_topic]
        described = {topic["topic"]: topic for topic in await client.describe_topics(wanted)}
    finally:
        await client.close()
    absent = [name for name in wanted if described.get(name, {}).get("error_code", 1) != 0]
    if absent:
        return Finding(False, f"reached, but there is no topic {' nor '.join(absent)}")
    counts = ", ".join(f"{name} ({len(described[name]['partitions'])})" for name in wanted)
    return Finding(True, f"reached, topics (partitions): {counts}")


async def _psp(settings: Settings) -> Finding:
    async with open_psp(psp_account(settings), breaker=never_open()) as psp:
        answer = await psp.ask(Question(payment_id=_PROBE_PAYMENT_ID))
    if isinstance(answer, Unavailable):
        return Finding(False, f"no answer ({answer.reason}): {answer.detail}")
    return Finding(True, "answers")
