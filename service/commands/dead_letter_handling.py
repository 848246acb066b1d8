"""Dead letters one after the other, in the order of their topics, each in a transaction of its
own, so that one that cannot be changed keeps no other.
"""

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from service.commands.dead_letter_choice import Choice
from service.commands.dead_letter_text import masked
from service.ingest.batch import Refusal
from service.ingest.letter_replay import DISCARDED, StillRefused
from service.ingest.quarantine import refusal_of
from service.store import dead_letters
from service.store.dead_letters import BEGINNING, Cursor, Kept, Wanted
from service.store.faults import Reaction, UnknownCommit, reaction
from service.store.pool import expire
from service.store.transactions import transaction

PAGE_LETTERS: Final = 200
TRIES_MAX: Final = 6
_PAUSE_FIRST_SECONDS = 0.1


class Fate(StrEnum):
    """What became of one dead letter."""

    CHANGED = "changed"
    ALREADY = "already"
    REFUSED = "refused"
    OTHER_STATUS = "other_status"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class Handled:
    """One dead letter's fate; `told` is the line about it, empty where the sum says enough."""

    fate: Fate
    told: str = ""
    outcomes: Counter[str] = field(default_factory=Counter)


Change = Callable[[Any, Kept], Awaitable[Handled]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What to do: `change` takes a dead letter of status `before` to status `after`."""

    before: str
    after: str
    change: Change


@dataclass(frozen=True, slots=True)
class Chosen:
    """What a choice comes to: how many dead letters, and none parked after `highest_id`; the
    `ids` that have to be there.
    """

    wanted: Wanted
    ids: tuple[int, ...]
    letters: int
    highest_id: int


async def chosen(pool: Any, choice: Choice) -> Chosen:
    """Count what was chosen. Raises ConfigurationError for times that are none."""
    async with transaction(pool) as connection:
        wanted = await choice.wanted(connection)
        counts = await dead_letters.counted(connection, wanted)
    there = sum(each.letters for each in counts)
    return Chosen(
        wanted=wanted,
        ids=choice.ids if choice.limit is None else (),
        letters=min(there, choice.limit or there),
        highest_id=max((each.highest_id for each in counts), default=0),
    )


async def handled(pool: Any, what: Chosen, order: Order) -> AsyncIterator[Handled]:
    """The fate of each chosen dead letter, and last those of ids that are not there."""
    found: set[int] = set()
    after = BEGINNING
    while len(found) < what.letters:
        limit = min(PAGE_LETTERS, what.letters - len(found))
        async with transaction(pool) as connection:
            page = await dead_letters.page(
                connection, what.wanted, after=after, highest_id=what.highest_id, limit=limit
            )
        for letter in page:
            found.add(letter.dead_letter_id)
            after = Cursor(letter.origin, letter.dead_letter_id)
            yield await handle(pool, letter.dead_letter_id, order)
        if len(page) < limit:
            break
    for absent in sorted(set(what.ids) - found):
        told = f"{absent}: there is no such dead letter, or the filters leave it out"
        yield Handled(Fate.ABSENT, told)


async def handle(pool: Any, dead_letter_id: int, order: Order) -> Handled:
    """Change one dead letter, again where the database asks for it.

    A commit whose answer was lost is looked up: the status read next tells what became of it.
    Raises what is no matter of this one record.
    """
    unsure = False
    for attempt in itertools.count(1):
        try:
            async with transaction(pool) as connection:
                fate = await _change(connection, dead_letter_id, order)
        except StillRefused as refused:
            return _refused(dead_letter_id, refused.refusal)
        except Exception as error:
            if _about_content(error):
                return _refused(dead_letter_id, refusal_of(error, None))
            if reaction(error) is Reaction.STOP or attempt == TRIES_MAX:
                raise
            unsure = unsure or isinstance(error, UnknownCommit)
            await _pause(pool, reaction(error), attempt)
        else:
            if unsure and fate.fate is Fate.ALREADY:
                return replace(fate, fate=Fate.CHANGED, told="")
            return fate
    raise AssertionError("counting never ends")


async def _change(connection: Any, dead_letter_id: int, order: Order) -> Handled:
    kept = await dead_letters.read(connection, dead_letter_id)
    if kept is None:
        return Handled(Fate.ABSENT, f"{dead_letter_id}: there is no such dead letter any more")
    if kept.status == order.before:
        return await order.change(connection, kept)
    if kept.status == order.after:
        return Handled(Fate.ALREADY, f"{dead_letter_id}: is {order.after} already")
    remedy = "; replay it with --status discarded" if kept.status == DISCARDED else ""
    told = f"{dead_letter_id}: is {kept.status}, not {order.before}{remedy}"
    return Handled(Fate.OTHER_STATUS, told)


async def _pause(pool: Any, wanted: Reaction, attempt: int) -> None:
    """Before the next attempt: with jitter, and over new connections if the old are doubtful."""
    if wanted is Reaction.RECONNECT:
        await expire(pool)
    ceiling = _PAUSE_FIRST_SECONDS * 2**attempt
    await asyncio.sleep(random.uniform(ceiling / 2, ceiling))  # noqa: S311 - jitter


def _refused(dead_letter_id: int, refusal: Refusal) -> Handled:
    told = f"{dead_letter_id}: still refused, {refusal.reason}: {masked(refusal.error)}"
    return Handled(Fate.REFUSED, told)


def _about_content(error: Exception) -> bool:
    """Whether the database refused this record, and nothing else is wrong. Whatever constraint it
    was, and whoever has added it: the dead letter stays, nothing is lost.
    """
    sqlstate = getattr(error, "sqlstate", None) or ""
    return reaction(error) is Reaction.BISECT or sqlstate.startswith("23")
