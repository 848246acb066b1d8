"""A database put back to an older backup: the service reads again what it misses, by itself.

Positions are part of the database, so they go back with the payments. Kafka still holds the
records, and the PSP still knows what was healed since.
"""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiokafka import AIOKafkaConsumer, TopicPartition

from service.sandbox.postgres import EmbeddedPostgres
from service.sandbox.psp_server import PspServer
from tests.acceptance.commands import reconciler
from tests.faults.house import House, logged, until, until_started
from tests.support.events import Record, erp_event, psp_event
from tests.support.kafka import ApacheKafka, Topics
from tests.support.postgres import Database
from tests.support.processes import ServiceProcesses

pytestmark = pytest.mark.kafka

# Times, how often the PSP was asked, and a count of changes: a payment that its event reaches
# before the next check needs no heal any more, and so has changed once less.
BOOKKEEPING = [
    *("row_version", "checks", "check_wanted", "next_check_at", "not_found_since"),
    *("pending_since", "status_since", "final_answer_at", "created_at", "updated_at"),
    *("observed_at", "discrepancy_id", "version", "opened_at", "resolved_at", "resolved_by"),
]
BUSINESS = """
SELECT 'payment' AS kind, (to_jsonb(p) - $1::text[])::text AS held FROM payments AS p
UNION ALL SELECT 'PSP payment', (to_jsonb(p) - $1::text[])::text FROM psp_payments AS p
UNION ALL SELECT 'discrepancy', (to_jsonb(d) - $1::text[])::text FROM discrepancies AS d
UNION ALL SELECT 'dead letter', concat(topic, partition, "offset", reason) FROM dead_letters
ORDER BY 1, 2
"""
LOGGED_TWICE = """
SELECT count(*) FROM (
    SELECT FROM payment_events WHERE topic IS NOT NULL
    GROUP BY topic, partition, "offset" HAVING count(*) > 1
) AS twice
"""
HEALS = """
SELECT payment_id, count(*) FROM payment_events
WHERE kind = 'heal' AND outcome = 'applied' AND changes ? 'status'
GROUP BY payment_id ORDER BY payment_id
"""
STATUSES = "SELECT payment_id, status FROM payments"
CONSUMED = "SELECT coalesce(sum(next_offset), 0)::int FROM consumer_offsets"
UNPUBLISHED = "SELECT count(*) FROM outbox WHERE published_at IS NULL"

WHOLE, LOST, LATER, NEW_LOST = "whole", "lost", "later", "new-lost"
EACH = 10


def ids(kind: str) -> list[str]:
    return [f"{kind}-{number}" for number in range(EACH)]


def before_the_backup() -> list[Record]:
    """Payments that came whole, and payments whose success only the PSP knows of."""
    return [
        *(erp_event(each, 1) for each in [*ids(WHOLE), *ids(LOST)]),
        *(psp_event(each, 1) for each in ids(WHOLE)),
        *(psp_event(each, 1, status="pending") for each in ids(LOST)),
    ]


def after_the_backup() -> list[Record]:
    """Refunds, late and doubled events, new payments, the lost successes after all, and rubbish."""
    return [
        *(psp_event(each, 3, refunded_minor=1999) for each in ids(WHOLE)),
        *(psp_event(each, 2) for each in ids(WHOLE)),
        *(psp_event(each, 3, refunded_minor=1999) for each in ids(WHOLE)),
        *(psp_event(each, 2) for each in ids(LOST)),
        *(erp_event(each, 1) for each in [*ids(LATER), *ids(NEW_LOST)]),
        *(psp_event(each, 1, minor=5) for each in ids(LATER)),
        *(psp_event(each, 1, status="pending") for each in ids(NEW_LOST)),
        Record("psp", b"bad", b"{"),
    ]


ALL_RECORDS = len(before_the_backup()) + len(after_the_backup())
FIRST_STATUSES = dict.fromkeys([*ids(WHOLE), *ids(LOST)], "succeeded")
LAST_STATUSES = {
    **dict.fromkeys(ids(WHOLE), "refunded"),
    **dict.fromkeys([*ids(LOST), *ids(NEW_LOST)], "succeeded"),
    **dict.fromkeys(ids(LATER), "pending"),
}


@pytest_asyncio.fixture
async def restorable(
    own_postgres: EmbeddedPostgres,
    psp: PspServer,
    services: ServiceProcesses,
    apache_kafka: ApacheKafka,
    topics: Topics,
) -> AsyncIterator[House]:
    """A house whose PostgreSQL may be stopped and put back."""
    database = Database(own_postgres.url)
    broker = (apache_kafka.bootstrap_servers, topics)
    async with House.open(database, psp, services, broker) as house:
        house.know(*ids(WHOLE), *ids(LOST), *ids(NEW_LOST))
        yield house
    database.hang_up()


async def rows(postgres: EmbeddedPostgres, query: str, *arguments: Any) -> list[tuple[Any, ...]]:
    """What the database holds, over a connection of its own: the server may have been away."""
    database = Database(postgres.url)
    try:
        connection = await database.connect()
        return [tuple(row) for row in await connection.fetch(query, *arguments)]
    finally:
        database.hang_up()


async def business(postgres: EmbeddedPostgres) -> list[tuple[Any, ...]]:
    return await rows(postgres, BUSINESS, BOOKKEEPING)


async def settled(postgres: EmbeddedPostgres, statuses: dict[str, str], consumed: int) -> None:
    """Wait until all that was sent is consumed, healed and told."""

    async def is_settled() -> bool:
        return (
            dict(await rows(postgres, STATUSES)) == statuses
            and await rows(postgres, CONSUMED) == [(consumed,)]
            and await rows(postgres, UNPUBLISHED) == [(0,)]
        )

    await until(is_settled, f"{consumed} records consumed and healed")


async def told_last(house: House) -> dict[str, str]:
    """The status that the outcome topic told last of each payment, in the order of its records."""
    consumer: Any = AIOKafkaConsumer(bootstrap_servers=house.servers, enable_auto_commit=False)
    partitions = [TopicPartition(house.topics.outcome, number) for number in range(4)]
    await consumer.start()
    try:
        consumer.assign(partitions)
        await consumer.seek_to_beginning(*partitions)
        ends = await consumer.end_offsets(partitions)
        told: dict[str, str] = {}
        while any([await consumer.position(each) < ends[each] for each in partitions]):
            for records in (await consumer.getmany(timeout_ms=500)).values():
                for record in records:
                    data = json.loads(record.value)["data"]
                    told[data["payment_id"]] = data["status"]
    finally:
        await consumer.stop()
    return told


class FileBackup:
    """A copy of the data directory of a stopped server, put back under a service that runs."""

    def __init__(self, postgres: EmbeddedPostgres) -> None:
        self._postgres = postgres
        self._data = postgres.directory / "data"
        self._copy = postgres.directory / "backup"

    async def take(self) -> None:
        await self._postgres.stop()
        await asyncio.to_thread(_copy, self._data, self._copy)
        await self._postgres.start()

    async def put_back(self) -> None:
        await self._postgres.stop()
        await asyncio.to_thread(_copy, self._copy, self._data)
        await self._postgres.start()


class Dump:
    """pg_dump of a running server, put back by pg_restore while no service runs."""

    def __init__(self, postgres: EmbeddedPostgres) -> None:
        self._postgres = postgres
        self._file = f"{postgres.directory}/dump"
        self._to = ("--host=127.0.0.1", f"--port={postgres.port}", "--username=postgres")

    async def take(self) -> None:
        arguments = [*self._to, "--format=custom", f"--file={self._file}", "postgres"]
        await asyncio.to_thread(self._postgres._run, "pg_dump", arguments)

    async def put_back(self) -> None:
        how = ("--clean", "--if-exists", "--single-transaction", "--dbname=postgres")
        await asyncio.to_thread(self._postgres._run, "pg_restore", [*self._to, *how, self._file])


def _copy(source: Path, target: Path) -> None:
    """Whole, its owner and modes included."""
    subprocess.run(["rm", "-rf", "--", str(target)], check=True, timeout=30)
    subprocess.run(["cp", "-a", "--", str(source), str(target)], check=True, timeout=60)


async def story(
    house: House, postgres: EmbeddedPostgres, backup: FileBackup | Dump
) -> list[tuple[Any, ...]]:
    """Everything that happens before the restore; gives what the payments were then."""
    first, later = before_the_backup(), after_the_backup()
    await house.send(*first)
    await settled(postgres, FIRST_STATUSES, len(first))
    await backup.take()
    await house.send(*later)
    await settled(postgres, LAST_STATUSES, ALL_RECORDS)
    return await business(postgres)


async def assert_caught_up(
    house: House, postgres: EmbeddedPostgres, before: list[tuple[Any, ...]]
) -> None:
    """The same payments, nothing twice, told to the end, and every row as its log makes it."""
    await settled(postgres, LAST_STATUSES, ALL_RECORDS)
    assert await business(postgres) == before
    assert await rows(postgres, LOGGED_TWICE) == [(0,)]
    # Those that were lost before the backup were healed in it, those after it are healed again.
    heals = dict(await rows(postgres, HEALS))
    assert heals == dict.fromkeys([*ids(LOST), *ids(NEW_LOST)], 1)
    assert await told_last(house) == LAST_STATUSES
    verified = await reconciler("verify", settings=house.settings())
    assert verified.code == 0, verified.text
    assert f"{4 * EACH} payments verified, 0 differences" in verified.out


async def test_service_that_runs_through_a_restore_catches_up_without_a_new_event(
    restorable: House, own_postgres: EmbeddedPostgres
) -> None:
    house, backup = restorable, FileBackup(own_postgres)
    service = house.start()
    await until_started(service)
    before = await story(house, own_postgres, backup)
    pid = service.pid
    await backup.put_back()
    await assert_caught_up(house, own_postgres, before)
    assert (service.pid, service.returncode) == (pid, None)
    assert logged(service, "kafka.offset_moved")
    await house.send(psp_event("later-0", 2))
    statuses = {**LAST_STATUSES, "later-0": "succeeded"}
    await settled(own_postgres, statuses, ALL_RECORDS + 1)


async def test_service_that_starts_on_an_older_dump_catches_up(
    restorable: House, own_postgres: EmbeddedPostgres
) -> None:
    house, backup = restorable, Dump(own_postgres)
    service = house.start()
    await until_started(service)
    before = await story(house, own_postgres, backup)
    service.terminate()
    await service.wait()
    house.connection.terminate()
    await backup.put_back()
    assert await rows(own_postgres, CONSUMED) == [(len(before_the_backup()),)]

    await until_started(house.start())
    await assert_caught_up(house, own_postgres, before)
