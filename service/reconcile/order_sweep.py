"""The sweep over orders: two payments of one order that both keep money are a duplicate capture.

It follows the log. Whichever of the two came to keep money last has its log row read when both
stand in the table, so no pair is missed; and a refund's row brings the other payment's case to its
end, which no event of its own would.
"""

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import structlog

from service.domain.fold import Folded
from service.domain.healing import close_duplicate_of_order, open_duplicate_of_order
from service.domain.payment import Kind, Payment
from service.domain.status import deciding
from service.observe.events import Event
from service.reconcile.database import borrowed
from service.reconcile.sweep_terms import SweeperTerms
from service.store import book, sweeps
from service.store.transactions import transaction

ORDERS_MAX = 20
"""Orders of one transaction: few locks, held for a moment."""

ORDER_PAYMENTS_MAX = 100
"""Payments looked at of one order; one with more is no order, but a default in its source."""

_log = structlog.get_logger(__name__)


class OrderSweep:
    """Opens and closes DUPLICATE_CAPTURE for orders."""

    def __init__(self, pool: Any, *, terms: SweeperTerms) -> None:
        self._pool = pool
        self._terms = terms

    async def sweep(self, stop: asyncio.Event, *, opened_max: int) -> int:
        """Follow the log to its end, or until about `opened_max` cases are open; gives their
        number.
        """
        opened = 0
        for _ in range(self._terms.log_pages_max):
            if stop.is_set() or opened >= opened_max:
                break
            found, more = await self._page(stop, opened_max=opened_max - opened)
            opened += found
            if not more:
                break
        if opened:
            _log.warning(Event.DISCREPANCY_OPENED, kind=Kind.DUPLICATE_CAPTURE, payments=opened)
        return opened

    async def _page(self, stop: asyncio.Event, *, opened_max: int) -> tuple[int, bool]:
        """Sweep a page of the log: how many were opened, and whether there is more to read.

        A page that is given up half way is read again: what it opened is not opened twice.
        """
        terms, opened = self._terms, 0
        async with borrowed(self._pool, seconds=terms.transaction_seconds) as connection:
            position = await sweeps.log_position(connection)
            page = await sweeps.log_page(connection, position, limit=terms.log_page_max)
        if page.last_log_id is None:
            return 0, False
        for start in range(0, len(page.orders), ORDERS_MAX):
            if stop.is_set() or opened >= opened_max:
                return opened, False
            opened += await self._look_at(page.orders[start : start + ORDERS_MAX])
        async with borrowed(self._pool, seconds=terms.transaction_seconds) as connection:
            await sweeps.advance(connection, position, last_log_id=page.last_log_id)
        return opened, page.rows == terms.log_page_max

    async def _look_at(self, orders: Sequence[str]) -> int:
        """Bring the cases of some orders up to the facts; returns how many were opened."""
        terms = self._terms
        bounded = asyncio.timeout(terms.transaction_seconds)
        async with bounded, transaction(self._pool) as connection:
            payment_ids = await sweeps.order_payments(connection, orders, limit=ORDER_PAYMENTS_MAX)
            payments = await book.lock(connection, payment_ids)
            now = await book.database_now(connection)
            steps = [
                step
                for members in _by_order(payments).values()
                for step in self._steps(members, now)
            ]
            await book.write(connection, steps, outcome_topic=terms.outcome_topic)
        return sum(Kind.DUPLICATE_CAPTURE in step.payment.cases for step in steps)

    def _steps(self, members: Sequence[Payment], now: datetime) -> list[Folded]:
        """What becomes of the payments of one order; those that stay as they are are left out."""
        rules, actor = self._terms.rules, self._terms.actor
        keeping = frozenset(each.payment_id for each in members if _keeps_money(each))
        steps = [Folded(before=payment, payment=payment) for payment in members]
        for folded in steps:
            others = keeping - {folded.before.payment_id}
            if others:
                open_duplicate_of_order(folded, others, now=now, rules=rules, actor=actor)
            else:
                close_duplicate_of_order(folded, now=now, rules=rules, actor=actor)
        return [folded for folded in steps if folded.payment is not folded.before]


def _by_order(payments: Mapping[str, Payment]) -> Mapping[str | None, list[Payment]]:
    """By the order that they belong to now that they are locked."""
    orders: dict[str | None, list[Payment]] = defaultdict(list)
    for payment in payments.values():
        orders[payment.erp.fields.get("order_id")].append(payment)
    orders.pop(None, None)
    return orders


def _keeps_money(payment: Payment) -> bool:
    chosen = deciding(payment)
    return chosen is not None and chosen.facts.kept_minor > 0
