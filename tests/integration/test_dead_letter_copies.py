"""The relay's copies of dead letters: named as Kafka Connect and Spring name them, and bounded."""

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition

from service.domain.events import Origin
from service.outbox.letters import (
    HEADERS_BYTES_MAX,
    HEADERS_MAX,
    KEY_BYTES_MAX,
    VALUE_BYTES_MAX,
    Headers,
    Message,
    message_of,
)
from service.outbox.publisher import Publisher
from service.sandbox.broker import EmbeddedBroker
from service.store import dead_letter_copies
from service.store.dead_letter_copies import Copy
from service.store.dead_letters import VALUE_BYTES_MAX as KEPT_BYTES_MAX
from service.store.outbox import Outgoing
from service.store.pool import PoolOptions, open_pool
from service.store.transactions import transaction
from tests.support.dead_letters import TOPIC, park

BROKERS_LIMIT_BYTES = 1_048_576
OUTGOING = Outgoing(1, "dlq", "5", {}, {"dead_letter_id": 5}, datetime.now(UTC))
_consumer: Any = AIOKafkaConsumer


def copy_of(
    value: bytes | None = b"{", *, key: bytes | None = b"p-1", headers: Headers | None = None
) -> Copy:
    return Copy(
        dead_letter_id=5,
        origin=Origin("psp.payments", 3, 99),
        key=key,
        value=value,
        headers=headers or [],
        reason="not_json",
        error="value: send one JSON text",
    )


def message(copy: Copy) -> Message:
    made = message_of(OUTGOING, {5: copy})
    assert made is not None
    return made


def mark(made: Message, name: str) -> bytes | None:
    return dict(made.headers).get(f"reconciler.dead-letter.{name}")


def size_of(made: Message) -> int:
    headers = sum(len(name.encode()) + len(value or b"") for name, value in made.headers)
    return len(made.key or b"") + len(made.value or b"") + headers


def test_copy_has_the_names_of_kafka_connect_with_text_values() -> None:
    named = {n: v for n, v in message(copy_of()).headers if n.startswith("__connect.errors.")}
    assert named == {
        "__connect.errors.topic": b"psp.payments",
        "__connect.errors.partition": b"3",
        "__connect.errors.offset": b"99",
        "__connect.errors.exception.class.name": b"not_json",
        "__connect.errors.exception.message": b"value: send one JSON text",
    }


def test_copy_has_the_names_of_spring_with_binary_numbers() -> None:
    named = {n: v for n, v in message(copy_of()).headers if n.startswith("kafka_dlt-")}
    assert named == {
        "kafka_dlt-original-topic": b"psp.payments",
        "kafka_dlt-original-partition": b"\x00\x00\x00\x03",
        "kafka_dlt-original-offset": b"\x00\x00\x00\x00\x00\x00\x00\x63",
        "kafka_dlt-exception-fqcn": b"not_json",
        "kafka_dlt-exception-message": b"value: send one JSON text",
    }


def test_copy_names_its_dead_letter_and_marks_nothing_that_is_whole() -> None:
    ours = [header for header in message(copy_of()).headers if header[0].startswith("reconciler.")]
    assert ours == [("reconciler.dead-letter.id", b"5")]


def test_records_own_headers_go_along() -> None:
    own: Headers = [("ce_id", b"1"), ("ce_id", b"1"), ("binary", b"\xff\x00"), ("null", None)]
    made = message(copy_of(headers=own))
    assert made.headers[:4] == own
    assert mark(made, "headers-left-out") is None


@pytest.mark.parametrize(
    "headers",
    [
        [("h", b"x" * HEADERS_BYTES_MAX)],
        [(f"h-{number}", b"") for number in range(10_000)],
        [("n" * 40_000, b""), ("n" * 40_000, b"")],
        [("h", b"x" * 1_000_000), ("small", b"1")],
    ],
    ids=["too large", "too many", "long names", "a large one first"],
)
def test_headers_never_make_a_copy_too_large(headers: Headers) -> None:
    """Reported as spring-kafka 1994."""
    made = message(copy_of(b"v" * 2_000_000, key=b"k" * 2_000_000, headers=headers))
    assert size_of(made) < BROKERS_LIMIT_BYTES - 10_000
    own = [each for each in made.headers if each in headers]
    assert len(own) <= HEADERS_MAX
    assert sum(len(name) + len(value or b"") for name, value in own) <= HEADERS_BYTES_MAX
    assert mark(made, "headers-left-out") == str(len(headers) - len(own)).encode()


def test_cut_value_and_key_say_how_much_was_kept_and_of_how_much() -> None:
    made = message(copy_of(b"v" * (VALUE_BYTES_MAX + 7), key=b"k" * (KEY_BYTES_MAX + 1)))
    assert (made.value, made.key) == (b"v" * VALUE_BYTES_MAX, b"k" * KEY_BYTES_MAX)
    assert mark(made, "value-bytes-kept") == str(VALUE_BYTES_MAX).encode()
    assert mark(made, "value-bytes") == str(VALUE_BYTES_MAX + 7).encode()
    assert mark(made, "key-bytes-kept") == str(KEY_BYTES_MAX).encode()
    assert mark(made, "key-bytes") == str(KEY_BYTES_MAX + 1).encode()


def test_whole_length_is_not_told_where_the_table_may_have_cut_it() -> None:
    made = message(copy_of(b"v" * KEPT_BYTES_MAX))
    assert mark(made, "value-bytes-kept") == str(VALUE_BYTES_MAX).encode()
    assert mark(made, "value-bytes") is None


def test_headers_of_an_earlier_round_are_replaced_and_never_pile_up() -> None:
    """Reported as spring-kafka 1994: a copy that is read again."""
    copy = copy_of(headers=[("ce_id", b"1")])
    first = message(copy)
    for _ in range(5):
        again = message(copy_of(headers=message(copy).headers))
        copy = copy_of(headers=again.headers)
        assert again.headers == first.headers
    elsewhere: Headers = [
        ("kafka_dlt-original-topic", b"another"),
        ("kafka_dlt-exception-stacktrace", b"at org." * 10_000),
        ("__connect.errors.stage", b"VALUE_CONVERTER"),
    ]
    made = message(copy_of(headers=elsewhere))
    assert made.headers == message(copy_of()).headers


async def test_parked_record_is_copied_with_its_headers_from_the_database(database: Any) -> None:
    headers: list[tuple[str, bytes | None]] = [("a", b"\xff"), ("b", None), ("a", b"text")]
    parked = await park(database.url, 7, b"{", key=b"k", headers=headers)
    pool = await open_pool(PoolOptions(url=database.url))
    async with transaction(pool) as connection:
        copies = await dead_letter_copies.read(connection, [parked, 10_000])
    await pool.close()
    assert set(copies) == {parked}
    copy = copies[parked]
    assert (copy.origin, copy.key, copy.value) == (Origin(TOPIC, 0, 7), b"k", b"{")
    assert (copy.headers, copy.reason, copy.dead_letter_id) == (headers, "not_json", parked)


@pytest.mark.parametrize(("key", "value"), [(None, b"v"), (b"k", None), (b"", b"")])
def test_null_stays_null_and_empty_stays_empty(key: bytes | None, value: bytes | None) -> None:
    made = message(copy_of(value, key=key))
    assert (made.key, made.value) == (key, value)
    assert mark(made, "key-was-null") is None


async def test_null_value_and_null_key_are_published() -> None:
    """Reported as spring-kafka 1494: the client refuses a record that has neither."""
    own: Headers = [("null", None)]
    async with EmbeddedBroker() as broker:
        publisher = Publisher({"bootstrap_servers": broker.bootstrap_servers}, send_seconds=10)
        made = message(copy_of(None, key=None, headers=own))
        assert await publisher.send([made]) == [1]
        await publisher.close()
        record = await _first_of(broker.bootstrap_servers, "dlq")
    assert (record.key, record.value) == (b"5", None)
    assert mark(made, "key-was-null") == b"1"
    assert list(record.headers) == made.headers


def test_dead_letter_that_is_gone_gives_no_copy_and_other_rows_are_events() -> None:
    assert message_of(OUTGOING, {}) is None
    event = Outgoing(2, "out", "p-1", {"content-type": "x"}, {"id": "é"}, datetime.now(UTC))
    made = message_of(event, {})
    assert made is not None
    assert made.value is not None
    assert (made.key, json.loads(made.value)) == (b"p-1", {"id": "é"})
    assert made.headers == [("content-type", b"x")]


async def _first_of(servers: str, topic: str) -> Any:
    consumer = _consumer(bootstrap_servers=servers, auto_offset_reset="earliest")
    await consumer.start()
    try:
        consumer.assign([TopicPartition(topic, number) for number in range(4)])
        async with asyncio.timeout(20):
            while True:
                for records in (await consumer.getmany(timeout_ms=200)).values():
                    return records[0]
    finally:
        await consumer.stop()
