"""`reconciler dead-letters replay` and `discard`: what is done, and what became of it in sum."""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from rich.console import Console

from service.assembly import ingest_options
from service.commands.dead_letter_choice import Choice
from service.commands.dead_letter_handling import Fate, Handled, Order, chosen, handled
from service.commands.dead_letter_text import one_line
from service.commands.progress import progress_bar
from service.commands.reachable import reaching
from service.connections import pool_options
from service.ingest.batch import Refusal
from service.ingest.letter_replay import (
    DISCARDED,
    REPLAYED,
    By,
    Readers,
    StillRefused,
    discard,
    read_again,
    replay,
)
from service.settings import Settings
from service.store.dead_letters import Kept
from service.store.pool import open_pool

_CONNECTIONS_MAX = 2

_ADVICE = (
    "what is still refused stays parked: mend how it is read (the settings of its decoder, or a"
    " newer release) and replay it again, or let its source send the payment anew and discard it"
)


async def replay_letters(settings: Settings, choice: Choice, *, by: By, dry_run: bool) -> int:
    """Apply the chosen dead letters; 1 if any of them is not replayed now.

    Raises ConfigurationError where nothing chooses.
    """
    kafka = settings.kafka
    readers = Readers(options=ingest_options(settings), topics=(kafka.erp_topic, kafka.psp_topic))

    async def apply_one(connection: Any, kept: Kept) -> Handled:
        outcomes = Counter(await replay(connection, kept, readers=readers, by=by))
        return Handled(Fate.CHANGED, outcomes=outcomes)

    async def try_one(_connection: Any, kept: Kept) -> Handled:
        content = read_again(kept.letter, readers)
        if isinstance(content, Refusal):
            raise StillRefused(content)
        return Handled(Fate.CHANGED, f"{kept.dead_letter_id}: would be replayed")

    order = Order(
        before=choice.status or "parked",
        after=REPLAYED,
        change=try_one if dry_run else apply_one,
    )
    return await _carry_out(settings, choice, order, dry_run=dry_run)


async def discard_letters(settings: Settings, choice: Choice, *, by: By, dry_run: bool) -> int:
    """Mark the chosen dead letters as never to be applied; 1 if any of them is not now.

    Raises ConfigurationError where nothing chooses.
    """

    async def mark_one(connection: Any, kept: Kept) -> Handled:
        await discard(connection, kept, by=by)
        return Handled(Fate.CHANGED)

    async def name_one(_connection: Any, kept: Kept) -> Handled:
        return Handled(Fate.CHANGED, f"{kept.dead_letter_id}: would be discarded")

    order = Order(
        before="parked",
        after=DISCARDED,
        change=name_one if dry_run else mark_one,
    )
    return await _carry_out(settings, choice, order, dry_run=dry_run)


async def _carry_out(settings: Settings, choice: Choice, order: Order, *, dry_run: bool) -> int:
    """Tell of each dead letter that the sum does not explain, and sum up."""
    choice.require()
    out = Console(highlight=False, markup=False, emoji=False)
    fates: Counter[Fate] = Counter()
    outcomes: Counter[str] = Counter()
    async with _pool(settings) as pool:
        what = await chosen(pool, choice)
        with progress_bar() as progress:
            bar = progress.add_task("dead letters", total=what.letters)
            async for each in handled(pool, what, order):
                fates[each.fate] += 1
                outcomes += each.outcomes
                progress.update(bar, completed=fates.total())
                if each.told:
                    out.print(one_line(each.told), soft_wrap=True)
    changed = f"would be {order.after}" if dry_run else order.after
    out.print(_sum_of(fates, outcomes, changed=changed, after=order.after), soft_wrap=True)
    if fates[Fate.REFUSED]:
        out.print(_ADVICE, soft_wrap=True)
    return 1 if fates[Fate.REFUSED] or fates[Fate.OTHER_STATUS] or fates[Fate.ABSENT] else 0


def _sum_of(fates: Counter[Fate], outcomes: Counter[str], *, changed: str, after: str) -> str:
    became = ", ".join(f"{outcome} {number}" for outcome, number in sorted(outcomes.items()))
    others = {
        Fate.ALREADY: f"{after} already",
        Fate.REFUSED: "still refused",
        Fate.OTHER_STATUS: "of another status",
        Fate.ABSENT: "not found",
    }
    parts = [f"{changed} {fates[Fate.CHANGED]}{f' ({became})' if became else ''}"]
    parts += [f"{named} {fates[fate]}" for fate, named in others.items() if fates[fate]]
    return ", ".join(parts)


@asynccontextmanager
async def _pool(settings: Settings) -> AsyncIterator[Any]:
    """A small pool, which replaces a connection that is lost on the way."""
    options = pool_options(settings.database, application_name="reconciler-dead-letters")
    small = replace(options, connections_min=1, connections_max=_CONNECTIONS_MAX)
    async with reaching("RECONCILER_DATABASE__URL"), await open_pool(small) as pool:
        yield pool
