"""Records that ingest parks, without Kafka, and what the database holds of them afterwards."""

from collections.abc import Sequence
from typing import Any

from aiokafka import ConsumerRecord

from schemas.fields import NO_EXCEPTIONS
from service.domain.schedule import Rules
from service.ingest import intake
from service.ingest.apply import ApplyOptions, apply
from service.ingest.batch import Fetched
from service.ingest.breaker import Breaker, BreakerLimits
from service.ingest.tenure import Track
from service.store.offsets import Partition
from service.store.pool import PoolOptions, open_pool
from service.store.transactions import transaction
from tests.support.events import psp_event

TOPIC = "psp.payments"
PARTITION = Partition(TOPIC, 0)
OPTIONS = ApplyOptions(
    group="g", outcome_topic="outcomes", dead_letter_topic="dead-letters", rules=Rules()
)
_ALL_MAY_BE_BAD = BreakerLimits(run_max=1_000_000, share_max=1.0)
Headers = Sequence[tuple[str, bytes | None]]


def of_own_exponent(payment_id: str, version: int, **data: Any) -> bytes:
    """A PSP event of 19.99 krónur, refused as bad_exponent unless the account may count so."""
    amount = {"minor": 1999, "currency": "ISK", "exponent": 2}
    value = psp_event(payment_id, version, amount=amount, **data).value
    assert value is not None
    return value


async def park(
    url: str,
    offset: int,
    value: bytes | None,
    *,
    key: bytes | None = None,
    headers: Headers = (),
    partition: Partition = PARTITION,
) -> int:
    """Take in a record that is refused; gives the dead letter's id."""
    given: Any = tuple(headers)
    record = ConsumerRecord(*partition, offset, 0, 0, key, value, None, 0, 0, given)
    track = Track(partition, Breaker(_ALL_MAY_BE_BAD, clock=lambda: 0.0), 0.0, placed=True)
    making = Fetched()
    await intake.take(making, track, [record], position=offset + 1, exponents=NO_EXCEPTIONS)
    making.spans.clear()
    pool = await open_pool(PoolOptions(url=url))
    try:
        async with transaction(pool) as connection:
            await apply(connection, making.batch(), options=OPTIONS)
            parked: int = await connection.fetchval(
                "SELECT dead_letter_id FROM dead_letters"
                ' WHERE (topic, partition, "offset") = ($1, $2, $3)',
                *partition,
                offset,
            )
    finally:
        await pool.close()
    return parked


async def statuses(connection: Any) -> dict[int, str]:
    """Dead letter -> status."""
    rows = await connection.fetch("SELECT dead_letter_id, status FROM dead_letters ORDER BY 1")
    return {row[0]: row[1] for row in rows}


async def actions(connection: Any) -> list[tuple[Any, ...]]:
    """Who did what to which dead letter, and why."""
    query = "SELECT action, subject, actor, note FROM operator_actions ORDER BY action_id"
    return [tuple(row) for row in await connection.fetch(query)]


async def written(connection: Any) -> dict[str, list[tuple[Any, ...]]]:
    """Everything that a replay could write."""
    tables = ("payments", "psp_payments", "payment_events", "outbox", "dead_letters")
    return {
        table: [tuple(row) for row in await connection.fetch(f"TABLE {table}")]
        for table in (*tables, "operator_actions", "consumer_offsets")
    }
