"""What goes out is complete, in order a payment, and at least once.

The contract: each change of status or open cases is one message, the first copy of each message
comes in the order of row versions, and copies of one message are equal. So whoever keeps the
highest version of a payment always has its newest view; a copy may come late.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from service.outbox.letters import VALUE_BYTES_MAX
from tests.faults.checking.history import History, Message, Row

Key = tuple[str, int]
"""Payment and row version."""


def announced_once(history: History) -> Iterator[str]:
    """One outbox row for each log row that changed status or open cases, and no other."""
    wanted = {
        (row["payment_id"], row["row_version"])
        for row in history.log
        if row["outcome"] in ("applied", "conflict") and _is_visible(row)
    }
    rows = Counter(_key(row["value"]) for row in _events(history))
    for payment_id, version in sorted(wanted - rows.keys()):
        yield f"{payment_id}: the change to row version {version} is not in the outbox"
    for (payment_id, version), times in sorted(rows.items()):
        if (payment_id, version) not in wanted:
            yield f"{payment_id}: the outbox tells of row version {version}, the log of no change"
        elif times > 1:
            yield f"{payment_id}: row version {version} is in the outbox {times} times"


def all_published(history: History) -> Iterator[str]:
    """Nothing waits in the outbox."""
    for row in history.outbox:
        if row["published_at"] is None:
            yield f"outbox {row['outbox_id']}, {row['key']}, is not published"


def delivered_in_order(history: History) -> Iterator[str]:
    """Every outbox row is in the topic, its first copy after those of lower versions, all copies
    equal to it; nothing else is there.
    """
    rows = {_key(row["value"]): row for row in _events(history)}
    highest: dict[str, int] = defaultdict(lambda: -1)
    partitions: dict[str, int] = {}
    seen: set[Key] = set()
    for message in history.outcomes:
        value = json.loads(message.value or b"{}")
        key, where = _key(value), f"{message.partition}/{message.offset}"
        payment_id, version = key
        if key not in rows:
            yield f"outgoing {where} tells of {payment_id} at {version}, the outbox does not"
            continue
        if value != rows[key]["value"] or message.key != payment_id.encode():
            yield f"outgoing {where} of {payment_id} at {version} is not what the outbox holds"
        if partitions.setdefault(payment_id, message.partition) != message.partition:
            yield f"{payment_id} goes out in two partitions"
        if key not in seen and version < highest[payment_id]:
            yield f"{payment_id}: {version} goes out for the first time after {highest[payment_id]}"
        seen.add(key)
        highest[payment_id] = max(highest[payment_id], version)
    for payment_id, version in sorted(rows.keys() - seen):
        yield f"{payment_id}: row version {version} never went out"


def last_word_is_the_table(history: History) -> Iterator[str]:
    """The highest version that went out of a payment has its status and open cases."""
    newest: dict[str, Any] = {}
    for message in history.outcomes:
        value = json.loads(message.value or b"{}")
        payment_id, version = _key(value)
        if payment_id not in newest or version > _key(newest[payment_id])[1]:
            newest[payment_id] = value
    for row in history.payments:
        data = newest[row["payment_id"]]["data"] if row["payment_id"] in newest else {}
        told = (data.get("status", "pending"), data.get("open_discrepancies", []))
        stands = (row["status"], list(row["kinds"]))
        if told != stands:
            yield f"{row['payment_id']} is {stands}, its last message says {told}"


def dead_letters_copied(history: History) -> Iterator[str]:
    """Every dead letter is in its topic with its bytes and its origin; nothing else is there."""
    letters = {
        (row["topic"], row["partition"], row["offset"], row["key"], _capped(row["value"])): row
        for row in history.dead_letters
    }
    copied = {(*_origin(message), message.key, message.value) for message in _copies(history)}
    for key in letters.keys() - copied:
        letter = letters[key]["dead_letter_id"]
        yield f"dead letter {letter} has no copy of its bytes in the dead-letter topic"
    for key in copied - letters.keys():
        yield f"the dead-letter topic has a copy from {key[:3]} that is no dead letter's"


def _is_visible(row: Row) -> bool:
    return "status" in row["changes"] or "open_discrepancies" in row["changes"]


def _events(history: History) -> list[Row]:
    return [row for row in history.outbox if "dead_letter_id" not in row["value"]]


def _copies(history: History) -> list[Message]:
    return list(history.dead_letter_copies)


def _key(value: Any) -> Key:
    return str(value.get("subject")), int(value.get("entityversion", -1))


def _origin(message: Message) -> tuple[str, int, int]:
    named = dict(message.headers)
    topic, partition, offset = (
        named.get(f"__connect.errors.{name}", b"-1").decode()
        for name in ("topic", "partition", "offset")
    )
    return topic, int(partition), int(offset)


def _capped(value: bytes | None) -> bytes | None:
    return None if value is None else value[:VALUE_BYTES_MAX]
