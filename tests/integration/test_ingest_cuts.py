"""The connection is lost at every boundary of one batch's transaction: the batch lands once."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial
from typing import Any

import asyncpg
import pytest

from service.errors import OffsetFenced
from service.ingest.batch import Batch
from service.store.faults import Reaction
from service.store.offsets import Partition
from service.store.pool import PoolOptions, open_pool
from service.store.transactions import transaction
from tests.support.batches import batch_of, land, place, positions, writer_of
from tests.support.events import Record, erp_event, psp_event
from tests.support.frontend import is_commit
from tests.support.proxy import Cut, TcpProxy, database_proxy
from tests.support.waiting import eventually

Look = Callable[[int, bytes], Cut | None]

# Quick enough to wait for: the client's own limit is their sum.
STATEMENT_SECONDS, CONNECT_SECONDS = 0.4, 0.4
ROLLBACK_SECONDS = 5
BOUND_SECONDS = STATEMENT_SECONDS + CONNECT_SECONDS + ROLLBACK_SECONDS + 3

# What a request asks an answer for: Sync, Flush, Query, CopyDone. The others only add to it.
ANSWERED = b"SHQc"

LANDED = {
    "log": """
        SELECT payment_id, kind, outcome, row_version, topic, "offset" FROM payment_events
        WHERE payment_id LIKE $1 ORDER BY 1, log_id
    """,
    "payments": """
        SELECT payment_id, status, row_version, erp_version FROM payments
        WHERE payment_id LIKE $1 ORDER BY 1
    """,
    "psp_payments": """
        SELECT payment_id, psp_version, psp_status FROM psp_payments
        WHERE payment_id LIKE $1 ORDER BY 1
    """,
    "discrepancies": """
        SELECT payment_id, kind, status, version FROM discrepancies
        WHERE payment_id LIKE $1 ORDER BY 1, 2
    """,
    "dead_letters": """
        SELECT convert_from(key, 'UTF8'), reason, topic, "offset" FROM dead_letters
        WHERE convert_from(key, 'UTF8') LIKE $1
    """,
    "outbox": "SELECT key, topic FROM outbox WHERE key LIKE $1 ORDER BY 1, outbox_id",
    "copies": """
        SELECT convert_from(letter.key, 'UTF8'), outbox.topic FROM outbox
        JOIN dead_letters AS letter ON letter.dead_letter_id::text = outbox.key
        WHERE convert_from(letter.key, 'UTF8') LIKE $1
    """,
}


def partitions(number: int) -> tuple[Partition, Partition]:
    return Partition("erp.payments", number), Partition("psp.payments", number)


async def batch_number(number: int) -> Batch:
    """Several payments, all outcomes, a dead letter: no other batch has these payments."""
    a, b, c = (f"p{number}-{name}" for name in "abc")
    erp, psp = partitions(number)
    bad = Record("psp", f"p{number}-bad".encode(), b"{")
    return await batch_of(
        {
            erp: [erp_event(a, 1), erp_event(b, 2), erp_event(b, 1), erp_event(c, 1)],
            psp: [
                psp_event(a, 1),
                psp_event(a, 1),
                bad,
                psp_event(b, 1, minor=1),
                psp_event(c, 1),
                psp_event(c, 1, status="failed"),
            ],
        }
    )


async def another_batch(number: int) -> Batch:
    """What comes after batch `number` in the ERP's partition."""
    erp, _ = partitions(number)
    records = [erp_event(f"p{number}-{name}", 9) for name in "ab"]
    return await batch_of({erp: records}, start=4)


async def what_landed(pool: Any, number: int) -> dict[str, list[tuple[Any, ...]]]:
    """All rows of one batch, by other names than its number's."""
    found = {}
    for table, query in LANDED.items():
        rows = await pool.fetch(query, f"p{number}-%")
        found[table] = [(row[0].split("-")[1], *tuple(row)[1:]) for row in rows]
    stood = await positions(pool)
    found["offsets"] = [(each.topic, stood.get(each)) for each in partitions(number)]
    return found


def options(url: str) -> PoolOptions:
    return PoolOptions(
        url=url,
        statement_timeout_seconds=STATEMENT_SECONDS,
        connect_timeout_seconds=CONNECT_SECONDS,
    )


class Trial:
    """A database, a proxy before it, and a batch a number."""

    def __init__(self, pool: Any, proxy: TcpProxy, url: str) -> None:
        self.pool = pool
        self.proxy = proxy
        self.reactions: list[Reaction] = []
        self.url = proxy.url(url)

    async def write(self, number: int, look: Look) -> None:
        """Write batch `number` over a new pool; `look` is asked of each message from BEGIN on."""
        await place(self.pool, partitions(number))
        behind = await open_pool(options(self.url))
        places = itertools.count(1)
        self.proxy.on_message = lambda message: look(next(places), message)
        try:
            await land(writer_of(behind, self.reactions.append), await batch_number(number))
        finally:
            self.proxy.on_message = None
            self.proxy.black_hole = False
            behind.terminate()

    async def messages(self, number: int) -> list[bytes]:
        """The messages of an undisturbed batch."""
        seen: list[bytes] = []
        await self.write(number, lambda _, message: seen.append(message))
        return seen


@pytest.fixture
async def trial(database: Any) -> AsyncIterator[Trial]:
    pool = await open_pool(PoolOptions(url=database.url))
    async with database_proxy(database.url) as proxy:
        yield Trial(pool, proxy, database.url)
    await pool.close()


async def test_batch_lands_once_whatever_message_its_connection_is_cut_at(trial: Trial) -> None:
    messages = await trial.messages(0)
    wanted = await what_landed(trial.pool, 0)
    assert all(wanted.values())
    assert is_commit(messages[-1])
    boundaries = [(place, Cut.BEFORE) for place in range(1, len(messages) + 1)]
    boundaries += [
        (place, Cut.AFTER) for place, message in enumerate(messages, 1) if message[0] in ANSWERED
    ]
    for number, boundary in enumerate(boundaries, 1):
        await trial.write(number, cut_at(*boundary))
        sent = messages[boundary[0] - 1][:60]
        assert await what_landed(trial.pool, number) == wanted, (boundary, sent)
    assert trial.proxy.cuts == len(boundaries)
    assert trial.reactions == [Reaction.RECONNECT] * len(boundaries)


def cut_at(place: int, cut: Cut) -> Look:
    return lambda passed, _: cut if passed == place else None


async def test_connection_that_is_lost_between_two_batches_costs_nothing(trial: Trial) -> None:
    """Its COMMIT was answered, and the pool still holds it."""
    await place(trial.pool, [*partitions(0), *partitions(1)])
    behind = await open_pool(options(trial.url))
    writer = writer_of(behind, trial.reactions.append)
    for number in range(2):
        await land(writer, await batch_number(number))
        trial.proxy.cut()
    assert await what_landed(trial.pool, 0) == await what_landed(trial.pool, 1)
    await behind.close()


async def test_error_of_a_lost_connection_is_the_drivers_own(trial: Trial) -> None:
    """Whoever decides what to do reads its class and its SQLSTATE."""
    behind = await open_pool(options(trial.url))

    async def lose() -> None:
        async with transaction(behind) as connection:
            trial.proxy.cut()
            await connection.execute("SELECT 1")

    with pytest.raises(asyncpg.ConnectionDoesNotExistError):
        await lose()
    behind.terminate()


async def test_batch_that_loses_a_deadlock_is_tried_again_on_the_same_connection(
    trial: Trial, database: Any
) -> None:
    """Reported as metagraphed 11357."""
    await place(trial.pool, [*partitions(0), *partitions(1)])
    own = await open_pool(PoolOptions(url=database.url, connections_max=1))
    writer = writer_of(own, trial.reactions.append)
    await land(writer, await batch_number(0))
    session = await own.fetchval("SELECT pg_backend_pid()")
    rival = await database.connect()
    await rival.execute("SET deadlock_timeout = '60s'")  # so that the batch is the one that loses
    theirs = rival.transaction()
    await theirs.start()
    await rival.execute("SELECT FROM payments WHERE payment_id = 'p0-b' FOR UPDATE")
    writing = asyncio.create_task(land(writer, await another_batch(0)))
    await eventually(partial(waits, trial), what="the batch waits for the rival")
    await rival.execute("SELECT FROM payments WHERE payment_id = 'p0-a' FOR UPDATE")
    await theirs.rollback()
    await writing
    assert trial.reactions == [Reaction.RETRY]
    assert await own.fetchval("SELECT pg_backend_pid()") == session
    assert await trial.pool.fetchval("SELECT count(*) FROM payments WHERE erp_version = 9") == 2
    await own.close()


SILENCES = {"BEGIN": 0.0, "the middle": 0.5, "COMMIT": 1.0}


@pytest.mark.parametrize("answer_lost", [False, True], ids=["request", "answer"])
@pytest.mark.parametrize("where", SILENCES)
async def test_silence_is_bounded_and_the_batch_lands_once_when_it_ends(
    trial: Trial, where: str, *, answer_lost: bool
) -> None:
    """What was held when the network fell silent reaches the server after all: late and in vain."""
    messages = await trial.messages(0)
    silent_at = 1 + round(SILENCES[where] * (len(messages) - 1))
    began = ended = 0.0

    def look(passed: int, _: bytes) -> None:
        nonlocal began
        if passed == silent_at:
            began = time.monotonic()
            # Set after this message has gone on, or at once.
            fall_silent = partial(setattr, trial.proxy, "black_hole", True)
            asyncio.get_running_loop().call_soon(fall_silent) if answer_lost else fall_silent()

    async def speak_again() -> None:
        nonlocal ended
        await eventually(lambda: trial.reactions, what="the writer gave up waiting")
        ended = time.monotonic()
        trial.proxy.black_hole = False

    async with asyncio.TaskGroup() as group:
        group.create_task(speak_again())
        with suppress(OffsetFenced):
            await trial.write(1, look)
    assert 0 < ended - began < BOUND_SECONDS
    await eventually(partial(idle, trial), what="no transaction is open")
    assert await what_landed(trial.pool, 1) == await what_landed(trial.pool, 0)


async def idle(trial: Trial) -> bool:
    """Whether no session but the one that asks has a transaction open."""
    open_ones = await trial.pool.fetchval(
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND xact_start IS NOT NULL AND pid <> pg_backend_pid()"
    )
    return bool(open_ones == 0)


async def waits(trial: Trial) -> bool:
    waiting = await trial.pool.fetchval(
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    return bool(waiting)
