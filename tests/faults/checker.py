"""The checker of a fault run: reads the whole history, says what breaks a promise.

Each claim is a function from the history to sentences with ids, one a violation.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from aiokafka import AIOKafkaConsumer

from tests.faults.checking import jobs, outgoing, payments, records
from tests.faults.checking.history import History, Message, Sent, read_history
from tests.faults.workload import Told
from tests.support.events import Record, Source

__all__ = ["CLAIMS", "Message", "Sent", "check", "read_sent", "read_topic", "violations"]

Claim = Callable[[History], Iterator[str]]

CLAIMS: Sequence[Claim] = (
    records.accounted_for,
    records.without_origin,
    records.at_the_end,
    payments.fold_of_log,
    payments.the_truth,
    payments.row_versions_rise,
    payments.field_versions_rise,
    payments.one_case_a_kind,
    jobs.claims_closed_once,
    jobs.attempts_bounded,
    jobs.no_lease_left,
    jobs.ended_once,
    jobs.effect_with_its_end,
    jobs.healed_once,
    outgoing.announced_once,
    outgoing.all_published,
    outgoing.delivered_in_order,
    outgoing.last_word_is_the_table,
    outgoing.dead_letters_copied,
)

# aiokafka has no types.
_consumer: Any = AIOKafkaConsumer

_READ_SECONDS = 120.0
_POLL_MS = 500


async def check(
    connection: Any,
    *,
    sent: Sequence[Sent],
    told: Told,
    outcomes: Sequence[Message],
    dead_letter_copies: Sequence[Message],
    group: str,
) -> list[str]:
    """What breaks a promise, as sentences with the claim's name before them; empty: nothing.

    The service has to be at rest. `sent` are all records of the source topics, in the order of
    their partitions (`read_sent`), the messages those of the topics it writes to (`read_topic`).
    """
    history = await read_history(
        connection,
        told=told,
        sent=sent,
        outcomes=outcomes,
        dead_letter_copies=dead_letter_copies,
        group=group,
    )
    return await asyncio.to_thread(violations, history)


def violations(history: History) -> list[str]:
    """What breaks a promise in a history."""
    return [f"{claim.__name__}: {said}" for claim in CLAIMS for said in claim(history)]


async def read_sent(bootstrap_servers: str, topics: Mapping[str, str]) -> list[Sent]:
    """All that the source topics hold, partition by partition. Raises TimeoutError."""
    return [
        Sent(
            Record(_source(source), each.key, each.value, each.headers),
            topic,
            each.partition,
            each.offset,
        )
        for source, topic in topics.items()
        for each in await read_topic(bootstrap_servers, topic)
    ]


def _source(name: str) -> Source:
    return "erp" if name == "erp" else "psp"


async def read_topic(bootstrap_servers: str, topic: str) -> list[Message]:
    """All that a topic holds now, partition by partition in the order of offsets.

    Raises TimeoutError, also where the broker does not answer.
    """
    async with asyncio.timeout(_READ_SECONDS):
        consumer = _consumer(
            topic,
            bootstrap_servers=bootstrap_servers,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )
        await consumer.start()
        try:
            return await _read(consumer)
        finally:
            await consumer.stop()


async def _read(consumer: Any) -> list[Message]:
    ends = await consumer.end_offsets(consumer.assignment())
    found: list[Message] = []
    while any([await consumer.position(place) < end for place, end in ends.items()]):
        for fetched in (await consumer.getmany(timeout_ms=_POLL_MS)).values():
            found += [
                Message(each.partition, each.offset, each.key, each.value, tuple(each.headers))
                for each in fetched
            ]
    return sorted(found, key=lambda each: each[:2])
