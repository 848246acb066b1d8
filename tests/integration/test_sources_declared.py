"""Declared sources on PostgreSQL: a table's changes, and JSON by a mapping."""

from typing import Any

from schemas.sources.mapping import Mapped
from service.ingest.decode import Source
from tests.contract.sources.debezium import change, decoder
from tests.support.sources import open_topic

ERP = "SELECT payment_id, erp_status, erp_amount_minor, erp_version, order_id FROM payments"
OUTCOMES = "SELECT outcome FROM payment_events ORDER BY log_id"
SHOP: dict[str, Any] = {
    "name": "shop",
    "mappings": [
        {
            "source": "erp",
            "payment_id": "payment.id",
            "order_id": "order",
            "status": {"path": "paid", "values": {"true": "paid", "false": "pending"}},
            "money": {"unit": "minor", "currency": "=EUR"},
            "amount": "cents",
            "version": {"paths": ["rev"], "form": "integer"},
            "time": {"path": "at", "form": "sql"},
        }
    ],
}


def order(rev: int, *, paid: bool) -> dict[str, Any]:
    return {
        "payment": {"id": "pay-1"},
        "order": 1001,
        "paid": paid,
        "cents": 1860,
        "rev": str(rev),
        "at": "2026-01-02 15:04:05+01:00",
    }


async def test_snapshot_read_after_a_change_is_stale(database: Any) -> None:
    async with open_topic(database.url, Source(decoder()), name="erp.payments") as topic:
        changed = change(op="u", row={"state": "done"})
        applied = await topic.tell(changed, change(op="r"), changed)
        assert applied.counts == {
            ("erp", "applied"): 1,
            ("erp", "stale"): 1,
            ("erp", "duplicate"): 1,
        }
        [(payment_id, status, minor, _, order_id)] = await topic.rows(ERP)
        assert (payment_id, status, minor, order_id) == ("pay-1", "paid", 1860, "1001")
        assert await topic.rows(OUTCOMES) == [("applied",), ("stale",)]
        assert await topic.differences() == []


async def test_deleted_row_takes_nothing_back_and_is_counted(database: Any) -> None:
    async with open_topic(database.url, Source(decoder()), name="erp.payments") as topic:
        await topic.tell(change(op="u", row={"state": "done"}), change(op="d"))
        [batch] = topic.batches
        assert batch.ignored == {"row_deleted": 1}
        [(_, status, *_)] = await topic.rows(ERP)
        assert status == "paid"


async def test_mapped_erp_is_ordered_by_its_own_counter(database: Any) -> None:
    source = Source(Mapped.of(SHOP))
    async with open_topic(database.url, source, name="erp.payments") as topic:
        applied = await topic.tell(
            order(7, paid=True), order(6, paid=False), b"{", order(7, paid=False)
        )
        assert applied.counts == {
            ("erp", "applied"): 1,
            ("erp", "stale"): 1,
            ("erp", "conflict"): 1,
        }
        assert applied.reasons == ["not_json"]
        assert await topic.rows(ERP) == [("pay-1", "paid", 1860, 7, "1001")]
        assert await topic.rows("SELECT kind FROM discrepancies") == [("VERSION_CONFLICT",)]
        assert await topic.differences() == []
