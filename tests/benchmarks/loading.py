"""What has to be there before a measurement begins: records in Kafka, or due jobs."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from tests.benchmarks.workload import HEADERS, PARTITIONS, Workload

# The library leaves both untyped.
_new_topic: Any = NewTopic
_new_producer: Any = AIOKafkaProducer

_PAYMENTS = """
INSERT INTO payments (
    payment_id, row_version, order_id, erp_version, erp_status, erp_amount_minor, erp_currency,
    erp_time, pending_since, next_check_at
)
SELECT
    'pay-' || number, 1, 'order-' || number, 1, 'pending', 1000, 'EUR',
    now() - interval '6 minutes', now() - interval '6 minutes', now() + interval '1 day'
FROM generate_series(1, $1::bigint) AS number
"""
_JOBS = """
INSERT INTO reconciliation_jobs (payment_id, reason)
SELECT payment_id, 'due' FROM payments ORDER BY payment_id
"""


@asynccontextmanager
async def produced(bootstrap_servers: str, workload: Workload) -> AsyncIterator[None]:
    """The workload's records in topics of their own, which go at the end."""
    admin: Any = AIOKafkaAdminClient(bootstrap_servers=bootstrap_servers)
    await admin.start()
    try:
        await admin.create_topics(
            [_new_topic(topic, PARTITIONS, replication_factor=1) for topic in workload.topics]
        )
        await _produce(bootstrap_servers, workload)
        yield
    finally:
        await admin.delete_topics(list(workload.topics))
        await admin.close()


async def _produce(bootstrap_servers: str, workload: Workload) -> None:
    producer = _new_producer(
        bootstrap_servers=bootstrap_servers, linger_ms=20, max_batch_size=256 * 1024, acks="all"
    )
    await producer.start()
    try:
        for record in workload.records():
            topic, partition = record.partition
            await producer.send(
                topic,
                key=record.key,
                value=record.value,
                partition=partition,
                headers=list(HEADERS),
            )
        await producer.flush()
    finally:
        await producer.stop()


async def load_jobs(url: str, number: int) -> None:
    """Give `number` pending payments a due job each."""
    connection: Any = await asyncpg.connect(url)
    try:
        await connection.execute(_PAYMENTS, number)
        await connection.execute(_JOBS)
    finally:
        await connection.close()


async def settle_down(url: str) -> None:
    """Let the server finish what was loaded, so that no run pays for the one before it."""
    connection: Any = await asyncpg.connect(url)
    try:
        await connection.execute("VACUUM ANALYZE")
        await connection.execute("CHECKPOINT")
    finally:
        await connection.close()
