"""The parts of a process by role, each built from its terms and ready to be supervised."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

from service import assembly
from service.connections import pool_options, psp_account
from service.ingest.consumer import Ingest
from service.observe.metrics import Metrics
from service.outbox.relay import Relay, RelayActivity
from service.psp.account import open_psp
from service.psp.breaker import CircuitBreaker
from service.reconcile.activity import Activity
from service.reconcile.scheduler import Scheduler
from service.reconcile.sweeper import Sweeper
from service.reconcile.watcher import Watcher
from service.reconcile.worker import Worker
from service.reports import (
    PROVIDER,
    healing_report,
    ingest_report,
    relay_report,
    watcher_report,
)
from service.settings import Settings
from service.store.pool import connect
from service.web.parts import Report

Run = Callable[[asyncio.Event], Awaitable[None]]
"""Runs until the event is set, then ends by itself within bounds."""


class Parts:
    """Builds what a role needs. `add_report` takes what health asks of a part once a second."""

    def __init__(
        self,
        settings: Settings,
        owner: str,
        pool: Any,
        metrics: Metrics,
        add_report: Callable[[Report], None],
    ) -> None:
        self._settings = settings
        self._owner = owner
        self._pool = pool
        self._metrics = metrics
        self._add_report = add_report
        self._activity = Activity(on_ended=self._count_ended)

    async def of(self, roles: frozenset[str], stack: AsyncExitStack) -> dict[str, Run]:
        """Name -> run for every part of `roles`; `stack` closes what outlives them."""
        runs: dict[str, Run] = {}
        if "ingest" in roles:
            runs |= self._ingest()
        if "watch" in roles:
            runs |= self._watch()
        if "reconcile" in roles:
            runs |= await self._reconcile(stack)
        return runs

    def _ingest(self) -> dict[str, Run]:
        """The relay runs beside ingest, so that a process that only heals needs no broker."""
        ingest = Ingest(
            self._pool,
            kafka=assembly.kafka_options(self._settings),
            options=assembly.ingest_options(self._settings),
            metrics=self._metrics.ingest,
        )
        relayed = RelayActivity()
        terms = assembly.relay_terms(self._settings, self._owner)
        relay = Relay(self._pool, terms=terms, activity=relayed)
        self._add_report(ingest_report(ingest, self._metrics))
        self._add_report(relay_report(relayed, self._metrics))
        return {"ingest": ingest.run, "relay": relay.run}

    def _watch(self) -> dict[str, Run]:
        terms = assembly.watcher_terms(self._settings, self._owner)
        watcher = Watcher(self._pool, terms=terms, activity=self._activity)
        self._add_report(
            watcher_report(self._activity, self._metrics, interval_seconds=terms.interval_seconds)
        )
        return {"watcher": watcher.run}

    async def _reconcile(self, stack: AsyncExitStack) -> dict[str, Run]:
        settings = self._settings
        breaker = CircuitBreaker(settings.psp.breaker_failures, settings.psp.breaker_open_seconds)
        psp = await stack.enter_async_context(
            open_psp(psp_account(settings), breaker=breaker, observe=self._count_answer)
        )
        name = assembly.application_name(self._owner)
        worker = Worker(
            self._pool,
            partial(connect, pool_options(settings.database, application_name=name)),
            psp,
            terms=assembly.worker_terms(settings, self._owner),
            activity=self._activity,
        )
        scheduler = Scheduler(
            self._pool,
            terms=assembly.scheduler_terms(settings),
            activity=self._activity,
            on_inserted=worker.nudge,
        )
        ttl = settings.lease.ttl_seconds
        shadow = settings.reconcile.mode == "shadow"
        self._add_report(
            healing_report(self._activity, breaker, self._metrics, ttl_seconds=ttl, shadow=shadow)
        )
        sweeper = Sweeper(self._pool, terms=assembly.sweeper_terms(settings, self._owner))
        return {"worker": worker.run, "scheduler": scheduler.run, "sweeper": sweeper.run}

    def _count_ended(self, outcome: str, number: int) -> None:
        jobs = self._metrics.jobs
        jobs.jobs.labels(outcome=outcome).inc(number)
        if outcome == "healed":
            jobs.heals.inc(number)
        elif outcome == "lost":
            jobs.leases_lost.inc(number)

    def _count_answer(self, result: str, seconds: float) -> None:
        self._metrics.psp.requests.labels(provider=PROVIDER, result=result).inc()
        self._metrics.psp.request_seconds.labels(provider=PROVIDER).observe(seconds)
