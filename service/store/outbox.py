"""The table `outbox`: outgoing events, written with the change that they announce."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from schemas.outcome import OUTCOME_TYPE
from service.domain.events import Announcement
from service.store.statements import affected, sql

EVENT_SOURCE = "payment-reconciler"
_COLUMNS = ("topic", "key", "headers", "value")
_HEADERS = {"content-type": "application/cloudevents+json"}


@dataclass(frozen=True, slots=True)
class Outgoing:
    """An event that waits for the relay. A value of `{"dead_letter_id": …}` stands for the bytes
    of that dead letter.
    """

    outbox_id: int
    topic: str
    key: str
    headers: Mapping[str, str]
    value: Mapping[str, Any]
    created_at: datetime


async def insert(connection: Any, announcements: Sequence[Announcement], *, topic: str) -> None:
    """Add one event each, in the order given."""
    rows = [(topic, each.payment_id, _HEADERS, _cloudevent(each)) for each in announcements]
    await connection.copy_records_to_table("outbox", records=rows, columns=_COLUMNS)


async def unpublished(connection: Any, *, limit: int) -> list[Outgoing]:
    """The oldest events that are not published, oldest first."""
    return [Outgoing(*row) for row in await connection.fetch(sql("outbox_unpublished"), limit)]


async def publish(
    connection: Any, outbox_ids: Sequence[int], *, relay_owner: str, relay_epoch: int
) -> int:
    """Mark events as published while the relay's lease holds; returns how many were marked."""
    tag = await connection.execute(
        sql("outbox_publish"), list(outbox_ids), relay_owner, relay_epoch
    )
    return affected(tag)


def _cloudevent(announcement: Announcement) -> dict[str, Any]:
    """`reconciler.payment.v1` in structured mode; its id is the same however often it is sent."""
    payment_id, row_version = announcement.payment_id, announcement.row_version
    return {
        "specversion": "1.0",
        "id": f"{payment_id}:{row_version}",
        "source": EVENT_SOURCE,
        "type": OUTCOME_TYPE,
        "time": announcement.at.isoformat(),
        "subject": payment_id,
        "datacontenttype": "application/json",
        "entityversion": str(row_version),
        "data": announcement.data,
    }
