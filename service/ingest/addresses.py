"""Finds the payment of events that name only the PSP's reference."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from service.domain.events import SourceEvent
from service.ingest.batch import Bundle, Item, Refusal
from service.store import psp_payments

Known = dict[tuple[str, str], set[str]]
"""(psp, PSP reference) -> the payments that have such a PSP payment."""


async def resolved(connection: Any, items: Sequence[Item]) -> Sequence[Item]:
    """The items with a payment for each event. A record with an event for which none is known, or
    more than one, is refused.

    What the other records of the batch tell counts as known: it lands with them.
    """
    wanted = {
        event.stream
        for item in items
        if isinstance(item.content, Bundle) and item.content.unaddressed is not None
        for event in item.content.events
        if not event.payment_id
    }
    if not wanted:
        return items
    known = await psp_payments.named(connection, wanted)
    _learn(known, items)
    return [_addressed(item, known) for item in items]


def _learn(known: Known, items: Sequence[Item]) -> None:
    for _, content in items:
        if isinstance(content, SourceEvent) and content.psp_reference and content.fields:
            known.setdefault(content.stream, set()).add(content.payment_id)


def _addressed(item: Item, known: Known) -> Item:
    content = item.content
    if not isinstance(content, Bundle) or content.unaddressed is None:
        return item
    events = []
    for event in content.events:
        if event.payment_id:
            events.append(event)
            continue
        payment_ids = known.get(event.stream, set())
        if len(payment_ids) != 1:
            return Item(item.record, _refused(content.unaddressed, payment_ids))
        events.append(replace(event, payment_id=min(payment_ids)))
    return Item(item.record, replace(content, events=tuple(events), unaddressed=None))


def _refused(unaddressed: Refusal, payment_ids: set[str]) -> Refusal:
    if not payment_ids:
        return unaddressed
    told = f"; {len(payment_ids)} payments are known by the PSP's reference"
    return unaddressed._replace(error=unaddressed.error + told)
