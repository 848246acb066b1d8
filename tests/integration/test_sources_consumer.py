"""A foreign topic from Apache Kafka: read by its own decoder, beside one of the own contract."""

import asyncio
import json
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from prometheus_client import generate_latest

from schemas.sources.stripe import Stripe
from service.domain.schedule import Rules
from service.ingest.apply import ApplyOptions
from service.ingest.consumer import Ingest
from service.ingest.decode import Source
from service.ingest.options import IngestOptions, KafkaOptions
from service.observe.metrics import Metrics
from service.store.pool import PoolOptions, open_pool
from tests.contract.sources.stripe import dispute, intent, webhook
from tests.support.events import erp_event
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka

Producer: Any = AIOKafkaProducer
NOTHING = webhook("customer.created", {"id": "cus_1", "object": "customer"})
UNKNOWN = webhook("charge.dispute.created", dispute(payment_intent="pi_9"))
TOLD = (NOTHING, webhook("payment_intent.succeeded", intent()), UNKNOWN)


async def test_each_topic_is_read_in_its_own_words(
    database: Any, apache_kafka: Any, topics: Any
) -> None:
    pool = await open_pool(PoolOptions(url=database.url))
    metrics = Metrics("test")
    ingest = Ingest(
        pool,
        kafka=KafkaOptions(
            bootstrap_servers=apache_kafka.bootstrap_servers,
            group_id=topics.group_id,
            topics=(topics.erp, topics.psp),
        ),
        options=IngestOptions(
            apply=ApplyOptions(
                group=topics.group_id,
                outcome_topic=topics.outcome,
                dead_letter_topic=None,
                rules=Rules(),
            ),
            sources={topics.psp: Source(Stripe("stripe-eu"))},
            poll_seconds=0.1,
        ),
        metrics=metrics.ingest,
    )
    await _produce(apache_kafka.bootstrap_servers, topics)
    stop = asyncio.Event()
    running = asyncio.create_task(ingest.run(stop))

    async def landed() -> bool:
        text = generate_latest(metrics.registry).decode()
        told = (
            'reconciler_records_ignored_total{reason="other_type"} 1.0',
            'reconciler_dead_letters_total{reason="missing_field"} 1.0',
            'reconciler_events_total{outcome="applied",source="erp"} 1.0',
            'reconciler_events_total{outcome="applied",source="psp"} 1.0',
        )
        return all(line in text for line in told)

    try:
        await eventually(landed, within_seconds=40)
        rows = await pool.fetch("SELECT payment_id, status, erp_status FROM payments")
        assert [tuple(row) for row in rows] == [("pay-1", "succeeded", "paid")]
    finally:
        stop.set()
        await asyncio.wait_for(running, 40)
        await pool.close()


async def _produce(servers: str, topics: Any) -> None:
    producer = Producer(bootstrap_servers=servers)
    await producer.start()
    try:
        for payload in TOLD:
            await producer.send_and_wait(topics.psp, json.dumps(payload).encode(), partition=0)
        said = erp_event("pay-1", 1, status="paid", minor=1860)
        await producer.send_and_wait(
            topics.erp, said.value, key=said.key, headers=list(said.headers)
        )
    finally:
        await producer.stop()
