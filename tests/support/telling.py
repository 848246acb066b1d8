"""Events straight into the database, as ingest decodes, folds and writes them: without Kafka."""

from typing import Any

from aiokafka import ConsumerRecord

from schemas.fields import NO_EXCEPTIONS
from service.domain.events import SourceEvent
from service.domain.fold import fold
from service.domain.payment import Payment
from service.domain.schedule import Rules
from service.ingest.apply import asked
from service.ingest.decode import decode_record
from service.store import book
from service.store.transactions import transaction
from tests.support.events import Record

OUTCOME_TOPIC = "reconciler.payments"
RULES = Rules()


async def tell(pool: Any, *records: Record) -> dict[str, Payment]:
    """Write records of one or more payments in one transaction; gives the payments."""
    events = [_decoded(offset, record) for offset, record in enumerate(records)]
    grouped: dict[str, list[SourceEvent]] = {}
    for event in events:
        grouped.setdefault(event.payment_id, []).append(event)
    async with transaction(pool) as connection:
        return await _written(connection, grouped)


async def _written(connection: Any, grouped: dict[str, list[SourceEvent]]) -> dict[str, Payment]:
    await book.ensure(connection, grouped)
    payments = await book.lock(connection, grouped)
    now = await book.database_now(connection)
    wanted = [event for key in grouped for event in asked(payments[key], grouped[key])]
    seen = await book.seen(connection, wanted)
    steps = [
        fold(payments[key], grouped[key], seen=seen.get(key, {}), now=now, rules=RULES)
        for key in sorted(grouped)
    ]
    await book.write(connection, steps, outcome_topic=OUTCOME_TOPIC)
    return {step.payment.payment_id: step.payment for step in steps}


def _decoded(offset: int, record: Record) -> SourceEvent:
    topic = f"{record.source}.payments"
    consumed: ConsumerRecord[bytes, bytes] = ConsumerRecord(
        topic, 0, offset, 0, 0, record.key, record.value, None, 0, 0, record.headers
    )
    event = decode_record(consumed, exponents=NO_EXCEPTIONS)
    assert isinstance(event, SourceEvent), event
    return event
