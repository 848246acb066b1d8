"""Finds the record that the database refuses, so that the rest of its batch lands."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

from service.ingest.apply import Applied
from service.ingest.batch import Batch, Item, Refusal, payments_named
from service.store.faults import Reaction, reaction

REASON = "database_refused"
CULPRITS_MAX = 20
"""A database that refuses more records of one batch refuses our statement, not records."""

Write = Callable[[Batch], Awaitable[Applied]]


async def land(batch: Batch, error: Exception, *, write: Write) -> list[Applied]:
    """Write all of `batch` that the database takes, and park what it refuses.

    `error` is its refusal of the whole, `write` one transaction. Halves go in order, so each
    position moves on contiguously; what has landed stays when a later half raises, as does
    whatever `write` raises for another reason than a record's content.
    """
    landed: list[Applied] = []
    waiting: list[tuple[Batch, Exception | None]] = [(batch, error)]
    culprits = 0
    while waiting:
        part, refusal = waiting.pop()
        if refusal is not None and len(part.items) > 1:
            first, second = part.halves()
            waiting += [(second, None), (first, None)]
            continue
        if refusal is not None:
            culprits += 1
            if culprits > CULPRITS_MAX or not _is_event(part):
                raise refusal
            part = _parked(part, refusal)
        try:
            landed.append(await write(part))
        except Exception as caught:
            if reaction(caught) is not Reaction.BISECT or refusal is not None:
                raise
            waiting.append((part, caught))
    return landed


def _is_event(part: Batch) -> bool:
    return bool(part.items) and not isinstance(part.items[0].content, Refusal)


def refusal_of(error: Exception, payment_id: str | None) -> Refusal:
    """What the database has against a record: the error's class and code, not its text, which may
    quote the payload.
    """
    code = getattr(error, "sqlstate", None)
    constraint = getattr(error, "constraint_name", None)
    told = f"PostgreSQL refused it: {type(error).__name__} {code} {constraint or ''}".rstrip()
    return Refusal(REASON, told, payment_id)


def _parked(part: Batch, error: Exception) -> Batch:
    """The batch of one record with the record as a dead letter."""
    item = part.items[0]
    payment_id = min(payments_named([item]), default=None)
    refused = Item(item.record, refusal_of(error, payment_id))
    return replace(part, items=[refused])
