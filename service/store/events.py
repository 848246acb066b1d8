"""The table `payment_events`: the log and audit trail, only ever appended to."""

from collections.abc import Sequence
from typing import Any

from service.domain.events import LogEntry, SourceEvent
from service.domain.versions import Version
from service.store.rows import Row, columns, require_whole
from service.store.statements import sql

SeenByPayment = dict[str, dict[tuple[tuple[str, str], Version], bytes]]

_WHOLE = frozenset({6, 7, 15, 16, 17})
_COLUMNS = (
    *("payment_id", "kind", "actor", "event_id", "psp", "psp_reference", "epoch", "version"),
    *("changekind", "outcome", "changes", "data", "digest", "occurred_at"),
    *("topic", "partition", "offset", "row_version", "trace_id"),
)
_NO_ORIGIN = (None, None, None)


async def seen(connection: Any, events: Sequence[SourceEvent]) -> SeenByPayment:
    """For each event's stream and version, the digest of the content that was applied under it."""
    asked = {(event.payment_id, *event.stream, *event.version) for event in events}
    digests: SeenByPayment = {}
    if not asked:
        return digests
    for row in await connection.fetch(sql("event_seen"), *columns(sorted(asked))):
        payment_id, psp, psp_reference, epoch, version, digest = row
        key = ((psp, psp_reference), Version(epoch, version))
        digests.setdefault(payment_id, {})[key] = digest
    return digests


async def append(connection: Any, entries: Sequence[LogEntry]) -> None:
    """Write log rows in the order given, by COPY: a batch's largest write."""
    rows = [_row(entry) for entry in entries]
    require_whole(rows, _WHOLE)
    await connection.copy_records_to_table("payment_events", records=rows, columns=_COLUMNS)


def _row(entry: LogEntry) -> Row:
    event = entry.event
    if event is None:
        return (
            entry.payment_id,
            entry.kind,
            entry.actor,
            None,
            entry.psp,
            entry.psp_reference,
            None,
            None,
            None,
            entry.outcome,
            entry.changes,
            entry.data,
            None,
            entry.occurred_at,
            *_NO_ORIGIN,
            entry.row_version,
            None,
        )
    return (
        entry.payment_id,
        entry.kind,
        entry.actor,
        event.event_id,
        event.psp or None,
        event.psp_reference or None,
        *event.version,
        "patch" if event.patch else "snapshot",
        entry.outcome,
        entry.changes,
        event.data if entry.data is None else entry.data,
        event.digest,
        event.time if entry.occurred_at is None else entry.occurred_at,
        *(event.origin or _NO_ORIGIN),
        entry.row_version,
        event.trace_id,
    )
