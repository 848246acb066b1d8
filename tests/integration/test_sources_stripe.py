"""Stripe's events on PostgreSQL: where their order is in doubt the PSP is asked, and no person."""

from typing import Any

import pytest

from schemas.sources.stripe import Stripe
from schemas.sources.stripe_objects import STRIPE_EXPONENTS
from service.ingest.decode import Source
from service.psp.port import Answered
from service.store import jobs
from tests.contract.sources.stripe import CREATED, charge, dispute, intent, webhook
from tests.support.reconciling import ScriptedPsp, open_room, running, until
from tests.support.sources import Topic, open_topic

SOURCE = Source(Stripe("stripe-eu"))
PSP_PAYMENTS = """
SELECT payment_id, psp_reference, psp_status, captured_minor, refunded_minor, disputed_minor
FROM psp_payments
"""
ASKED = "SELECT payment_id, check_wanted, next_check_at <= now() FROM payments"
OUTCOMES = "SELECT outcome, count(*) FROM payment_events GROUP BY 1 ORDER BY 1"
SUCCEEDED = webhook("payment_intent.succeeded", intent())
REFUNDED = webhook("charge.refunded", charge(amount_refunded=500))
NO_CASES = "SELECT kind FROM discrepancies"


async def _settled(topic: Topic) -> None:
    await topic.tell(SUCCEEDED, REFUNDED)
    assert await topic.rows(ASKED) == [("pay-1", False, None)]


async def test_events_of_one_second_add_up(database: Any) -> None:
    async with open_topic(database.url, SOURCE) as topic:
        await topic.tell(SUCCEEDED, REFUNDED)
        assert await topic.rows(PSP_PAYMENTS) == [("pay-1", "pi_1", "succeeded", 1860, 500, 0)]
        assert await topic.differences() == []


@pytest.mark.parametrize(
    "doubtful",
    [
        webhook("charge.refunded", charge(amount_refunded=900)),
        webhook("payment_intent.processing", intent(status="processing"), created=CREATED - 9),
        webhook(
            "refund.created",
            {
                "id": "re_1",
                "object": "refund",
                "amount": 5,
                "currency": "eur",
                "payment_intent": "pi_1",
                "metadata": {"payment_id": "pay-1"},
            },
            created=CREATED + 60,
        ),
    ],
    ids=["tie", "late", "without fields"],
)
async def test_doubt_about_a_settled_payment_asks_the_psp_and_opens_no_case(
    database: Any, doubtful: Any
) -> None:
    async with open_topic(database.url, SOURCE) as topic:
        await _settled(topic)
        applied = await topic.tell(doubtful)
        assert applied.counts == {("psp", "stale"): 1}
        assert applied.stale_later == []
        assert await topic.rows(PSP_PAYMENTS) == [("pay-1", "pi_1", "succeeded", 1860, 500, 0)]
        assert await topic.rows(ASKED) == [("pay-1", True, True)]
        assert await topic.rows(OUTCOMES) == [("applied", 2), ("stale", 1)]
        assert await topic.rows(NO_CASES) == []
        assert await topic.differences() == []


async def test_wanted_check_outlives_the_next_event_and_ends_with_the_psps_answer(
    database: Any,
) -> None:
    async with open_topic(database.url, SOURCE) as topic, open_room(database.url) as room:
        await _settled(topic)
        await topic.tell(webhook("charge.refunded", charge(amount_refunded=900)))
        later = webhook("payment_intent.succeeded", intent(), created=CREATED + 5)
        await topic.tell(later)
        assert await topic.rows(ASKED) == [("pay-1", True, True)]
        await jobs.schedule(room.pool, limit=10, max_attempts=8)

        async def whole(question: Any) -> Answered:
            return _answer(refunded_minor=1860)

        psp = ScriptedPsp(whole)
        async with running(room.worker(psp)):
            await until(lambda: _ended(topic))
        assert len(psp.asked) == 1
        assert await topic.rows("SELECT status, check_wanted, next_check_at FROM payments") == [
            ("refunded", False, None)
        ]
        assert await topic.differences() == []


async def test_accounts_own_units_are_ours_in_the_log_and_verify_agrees(database: Any) -> None:
    krona = {"currency": "isk", "amount": 186000}
    paid = intent(**krona, amount_received=186000)
    refunded = charge(**krona, amount_captured=186000, amount_refunded=100)
    async with open_topic(database.url, SOURCE) as topic:
        await topic.tell(
            webhook("payment_intent.succeeded", paid), webhook("charge.refunded", refunded)
        )
        assert await topic.rows(PSP_PAYMENTS) == [("pay-1", "pi_1", "succeeded", 1860, 1, 0)]
        assert await topic.differences() == []
        assert await topic.differences({"stripe-eu": STRIPE_EXPONENTS}) == []


async def test_same_event_again_is_a_duplicate_and_asks_nobody(database: Any) -> None:
    async with open_topic(database.url, SOURCE) as topic:
        await _settled(topic)
        applied = await topic.tell(SUCCEEDED)
        assert applied.counts == {("psp", "duplicate"): 1}
        assert await topic.rows(ASKED) == [("pay-1", False, None)]


async def test_dispute_without_payment_id_finds_its_payment_by_the_psps_reference(
    database: Any,
) -> None:
    told = webhook("charge.dispute.created", dispute(), created=CREATED + 60)
    async with open_topic(database.url, SOURCE) as topic:
        await topic.tell(SUCCEEDED)
        applied = await topic.tell(told)
        assert applied.counts == {("psp", "applied"): 1}
        assert await topic.rows(PSP_PAYMENTS) == [("pay-1", "pi_1", "succeeded", 1860, 0, 1860)]
        assert await topic.differences() == []


async def test_dispute_finds_its_payment_in_the_same_batch(database: Any) -> None:
    told = webhook("charge.dispute.created", dispute(), created=CREATED + 60)
    async with open_topic(database.url, SOURCE) as topic:
        await topic.tell(told, SUCCEEDED)
        assert await topic.rows(PSP_PAYMENTS) == [("pay-1", "pi_1", "succeeded", 1860, 0, 1860)]


async def test_dispute_of_an_unknown_payment_is_parked_with_the_field_that_is_absent(
    database: Any,
) -> None:
    async with open_topic(database.url, SOURCE) as topic:
        elsewhere = webhook("payment_intent.succeeded", intent(id="pi_2"))
        applied = await topic.tell(webhook("charge.dispute.created", dispute()), elsewhere)
        assert applied.reasons == ["missing_field"]
        [(error, offset)] = await topic.rows('SELECT error, "offset" FROM dead_letters')
        assert "metadata.payment_id" in error
        assert offset == 0
        assert await topic.rows("SELECT payment_id FROM payments") == [("pay-1",)]


async def test_reference_of_two_payments_is_never_guessed(database: Any) -> None:
    async with open_topic(database.url, SOURCE) as topic:
        other = intent(metadata={"payment_id": "pay-2"})
        await topic.tell(SUCCEEDED, webhook("payment_intent.succeeded", other))
        applied = await topic.tell(webhook("charge.dispute.created", dispute()))
        assert applied.reasons == ["missing_field"]
        [(error,)] = await topic.rows("SELECT error FROM dead_letters")
        assert "2 payments" in error


async def test_what_is_no_payment_is_counted_and_no_dead_letter(database: Any) -> None:
    async with open_topic(database.url, SOURCE) as topic:
        customer = webhook("customer.created", {"id": "cus_1", "object": "customer"})
        await topic.tell(customer, SUCCEEDED, None)
        [batch] = topic.batches
        assert batch.ignored == {"other_type": 1}
        assert batch.tombstones == 1
        assert await topic.rows("SELECT reason FROM dead_letters") == []
        assert await topic.rows("SELECT next_offset FROM consumer_offsets") == [(3,)]


def _answer(*, refunded_minor: int) -> Answered:
    return Answered(
        psp="stripe-eu",
        psp_reference="pi_1",
        status="succeeded",
        amount_minor=1860,
        currency="EUR",
        captured_minor=1860,
        refunded_minor=refunded_minor,
        disputed_minor=0,
        entityversion=None,
        versionepoch=0,
        failure_code=None,
        data={"psp": "stripe-eu", "psp_reference": "pi_1", "status": "succeeded"},
    )


async def _ended(topic: Topic) -> bool:
    rows = await topic.rows("SELECT status FROM reconciliation_jobs")
    return rows == [("completed",)]
