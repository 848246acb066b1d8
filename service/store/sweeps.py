"""What the sweeps look for: payments that waited too long, and orders that may be paid twice.

Orders are found by following the log, from where the last sweep ended: the cost follows the
events, not the history. A row may become visible after one with a higher number; so the log is
read only up to the time before which nobody who still runs can have written.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from service.domain.payment import Kind
from service.store.statements import affected, sql

_STATEMENTS = {
    Kind.MISSING_AT_ERP: "sweep_missing_at_erp",
    Kind.ERP_NOT_SETTLED: "sweep_erp_not_settled",
}


@dataclass(frozen=True, slots=True)
class LogPosition:
    """How far the log has been swept, and the time up to which it may be."""

    log_id: int
    horizon: datetime


@dataclass(frozen=True, slots=True)
class LogPage:
    """A stretch of the log: `orders` are those worth a look, `last_log_id` None for no rows."""

    rows: int
    last_log_id: int | None
    orders: Sequence[str]


async def lock_waiting(
    connection: Any, kind: Kind, *, after_seconds: float, limit: int
) -> list[str]:
    """Lock payments that have waited for the ERP too long; those that somebody holds are left
    for the next sweep. `kind` is MISSING_AT_ERP or ERP_NOT_SETTLED.
    """
    rows = await connection.fetch(sql(_STATEMENTS[kind]), float(after_seconds), limit)
    return [row[0] for row in rows]


async def log_position(connection: Any) -> LogPosition:
    """Where to go on. Ask it in a statement of its own, outside the transaction that reads."""
    return LogPosition(*await connection.fetchrow(sql("sweep_log_horizon")))


async def log_page(connection: Any, position: LogPosition, *, limit: int) -> LogPage:
    """The next stretch of the log."""
    row = await connection.fetchrow(sql("sweep_log_page"), position.log_id, position.horizon, limit)
    return LogPage(*row)


async def order_payments(connection: Any, orders: Sequence[str], *, limit: int) -> list[str]:
    """The payments of some orders that a duplicate is about, at most `limit` an order."""
    rows = await connection.fetch(sql("sweep_order_payments"), orders, limit)
    return [row[0] for row in rows]


async def advance(connection: Any, position: LogPosition, *, last_log_id: int) -> bool:
    """Note how far the log is swept; False if another process was faster."""
    tag = await connection.execute(sql("sweep_advance"), position.log_id, last_log_id)
    return affected(tag) == 1
