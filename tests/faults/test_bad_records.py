"""Bad records of every reason among good ones: the good ones land, the bad ones are kept whole."""

from schemas.refusal import Reason
from tests.contract.records import EXAMPLES, record_of, refusal_of
from tests.faults.house import House, until_started
from tests.support.events import Record, erp_event

INVALID = sorted((EXAMPLES / "invalid").iterdir())
BYTES_MAX = 1_048_576


async def test_good_records_land_and_bad_ones_are_kept_with_reason_and_whole_bytes(
    house: House,
) -> None:
    bad = [record_of(path) for path in INVALID]
    reasons = [path.name.partition("-")[0] for path in INVALID]
    assert set(reasons) == set(Reason)
    records = []
    for number, (record, reason) in enumerate(zip(bad, reasons, strict=True)):
        headers = tuple((name, value or b"") for name, value in record.headers)
        records.append(erp_event(f"good-{number}", 1))
        records.append(Record("psp", record.key, record.value, headers))
        refusal = refusal_of(record.decode)
        assert refusal is not None
        assert refusal.reason == reason
    await until_started(house.start("ingest"))
    sent = await house.send(*records)
    await house.until_count("SELECT count(*) FROM dead_letters", len(bad))
    await house.until_count("SELECT count(*) FROM payments", len(bad))

    query = 'SELECT topic, partition, "offset", reason, key, value, status FROM dead_letters'
    kept = {row[:3]: row[3:] for row in await house.rows(query)}
    for record, reason, meta in zip(bad, reasons, sent[1::2], strict=True):
        value = record.value[:BYTES_MAX] if record.value else record.value
        place = (meta.topic, meta.partition, meta.offset)
        assert kept[place] == (reason, record.key, value, "parked")
    ends = dict(
        await house.rows("SELECT topic, sum(next_offset)::int FROM consumer_offsets GROUP BY 1")
    )
    assert ends == {house.topics.erp: len(bad), house.topics.psp: len(bad)}
    assert await house.rows("SELECT count(*) FROM payment_events") == [(len(bad),)]
