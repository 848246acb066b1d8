"""Ingest as real processes: fenced, cut off, behind its log, before bad records, brokerless."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete

from service.errors import TopicRecreated
from service.ingest.breaker import BreakerLimits
from tests.faults.house import House, logged, until, until_health
from tests.support.events import Record, erp_event, psp_event
from tests.support.kafka import ApacheKafka
from tests.support.kafka.fixtures import PARTITIONS
from tests.support.processes import ServiceProcess
from tests.support.proxy import TcpProxy, database_proxy

# aiokafka has no types.
_admin: Any = AIOKafkaAdminClient
_deletion: Any = RecordsToDelete

TO_ITS_END = -1
SESSION_SECONDS = 6
# A drain, ingest's end and closing may take this long together.
STOP_SECONDS = 40
BAD_IN_A_ROW = 300

ORIGINS = """
SELECT count(*), count(DISTINCT (topic, partition, "offset")) FROM payment_events
WHERE topic IS NOT NULL
"""
DEAD_LETTERS = "SELECT count(*) FROM dead_letters"
# The first statement of a batch that writes, as the driver prepares it.
FIRST_WRITE = b"INSERT INTO payments"

ORDERS: dict[str, Any] = {
    "name": "orders",
    "mappings": [
        {
            "source": "erp",
            "payment_id": "payment",
            "order_id": "order",
            "status": {"path": "paid", "values": {"true": "paid", "false": "pending"}},
            "money": {"unit": "minor", "currency": "=EUR"},
            "amount": "cents",
            "version": {"paths": ["rev"], "form": "integer"},
            "time": {"path": "at", "form": "sql"},
        }
    ],
}


def hold_at_first_write(proxy: TcpProxy) -> asyncio.Event:
    """Let everything fall silent before the first statement that writes; tells when."""
    held = asyncio.Event()

    def look(message: bytes) -> None:
        if message[:1] == b"P" and FIRST_WRITE in message and not held.is_set():
            proxy.black_hole = True
            held.set()

    proxy.on_message = look
    return held


@pytest.mark.kafka
async def test_consumer_that_slept_past_its_session_is_fenced_and_writes_nothing(
    kafka_house: House,
) -> None:
    """It sleeps inside its transaction, before its first write, and wakes up when another has
    taken its partitions over and stored the same records: stale ones would be logged again.
    """
    house = kafka_house
    records = [erp_event(f"pay-{key}", version) for key in range(20) for version in (2, 1)]
    async with database_proxy(house.url) as proxy:
        held = hold_at_first_write(proxy)
        first = house.start("ingest", DATABASE__URL=proxy.url(house.url))
        await until_health(first, "/readyz", 200)
        await until(lambda: logged(first, "kafka.partitions_assigned"), "it has partitions")
        await house.send(*records)
        await until(held.is_set, "its batch is in flight")
        first.pause()
        second = house.start("ingest")
        await house.until_count("SELECT count(*) FROM payment_events", len(records))
        before = await house.everything()
        proxy.black_hole = False
        first.resume()
        await until(lambda: logged(first, "kafka.offset_fenced"), "it was fenced")
        assert await house.everything() == before

        await until(lambda: len(logged(first, "kafka.partitions_assigned")) > 1, "it is back")
        await house.send(*(erp_event(f"pay-{key}", 3) for key in range(20)))
        await house.until_count("SELECT count(*) FROM payments WHERE erp_version = 3", 20)
    assert await house.rows(ORIGINS) == [(60, 60)]
    assert (first.running, second.running) == (True, True)


async def test_database_that_goes_away_again_and_again_makes_no_dead_letter(house: House) -> None:
    """Reported as JdbcSinkTask."""
    number = 0
    async with database_proxy(house.url) as proxy:
        service = house.start("ingest", DATABASE__URL=proxy.url(house.url))
        await until_health(service, "/readyz", 200)
        for outage in range(1, 4):
            proxy.refuse = True
            proxy.cut()
            await house.send(*(erp_event(f"pay-{number + key}", 1) for key in range(100)))
            number += 100
            await until(partial(lost_more_often, service, outage), "the service noticed")
            proxy.lose_commit_answer()
            proxy.refuse = False
            await house.until_count("SELECT count(*) FROM payments", number)
        assert proxy.cuts == outage
    assert await house.rows(DEAD_LETTERS) == [(0,)]
    assert await house.rows(ORIGINS) == [(number, number)]
    assert service.running


def lost_more_often(service: ServiceProcess, times: int) -> bool:
    return len(logged(service, "database.lost")) > times


@pytest.mark.kafka
async def test_records_that_retention_deleted_are_told_and_the_rest_is_read(
    kafka_house: House,
) -> None:
    house = kafka_house
    service = house.start("ingest")
    await house.send(*(erp_event(f"pay-{key}", 1) for key in range(40)))
    await house.until_count("SELECT count(*) FROM payments", 40)
    service.terminate()
    assert await service.wait(STOP_SECONDS) == 0
    await house.send(*(erp_event(f"pay-{key}", 2) for key in range(30)))
    await delete_all_records(house)
    await house.send(*(erp_event(f"pay-{key}", 3) for key in range(40)))

    service = house.start("ingest")
    await house.until_count("SELECT count(*) FROM payments WHERE erp_version = 3", 40)
    lines = logged(service, "kafka.records_lost")
    assert sum(line["records_lost"] for line in lines) == 30
    assert {line["level"] for line in lines} == {"error"}
    assert {line["topic"] for line in lines} == {house.topics.erp}

    async def counts_them() -> bool:
        _, text = await service.health("/metrics")
        return "reconciler_records_lost_total 30.0" in str(text)

    await until(counts_them, "the metric counts them")
    assert service.running


async def delete_all_records(house: House) -> None:
    admin = _admin(bootstrap_servers=house.servers)
    await admin.start()
    try:
        await admin.delete_records(
            {
                TopicPartition(house.topics.erp, number): _deletion(TO_ITS_END)
                for number in range(PARTITIONS)
            }
        )
    finally:
        await admin.close()


async def test_position_beyond_its_log_ends_the_process_and_names_the_remedy(house: House) -> None:
    service = house.start("ingest")
    await house.send(*(erp_event(f"pay-{key}", 1) for key in range(40)))
    await house.until_count("SELECT count(*) FROM payments", 40)
    service.terminate()
    assert await service.wait(STOP_SECONDS) == 0
    await house.connection.execute("UPDATE consumer_offsets SET next_offset = next_offset + 1000")

    service = house.start("ingest")
    assert await service.wait(STOP_SECONDS) == TopicRecreated.exit_code == 4
    (failed,) = logged(service, "process.failed")
    assert "reconciler offsets set" in failed["error"]
    assert house.topics.erp in failed["error"] or house.topics.psp in failed["error"]
    assert failed["level"] in {"error", "critical"}


async def test_bad_deploy_stops_one_partition_until_the_release_is_corrected(
    house: House, tmp_path: Path
) -> None:
    """The ERP's records are in words that this release is not set to read: few are parked, none is
    passed over, the other topic goes on, and the corrected release reads the rest.
    """
    await house.send(*(order(f"order-{key}") for key in range(BAD_IN_A_ROW)))
    await house.send(*(psp_event(f"pay-{key}", 1) for key in range(40)))
    service = house.start("ingest")
    await house.until_count("SELECT count(*) FROM payments WHERE payment_id LIKE 'pay-%'", 40)

    async def stopped() -> Any:
        _, body = await service.health("/health")
        rows = body["checks"].get("kafka:lag", []) if body else []
        return [row for row in rows if row["status"] == "warn"]

    [row] = await until(stopped, "health names the stopped partition")
    assert "too many bad records" in row["output"]
    assert (await service.health("/readyz"))[0] == (await service.health("/livez"))[0] == 200
    await house.send(*(psp_event(f"late-{key}", 1) for key in range(40)))
    await house.until_count("SELECT count(*) FROM payments WHERE payment_id LIKE 'late-%'", 40)
    [(parked,)] = await house.rows(DEAD_LETTERS)
    (tripped,) = logged(service, "ingest.breaker_tripped")
    assert parked < BreakerLimits().run_max
    assert (tripped["topic"], tripped["offset"]) == (house.topics.erp, parked)

    service.terminate()
    assert await service.wait(STOP_SECONDS) == 0
    declared = tmp_path / "orders.json"
    declared.write_text(json.dumps(ORDERS), encoding="utf-8")
    corrected = house.start(
        "ingest", KAFKA__ERP_DECODER="mapping", KAFKA__ERP_DECODER_FILE=str(declared)
    )
    rest = BAD_IN_A_ROW - parked
    await house.until_count("SELECT count(*) FROM payments WHERE erp_version = 7", rest)
    assert await house.rows(DEAD_LETTERS) == [(parked,)]
    assert await house.rows(ORIGINS) == [(rest + 80, rest + 80)]
    assert corrected.running


def order(payment_id: str) -> Record:
    """What the ERP says in its own words, all of it on one partition."""
    value = {
        "payment": payment_id,
        "order": f"of-{payment_id}",
        "paid": True,
        "cents": 1999,
        "rev": "7",
        "at": "2026-01-02 15:04:05+01:00",
    }
    return Record("erp", b"one-key", json.dumps(value).encode())


@asynccontextmanager
async def broker_away(kafka: ApacheKafka, how: str) -> AsyncIterator[None]:
    """The broker refuses connections, or keeps them and says nothing."""
    if how == "silent":
        kafka.pause()
    else:
        await kafka.kill()
    try:
        yield
    finally:
        if how == "silent":
            kafka.resume()
        else:
            await kafka.start()


@pytest.mark.kafka
@pytest.mark.parametrize("how", ["refuses", "silent"])
async def test_stop_is_bounded_with_the_broker_away(
    kafka_house: House, apache_kafka: ApacheKafka, how: str
) -> None:
    """Reported as aiokafka 773 and aiokafka 659."""
    house = kafka_house
    # As in production: else the session's end would end the client's waiting, too.
    service = house.start(KAFKA__SESSION_TIMEOUT_SECONDS="45")
    await house.send(*(erp_event(f"pay-{key}", 1) for key in range(20)))
    await house.until_count("SELECT count(*) FROM payments", 20)
    async with broker_away(apache_kafka, how):
        if how == "refuses":  # nothing tells of one that is silent: each request waits for itself
            await until(lambda: knows(service), "the service misses its broker")
        asked = time.monotonic()
        service.terminate()
        assert await service.wait(STOP_SECONDS) == 0
        assert time.monotonic() - asked < STOP_SECONDS
    assert logged(service, "process.stopped")
    assert not logged(service, "coroutine.crashed")


async def knows(service: ServiceProcess) -> bool:
    """Whether health says that no broker answers."""
    _, body = await service.health("/health")
    rows = body["checks"].get("kafka:connection", []) if body else []
    return [row["status"] for row in rows] == ["warn"]
