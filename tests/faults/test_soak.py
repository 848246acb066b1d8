"""A soak says what grows and which deadlocks are our own: each rule of its verdict can fail."""

import asyncio
from collections import Counter
from typing import Any

import asyncpg
import pytest

from service.sandbox.postgres import EmbeddedPostgres
from tests.faults.plan import Kind, draw
from tests.faults.soak import thinned
from tests.faults.soaking.deadlocks import Deadlock, deadlocks_in
from tests.faults.soaking.flatness import MEMORY_GROWTH_MAX_BYTES, not_flat
from tests.faults.soaking.report import Soaked, table_of_figures, table_of_lives
from tests.faults.soaking.samples import Life, Look, rss, share_of
from tests.support.postgres import Database
from tests.support.waiting import eventually

MIB = 1024 * 1024
SOAK_SECONDS = 600.0
QUICKLY = "SET deadlock_timeout = '50ms'"


def look(at_seconds: float, **given: Any) -> Look:
    usual: dict[str, Any] = {
        "at_seconds": at_seconds,
        "rss_bytes": 100 * MIB,
        "threads": 2,
        "files": 20,
        "connections": 5,
        "lag_seconds": 0.001,
        "calm": True,
        "metrics": {},
    }
    return Look(**{**usual, **given})


def life(*, seconds: float = SOAK_SECONDS, rising: str = "", by: float = 0) -> Life:
    """A hundred looks; one value may rise evenly, `by` in all."""
    looks = []
    for number in range(101):
        at = look(seconds * number / 100)
        risen = {rising: int(getattr(at, rising) + by * number / 100)} if rising else {}
        looks.append(look(at.at_seconds, **risen))
    return Life("service-1", 1, looks)


def soaked(*lives: Life, **given: Any) -> Soaked:
    usual: dict[str, Any] = {
        "seed": 1,
        "seconds": SOAK_SECONDS,
        "sent": 10,
        "counts": {"logged": 10},
        "faults": Counter({"psp answers late": 2}),
        "lives": lives or (life(),),
        "moments": (),
        "left_behind": {},
        "deadlocks": (),
        "violations": (),
    }
    return Soaked(**{**usual, **given})


def test_flat_soak_passes_and_can_be_told() -> None:
    calm = soaked()
    assert calm.wrong == []
    assert table_of_lives(calm).row_count == 1
    assert table_of_figures(calm).row_count > 10


@pytest.mark.parametrize(
    ("rising", "by", "word"),
    [
        ("rss_bytes", 2 * MEMORY_GROWTH_MAX_BYTES, "bytes of memory"),
        ("files", 100, "open files"),
        ("threads", 20, "threads"),
        ("connections", 9, "connections at the end"),
    ],
)
def test_growth_fails_the_soak(rising: str, by: float, word: str) -> None:
    (said,) = soaked(life(rising=rising, by=by)).wrong
    assert word in said


def test_growth_within_the_rule_passes() -> None:
    assert soaked(life(rising="rss_bytes", by=MEMORY_GROWTH_MAX_BYTES)).wrong == []


def test_start_after_a_crash_begins_anew_and_short_lives_are_not_judged() -> None:
    short = life(seconds=30, rising="rss_bytes", by=10 * MEMORY_GROWTH_MAX_BYTES)
    assert soaked(life(), short).wrong == []
    assert list(not_flat([short], {}, soak_seconds=SOAK_SECONDS)) == [
        "no process lived long enough to be judged"
    ]


def test_connections_of_a_process_that_is_gone_fail_the_soak() -> None:
    assert soaked(left_behind={"77": 3}).wrong == [
        "3 connections of process 77, which is gone, are left"
    ]


def test_slope_is_that_of_an_even_rise() -> None:
    rising = life(rising="rss_bytes", by=10 * MIB)
    assert rising.slope_per_hour(rss) == pytest.approx(60 * MIB, rel=0.01)
    assert share_of([3.0, 1.0, 2.0], 0.5) == 2.0


def test_first_process_of_a_soak_is_never_ended() -> None:
    plan = draw(5, seconds=SOAK_SECONDS)
    few = thinned(plan)
    ended = [fault.process for fault in few.faults if fault.kind in (Kind.KILL, Kind.TERMINATE)]
    assert ended
    assert 0 not in ended
    assert 0 < len(few.faults) < len(plan.faults) / 2
    assert thinned(plan) == few


def test_deadlock_of_our_own_statements_fails_the_soak() -> None:
    """Reported as pg-boss 282."""
    own = Deadlock("ERROR:  deadlock detected\n\tProcess 7: UPDATE reconciliation_jobs")
    foreign = Deadlock("ERROR:  deadlock detected\n\tProcess 7: SELECT FROM payments FOR UPDATE")
    assert soaked(deadlocks=(foreign,)).wrong == []
    (said,) = soaked(deadlocks=(foreign, own)).wrong
    assert "UPDATE reconciliation_jobs" in said


@pytest.mark.parametrize(
    ("strength", "foreign"), [("FOR NO KEY UPDATE", False), ("FOR UPDATE", True)]
)
async def test_deadlock_is_found_in_the_servers_own_log(
    postgres: EmbeddedPostgres, database: Database, strength: str, foreign: bool
) -> None:
    first, second = await database.connect(), await database.connect()
    await first.execute("INSERT INTO payments (payment_id) VALUES ('a'), ('b')")
    lock = f"SELECT FROM payments WHERE payment_id = $1 {strength}"
    log = postgres.log_file
    before = len(log.read_text(encoding="utf-8").splitlines())
    for connection, payment_id in ((first, "a"), (second, "b")):
        await connection.execute(QUICKLY)
        await connection.execute("BEGIN")
        await connection.execute(lock, payment_id)
    results = await asyncio.gather(
        first.execute(lock, "b"), second.execute(lock, "a"), return_exceptions=True
    )
    assert asyncpg.DeadlockDetectedError in {type(result) for result in results}

    def written() -> list[Deadlock]:
        lines = log.read_text(encoding="utf-8").splitlines()[before:]
        return [each for each in deadlocks_in(lines) if each.text.count("Process") >= 4]

    (found,) = await eventually(written, what="the deadlock in the log")
    assert found.foreign is foreign
    assert found.text.count(strength) == 2
