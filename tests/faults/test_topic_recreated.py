"""A source topic that is deleted, and made anew, while its records are being read."""

import asyncio

import pytest

from tests.acceptance.commands import reconciler
from tests.faults.house import House, logged, until, until_health, until_started
from tests.support.events import erp_event, psp_event
from tests.support.kafka import ApacheKafka
from tests.support.kafka.fixtures import PARTITIONS
from tests.support.processes import ServiceProcess

PAYMENTS = 400
ANEW = 40
# What is tried again pauses between; the client itself says twice a second that it is missing.
LINES_A_SECOND_MAX = 5
DELETED_SECONDS = 8.0


@pytest.mark.kafka
async def test_deleted_and_recreated_topic_stops_ingest_until_a_person_says_where_to_read_on(
    kafka_house: House, apache_kafka: ApacheKafka
) -> None:
    """Reported as aiokafka 1095, aiokafka 793."""
    house = kafka_house
    service = house.start("ingest")
    await until_started(service)
    sending = asyncio.create_task(send_until_deleted(house))
    await house.until_count("SELECT count(*) >= 200 FROM payments", number=True)
    await apache_kafka.delete_topic(house.topics.erp)
    sending.cancel()

    await until(lambda: holds_half(service), "the group gives the deleted topic up")
    assert logged(service, "kafka.offset_commit_failed")
    lines_before = len(service.log_lines())
    await house.send(*(psp_event(f"meanwhile-{number}", 1) for number in range(ANEW)))
    await house.until_count(
        "SELECT count(*) FROM payments WHERE payment_id LIKE 'meanwhile%'", ANEW
    )
    await asyncio.sleep(DELETED_SECONDS)
    assert service.running
    assert len(service.log_lines()) - lines_before < DELETED_SECONDS * LINES_A_SECOND_MAX
    await until_health(service, "/livez", 200)

    await apache_kafka.create_topic(house.topics.erp, PARTITIONS)
    await house.send(*(erp_event(f"anew-{number}", 1) for number in range(ANEW)))
    assert await service.wait(60) != 0
    (failed,) = logged(service, "process.failed")
    assert "deleted and made anew" in failed["error"]
    assert "offsets set" in failed["error"]

    for partition in range(PARTITIONS):
        await read_on_from_the_beginning(house, partition)
    healed = house.start("ingest")
    await house.until_count("SELECT count(*) FROM payments WHERE payment_id LIKE 'anew%'", ANEW)
    assert healed.running
    assert await house.rows("SELECT count(*) FROM dead_letters") == [(0,)]


def holds_half(service: ServiceProcess) -> bool:
    """Whether it was last given the partitions of the other topic alone."""
    last = logged(service, "kafka.partitions_assigned")[-1]
    return bool(last["partitions"] == PARTITIONS)


async def send_until_deleted(house: House) -> None:
    """Portions, so that the deletion falls between two of them."""
    for start in range(0, PAYMENTS, 20):
        await house.send(*(erp_event(f"pay-{each}", 1) for each in range(start, start + 20)))


async def read_on_from_the_beginning(house: House, partition: int) -> None:
    """As the error says, for one partition."""
    place = ("--topic", house.topics.erp, "--partition", str(partition))
    ended = await reconciler(
        "offsets", "set", *place, "--to", "earliest", "--recreated", settings=house.settings()
    )
    assert ended.code == 0, ended.text
