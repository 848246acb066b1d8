"""Dead letters are chosen, replayed and discarded one by one, whatever happens to the database."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest
import pytest_asyncio

from service.commands.dead_letter_choice import Choice
from service.commands.dead_letter_handling import (
    PAGE_LETTERS,
    Fate,
    Handled,
    Order,
    chosen,
    handle,
    handled,
)
from service.commands.dead_letter_text import many_lines, masked, one_line, shown
from service.errors import ConfigurationError
from service.ingest.letter_replay import By, Readers, replay
from service.ingest.options import IngestOptions
from service.store import dead_letters
from service.store.dead_letters import Kept
from service.store.offsets import Partition
from service.store.pool import PoolOptions, open_pool
from service.store.transactions import transaction
from tests.support.dead_letters import (
    OPTIONS,
    TOPIC,
    actions,
    of_own_exponent,
    park,
    statuses,
    written,
)
from tests.support.proxy import Cut, database_proxy

# What was refused while the account's exponent was not known is read with it.
READERS = Readers(
    options=IngestOptions(apply=OPTIONS, exponents={"acme-eu": {"ISK": 2}}), topics=(TOPIC,)
)
BY = By(actor="ana", note=None)


async def apply_one(connection: Any, kept: Kept) -> Handled:
    outcomes = await replay(connection, kept, readers=READERS, by=BY)
    return Handled(Fate.CHANGED, outcomes=Counter(outcomes))


REPLAY = Order(before="parked", after="replayed", change=apply_one)


@pytest_asyncio.fixture
async def pool(database: Any) -> AsyncIterator[Any]:
    opened = await open_pool(PoolOptions(url=database.url))
    yield opened
    await opened.close()


async def carried_out(pool: Any, choice: Choice) -> list[Handled]:
    return [each async for each in handled(pool, await chosen(pool, choice), REPLAY)]


FILTERED: Sequence[tuple[dict[str, str | None], set[int]]] = [
    ({"reason": "not_json"}, {1, 10}),
    ({"topic": "erp.payments"}, {4}),
    ({"payment": "p-1"}, {9}),
    ({"status": "discarded"}, {2}),
    ({"status": None}, {1, 2, 4, 9, 10}),
    ({"since": "1h"}, {1, 4, 9, 10}),
    ({"since": "1h", "status": "discarded"}, {2}),
    ({"until": "1h"}, set()),
    ({"until": "0s", "reason": "not_json"}, {1, 10}),
    ({"since": "{ahead}"}, set()),
    ({"until": "{ahead}", "topic": TOPIC}, {1, 9, 10}),
]


@pytest.mark.parametrize(("filters", "found"), FILTERED)
async def test_choice_is_what_every_filter_lets_through(
    pool: Any, database: Any, filters: dict[str, str | None], found: set[int]
) -> None:
    for offset, value, key in ((1, b"{", None), (2, b"\xff", None), (10, b"[", b"p-2")):
        await park(database.url, offset, value, key=key)
    await park(database.url, 9, of_own_exponent("p-1", 1), key=b"p-1")
    await park(database.url, 4, b"\0", partition=Partition("erp.payments", 1))
    ahead = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    given: Any = {name: text and text.format(ahead=ahead) for name, text in filters.items()}
    choice = replace(Choice(), **given)
    async with transaction(pool) as connection:
        await connection.execute("UPDATE dead_letters SET status = 'discarded' WHERE \"offset\"=2")
        wanted = await choice.wanted(connection)
        newest = await dead_letters.newest(connection, wanted, limit=10)
        counts = await dead_letters.counted(connection, wanted)
        page = await dead_letters.page(
            connection, wanted, after=dead_letters.BEGINNING, highest_id=99, limit=10
        )
    assert {each.origin.offset for each in newest} == found
    assert sorted(newest, key=lambda each: each.origin) == page
    assert sum(each.letters for each in counts) == len(found)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"since": "yesterday"}, "--since is 'yesterday'; allowed: an RFC 3339 time with offset"),
        ({"until": "2026-11-30T14:00:00"}, "say its offset"),
        ({"until": "0001-01-01T00:00:00+14:00"}, "--until"),
        ({"since": "999999999w"}, "--since"),
        ({"since": "1h", "until": "2h"}, "--since is not before --until"),
    ],
)
async def test_time_that_is_none_is_refused_with_what_would_be_one(
    pool: Any, given: Any, told: str
) -> None:
    async with transaction(pool) as connection:
        with pytest.raises(ConfigurationError) as raised:
            await replace(Choice(), **given).wanted(connection)
    assert told in str(raised.value)


async def test_page_after_page_lands_in_order_and_what_is_parked_meanwhile_waits(
    pool: Any, database: Any
) -> None:
    number = 2 * PAGE_LETTERS + 7
    await pool.execute(
        'INSERT INTO dead_letters (topic, partition, "offset", key, reason, error)'
        " SELECT $1, n % 3, n, 'p-1', 'not_json', '' FROM generate_series(1, $2::int) AS n"
        " ORDER BY md5(n::text)",
        TOPIC,
        number,
    )
    what = await chosen(pool, Choice(everything=True))
    assert what.letters == number
    late = await park(database.url, 0, b"{")
    fates = [each async for each in handled(pool, what, REPLAY)]
    assert len(fates) == number
    assert {each.fate for each in fates} == {Fate.CHANGED}
    places = await pool.fetch(
        'SELECT partition, "offset" FROM operator_actions JOIN dead_letters'
        " ON dead_letter_id = subject::bigint ORDER BY action_id"
    )
    assert len(places) == number
    assert [tuple(row) for row in places] == sorted(tuple(row) for row in places)
    assert (await statuses(pool))[late] == "parked"


SPOILED = {
    "a constraint of somebody else": (
        "ALTER TABLE payments ADD CONSTRAINT theirs CHECK (payment_id <> 'bad')"
    ),
    "one of ours": (
        "ALTER TABLE payments DROP CONSTRAINT payments_payment_id_length,"
        " ADD CONSTRAINT payments_payment_id_length CHECK (payment_id <> 'bad')"
    ),
    "class 22": (
        "CREATE FUNCTION spoil() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " IF NEW.payment_id = 'bad' THEN RAISE EXCEPTION USING ERRCODE = '22003'; END IF;"
        " RETURN NEW; END $$;"
        " CREATE TRIGGER spoil BEFORE INSERT ON payments FOR EACH ROW EXECUTE FUNCTION spoil()"
    ),
}


@pytest.mark.parametrize("spoil", SPOILED.values(), ids=list(SPOILED))
async def test_letter_that_the_database_refuses_keeps_no_other(
    pool: Any, database: Any, spoil: str
) -> None:
    ids = [
        await park(database.url, at, of_own_exponent(name, 1))
        for at, name in enumerate(["a", "bad", "c"])
    ]
    await pool.execute(spoil)
    first, second, third = await carried_out(pool, Choice(everything=True))
    assert (first.fate, second.fate, third.fate) == (Fate.CHANGED, Fate.REFUSED, Fate.CHANGED)
    assert f"{ids[1]}: still refused, database_refused: PostgreSQL refused it" in second.told
    states = ("replayed", "parked", "replayed")
    assert await statuses(pool) == dict(zip(ids, states, strict=True))
    assert [row[1] for row in await actions(pool)] == [str(ids[0]), str(ids[2])]


async def test_statement_that_is_wrong_ends_the_command_and_writes_nothing(
    pool: Any, database: Any
) -> None:
    await park(database.url, 1, of_own_exponent("a", 1))
    await pool.execute("ALTER TABLE payments DROP COLUMN disputed_minor CASCADE")
    before = await written(pool)
    with pytest.raises(asyncpg.UndefinedColumnError):
        await carried_out(pool, Choice(everything=True))
    assert await written(pool) == before


@pytest.mark.parametrize("cut", list(Cut))
async def test_replay_whose_commit_was_never_answered_is_done_once(
    pool: Any, database: Any, cut: Cut
) -> None:
    parked = await park(database.url, 1, of_own_exponent("a", 1))
    async with database_proxy(database.url) as proxy:
        unsafe = await open_pool(PoolOptions(url=proxy.url(database.url)))
        proxy.cut_commit(cut)
        fate = await handle(unsafe, parked, REPLAY)
        await unsafe.close()
    assert proxy.cuts == 1
    assert (fate.fate, fate.told) == (Fate.CHANGED, "")
    assert await statuses(pool) == {parked: "replayed"}
    assert len(await actions(pool)) == 1
    assert await pool.fetchval("SELECT count(*) FROM payment_events") == 1


async def test_letter_that_is_locked_too_long_is_tried_again(pool: Any, database: Any) -> None:
    await park(database.url, 1, of_own_exponent("a", 1))
    await carried_out(pool, Choice(everything=True))
    parked = await park(database.url, 2, of_own_exponent("a", 2))
    impatient = await open_pool(PoolOptions(url=database.url, lock_timeout_seconds=0.05))
    holder = await database.connect()
    held = holder.transaction()
    await held.start()
    await holder.execute("SELECT 1 FROM payments FOR NO KEY UPDATE")
    tries: list[int] = []
    tried_again = asyncio.Event()

    async def counted(connection: Any, kept: Kept) -> Handled:
        tries.append(kept.dead_letter_id)
        if len(tries) == 2:
            tried_again.set()
        return await apply_one(connection, kept)

    replaying = asyncio.create_task(handle(impatient, parked, replace(REPLAY, change=counted)))
    async with asyncio.timeout(20):
        await tried_again.wait()
        await held.rollback()
        assert (await replaying).fate is Fate.CHANGED
    await impatient.close()
    assert set((await statuses(pool)).values()) == {"replayed"}


async def test_status_that_somebody_else_changed_first_stands(pool: Any, database: Any) -> None:
    """The loser's work on the payment is taken back with it."""
    parked = await park(database.url, 1, of_own_exponent("a", 1))

    async def overtaken(connection: Any, kept: Kept) -> Handled:
        if (await statuses(pool))[parked] == "parked":
            await pool.execute("UPDATE dead_letters SET status = 'discarded'")
        return await apply_one(connection, kept)

    fate = await handle(pool, parked, replace(REPLAY, change=overtaken))
    assert (fate.fate, fate.told) == (
        Fate.OTHER_STATUS,
        f"{parked}: is discarded, not parked; replay it with --status discarded",
    )
    assert await statuses(pool) == {parked: "discarded"}
    assert await pool.fetchval("SELECT count(*) FROM payments") == 0
    assert await actions(pool) == []


async def test_headers_of_binary_mode_survive_parking(pool: Any, database: Any) -> None:
    headers: list[tuple[str, bytes | None]] = [
        ("text", b"as it is"),
        ("bytes", b"\xff\x00"),
        ("null", None),
        ("text", b"twice"),
    ]
    parked = await park(database.url, 1, b"{", headers=headers)
    async with transaction(pool) as connection:
        kept = await dead_letters.read(connection, parked)
    assert kept is not None
    assert kept.letter.headers == headers


def test_long_text_is_masked_without_a_cut_through_a_number() -> None:
    card = "4111 1111 1111 1111"
    for before in (1_990, 1_999, 2_000, 3_985):
        text = "a" * before + card + "b" * 100
        assert masked(text) == "a" * before + "****" + "b" * 100


def test_signs_that_move_a_cursor_are_escaped() -> None:
    assert one_line("a\x1b[2J\tb\n\u202ec") == "a\\x1b[2J\\tb\\n\\u202ec"
    assert many_lines("a\tb\nc\x7f") == "a\tb\nc\\x7f"
    assert shown("é\n\x1b".encode()) == "é\n\\x1b"
    assert shown(b"a\x00b") == "61 00 62"
