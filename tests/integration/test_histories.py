"""The histories of the pure rules again, on PostgreSQL: every step reads the payment from the
tables and writes it back, and the end is the same. `HISTORIES_ON_POSTGRES=n` tries more of them.
"""

import os
from dataclasses import replace
from datetime import datetime
from random import Random
from typing import Any

from service.domain.events import SourceEvent
from service.domain.fold import Folded, fold
from service.domain.healing import decide
from service.domain.payment import Payment
from service.domain.replies import Found, Reply
from service.store import book
from service.store.pool import PoolOptions, open_pool
from service.store.transactions import transaction
from tests.unit.domain_events import RULES
from tests.unit.domain_history import History
from tests.unit.test_healing_histories import told_by

HISTORIES = int(os.environ.get("HISTORIES_ON_POSTGRES", "200"))
TOPIC = "reconciler.payments"


async def test_random_histories_end_at_the_truth_in_the_tables(database: Any) -> None:
    pool = await open_pool(PoolOptions(url=database.url))
    try:
        for seed in range(HISTORIES):
            history = told_by(Random(seed))  # noqa: S311 - to repeat, not a secret
            history.ends_at_the_truth()
            async with transaction(pool) as connection:
                stored = await _replayed(connection, f"pay-{seed}", history)
            assert _seen_by_people(stored) == _seen_by_people(history.payment), f"seed {seed}"
    finally:
        await pool.close()


async def _replayed(connection: Any, payment_id: str, history: History) -> Payment:
    await book.ensure(connection, [payment_id])
    for said, now in history.inputs:
        payment = (await book.lock(connection, [payment_id]))[payment_id]
        folded = await _step(connection, payment, said, now)
        await book.write(connection, [folded], outcome_topic=TOPIC)
    return (await book.lock(connection, [payment_id]))[payment_id]


async def _step(
    connection: Any, payment: Payment, said: SourceEvent | Reply, now: datetime
) -> Folded:
    payment_id = payment.payment_id
    if isinstance(said, SourceEvent):
        event = replace(said, payment_id=payment_id)
        seen = await book.seen(connection, [event])
        return fold(payment, [event], seen=seen.get(payment_id, {}), now=now, rules=RULES)
    if isinstance(said, Found) and said.event is not None:
        said = replace(said, event=replace(said.event, payment_id=payment_id))
    events = [said.event] if isinstance(said, Found) and said.event is not None else []
    seen = await book.seen(connection, events)
    return decide(
        payment, said, seen=seen.get(payment_id, {}), now=now, rules=RULES, actor="worker"
    ).folded


def _seen_by_people(payment: Payment) -> tuple[Any, ...]:
    facts = {key: each.facts for key, each in payment.psp_payments.items()}
    return payment.status, payment.open_kinds, payment.row_version, payment.erp.fields, facts
