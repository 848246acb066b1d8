"""`reconciler offsets`: where the group stands, and positions moved with nothing skipped unseen."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from tests.acceptance.commands import Ended, reconciler
from tests.faults.house import House, logged, until, until_started, variables
from tests.support.events import erp_event

CAUGHT_UP = "SELECT count(*) FROM consumer_offsets WHERE caught_up_at IS NOT NULL"
AUDIT = "SELECT actor, action, subject, before, after, note FROM operator_actions"
UNREACHED = variables(
    DATABASE__URL="postgresql://nobody@127.0.0.1:9/none", KAFKA__BOOTSTRAP_SERVERS="127.0.0.1:9"
)
POSITIONS = "SELECT topic, partition, next_offset, highest_offset FROM consumer_offsets"


async def sent(house: House, number: int) -> tuple[str, int]:
    """Send events of one payment; gives the partition that they lie in, as options say it."""
    records = [erp_event("pay-1", version) for version in range(1, number + 1)]
    [*_, last] = await house.send(*records)
    assert last.offset == number - 1
    return house.topics.erp, last.partition


async def put(house: House, topic: str, partition: int, *options: str) -> Ended:
    """`reconciler offsets set`."""
    place = ("--topic", topic, "--partition", str(partition))
    return await reconciler("offsets", "set", *place, *options, settings=house.settings())


@pytest.mark.kafka
async def test_show_tells_where_the_group_stands_and_does_without_the_broker(
    kafka_house: House,
) -> None:
    house = kafka_house
    topic, partition = await sent(house, 20)
    service = house.start("ingest")
    await until_started(service)
    await house.until_count("SELECT count(*) FROM payment_events", 20)
    await house.until_count(CAUGHT_UP, 8)
    service.terminate()
    await service.wait()
    await house.send(erp_event("pay-1", 21))

    shown = await reconciler("offsets", "show", settings=house.settings())
    assert shown.code == 0, shown.text
    assert len(shown.out.splitlines()) == 8
    line = f"topic {topic}, partition {partition}, next 20, highest 20, log begins 0, log ends 21"
    assert f"{line}, lag 1, caught up 2" in shown.out

    alone = await reconciler(
        *("offsets", "show", "--json"),
        settings=house.settings(KAFKA__BOOTSTRAP_SERVERS="127.0.0.1:9"),
    )
    assert alone.code == 0, alone.text
    assert "nobody listens there" in alone.err
    assert "what the log holds is not shown" in alone.err
    assert "Traceback" not in alone.err
    rows = {(row["topic"], row["partition"]): row for row in json.loads(alone.out)}
    assert len(rows) == 8
    told = rows[topic, partition]
    assert (told["next_offset"], told["highest_offset"], told["log_end"]) == (20, 20, None)
    assert datetime.fromisoformat(told["caught_up_at"]).tzinfo is not None


@pytest.mark.kafka
async def test_position_set_back_is_followed_by_the_service_that_runs_idle(
    kafka_house: House,
) -> None:
    house = kafka_house
    topic, partition = await sent(house, 20)
    service = house.start("ingest")
    await until_started(service)
    await house.until_count("SELECT count(*) FROM payment_events", 20)

    told = await put(
        house, topic, partition, "--offset", "5", "--by", "ann", "--note", "missed some"
    )
    assert told.code == 0, told.text
    assert f"before: {topic} {partition}: next offset 20, highest 20" in told.out
    assert f"after:  {topic} {partition}: next offset 5, highest 20" in told.out
    await until(lambda: logged(service, "kafka.offset_moved"), "the service has noticed")
    await house.until_count("SELECT max(next_offset) FROM consumer_offsets", 20)
    await house.until_count("SELECT count(*) FROM payment_events", 20)

    [(actor, action, subject, before, after, note)] = await house.rows(AUDIT)
    assert (actor, action, note) == ("ann", "offsets.set", "missed some")
    assert subject == f"{topic}/{partition}"
    assert json.loads(before) == {"next_offset": 20, "highest_offset": 20}
    assert json.loads(after) == {
        "next_offset": 5,
        "highest_offset": 20,
        "group": house.topics.group_id,
        "skipped": 0,
        "recreated": False,
    }


@pytest.mark.kafka
async def test_records_are_left_unread_only_where_that_is_said(kafka_house: House) -> None:
    house = kafka_house
    topic, partition = await sent(house, 20)
    refused = await put(house, topic, partition, "--to", "latest")
    assert refused.code == 1, refused.text
    assert "20 records" in refused.err
    assert "--skip" in refused.err
    assert await house.rows(POSITIONS) == []
    assert await house.rows(AUDIT) == []

    skipped = await put(house, topic, partition, "--to", "latest", "--skip")
    assert skipped.code == 0, skipped.text
    assert "never consumed" in skipped.out
    assert "20 records will not be read" in skipped.out
    assert await house.rows(POSITIONS) == [(topic, partition, 20, 0)]
    [(actor, *_, after, note)] = await house.rows(AUDIT)
    assert "@" in actor
    assert (json.loads(after)["skipped"], note) == (20, None)


@pytest.mark.kafka
async def test_position_is_set_to_a_time(kafka_house: House) -> None:
    house = kafka_house
    topic, partition = await sent(house, 20)
    past = (datetime.now(UTC) - timedelta(days=1)).isoformat()
    future = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    assert (await put(house, topic, partition, "--to-time", past)).code == 0
    assert await house.rows(POSITIONS) == [(topic, partition, 0, 0)]
    assert (await put(house, topic, partition, "--to-time", future)).code == 1
    assert (await put(house, topic, partition, "--to-time", future, "--skip")).code == 0
    assert await house.rows(POSITIONS) == [(topic, partition, 20, 0)]


@pytest.mark.kafka
async def test_offset_and_partition_that_are_not_there_are_refused_with_those_that_are(
    kafka_house: House,
) -> None:
    house = kafka_house
    topic, partition = await sent(house, 20)
    outside = await put(house, topic, partition, "--to", "21")
    assert outside.code == 1, outside.text
    assert "from 0 to 20" in outside.err
    absent = await put(house, topic, 4, "--to", "earliest")
    assert absent.code == 2, absent.text
    assert f"4; {topic} has 0 to 3" in absent.err
    assert "Traceback" not in outside.err + absent.err
    assert await house.rows(POSITIONS) == []


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--to", "soon"], ("'soon'", "earliest, latest")),
        (["--to", "3", "--to-time", "2026-03-01T10:00:00Z"], ("--to", "--to-time")),
        ([], ("--to", "--to-time")),
        (["--to-time", "2026-03-01T10:00:00"], ("RFC 3339", "offset")),
        (["--to", "3", "--topic", "nobodys"], ("'nobodys'", "erp.payments, psp.payments")),
    ],
    ids=["no target", "two", "none", "no offset of time", "topic"],
)
async def test_set_that_cannot_be_meant_is_refused_with_what_can(
    options: list[str], told: tuple[str, ...]
) -> None:
    place = ("--topic", "erp.payments", "--partition", "0")
    ended = await reconciler("offsets", "set", *place, *options, settings=UNREACHED)
    assert ended.code == 2, ended.text
    for words in told:
        assert words in ended.err
    assert "Traceback" not in ended.text
