"""A rate counts only if the data ended right: what each measurement must have left behind."""

from collections.abc import Mapping
from typing import Any

import asyncpg

from tests.benchmarks.order import Order

_INGESTED = """
SELECT
    (SELECT count(*) FROM payments) AS payments,
    (SELECT count(*) FROM payments WHERE status = 'succeeded') AS succeeded,
    (SELECT count(*) FROM psp_payments) AS psp_payments,
    (SELECT count(*) FROM payment_events WHERE outcome = 'applied') AS applied,
    (SELECT count(*) FROM payment_events WHERE outcome = 'stale') AS stale,
    (SELECT count(*) FROM payment_events) AS log_rows,
    (SELECT count(DISTINCT (topic, partition, "offset")) FROM payment_events) AS records,
    (SELECT coalesce(sum(next_offset), 0)::bigint FROM consumer_offsets) AS offsets,
    (SELECT count(*) FROM discrepancies WHERE status = 'open') AS discrepancies,
    (SELECT count(*) FROM dead_letters) AS dead_letters
"""
_HEALED = """
SELECT
    (SELECT count(*) FROM reconciliation_jobs) AS jobs,
    (
        SELECT count(*) FROM reconciliation_jobs WHERE status = 'completed' AND outcome = 'healed'
    ) AS healed,
    (SELECT count(*) FROM reconciliation_attempts WHERE outcome = 'healed') AS attempts,
    (SELECT count(*) FROM payments WHERE status = 'succeeded') AS succeeded,
    (SELECT count(*) FROM psp_payments) AS psp_payments,
    (SELECT count(*) FROM payment_events WHERE kind = 'heal') AS log_rows,
    (SELECT count(*) FROM outbox) AS announced
"""


class WrongEnd(Exception):  # noqa: N818 - named after what happened
    """The database does not hold what the events, or the jobs, should have made of it."""


async def verify(order: Order) -> None:
    """Raise WrongEnd, naming every number that is not what it must be."""
    connection: Any = await asyncpg.connect(order.database_url)
    try:
        row = await connection.fetchrow(_HEALED if order.kind == "jobs" else _INGESTED)
    finally:
        await connection.close()
    wanted = _wanted_of_jobs(order) if order.kind == "jobs" else _wanted_of_ingest(order)
    wrong = [
        f"{name} {row[name]} instead of {number}"
        for name, number in wanted.items()
        if row[name] != number
    ]
    if wrong:
        raise WrongEnd(f"{order.kind}: {', '.join(wrong)}")


def _wanted_of_ingest(order: Order) -> Mapping[str, int]:
    workload = order.workload
    return {
        "payments": workload.payments,
        "succeeded": workload.payments,
        "psp_payments": workload.payments,
        "applied": workload.events - workload.stale,
        "stale": workload.stale,
        "log_rows": workload.events,
        "records": workload.events,
        "offsets": workload.events,
        "discrepancies": 0,
        "dead_letters": 0,
    }


def _wanted_of_jobs(order: Order) -> Mapping[str, int]:
    number = order.payments
    names = ("jobs", "healed", "attempts", "succeeded", "psp_payments", "log_rows", "announced")
    return dict.fromkeys(names, number)
