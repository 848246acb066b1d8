"""The table `payments`: one row a payment, written only over the row version that was read."""

from collections.abc import Sequence
from typing import Any

from service.domain.payment import Payment
from service.errors import StaleWrite
from service.store.rows import PAYMENT_WHOLE, columns, payment_of, payment_row
from service.store.statements import affected, sql

SLICE_ROWS = 250
"""Rows of one statement: encoding thousands at once would hold the event loop."""


async def ensure(connection: Any, payment_ids: Sequence[str]) -> None:
    """Insert the rows that are missing. `payment_ids` are sorted and unique."""
    await connection.execute(sql("payment_ensure"), payment_ids)


async def lock(connection: Any, payment_ids: Sequence[str]) -> list[Payment]:
    """Lock and read rows, without PSP payments and cases; absent ones are left out."""
    return [payment_of(row) for row in await connection.fetch(sql("payment_lock"), payment_ids)]


async def read(connection: Any, payment_ids: Sequence[str]) -> list[Payment]:
    """Read rows without a lock."""
    return [payment_of(row) for row in await connection.fetch(sql("payment_read"), payment_ids)]


async def update(connection: Any, changed: Sequence[tuple[Payment, Payment]]) -> None:
    """Write (as read, as it becomes) pairs. Raises StaleWrite if any row has moved on since."""
    for start in range(0, len(changed), SLICE_ROWS):
        rows = [payment_row(*pair) for pair in changed[start : start + SLICE_ROWS]]
        tag = await connection.execute(sql("payment_update"), *columns(rows, whole=PAYMENT_WHOLE))
        if affected(tag) != len(rows):
            raise StaleWrite(f"{len(rows) - affected(tag)} payments changed meanwhile")
