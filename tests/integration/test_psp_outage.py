"""Healing against a PSP over HTTP that fails, or that must not be asked too much at once."""

import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from service.observe.metrics import Metrics
from service.psp.account import PspAccount, open_psp
from service.psp.breaker import CircuitBreaker
from service.psp.port import PspPort
from service.reconcile.scheduler import Scheduler, SchedulerTerms
from service.reports import healing_report
from service.web.checks import Status
from tests.support.far_end import FarEnd, Reply, says
from tests.support.reconciling import Room, open_room, running, until

PAYMENTS = 40
BACKLOG, ROUND, RATE = 2_000, 500, 50
ENOUGH = 3 * RATE  # the burst, and what two seconds add

INSERT_BACKLOG = """
INSERT INTO payments (
    payment_id, row_version, order_id, erp_version, erp_status, erp_amount_minor, erp_currency,
    pending_since, next_check_at
)
SELECT 'pay-' || number, 1, 'order-' || number, 1, 'pending', 1000, 'EUR', now(),
    now() - interval '1 second'
FROM generate_series(1, $1) AS number
"""


def knows_every_payment() -> Reply:
    """Every payment is paid."""

    async def reply(request: web.Request) -> web.StreamResponse:
        payment_id = request.path.rpartition("/")[2]
        amount = {"minor": 1000, "currency": "EUR"}
        paid = {"psp": "acme", "psp_reference": f"ref-{payment_id}", "status": "succeeded"}
        return web.json_response({**paid, "amount": amount})

    return reply


@asynccontextmanager
async def asking(
    far_end: FarEnd, breaker: CircuitBreaker, **changes: Any
) -> AsyncIterator[PspPort]:
    usual: dict[str, Any] = {"timeout_seconds": 1.0, "budget_seconds": 2.0}
    async with far_end.server:
        account = PspAccount(base_url=far_end.url, **(usual | changes))
        async with open_psp(account, breaker=breaker) as psp:
            yield psp


async def count(room: Room, condition: str) -> int:
    number: int = await room.pool.fetchval(
        f"SELECT count(*) FROM reconciliation_jobs WHERE {condition}"  # noqa: S608 - a test's own words
    )
    return number


async def test_outage_spends_no_attempt_shows_in_health_and_is_made_up_for(
    database: Any,
) -> None:
    now = 0.0
    breaker = CircuitBreaker(3, 30.0, clock=lambda: now)
    far_end = FarEnd(says(503))
    async with (
        open_room(database.url) as room,
        asking(far_end, breaker, budget_seconds=0.5) as psp,
    ):
        for number in range(PAYMENTS):
            await room.add_job(f"pay-{number}", attempts_max=1)
        report = healing_report(room.activity, breaker, Metrics("test"), ttl_seconds=60)
        async with running(room.worker(psp, concurrency=10)):
            await until(lambda: count(room, "last_error LIKE 'breaker_open%'"))
            asked = len(far_end.paths)
            assert (breaker.state, report()[0].status) == ("open", Status.WARN)
            assert "PSP does not answer" in (report()[0].output or "")
            assert await count(room, "attempts > releases + 1 OR status = 'dead'") == 0
            assert await room.pool.fetchval("SELECT count(*) FROM outbox") == 0
        assert len(far_end.paths) == asked <= 3 + 10
        assert await count(room, "attempts = releases AND status = 'pending'") == PAYMENTS
        far_end.replies = [knows_every_payment()]
        now = 30.0
        await room.pool.execute("UPDATE reconciliation_jobs SET run_at = now()")
        async with running(room.worker(psp, concurrency=10)):
            await until(lambda: _all_healed(room))
        assert report()[0].status is Status.PASS


async def test_backlog_becomes_jobs_in_bounded_rounds(database: Any) -> None:
    async with open_room(database.url) as room:
        await room.pool.execute(INSERT_BACKLOG, BACKLOG)
        scheduler = _scheduler(room)
        for rounds in range(1, 5):
            assert await scheduler.batch()
            assert await count(room, "true") == rounds * ROUND
        assert not await scheduler.batch()


@pytest.mark.parametrize("workers", [1, 2])
async def test_backlog_of_a_first_start_is_asked_about_no_faster_than_the_rate(
    database: Any, workers: int
) -> None:
    """A bucket a process: the account's limit is divided by the number of processes."""
    times: list[float] = []
    known = knows_every_payment()

    async def noted(request: web.Request) -> web.StreamResponse:
        times.append(time.monotonic())
        return await known(request)

    far_end = FarEnd(noted)
    share = RATE // workers
    async with open_room(database.url) as room, AsyncExitStack() as stack:
        await stack.enter_async_context(far_end.server)
        await room.pool.execute(INSERT_BACKLOG, BACKLOG)
        opened = time.monotonic()
        for _ in range(workers):
            account = PspAccount(base_url=far_end.url, rate_per_second=share, burst=share)
            psp = await stack.enter_async_context(open_psp(account, breaker=_breaker()))
            await stack.enter_async_context(running(room.worker(psp)))
        while await _scheduler(room).batch():
            pass
        await far_end.asked(ENOUGH)
    for number, at in enumerate(times, start=1):
        assert number <= RATE + RATE * (at - opened)
    assert room.activity.ended["failed"] == 0
    assert not room.activity.ended["lost"]


def _breaker() -> CircuitBreaker:
    return CircuitBreaker(5, 30.0)


def _scheduler(room: Room) -> Scheduler:
    terms = SchedulerTerms(consumer_group="reconciler", batch_max=ROUND)
    return Scheduler(room.pool, terms=terms, activity=room.activity)


async def _all_healed(room: Room) -> bool:
    await room.pool.execute("UPDATE reconciliation_jobs SET run_at = now() WHERE run_at > now()")
    return await count(room, "outcome = 'healed'") == PAYMENTS
