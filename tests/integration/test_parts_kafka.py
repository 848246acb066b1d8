"""Apache Kafka as the tests run it."""

import asyncio
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.errors import KafkaError

from tests.support.events import Record, erp_event, psp_event
from tests.support.kafka import ApacheKafka, Topics
from tests.support.kafka.jars import MissingTool, java
from tests.support.producer import send

# aiokafka has no types.
_consumer: Any = AIOKafkaConsumer


async def _read(kafka: ApacheKafka, topic: str, count: int, *, group_id: str) -> list[Any]:
    consumer = _consumer(
        topic,
        bootstrap_servers=kafka.bootstrap_servers,
        group_id=group_id,
        auto_offset_reset="earliest",
    )
    async with asyncio.timeout(60):
        await consumer.start()
        try:
            return [await consumer.getone() for _ in range(count)]
        finally:
            await consumer.stop()


def _content(records: list[Any]) -> list[tuple[Any, ...]]:
    return [(one.key, one.value, tuple(one.headers)) for one in records]


@pytest.mark.kafka
async def test_records_come_back_whole_and_in_order(
    apache_kafka: ApacheKafka, topics: Topics
) -> None:
    sent = [erp_event("pay-1", version) for version in range(20)]
    await send(
        apache_kafka.bootstrap_servers, [*sent, psp_event("pay-1", 1)], topics=topics.by_source
    )

    received = await _read(apache_kafka, topics.erp, len(sent), group_id=topics.group_id)

    assert _content(received) == _content(sent)
    assert len(await _read(apache_kafka, topics.psp, 1, group_id=topics.group_id)) == 1


@pytest.mark.kafka
async def test_records_survive_kill_and_restart(apache_kafka: ApacheKafka, topics: Topics) -> None:
    sent: list[Record] = [erp_event("pay-1", 1)]
    address = apache_kafka.bootstrap_servers
    await send(address, sent, topics=topics.by_source)

    await apache_kafka.kill()
    assert not apache_kafka.running
    await apache_kafka.start()

    assert apache_kafka.bootstrap_servers == address
    received = await _read(apache_kafka, topics.erp, 1, group_id=topics.group_id)
    assert _content(received) == _content(sent)


@pytest.mark.kafka
async def test_paused_broker_answers_nobody_and_goes_on_after(
    apache_kafka: ApacheKafka, topics: Topics
) -> None:
    apache_kafka.pause()
    try:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await apache_kafka.create_topic(f"{topics.erp}-2")
    finally:
        apache_kafka.resume()

    await send(apache_kafka.bootstrap_servers, [erp_event("pay-1", 1)], topics=topics.by_source)


@pytest.mark.kafka
async def test_topic_can_be_deleted_once(apache_kafka: ApacheKafka, topics: Topics) -> None:
    await apache_kafka.delete_topic(topics.erp)

    with pytest.raises(KafkaError, match=topics.erp):
        await apache_kafka.delete_topic(topics.erp)


def test_missing_java_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")

    with pytest.raises(MissingTool, match="java is not on the PATH"):
        java()
