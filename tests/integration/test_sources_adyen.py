"""Adyen's notifications on PostgreSQL: facts are kept, and added up to payments."""

import asyncio
import random
from contextlib import AsyncExitStack
from typing import Any

import pytest

from schemas.sources.adyen import Adyen
from service.ingest import quarantine
from service.ingest.apply import apply
from service.ingest.decode import Source
from service.store.transactions import transaction
from tests.contract.sources.adyen import AUTH, item, modification, notification
from tests.support.sources import OPTIONS, Topic, open_topic

SOURCE = Source(Adyen())
PAYMENTS = "SELECT payment_id, status, captured_minor, refunded_minor, disputed_minor FROM payments"
STREAMS = """
SELECT payment_id, psp, psp_reference, psp_version, psp_status, psp_amount_minor, captured_minor,
    refunded_minor, disputed_minor FROM psp_payments ORDER BY 1, 2, 3
"""
FACTS = "SELECT event_code, psp_reference FROM psp_facts ORDER BY 1, 2"
HISTORY: list[Any] = [
    item("AUTHORISATION"),
    modification("CAPTURE", "CAP1"),
    modification("CAPTURE_FAILED", "CAP1"),
    modification("CAPTURE", "CAP2", 1500),
    modification("REFUND", "REF1", 500),
    modification("REFUND_FAILED", "REF1", 500),
    modification("REFUND", "REF2", 60),
    modification("REFUND", "REF3", 70),
    item("VOID_PENDING_REFUND", "VOI1", "REF3"),
    modification("CHARGEBACK", "DIS1", 1500),
    item("CHARGEBACK_REVERSED", "DIS1"),
]


async def test_facts_of_one_record_make_one_payment(database: Any) -> None:
    async with open_topic(database.url, SOURCE) as topic:
        told = notification(item("AUTHORISATION"), modification("CAPTURE", "CAP1"))
        applied = await topic.tell(told)
        assert applied.counts == {("psp", "applied"): 1}
        assert await topic.rows(PAYMENTS) == [("pay-1", "succeeded", 1860, 0, 0)]
        assert await topic.rows(FACTS) == [("AUTHORISATION", AUTH), ("CAPTURE", "CAP1")]
        assert await topic.differences() == []


@pytest.mark.parametrize("seed", range(5))
async def test_any_order_repetition_and_batching_of_facts_gives_the_same_payment(
    database: Any, seed: int
) -> None:
    chance = random.Random(seed)  # noqa: S311 - an order, not a secret
    async with open_topic(database.url, SOURCE) as topic:
        shuffled = HISTORY * 2
        chance.shuffle(shuffled)
        while shuffled:
            size = chance.randrange(1, 4)
            await topic.tell(*(notification(each) for each in shuffled[:size]))
            shuffled = shuffled[size:]
        assert await topic.rows(PAYMENTS) == [("pay-1", "partially_refunded", 1500, 60, 0)]
        expected = ("pay-1", "ShopECOM", AUTH, len(HISTORY), "succeeded", 1860, 1500, 60, 0)
        assert await topic.rows(STREAMS) == [expected]
        assert await topic.differences() == []


async def test_facts_that_come_at_once_on_several_partitions_are_all_added_up(
    database: Any,
) -> None:
    async with AsyncExitStack() as stack:
        topics = [
            await stack.enter_async_context(open_topic(database.url, SOURCE, name=f"adyen-{place}"))
            for place in range(4)
        ]
        for first in range(0, len(HISTORY), 4):
            told = zip(topics, HISTORY[first : first + 4], strict=False)
            await asyncio.gather(*(topic.tell(notification(each)) for topic, each in told))
        [(*_, version, status, _, captured, refunded, disputed)] = await topics[0].rows(STREAMS)
        assert version == len(HISTORY)
        assert (status, captured, refunded, disputed) == ("succeeded", 1500, 60, 0)
        assert await topics[0].differences() == []


async def test_fact_told_again_is_a_duplicate_and_writes_nothing(database: Any) -> None:
    async with open_topic(database.url, SOURCE) as topic:
        await topic.tell(notification(item("AUTHORISATION")))
        again = await topic.tell(notification(item("AUTHORISATION")))
        assert again.counts == {("psp", "duplicate"): 1}
        assert await topic.rows("SELECT count(*) FROM payment_events") == [(1,)]


async def test_record_whose_facts_do_not_add_up_is_parked_and_keeps_its_facts_out(
    database: Any,
) -> None:
    async with open_topic(database.url, SOURCE) as topic:
        await topic.tell(notification(item("AUTHORISATION")))
        dollars = {"currency": "USD", "value": 1860}
        other = item("AUTHORISATION", "AUTH2", merchantReference="pay-2")
        bad = notification(other, item("CAPTURE", "CAP1", AUTH, amount=dollars))
        good = notification(modification("CAPTURE", "CAP2"))
        applied = await topic.tell(bad, good)
        assert applied.reasons == ["bad_amount"]
        assert [item.record.offset for item in applied.refused] == [1]
        letters = await topic.rows('SELECT reason, payment_id, "offset" FROM dead_letters')
        assert letters == [("bad_amount", "pay-1", 1)]
        assert await topic.rows(FACTS) == [("AUTHORISATION", AUTH), ("CAPTURE", "CAP2")]
        known = "SELECT payment_id, status FROM payments WHERE row_version > 0"
        assert await topic.rows(known) == [("pay-1", "succeeded")]
        assert await topic.differences() == []


async def test_chargeback_waits_for_the_payment_that_it_is_about(database: Any) -> None:
    async with open_topic(database.url, SOURCE) as topic:
        await topic.tell(notification(item("CHARGEBACK", "DIS1")))
        assert await topic.rows(STREAMS) == []
        await topic.tell(notification(modification("NOTIFICATION_OF_CHARGEBACK", "DIS1")))
        assert await topic.rows("SELECT psp_reference, disputed_minor FROM psp_payments") == [
            (AUTH, 1860)
        ]
        assert await topic.differences() == []


async def test_automatic_capture_is_taken_from_the_account(database: Any) -> None:
    source = Source(Adyen(), automatic_capture=True)
    async with open_topic(database.url, source) as topic:
        await topic.tell(notification(item("AUTHORISATION")))
        assert await topic.rows(PAYMENTS) == [("pay-1", "succeeded", 1860, 0, 0)]


async def test_record_that_the_database_refuses_is_parked_with_all_its_facts(
    database: Any,
) -> None:
    async with open_topic(database.url, SOURCE) as topic:
        await topic.pool.execute(
            "ALTER TABLE psp_facts DROP CONSTRAINT psp_facts_money_not_negative,"
            " ADD CONSTRAINT psp_facts_money_not_negative CHECK (minor < 5000)"
        )
        big = {"currency": "EUR", "value": 9999}
        batch = await topic.batch(
            [
                notification(item("AUTHORISATION")),
                notification(
                    modification("CAPTURE", "CAP1"),
                    item("AUTHORISATION", "AUTH2", merchantReference="pay-2", amount=big),
                ),
                notification(modification("REFUND", "REF1", 60)),
            ]
        )
        await _landed(topic, batch)
        assert await topic.rows('SELECT "offset", reason FROM dead_letters') == [
            (1, quarantine.REASON)
        ]
        assert await topic.rows(FACTS) == [("AUTHORISATION", AUTH), ("REFUND", "REF1")]
        assert await topic.rows("SELECT next_offset FROM consumer_offsets") == [(3,)]


async def _landed(topic: Topic, batch: Any) -> None:
    """As the writer lands a batch that the database refuses."""

    async def write(part: Any) -> Any:
        async with transaction(topic.pool) as connection:
            return await apply(connection, part, options=OPTIONS)

    with pytest.raises(Exception, match="psp_facts") as raised:
        await write(batch)
    await quarantine.land(batch, raised.value, write=write)
