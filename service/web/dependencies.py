"""Asks the database in the probes' stead, each round bounded, and publishes what came back."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from math import nan
from typing import Any, Final

import structlog

from service.lifecycle import wait_for_stop
from service.observe.events import Event
from service.observe.metrics import Metrics
from service.store import figures
from service.store.figures import Figures
from service.store.pool import expire
from service.web.checks import Status
from service.web.snapshot import Check, HealthBoard

PING_SECONDS: Final = 2.0
PING_TIMEOUT_SECONDS: Final = 3.0
FIGURES_SECONDS: Final = 10.0
FIGURES_TIMEOUT_SECONDS: Final = 10.0
SLOW_SECONDS: Final = 1.0

_log = structlog.get_logger(__name__)


class DatabaseSampler:
    """Asks the database whether it answers, and now and then what it holds.

    `pool` gives None until there is one; a database that was never reached fails like one that
    went away.
    """

    def __init__(self, board: HealthBoard, metrics: Metrics, pool: Callable[[], Any]) -> None:
        self._board = board
        self._metrics = metrics
        self._pool = pool
        self._figures_at = float("-inf")
        self._failures = 0
        self._publish_down()

    async def run(self, stop: asyncio.Event) -> None:
        """Sample until `stop`."""
        while not await wait_for_stop(stop, PING_SECONDS):
            pool = self._pool()
            if pool is None:
                self._publish_down()
            elif await self._answers(pool):
                await self._look(pool)

    async def _answers(self, pool: Any) -> bool:
        sent_at = time.monotonic()
        if not await self._bounded(pool, figures.ping, PING_TIMEOUT_SECONDS):
            self._publish_down()
            self._failures += 1
            await expire(pool)
            return False
        self._failures = 0
        seconds = time.monotonic() - sent_at
        status = Status.WARN if seconds > SLOW_SECONDS else Status.PASS
        self._board.publish(Check("postgres", "responseTime", status, round(seconds, 4), "s"))
        self._metrics.process.database_response.set(seconds)
        self._metrics.process.pool_connections.labels(state="open").set(pool.get_size())
        self._metrics.process.pool_connections.labels(state="idle").set(pool.get_idle_size())
        return True

    async def _look(self, pool: Any) -> None:
        if time.monotonic() - self._figures_at < FIGURES_SECONDS:
            return
        self._figures_at = time.monotonic()
        await self._bounded(pool, self._publish_figures, FIGURES_TIMEOUT_SECONDS)

    async def _publish_figures(self, connection: Any) -> None:
        seen = await figures.read(connection)
        publish_figures(self._board, self._metrics, seen)

    async def _bounded(
        self, pool: Any, step: Callable[[Any], Awaitable[None]], seconds: float
    ) -> bool:
        try:
            async with asyncio.timeout(seconds), pool.acquire(timeout=seconds) as connection:
                await step(connection)
        except Exception as error:  # noqa: BLE001 - any failure means: no answer, and the next round asks again
            _log.debug(Event.SAMPLER_FAILED, error=type(error).__name__)
            self._metrics.process.sampler_failures.labels(name="database").inc()
            return False
        return True

    def _publish_down(self) -> None:
        self._board.publish(
            Check("postgres", "responseTime", Status.FAIL, output="the database does not answer")
        )


def publish_figures(board: HealthBoard, metrics: Metrics, seen: Figures) -> None:
    """Put one look at the tables on the board and into the metrics."""
    letters = Status.WARN if seen.dead_letters_parked else Status.PASS
    open_count = sum(seen.open_kinds.values())
    cases = Status.WARN if open_count else Status.PASS
    healing, said = _healing(seen)
    age = round(seen.pending_oldest_seconds, 1)
    board.publish(
        Check("payments", "oldestPendingAge", healing, age, "s", output=said),
        Check("payments", "deadLetters", letters, seen.dead_letters_parked, "records"),
        Check("discrepancies", "open", cases, open_count, "discrepancies"),
    )
    metrics.payments.pending_oldest.set(seen.pending_oldest_seconds)
    metrics.payments.pending.set(seen.pending)
    metrics.payments.dead_letters_parked.set(seen.dead_letters_parked)
    metrics.payments.healing_paused.set(seen.healing_paused)
    metrics.payments.healing_shadow.set(seen.mode == "shadow")
    metrics.payments.heals_left.set(nan if seen.heals_left is None else seen.heals_left)
    metrics.payments.discrepancies_open.clear()
    for kind, number in seen.open_kinds.items():
        metrics.payments.discrepancies_open.labels(kind=kind).set(number)
    metrics.jobs.jobs_due_oldest.set(seen.jobs_due_oldest_seconds)
    metrics.outbox.unpublished.set(seen.outbox_unpublished)
    metrics.outbox.oldest.set(seen.outbox_oldest_seconds)


def _healing(seen: Figures) -> tuple[Status, str | None]:
    """Why pending payments may stay so: what operators have set, or the minute's cap."""
    if seen.healing_paused:
        return Status.WARN, "healing is paused"
    if seen.mode == "shadow":
        return Status.PASS, "healing is in shadow mode: payments stay as they are"
    if seen.heals_left == 0:
        return Status.WARN, "no heals are left in this minute"
    return Status.PASS, None
