"""A dead letter again: decoded anew and applied as every record is, with the settings of today.

What it became stands in the same transaction as its new status and the operator's action, so it
is replayed once, however often and by however many it is asked for.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from aiokafka import ConsumerRecord

from schemas.refusal import Reason
from schemas.sources.contract import Ignored
from service.errors import ReconcilerError, StaleWrite
from service.ingest.apply import apply
from service.ingest.batch import Batch, Item, Record, Refusal
from service.ingest.decode import decode_foreign, decode_record
from service.ingest.intake import Content
from service.ingest.options import IngestOptions
from service.store import dead_letters, operator_actions
from service.store.dead_letters import VALUE_BYTES_MAX, DeadLetter, Kept
from service.store.operator_actions import Action

REPLAYED: Final = "replayed"
DISCARDED: Final = "discarded"
TOPIC_UNKNOWN: Final = "topic_unknown"


class StillRefused(ReconcilerError):  # noqa: N818 - named after what happened
    """The record is no event today either; nothing was written."""

    def __init__(self, refusal: Refusal) -> None:
        self.refusal = refusal
        super().__init__(f"{refusal.reason}: {refusal.error}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Readers:
    """How records are read and written: what ingest is built with, and the topics it reads."""

    options: IngestOptions
    topics: Collection[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class By:
    """Who changes a dead letter, and why."""

    actor: str
    note: str | None


def read_again(letter: DeadLetter, readers: Readers) -> Content:
    """What the record says as it is read today; None for a tombstone.

    A refusal also where the table does not hold the whole record, or where nothing says how the
    records of its topic are to be read.
    """
    origin = letter.origin
    if letter.reason == Reason.TOO_LARGE or len(letter.value or b"") >= VALUE_BYTES_MAX:
        told = (
            f"only the first {VALUE_BYTES_MAX} bytes of its value are kept; once it may be so"
            f" large, read it from its topic again: reconciler replay --topic {origin.topic}"
            f" --partition {origin.partition} --from-offset {origin.offset}"
        )
        return Refusal(Reason.TOO_LARGE, told, letter.payment_id)
    if origin.topic not in readers.topics:
        told = (
            f"nothing says how records of {origin.topic} are read; name it for this command as"
            " RECONCILER_KAFKA__ERP_TOPIC or RECONCILER_KAFKA__PSP_TOPIC, with its decoder"
        )
        return Refusal(TOPIC_UNKNOWN, told, letter.payment_id)
    source = readers.options.sources.get(origin.topic)
    if source is None:
        return decode_record(record_of(letter), exponents=readers.options.exponents)
    return decode_foreign(record_of(letter), source=source)


async def replay(connection: Any, kept: Kept, *, readers: Readers, by: By) -> Mapping[str, int]:
    """Apply a dead letter in the caller's transaction; gives how many events had which outcome.

    A tombstone and a record that says nothing of payments are replayed too: there was nothing to
    apply. Raises StillRefused, StaleWrite if somebody else was faster, and whatever the database
    raises; the transaction has to be rolled back then.
    """
    content = read_again(kept.letter, readers)
    if isinstance(content, Refusal):
        raise StillRefused(content)
    if content is None:
        outcomes = {"tombstone": 1}
    elif isinstance(content, Ignored):
        outcomes = {f"ignored, {content.reason}": 1}
    else:
        outcomes = await _applied(connection, Item(record_of(kept.letter), content), readers)
    await _move_on(connection, kept, REPLAYED, {"outcomes": outcomes}, by)
    return outcomes


async def discard(connection: Any, kept: Kept, *, by: By) -> None:
    """Mark a dead letter as one that is never to be applied; its bytes stay.

    Raises StaleWrite if somebody else was faster; the transaction has to be rolled back then.
    """
    await _move_on(connection, kept, DISCARDED, {}, by)


def record_of(letter: DeadLetter) -> Record:
    """The record as it was fetched, without its timestamp, which nothing reads."""
    headers: Any = tuple(letter.headers)
    return ConsumerRecord(*letter.origin, 0, 0, letter.key, letter.value, None, 0, 0, headers)


async def _applied(connection: Any, item: Item, readers: Readers) -> dict[str, int]:
    """The path of every record, but for the position: that of its topic stays where it is."""
    batch = Batch(items=[item], spans={})
    applied = await apply(connection, batch, options=readers.options.apply)
    for refused in applied.refused:
        if isinstance(refused.content, Refusal):
            raise StillRefused(refused.content)
    outcomes: dict[str, int] = {}
    for (_, outcome), number in applied.counts.items():
        outcomes[str(outcome)] = outcomes.get(str(outcome), 0) + number
    return outcomes


async def _move_on(
    connection: Any, kept: Kept, status: str, after: Mapping[str, Any], by: By
) -> None:
    """Status and audit row, last: whoever takes locks on payments has them all by now."""
    dead_letter_id = kept.dead_letter_id
    if not await dead_letters.move_on(connection, dead_letter_id, before=kept.status, after=status):
        raise StaleWrite(f"dead letter {dead_letter_id} is not {kept.status} any more")
    action = Action(
        actor=by.actor,
        action=f"dead_letters.{'replay' if status == REPLAYED else 'discard'}",
        subject=str(dead_letter_id),
        before={"status": kept.status, "reason": kept.letter.reason},
        after={"status": status, **after},
        note=by.note,
    )
    await operator_actions.record(connection, action)
