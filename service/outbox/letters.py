"""What goes out for an outbox row: an outgoing event, or the copy of a dead letter."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from service.store.dead_letter_copies import Copy
from service.store.outbox import Outgoing

# Below the brokers' usual limit of 1 MiB, with room for key, headers and framing.
VALUE_BYTES_MAX = 900_000

Headers = list[tuple[str, bytes]]


@dataclass(frozen=True, slots=True)
class Message:
    """A record to send, as bytes."""

    outbox_id: int
    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers


def dead_letter_id(outgoing: Outgoing) -> int | None:
    """The dead letter that a row stands for, if it does."""
    named = outgoing.value.get("dead_letter_id")
    return named if isinstance(named, int) else None


def message_of(outgoing: Outgoing, copies: Mapping[int, Copy]) -> Message | None:
    """The record for a row; None for the copy of a dead letter that exists no more."""
    letter = dead_letter_id(outgoing)
    if letter is None:
        value = json.dumps(outgoing.value, ensure_ascii=False, separators=(",", ":"))
        headers = [(name, text.encode()) for name, text in outgoing.headers.items()]
        key = outgoing.key.encode()
        return Message(outgoing.outbox_id, outgoing.topic, key, value.encode(), headers)
    copy = copies.get(letter)
    if copy is None:
        return None
    return Message(
        outgoing.outbox_id,
        outgoing.topic,
        copy.key,
        copy.value if copy.value is None else copy.value[:VALUE_BYTES_MAX],
        _origin_headers(copy),
    )


def _origin_headers(copy: Copy) -> Headers:
    """The names that Kafka Connect and Spring use, so that their tools find their way back."""
    topic, partition, offset = copy.origin
    named = {
        "__connect.errors.topic": topic,
        "__connect.errors.partition": str(partition),
        "__connect.errors.offset": str(offset),
        "__connect.errors.exception.class.name": copy.reason,
        "__connect.errors.exception.message": copy.error,
        "kafka_dlt-original-topic": topic,
    }
    headers = [(name, text.encode()) for name, text in named.items()]
    return [
        *headers,
        ("kafka_dlt-original-partition", partition.to_bytes(4, "big")),
        ("kafka_dlt-original-offset", offset.to_bytes(8, "big")),
        ("kafka_dlt-exception-fqcn", copy.reason.encode()),
        ("kafka_dlt-exception-message", copy.error.encode()),
    ]
