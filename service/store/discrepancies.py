"""The table `discrepancies`: cases that the facts open and close, and that a person may close."""

from collections.abc import Sequence
from typing import Any

from service.domain.payment import Case
from service.errors import StaleWrite
from service.store.pool import compact_json
from service.store.rows import Row, case_of, columns
from service.store.statements import affected, sql

Named = Sequence[tuple[str, Case]]
"""Cases, each with its payment's id."""


async def read(connection: Any, payment_ids: Sequence[str]) -> Named:
    """The cases whose facts still disagree."""
    return [case_of(row) for row in await connection.fetch(sql("discrepancy_read"), payment_ids)]


async def insert(connection: Any, added: Named) -> None:
    """Open new ones; the database gives the ids."""
    rows = [(payment_id, case.kind, *_content(case)) for payment_id, case in added]
    await connection.execute(sql("discrepancy_insert"), *columns(rows, whole=frozenset({4})))


async def update(connection: Any, changed: Named) -> None:
    """Write changed and closed ones over the version they carry; raises StaleWrite if any moved."""
    rows = [(case.discrepancy_id, case.version, *_content(case)) for _, case in changed]
    tag = await connection.execute(
        sql("discrepancy_update"), *columns(rows, whole=frozenset({0, 1, 4}))
    )
    if affected(tag) != len(changed):
        raise StaleWrite(f"{len(changed) - affected(tag)} discrepancies changed meanwhile")


def _content(case: Case) -> Row:
    return (
        case.status,
        case.holds,
        case.amount_at_risk_minor,
        case.currency,
        compact_json(case.details),
    )
