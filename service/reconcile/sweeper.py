"""The sweeper: opens what no event and no answer tells of, because it is about time that passed,
or about two payments of one order.

It runs in every process that heals; what another holds is left to it, and a case that is held
already is not opened twice. On a first start it waits for the initial lag, for the missing events
may be in it. A round opens a bounded number of cases, so that a backlog never floods those who
have to look at them.
"""

import asyncio
from typing import Any

import structlog

from service.domain.fold import Folded
from service.domain.healing import open_now
from service.domain.payment import Kind
from service.lifecycle import wait_for_stop
from service.observe.events import Event
from service.reconcile.backoff import around
from service.reconcile.database import borrowed, wait_after
from service.reconcile.order_sweep import OrderSweep
from service.reconcile.scheduler import initial_lag_is_gone
from service.reconcile.sweep_terms import SweeperTerms
from service.store import book, sweeps
from service.store.transactions import transaction

_log = structlog.get_logger(__name__)


class Sweeper:
    """Opens MISSING_AT_ERP, ERP_NOT_SETTLED, and DUPLICATE_CAPTURE for one order."""

    def __init__(self, pool: Any, *, terms: SweeperTerms) -> None:
        self._pool = pool
        self._terms = terms
        self._orders = OrderSweep(pool, terms=terms)

    async def run(self, stop: asyncio.Event) -> None:
        """Make rounds until `stop`."""
        tries = 0
        while not stop.is_set():
            try:
                await self.round(stop)
            except Exception as error:  # noqa: BLE001 - `wait_after` raises what it cannot cure
                tries += 1
                await wait_after(error, pool=self._pool, tries=tries)
                continue
            tries = 0
            await wait_for_stop(stop, around(self._terms.interval_seconds))

    async def round(self, stop: asyncio.Event) -> int:
        """Look once at everything that is due; returns how many cases were opened."""
        terms = self._terms
        async with borrowed(self._pool, seconds=terms.transaction_seconds) as connection:
            if not await initial_lag_is_gone(connection, terms.consumer_group):
                return 0
        left = terms.opened_max
        for kind, after_seconds in (
            (Kind.MISSING_AT_ERP, terms.missing_at_erp_after_seconds),
            (Kind.ERP_NOT_SETTLED, terms.erp_settle_seconds),
        ):
            left -= await self._sweep(kind, after_seconds, stop, opened_max=left)
        left -= await self._orders.sweep(stop, opened_max=left)
        return terms.opened_max - left

    async def _sweep(
        self, kind: Kind, after_seconds: float, stop: asyncio.Event, *, opened_max: int
    ) -> int:
        """Open `kind` for up to `opened_max` payments, a page a transaction."""
        opened = 0
        while opened < opened_max and not stop.is_set():
            limit = min(self._terms.page_max, opened_max - opened)
            found = await self._open_page(kind, after_seconds, limit=limit)
            opened += found
            if found < limit:
                break
        if opened:
            _log.warning(Event.DISCREPANCY_OPENED, kind=kind, payments=opened)
        return opened

    async def _open_page(self, kind: Kind, after_seconds: float, *, limit: int) -> int:
        terms = self._terms
        bounded = asyncio.timeout(terms.transaction_seconds)
        async with bounded, transaction(self._pool) as connection:
            due = await sweeps.lock_waiting(
                connection, kind, after_seconds=after_seconds, limit=limit
            )
            if not due:
                return 0
            payments = await book.lock(connection, due)
            now = await book.database_now(connection)
            steps = [Folded(before=payment, payment=payment) for payment in payments.values()]
            for folded in steps:
                open_now(folded, frozenset({kind}), now=now, rules=terms.rules, actor=terms.actor)
            await book.write(connection, steps, outcome_topic=terms.outcome_topic)
        return sum(folded.payment is not folded.before for folded in steps)
