"""The table `psp_payments`: what each provider says of each of its payments."""

from collections.abc import Collection, Sequence
from typing import Any

from service.domain.payment import PspPayment
from service.errors import StaleWrite
from service.store.rows import (
    PSP_PAYMENT_WHOLE,
    Row,
    columns,
    psp_payment_of,
    psp_payment_row,
    require_whole,
)
from service.store.statements import affected, sql

Named = Sequence[tuple[str, PspPayment]]
"""PSP payments, each with its payment's id."""

COLUMNS = (
    *("payment_id", "psp", "psp_reference", "row_version", "psp_epoch", "psp_version"),
    *("psp_patched", "psp_status", "psp_amount_minor", "psp_currency", "captured_minor"),
    *("captured_given", "refunded_minor", "disputed_minor", "failure_code", "psp_time"),
    *("psp_conflict", "observed_status", "observed_amount_minor", "observed_currency"),
    *("observed_captured_minor", "observed_refunded_minor", "observed_disputed_minor"),
    *("observed_at", "observed_doubted"),
)


async def read(connection: Any, payment_ids: Sequence[str]) -> Named:
    """All PSP payments of some payments, in key order."""
    rows = await connection.fetch(sql("psp_payment_read"), payment_ids)
    return [psp_payment_of(row) for row in rows]


async def named(
    connection: Any, references: Collection[tuple[str, str]]
) -> dict[tuple[str, str], set[str]]:
    """(psp, PSP reference) -> the ids of the payments that have such a PSP payment; those that
    none has are left out.
    """
    payment_ids: dict[tuple[str, str], set[str]] = {}
    for row in await connection.fetch(sql("psp_payment_named"), *columns(sorted(references))):
        psp, psp_reference, payment_id = row
        payment_ids.setdefault((psp, psp_reference), set()).add(payment_id)
    return payment_ids


async def insert(connection: Any, added: Named) -> None:
    """Add new ones."""
    rows = _rows(added)
    require_whole(rows, PSP_PAYMENT_WHOLE)
    await connection.copy_records_to_table("psp_payments", records=rows, columns=COLUMNS)


async def update(connection: Any, changed: Named) -> None:
    """Write changed ones over the row version they carry; raises StaleWrite if any has moved on."""
    tag = await connection.execute(
        sql("psp_payment_update"), *columns(_rows(changed), whole=PSP_PAYMENT_WHOLE)
    )
    if affected(tag) != len(changed):
        raise StaleWrite(f"{len(changed) - affected(tag)} PSP payments changed meanwhile")


def _rows(named: Named) -> list[Row]:
    return [psp_payment_row(payment_id, psp_payment) for payment_id, psp_payment in named]
