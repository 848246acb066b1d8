"""What goes out for an outbox row: an outgoing event, or the copy of a dead letter.

A copy is bounded in every part, so that no record, whatever its size, makes one that the brokers
refuse: the value, the key and the record's own headers are cut, and marked as cut. The whole stays
in the database under the id that every copy names.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from service.store.dead_letter_copies import Copy
from service.store.outbox import Outgoing

# Together below the brokers' usual limit of 1 MiB, with room for our own headers and the framing.
VALUE_BYTES_MAX: Final = 900_000
KEY_BYTES_MAX: Final = 16_000
HEADERS_BYTES_MAX: Final = 64_000
HEADERS_MAX: Final = 100

# Headers of ours, and of those whose names we use: a record that was read from a dead-letter topic
# brings them along, and they would grow with each round. Its copy tells of the last round only.
_OURS: Final = "reconciler.dead-letter."
_CONNECT: Final = "__connect.errors."
_SPRING: Final = "kafka_dlt-"

Headers = list[tuple[str, bytes | None]]


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
        headers: Headers = [(name, text.encode()) for name, text in outgoing.headers.items()]
        key = outgoing.key.encode()
        return Message(outgoing.outbox_id, outgoing.topic, key, value.encode(), headers)
    copy = copies.get(letter)
    if copy is None:
        return None
    return Message(
        outgoing.outbox_id,
        outgoing.topic,
        _key(copy),
        copy.value if copy.value is None else copy.value[:VALUE_BYTES_MAX],
        [*_own_headers(copy), *_origin_headers(copy), *_marks(copy)],
    )


def _key(copy: Copy) -> bytes | None:
    """The record's own. The client sends nothing that has neither key nor value: such a copy has
    its dead letter's id for a key.
    """
    if copy.key is None:
        return str(copy.dead_letter_id).encode() if copy.value is None else None
    return copy.key[:KEY_BYTES_MAX]


def _own_headers(copy: Copy) -> Headers:
    """The record's own headers, as many as fit; what is left out is counted among the marks."""
    kept: Headers = []
    left = HEADERS_BYTES_MAX
    for name, value in _foreign(copy):
        left -= len(name.encode()) + len(value or b"")
        if left < 0 or len(kept) == HEADERS_MAX:
            break
        kept.append((name, value))
    return kept


def _foreign(copy: Copy) -> Headers:
    reserved = (_OURS, _CONNECT, _SPRING)
    return [(name, value) for name, value in copy.headers if not name.startswith(reserved)]


def _origin_headers(copy: Copy) -> Headers:
    """The names that Kafka Connect and Spring use, so that their tools find their way back.

    Connect writes all values as text, Spring its numbers in binary, big-endian. Both have more
    names, for which there is no true value here: stack trace, timestamp, connector, stage.
    """
    topic, partition, offset = copy.origin
    named = {
        f"{_CONNECT}topic": topic,
        f"{_CONNECT}partition": str(partition),
        f"{_CONNECT}offset": str(offset),
        f"{_CONNECT}exception.class.name": copy.reason,
        f"{_CONNECT}exception.message": copy.error,
        f"{_SPRING}original-topic": topic,
        f"{_SPRING}exception-fqcn": copy.reason,
        f"{_SPRING}exception-message": copy.error,
    }
    return [
        *((name, text.encode()) for name, text in named.items()),
        (f"{_SPRING}original-partition", partition.to_bytes(4, "big")),
        (f"{_SPRING}original-offset", offset.to_bytes(8, "big")),
    ]


def _marks(copy: Copy) -> Headers:
    """Which dead letter it is, and what of it was cut: how much was kept, and of how much."""
    marks = {"id": copy.dead_letter_id}
    if copy.value is not None and (copy.value_bytes is None or len(copy.value) > VALUE_BYTES_MAX):
        marks["value-bytes-kept"] = min(len(copy.value), VALUE_BYTES_MAX)
        if copy.value_bytes is not None:
            marks["value-bytes"] = copy.value_bytes
    if copy.key is not None and len(copy.key) > KEY_BYTES_MAX:
        marks |= {"key-bytes-kept": KEY_BYTES_MAX, "key-bytes": len(copy.key)}
    if copy.key is None and copy.value is None:
        marks["key-was-null"] = 1
    left_out = len(_foreign(copy)) - len(_own_headers(copy))
    if left_out:
        marks["headers-left-out"] = left_out
    return [(f"{_OURS}{name}", str(number).encode()) for name, number in marks.items()]
