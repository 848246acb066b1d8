"""The whole history of a run: what was sent, what the database holds, what went out."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from schemas.fields import NO_EXCEPTIONS
from service.store.verification import Difference, verify_chunk
from tests.faults.workload import Told
from tests.support.events import Record

Row = dict[str, Any]
Origin = tuple[str, int, int]

_QUERIES = {
    "log": "SELECT *, xmin::text FROM payment_events ORDER BY log_id",
    "payments": """
        SELECT payments.*, coalesce(open.kinds, '{}') AS kinds
        FROM payments
        LEFT JOIN (
            SELECT payment_id, array_agg(kind ORDER BY kind) AS kinds
            FROM discrepancies WHERE status = 'open' GROUP BY payment_id
        ) AS open USING (payment_id)
        ORDER BY payment_id
    """,
    "jobs": "SELECT * FROM reconciliation_jobs ORDER BY job_id",
    "attempts": """
        SELECT *, xmin::text FROM reconciliation_attempts ORDER BY job_id, lease_epoch
    """,
    "discrepancies": "SELECT * FROM discrepancies ORDER BY discrepancy_id",
    "dead_letters": "SELECT * FROM dead_letters ORDER BY dead_letter_id",
    "outbox": "SELECT * FROM outbox ORDER BY outbox_id",
    "offsets": "SELECT * FROM consumer_offsets WHERE consumer_group = $1 ORDER BY 2, 3",
}
_JSON = frozenset({"changes", "data", "details", "headers", "value"})
_CHUNK_PAYMENTS = 200
_READ_SECONDS = 60.0


class Sent(NamedTuple):
    """A record and where it lies in its topic."""

    record: Record
    topic: str
    partition: int
    offset: int

    @property
    def origin(self) -> Origin:
        """Topic, partition and offset."""
        return self.topic, self.partition, self.offset


class Message(NamedTuple):
    """A record of a topic that the service writes to."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]


@dataclass(slots=True, kw_only=True)
class History:
    """Rows as the tables have them, in the order of their keys; JSON is read.

    `sent` and the messages stand in the order of their partitions. `xmin` of log and attempts
    tells which transaction wrote a row last.
    """

    told: Told
    sent: Sequence[Sent]
    outcomes: Sequence[Message]
    dead_letter_copies: Sequence[Message]
    log: list[Row]
    payments: list[Row]
    jobs: list[Row]
    attempts: list[Row]
    discrepancies: list[Row]
    dead_letters: list[Row]
    outbox: list[Row]
    offsets: list[Row]
    differences: Sequence[Difference]


async def read_history(
    connection: Any,
    *,
    told: Told,
    sent: Sequence[Sent],
    outcomes: Sequence[Message],
    dead_letter_copies: Sequence[Message],
    group: str,
) -> History:
    """Read it all at once; the service has to be at rest."""
    tables = {}
    for name, query in _QUERIES.items():
        arguments = [group] if name == "offsets" else []
        tables[name] = _read(await connection.fetch(query, *arguments, timeout=_READ_SECONDS))
    return History(
        told=told,
        sent=sent,
        outcomes=outcomes,
        dead_letter_copies=dead_letter_copies,
        differences=await _differences(connection),
        **tables,
    )


async def _differences(connection: Any) -> list[Difference]:
    """What `reconciler verify` would find."""
    found: list[Difference] = []
    await connection.set_type_codec(
        "jsonb", schema="pg_catalog", encoder=json.dumps, decoder=json.loads
    )
    try:
        after: str | None = ""
        while after is not None:
            chunk = await verify_chunk(
                connection, after=after, limit=_CHUNK_PAYMENTS, exponents=NO_EXCEPTIONS
            )
            found.extend(chunk.differences)
            after = chunk.last_payment_id
    finally:
        await connection.reset_type_codec("jsonb", schema="pg_catalog")
    return found


def _read(rows: Iterable[Any]) -> list[Row]:
    return [{name: _json(name, value) for name, value in row.items()} for row in rows]


def _json(name: str, value: Any) -> Any:
    return json.loads(value) if name in _JSON and isinstance(value, str) else value
