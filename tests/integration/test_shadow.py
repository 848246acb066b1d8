"""In shadow mode the log says what would have been done, and nothing else is touched."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio
from prometheus_client import generate_latest

from schemas.fields import NO_EXCEPTIONS
from service.observe.metrics import Metrics
from service.psp.port import Answer, NotFound, Question
from service.reconcile.group import SettleTerms
from service.store import controls, figures
from service.store.verification import verify_chunk
from service.web.checks import Probe
from service.web.dependencies import publish_figures
from service.web.snapshot import HealthBoard
from tests.support.events import erp_event, psp_event
from tests.support.reconciling import (
    OUTCOME_TOPIC,
    RULES,
    Room,
    ScriptedPsp,
    answered,
    open_room,
    running,
    until,
)
from tests.support.telling import tell

SHADOW = SettleTerms(outcome_topic=OUTCOME_TOPIC, rules=RULES, mode="shadow")
BOOKKEEPING = {"checks", "next_check_at", "not_found_since"}
UNTOUCHED = ("psp_payments", "discrepancies", "outbox")


@pytest_asyncio.fixture
async def room(database: Any) -> AsyncIterator[Room]:
    async with open_room(database.url) as opened:
        yield opened


async def asked(room: Room, answer: Answer, *, settle: SettleTerms = SHADOW) -> None:
    """Work on a job of `pay-1` to its end; the PSP says `answer`."""
    job_id = await room.pool.fetchval(
        "INSERT INTO reconciliation_jobs (payment_id, reason) VALUES ('pay-1', 'due')"
        " RETURNING job_id"
    )

    async def script(_question: Question) -> Answer:
        return answer

    async def completed() -> bool:
        return bool((await room.job(job_id))["status"] == "completed")

    async with running(room.worker(ScriptedPsp(script), settle=settle)):
        await until(completed)
    assert (await room.job(job_id))["outcome"] == "shadow"


async def held(room: Room) -> list[list[tuple[Any, ...]]]:
    """All that must stay as it is, but the bookkeeping of the payment."""
    payment = await room.payment("pay-1")
    seen = [(name, value) for name, value in payment.items() if name not in BOOKKEEPING]
    tables = [await room.pool.fetch(f"TABLE {table}") for table in UNTOUCHED]
    return [seen, *([tuple(row) for row in table] for table in tables)]


SAID = answered("pay-1", "succeeded")
ANSWERS = [
    (
        "heal without a version",
        SAID,
        {"status": ["pending", "succeeded"], "captured_minor": [0, 1000]},
    ),
    (
        "heal with a version",
        answered("pay-1", "succeeded", version=4),
        {"status": ["pending", "succeeded"], "psp_version": [-1, 4]},
    ),
    (
        "mismatch",
        answered("pay-1", "succeeded", minor=900),
        {"open_discrepancies": [[], ["AMOUNT_MISMATCH"]], "psp_amount_minor": [None, 900]},
    ),
    ("end", answered("pay-1", "failed"), {"status": ["pending", "failed"]}),
]


@pytest.mark.parametrize(
    ("answer", "changes"), [each[1:] for each in ANSWERS], ids=[each[0] for each in ANSWERS]
)
async def test_log_says_what_would_change_from_what_to_what(
    room: Room, answer: Answer, changes: dict[str, Any]
) -> None:
    await tell(room.pool, erp_event("pay-1", 1, minor=1000))
    before = await held(room)
    await asked(room, answer)
    assert await held(room) == before
    [log] = await room.pool.fetch("SELECT * FROM payment_events WHERE outcome = 'shadow'")
    assert {name: log["changes"].get(name) for name in changes} == changes
    assert (log["kind"], log["row_version"]) == ("heal", 1)
    assert (log["psp"], log["psp_reference"]) == ("acme", "ref-pay-1")
    assert log["data"]["status"] in {"succeeded", "failed"}


async def test_case_that_would_open_is_logged_and_not_opened(room: Room) -> None:
    await tell(room.pool, erp_event("pay-1", 1, minor=1000))
    before = await held(room)
    await asked(room, NotFound())
    await room.pool.execute("UPDATE payments SET not_found_since = now() - interval '1 hour'")
    await asked(room, NotFound())
    assert await held(room) == before
    [log] = await room.pool.fetch("SELECT * FROM payment_events WHERE outcome = 'shadow'")
    assert log["changes"] == {"open_discrepancies": [[], ["MISSING_AT_PSP"]]}


async def test_payment_heals_as_soon_as_shadow_mode_ends(room: Room) -> None:
    await tell(room.pool, erp_event("pay-1", 1, minor=1000))
    await asked(room, SAID)
    enforce = replace(SHADOW, mode="enforce")
    with pytest.raises(AssertionError, match="healed"):
        await asked(room, SAID, settle=enforce)
    assert (await room.payment("pay-1"))["status"] == "succeeded"
    assert await room.pool.fetchval("SELECT count(*) FROM outbox") == 1


async def test_events_are_taken_in_as_ever_and_the_log_still_gives_the_rows(room: Room) -> None:
    await tell(room.pool, erp_event("pay-1", 1, minor=1000))
    await asked(room, answered("pay-1", "succeeded", version=1))
    paid = psp_event("pay-1", 1, minor=1000, psp="acme")
    assert (await tell(room.pool, paid))["pay-1"].status == "succeeded"
    chunk = await verify_chunk(room.pool, after="", limit=5, exponents=NO_EXCEPTIONS)
    assert chunk.differences == []


@pytest.mark.parametrize(
    ("change", "status", "said", "metric"),
    [
        ({}, "pass", None, "healing_paused 0.0"),
        ({"healing_paused": True}, "warn", "healing is paused", "healing_paused 1.0"),
        (
            {"mode": "shadow"},
            "pass",
            "healing is in shadow mode: payments stay as they are",
            "healing_shadow 1.0",
        ),
    ],
)
async def test_health_and_metrics_tell_what_operators_set(
    room: Room, change: dict[str, Any], status: str, said: str | None, metric: str
) -> None:
    if change:
        assert await controls.change(room.pool, version=0, **change)
    assert await _told(room) == (status, said)
    assert f"reconciler_{metric}" in await _exposed(room)


async def test_health_and_metrics_tell_that_no_heals_are_left(room: Room) -> None:
    assert "reconciler_heals_left NaN" in await _exposed(room)
    await controls.take_heals(room.pool, wanted=2, per_minute=3)
    await room.pool.execute("UPDATE controls SET heals_minute = heals_minute + interval '1 hour'")
    assert "reconciler_heals_left 1.0" in await _exposed(room)
    assert await _told(room) == ("pass", None)
    await controls.take_heals(room.pool, wanted=1, per_minute=3)
    assert await _told(room) == ("warn", "no heals are left in this minute")


async def _told(room: Room) -> tuple[str, str | None]:
    board = HealthBoard()
    publish_figures(board, Metrics("0"), await figures.read(room.pool))
    [row] = board.view(Probe.HEALTH).checks["payments:oldestPendingAge"]
    return row.status.text, row.output


async def _exposed(room: Room) -> str:
    metrics = Metrics("0")
    publish_figures(HealthBoard(), metrics, await figures.read(room.pool))
    return generate_latest(metrics.registry).decode()
