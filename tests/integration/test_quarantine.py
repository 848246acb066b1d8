"""Bad records at every edge of a batch: they alone are parked, the rest lands, and each position
moves on contiguously.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from schemas.refusal import Reason
from service.errors import OffsetFenced
from service.ingest.quarantine import CULPRITS_MAX
from service.store.dead_letters import VALUE_BYTES_MAX
from service.store.faults import Reaction
from service.store.offsets import Partition
from service.store.pool import PoolOptions, open_pool
from tests.contract.records import EXAMPLES, record_of
from tests.support.batches import (
    OPTIONS,
    Slices,
    batch_of,
    land,
    place,
    positions,
    writer_of,
)
from tests.support.events import Record, psp_event
from tests.support.steps import assert_contiguous, watch_steps

A, B = Partition("psp.payments", 0), Partition("psp.payments", 1)
INVALID = sorted((EXAMPLES / "invalid").iterdir())

# One of our own constraints, narrower than what decoding lets through.
REFUSE_BAD = """
ALTER TABLE payments DROP CONSTRAINT payments_payment_id_length,
    ADD CONSTRAINT payments_payment_id_length CHECK (payment_id NOT LIKE 'bad%')
"""
# Whoever added this one said nothing about a record's content.
REFUSE_STRANGE = "ALTER TABLE payments ADD CONSTRAINT theirs CHECK (payment_id NOT LIKE 'strange%')"
ALLOW_STRANGE = "ALTER TABLE payments DROP CONSTRAINT theirs"
REFUSE_LETTERS = "ALTER TABLE dead_letters ADD CONSTRAINT theirs CHECK (false) NOT VALID"
ALLOW_LETTERS = "ALTER TABLE dead_letters DROP CONSTRAINT theirs"


class Book:
    """The database of one test, its steps watched."""

    def __init__(self, pool: Any) -> None:
        self.pool = pool

    async def rows(self, query: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in await self.pool.fetch(query)]

    async def parked(self) -> list[tuple[int, int, str]]:
        """Partition, offset and reason of each dead letter."""
        return [
            (row[0], row[1], row[2])
            for row in await self.rows(
                'SELECT partition, "offset", reason FROM dead_letters ORDER BY topic, 1, 2'
            )
        ]

    async def applied(self) -> list[tuple[int, int]]:
        """Partition and offset of each event in the log; each of them was applied."""
        rows = await self.rows(
            'SELECT partition, "offset", outcome FROM payment_events ORDER BY topic, 1, 2'
        )
        assert {row[2] for row in rows} <= {"applied"}
        return [(row[0], row[1]) for row in rows]


@pytest.fixture
async def book(database: Any) -> AsyncIterator[Book]:
    pool = await open_pool(PoolOptions(url=database.url))
    await watch_steps(pool)
    await place(pool, [A, B])
    yield Book(pool)
    await pool.close()


def slice_of(pattern: str, first: int = 0) -> list[Record]:
    """A record a letter: `.` a good one, `x` one that the database refuses, `s` a stranger's."""
    names = {".": "good", "x": "bad", "s": "strange"}
    return [psp_event(f"{names[each]}-{first + at}", 1) for at, each in enumerate(pattern)]


def places(patterns: Sequence[str], letters: str) -> list[tuple[int, int]]:
    return [
        (number, offset)
        for number, pattern in enumerate(patterns)
        for offset, letter in enumerate(pattern)
        if letter in letters
    ]


def slices_of(*patterns: str) -> Slices:
    return {
        partition: slice_of(pattern, 10 * number)
        for number, (partition, pattern) in enumerate(zip((A, B), patterns, strict=False))
    }


CULPRITS = {
    "first of the batch": ("x....", "...."),
    "last of the batch": (".....", "...x"),
    "alone": ("x",),
    "alone in its partition": ("....", "x"),
    "two neighbours": ("..xx..", "...."),
    "neighbours over the edge of two partitions": ("....x", "x...."),
    "one in each partition": ("..x..", ".x.."),
    "every second record": ("x.x.x.x", ".x.x.x."),
    "every record": ("xxx", "xx"),
}


@pytest.mark.parametrize("patterns", CULPRITS.values(), ids=CULPRITS)
async def test_records_that_the_database_refuses_are_parked_alone_wherever_they_stand(
    book: Book, patterns: tuple[str, ...]
) -> None:
    """Reported as kafka-connect-jdbc 721 and debezium 984."""
    await book.pool.execute(REFUSE_BAD)
    await land(writer_of(book.pool), await batch_of(slices_of(*patterns)))
    culprits = places(patterns, "x")
    assert await book.parked() == [(*place, "database_refused") for place in culprits]
    assert await book.applied() == places(patterns, ".")
    stood = await positions(book.pool)
    assert [stood[each] for each, _ in zip((A, B), patterns, strict=False)] == [
        len(pattern) for pattern in patterns
    ]
    assert await assert_contiguous(book.pool)


@pytest.mark.parametrize("number", [CULPRITS_MAX, CULPRITS_MAX + 1])
async def test_as_many_culprits_as_allowed_are_parked_and_one_more_stops_before_it(
    book: Book, number: int
) -> None:
    await book.pool.execute(REFUSE_BAD)
    batch = await batch_of({A: slice_of("x" * number)})
    writing = asyncio.gather(land(writer_of(book.pool), batch), return_exceptions=True)
    [result] = await writing
    assert isinstance(result, Exception) == (number > CULPRITS_MAX)
    assert (await positions(book.pool))[A] == CULPRITS_MAX
    assert await assert_contiguous(book.pool)


@pytest.mark.parametrize("reason", list(Reason))
async def test_records_refused_in_decoding_are_parked_at_each_edge(
    book: Book, reason: Reason
) -> None:
    """First and last of the batch and of each partition's slice, every example of its reason."""
    examples = [path for path in INVALID if path.name.partition("-")[0] == reason]
    assert examples
    for number, path in enumerate(examples):
        first, second = (Partition("psp.payments", 10 * number + at) for at in (2, 3))
        await place(book.pool, [first, second])
        bad, good = poison(path), slice_of("......", 10 * number)
        slices = {first: [bad, good[0], good[1], bad], second: [bad, good[2], bad]}
        reasons = await land(writer_of(book.pool), await batch_of(slices))
        assert reasons == [reason] * 4, path.name
        stood = await positions(book.pool)
        assert (stood[first], stood[second]) == (4, 3), path.name
        query = "SELECT DISTINCT value FROM dead_letters WHERE partition IN ($1, $2)"
        kept = await book.pool.fetch(query, first.number, second.number)
        assert [row[0] for row in kept] == [(bad.value or b"")[:VALUE_BYTES_MAX]], path.name
    assert len(await book.parked()) == 4 * len(examples)
    assert len(await book.applied()) == 3 * len(examples)
    assert await assert_contiguous(book.pool)


def poison(path: Path) -> Record:
    example = record_of(path)
    headers = tuple((name, value or b"") for name, value in example.headers)
    return Record("psp", example.key, example.value, headers)


async def test_one_nul_is_parked_alone_wherever_it_stands(book: Book) -> None:
    """Reported as scribe 6."""
    good = slice_of("......")
    value = good[1].value or b""
    texts = {
        "id": (b'"psp-good-1-0-1"', b'"a\\u0000b"'),
        "subject": (b'"subject": "good-1"', b'"subject": "good\\u0000"'),
        "unknown field": (b'"data": {', b'"data": {"note": "\\u0000", '),
        "raw byte": (b'"data": {', b'"data": {"note": "\x00", '),
    }
    bad = [replace(good[1], value=value.replace(old, new)) for old, new in texts.values()]
    assert all(each.value != value for each in bad)
    for number, each in enumerate([*bad, replace(good[1], key=b"good\x00")], 10):
        partition = Partition("psp.payments", number)
        await place(book.pool, [partition])
        fresh = slice_of("..", 10 * number)
        reasons = await land(
            writer_of(book.pool), await batch_of({partition: [fresh[0], each, fresh[1]]})
        )
        assert len(reasons) == 1
        assert (await positions(book.pool))[partition] == 3
        assert "database_refused" not in reasons
    assert len(await book.applied()) == 2 * (len(texts) + 1)
    assert await assert_contiguous(book.pool)


STRANGERS = {"first": "s.x.x", "between culprits": ".xs.x.", "last": ".x..s"}


@pytest.mark.parametrize("pattern", STRANGERS.values(), ids=STRANGERS)
async def test_record_that_is_not_settled_is_not_passed_by_a_later_one(
    book: Book, pattern: str
) -> None:
    """Reported as faststream 2618 and faststream 1001. What the database refuses for a reason that
    says nothing about a record is tried again, and the position waits for it.
    """
    await book.pool.execute(REFUSE_BAD)
    await book.pool.execute(REFUSE_STRANGE)
    waiting_at = pattern.index("s")
    reactions: list[Reaction] = []
    given_up = asyncio.Event()

    def note(reaction: Reaction) -> None:
        reactions.append(reaction)
        given_up.set()

    writer = writer_of(book.pool, note)
    batch = await batch_of({A: slice_of(pattern)})
    async with asyncio.timeout(20):
        assert await writer.write(batch, give_up=given_up) is None
    assert reactions == [Reaction.PAUSE]
    stood = (await positions(book.pool))[A]
    assert stood <= waiting_at
    assert all(offset < stood for _, offset in await book.applied())
    assert all(offset < stood for _, offset, _ in await book.parked())

    await book.pool.execute(ALLOW_STRANGE)
    if stood:
        with pytest.raises(OffsetFenced):
            await land(writer, batch)
    rest = await batch_of({A: slice_of(pattern)[stood:]}, start=stood)
    await land(writer, rest)
    assert (await positions(book.pool))[A] == len(pattern)
    assert await book.applied() == places([pattern], ".s")
    assert [row[:2] for row in await book.parked()] == places([pattern], "x")
    assert await assert_contiguous(book.pool)


async def test_bad_record_that_cannot_be_parked_is_not_passed_by_a_later_one(book: Book) -> None:
    """Reported as faststream 2618 and faststream 1001."""
    await book.pool.execute(REFUSE_LETTERS)
    given_up = asyncio.Event()
    writer = writer_of(book.pool, lambda _: given_up.set())
    batch = await batch_of({A: [*slice_of("."), Record("psp", b"p", b"{"), *slice_of(".", 5)]})
    async with asyncio.timeout(20):
        assert await writer.write(batch, give_up=given_up) is None
    assert (await positions(book.pool))[A] == 0
    assert await book.applied() == []
    await book.pool.execute(ALLOW_LETTERS)
    assert await land(writer, batch) == ["not_json"]
    assert await book.applied() == [(0, 0), (0, 2)]
    assert await book.rows("SELECT topic FROM outbox WHERE topic = 'dead'") == [
        (OPTIONS.dead_letter_topic,)
    ]
    assert await assert_contiguous(book.pool)
