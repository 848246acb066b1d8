"""What no event tells of is opened by the sweeper: once, in bounded numbers, until facts end it."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio

from service.reconcile.sweep_terms import SweeperTerms
from service.reconcile.sweeper import Sweeper
from service.store import book
from service.store.pool import PoolOptions, open_pool
from service.store.transactions import transaction
from tests.support.events import erp_event, psp_event
from tests.support.telling import OUTCOME_TOPIC, RULES, tell

GROUP = "reconciler"
TERMS = SweeperTerms(
    actor="sweeper", consumer_group=GROUP, outcome_topic=OUTCOME_TOPIC, rules=RULES
)
STOP = asyncio.Event()


@pytest_asyncio.fixture
async def pool(database: Any) -> AsyncIterator[Any]:
    opened = await open_pool(PoolOptions(url=database.url))
    yield opened
    await opened.close()


async def swept(pool: Any, **changes: Any) -> int:
    return await Sweeper(pool, terms=replace(TERMS, **changes)).round(asyncio.Event())


async def cases(pool: Any) -> dict[str, tuple[str, str]]:
    """Payment id -> (kind, status) of its one discrepancy."""
    rows = await pool.fetch(
        "SELECT payment_id, kind, status FROM discrepancies ORDER BY discrepancy_id"
    )
    return {row[0]: (row[1], row[2]) for row in rows}


async def age(pool: Any, seconds: float) -> None:
    """Everything happened so many seconds earlier."""
    await pool.execute(
        "UPDATE payments SET created_at = created_at - make_interval(secs => $1),"
        " status_since = status_since - make_interval(secs => $1)",
        float(seconds),
    )


async def test_payment_that_the_erp_never_told_of_is_missing_there_after_the_grace(
    pool: Any,
) -> None:
    await tell(pool, psp_event("unknown", 1), psp_event("known", 1), erp_event("known", 1))
    await age(pool, TERMS.missing_at_erp_after_seconds - 5)
    assert await swept(pool) == 0
    await age(pool, 10)
    assert await swept(pool) == 1
    assert await cases(pool) == {"unknown": ("MISSING_AT_ERP", "open")}
    log = await pool.fetchrow("SELECT * FROM payment_events ORDER BY log_id DESC LIMIT 1")
    assert (log["actor"], log["kind"], log["row_version"]) == ("sweeper", "heal", 2)
    assert log["changes"] == {"open_discrepancies": [[], ["MISSING_AT_ERP"]]}
    assert await swept(pool) == 0
    await tell(pool, erp_event("unknown", 1))
    assert await cases(pool) == {"unknown": ("MISSING_AT_ERP", "resolved")}


async def test_erp_that_stays_pending_is_told_of_a_day_after_the_success(pool: Any) -> None:
    await tell(pool, erp_event("open", 1), erp_event("settled", 1))
    await age(pool, 2 * TERMS.erp_settle_seconds)
    await tell(pool, psp_event("open", 1), psp_event("settled", 1))
    assert await swept(pool) == 0, "the day begins with the success, not with the payment"
    await age(pool, TERMS.erp_settle_seconds - 5)
    await tell(pool, erp_event("settled", 2, status="paid"))
    assert await swept(pool) == 0
    await age(pool, 10)
    assert await swept(pool) == 1
    assert await cases(pool) == {"open": ("ERP_NOT_SETTLED", "open")}
    await tell(pool, erp_event("open", 2, status="paid"))
    assert await cases(pool) == {"open": ("ERP_NOT_SETTLED", "resolved")}


async def test_events_that_leave_the_status_do_not_begin_the_day_anew(pool: Any) -> None:
    await tell(pool, erp_event("pay", 1), psp_event("pay", 1))
    await age(pool, TERMS.erp_settle_seconds + 5)
    await tell(pool, erp_event("pay", 2), psp_event("pay", 2))
    assert await swept(pool) == 1


async def test_second_payment_of_an_order_is_a_duplicate_on_both(pool: Any) -> None:
    await tell(
        pool,
        *(erp_event(name, 1, order_id="SO-1") for name in ("first", "second", "failed")),
        *(psp_event(name, 1) for name in ("first", "second")),
        psp_event("failed", 1, status="failed"),
        erp_event("other", 1, order_id="SO-2"),
        psp_event("other", 1),
    )
    assert await swept(pool) == 2
    both = ("DUPLICATE_CAPTURE", "open")
    assert await cases(pool) == {"first": both, "second": both}
    row = await pool.fetchrow("SELECT * FROM discrepancies WHERE payment_id = 'first'")
    assert row["details"] == {"order_id": "SO-1", "payments": ["first", "second"]}
    assert (row["amount_at_risk_minor"], row["currency"]) == (1999, "EUR")
    assert await swept(pool) == 0
    told = await pool.fetch("SELECT value -> 'data' ->> 'open_discrepancies' FROM outbox")
    assert [row[0] for row in told].count('["DUPLICATE_CAPTURE"]') == 2


async def test_refund_of_one_ends_the_duplicate_on_both(pool: Any) -> None:
    await _duplicate(pool)
    await tell(pool, psp_event("second", 2, refunded_minor=1999))
    assert (await cases(pool))["second"] == ("DUPLICATE_CAPTURE", "resolved")
    assert (await cases(pool))["first"] == ("DUPLICATE_CAPTURE", "open")
    assert await swept(pool) == 0
    assert (await cases(pool))["first"] == ("DUPLICATE_CAPTURE", "resolved")
    details = await pool.fetchval("SELECT details FROM discrepancies WHERE payment_id = 'first'")
    assert details == {"order_id": "SO-1", "payments": ["first", "second"]}
    await tell(pool, psp_event("second", 3, refunded_minor=0))
    assert await swept(pool) == 2, "the money is kept twice again"


async def test_log_that_is_swept_again_changes_nothing(pool: Any) -> None:
    await _duplicate(pool)
    before = await pool.fetch("SELECT payment_id, row_version FROM payments")
    await pool.execute("UPDATE controls SET orders_swept_log_id = 0")
    assert await swept(pool) == 0
    assert await pool.fetch("SELECT payment_id, row_version FROM payments") == before
    assert await pool.fetchval("SELECT orders_swept_log_id FROM controls") > 0


async def test_payment_that_changes_its_order_leaves_the_duplicate(pool: Any) -> None:
    await _duplicate(pool)
    await tell(pool, erp_event("second", 2, order_id="SO-9"))
    assert (await cases(pool))["second"] == ("DUPLICATE_CAPTURE", "resolved")
    await swept(pool)
    assert (await cases(pool))["first"] == ("DUPLICATE_CAPTURE", "resolved")


async def test_order_that_becomes_known_late_is_found(pool: Any) -> None:
    await tell(pool, erp_event("first", 1, order_id="SO-1"), psp_event("first", 1))
    await tell(pool, psp_event("second", 1))
    assert await swept(pool) == 0
    await tell(pool, erp_event("second", 1, order_id="SO-1"))
    assert await swept(pool) == 2


async def test_row_of_the_log_that_is_committed_late_is_not_passed_over(
    pool: Any, database: Any
) -> None:
    await tell(pool, erp_event("first", 1, order_id="SO-1"), psp_event("first", 1))
    await tell(pool, erp_event("second", 1, order_id="SO-1"))
    late = await open_pool(PoolOptions(url=database.url, connections_max=1))
    written, may_end = asyncio.Event(), asyncio.Event()

    async def write_slowly() -> None:
        async with late.acquire() as connection, connection.transaction():
            await tell(_Alone(connection), psp_event("second", 1))
            written.set()
            await may_end.wait()

    slow = asyncio.create_task(write_slowly())
    await written.wait()
    await tell(pool, erp_event("other", 1), psp_event("other", 1))
    assert await swept(pool) == 0
    may_end.set()
    await slow
    assert await swept(pool) == 2
    await late.close()


async def test_round_opens_a_bounded_number_and_the_next_goes_on(pool: Any) -> None:
    await tell(pool, *(psp_event(f"pay-{number:02}", 1) for number in range(25)))
    await age(pool, TERMS.missing_at_erp_after_seconds + 5)
    opened = [await swept(pool, opened_max=10, page_max=4) for _ in range(4)]
    assert opened == [10, 10, 5, 0]


async def test_backlog_of_duplicates_is_opened_in_bounded_rounds(pool: Any) -> None:
    for order in range(30):
        names = (f"a-{order:02}", f"b-{order:02}")
        await tell(pool, *(erp_event(name, 1, order_id=f"SO-{order}") for name in names))
        await tell(pool, *(psp_event(name, 1) for name in names))
    opened = [await swept(pool, opened_max=20, log_page_max=500) for _ in range(4)]
    assert sum(opened) == 60
    assert max(opened) < 20 + 2 * 20


async def test_payment_that_somebody_holds_is_left_for_the_next_round(pool: Any) -> None:
    await tell(pool, psp_event("held", 1), psp_event("free", 1))
    await age(pool, TERMS.missing_at_erp_after_seconds + 5)
    async with transaction(pool) as connection, asyncio.timeout(3):
        await book.lock(connection, ["held"])
        assert await swept(pool) == 1
    assert set(await cases(pool)) == {"free"}
    assert await swept(pool) == 1


async def test_concurrent_sweepers_open_each_case_once(pool: Any) -> None:
    await tell(pool, *(psp_event(f"pay-{number:02}", 1) for number in range(40)))
    await age(pool, TERMS.missing_at_erp_after_seconds + 5)
    await _duplicate(pool, sweep=False)
    await asyncio.gather(*(swept(pool, page_max=7) for _ in range(4)))
    kinds = dict(await pool.fetch("SELECT kind, count(*) FROM discrepancies GROUP BY kind"))
    assert kinds == {"MISSING_AT_ERP": 40, "DUPLICATE_CAPTURE": 2}


async def test_nothing_is_opened_before_the_initial_lag_is_worked_off(pool: Any) -> None:
    await tell(pool, psp_event("unknown", 1))
    await age(pool, TERMS.missing_at_erp_after_seconds + 5)
    await pool.execute(
        "INSERT INTO consumer_offsets (consumer_group, topic, partition, next_offset)"
        " VALUES ($1, 'erp.payments', 0, 0)",
        GROUP,
    )
    assert await swept(pool) == 0
    await pool.execute("UPDATE consumer_offsets SET caught_up_at = now()")
    assert await swept(pool) == 1


async def test_case_that_a_person_closed_is_not_opened_again(pool: Any) -> None:
    await tell(pool, psp_event("unknown", 1))
    await age(pool, TERMS.missing_at_erp_after_seconds + 5)
    await _duplicate(pool)
    await pool.execute("UPDATE discrepancies SET status = 'ignored', version = version + 1")
    await tell(pool, psp_event("first", 2), psp_event("unknown", 2))
    assert await swept(pool) == 0
    assert {status for _, status in (await cases(pool)).values()} == {"ignored"}


@pytest.mark.parametrize(
    ("table", "index"),
    [("missing_at_erp", "payments_unknown_to_erp"), ("erp_not_settled", "payments_unsettled")],
)
async def test_sweep_reads_its_index_and_no_table(pool: Any, table: str, index: str) -> None:
    from service.store.statements import sql  # noqa: PLC0415

    await tell(pool, *(psp_event(f"pay-{number:03}", 1) for number in range(300)))
    async with transaction(pool) as connection:
        await connection.execute("ANALYZE payments")
        await connection.execute("SET LOCAL enable_seqscan = off")
        text = sql(f"sweep_{table}").replace("$1", "5.0::float8").replace("$2", "10")
        plan = "\n".join(row[0] for row in await connection.fetch(f"EXPLAIN {text}"))
    assert index in plan
    assert "Sort" not in plan


class _Alone:
    """A connection in the place of a pool, for a transaction inside another."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def acquire(self, *, timeout: float) -> Any:
        return self

    async def __aenter__(self) -> Any:
        return self._connection

    async def __aexit__(self, *_error: object) -> None:
        return None


async def _duplicate(pool: Any, *, sweep: bool = True) -> None:
    names = ("first", "second")
    await tell(pool, *(erp_event(name, 1, order_id="SO-1") for name in names))
    await tell(pool, *(psp_event(name, 1) for name in names))
    if sweep:
        await swept(pool)
