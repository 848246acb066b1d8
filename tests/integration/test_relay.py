"""Outgoing events reach Kafka in order a payment, at least once, from one relay at a time."""

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition

from service.outbox.relay import Relay, RelayActivity, RelayTerms
from service.sandbox.broker import EmbeddedBroker
from service.store import controls, outbox
from tests.support.reconciling import Room, open_room, until

TOPIC = "reconciler.payments"
INSERT = """
INSERT INTO outbox (topic, key, headers, value)
SELECT $1, 'pay-' || number % 5, '{"content-type": "application/cloudevents+json"}',
    jsonb_build_object('id', number)
FROM generate_series($2::int, $3::int) AS number ORDER BY number
"""
_consumer: Any = AIOKafkaConsumer


async def test_rows_are_published_in_order_a_payment_and_marked(database: Any) -> None:
    async with open_room(database.url) as room, EmbeddedBroker() as broker:
        await room.pool.execute(INSERT, TOPIC, 1, 200)
        async with _relaying(room, broker.bootstrap_servers):
            await until(lambda: _all_published(room))
        by_key = await _consumed(broker.bootstrap_servers, 200)
        assert {key: sorted(ids) for key, ids in by_key.items()} == by_key
        assert sorted(each for ids in by_key.values() for each in ids) == list(range(1, 201))


async def test_only_the_relay_with_the_lease_publishes(database: Any) -> None:
    async with open_room(database.url) as room, EmbeddedBroker() as broker:
        epoch = await controls.claim_relay(room.pool, owner="other", ttl_seconds=60)
        assert epoch is not None
        await room.pool.execute(INSERT, TOPIC, 1, 10)
        async with _relaying(room, broker.bootstrap_servers) as activity:
            await asyncio.sleep(0.5)
            assert not activity.leading
            assert len(await outbox.unpublished(room.pool, limit=100)) == 10
            await controls.release_relay(room.pool, owner="other", epoch=epoch)
            await until(lambda: _all_published(room))
            assert activity.leading


async def test_deposed_relay_marks_nothing(database: Any) -> None:
    async with (
        open_room(database.url) as room,
        EmbeddedBroker() as broker,
        _relaying(room, broker.bootstrap_servers) as activity,
    ):
        await until(lambda: _leading(activity))
        await room.pool.execute(
            "UPDATE controls SET relay_owner = 'other', relay_epoch = relay_epoch + 1"
        )
        await room.pool.execute(INSERT, TOPIC, 1, 10)
        await until(lambda: _deposed(activity))
        assert len(await outbox.unpublished(room.pool, limit=100)) == 10


async def test_broker_outage_is_waited_for(database: Any) -> None:
    """Reported as hyperswitch 3408: what was not sent stays marked unsent, and is sent."""
    async with open_room(database.url) as room:
        await room.pool.execute(INSERT, TOPIC, 1, 10)
        async with _relaying(room, "127.0.0.1:1") as activity:
            await until(lambda: _failed(activity))
            assert len(await outbox.unpublished(room.pool, limit=100)) == 10


async def test_dead_letter_is_copied_with_its_bytes_and_its_origin(database: Any) -> None:
    async with open_room(database.url) as room, EmbeddedBroker() as broker:
        letter = await room.pool.fetchval(
            'INSERT INTO dead_letters (topic, partition, "offset", key, value, reason, error) '
            "VALUES ('erp.payments', 3, 99, 'k', '\\x00ff', 'not_utf8', 'byte 0xff') "
            "RETURNING dead_letter_id"
        )
        await room.pool.execute(
            "INSERT INTO outbox (topic, key, value) "
            "VALUES ('dlq', 'k', jsonb_build_object('dead_letter_id', $1::bigint))",
            letter,
        )
        async with _relaying(room, broker.bootstrap_servers):
            await until(lambda: _all_published(room))
        (record,) = await _records(broker.bootstrap_servers, "dlq", 1)
        assert (record.key, record.value) == (b"k", b"\x00\xff")
        headers = dict(record.headers)
        assert headers["__connect.errors.topic"] == b"erp.payments"
        assert headers["__connect.errors.offset"] == b"99"
        assert int.from_bytes(headers["kafka_dlt-original-partition"], "big") == 3


@asynccontextmanager
async def _relaying(room: Room, servers: str) -> AsyncIterator[RelayActivity]:
    terms = RelayTerms(
        owner="me",
        connection={"bootstrap_servers": servers},
        ttl_seconds=15,
        poll_seconds=0.05,
        send_seconds=4,
        statement_seconds=3,
    )
    activity, stop = RelayActivity(), asyncio.Event()
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        group.create_task(Relay(room.pool, terms=terms, activity=activity).run(stop))
        try:
            yield activity
        finally:
            stop.set()


async def _consumed(servers: str, number: int) -> dict[bytes, list[int]]:
    by_key: dict[bytes, list[int]] = defaultdict(list)
    for record in await _records(servers, TOPIC, number):
        by_key[record.key].append(json.loads(record.value)["id"])
    return by_key


async def _records(servers: str, topic: str, number: int) -> list[Any]:
    consumer = _consumer(bootstrap_servers=servers, auto_offset_reset="earliest")
    await consumer.start()
    try:
        consumer.assign([TopicPartition(topic, partition) for partition in range(4)])
        records: list[Any] = []
        async with asyncio.timeout(20):
            while len(records) < number:
                for batch in (await consumer.getmany(timeout_ms=200)).values():
                    records.extend(batch)
        return records
    finally:
        await consumer.stop()


async def _all_published(room: Room) -> bool:
    return not await outbox.unpublished(room.pool, limit=1)


async def _leading(activity: RelayActivity) -> bool:
    return activity.leading


async def _deposed(activity: RelayActivity) -> bool:
    return not activity.leading


async def _failed(activity: RelayActivity) -> int:
    return activity.failures
