"""What a decoder gives: events, facts, a tombstone, or a record that says nothing of payments.

A record that cannot be read is refused (`schemas.refusal.Refused`), and a payment status that no
declaration maps is refused too: it is never taken for "nothing".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from schemas.cloudevent import Event, Tombstone
from schemas.record import Headers
from schemas.refusal import Refused
from schemas.sources.fact import Fact


class Why(StrEnum):
    """Why a valid record carries nothing: a closed list, fit for a metric's label."""

    OTHER_TYPE = "other_type"  # a kind of record that is about no payment
    OTHER_TABLE = "other_table"  # a change of a table that is not the declared one
    OTHER_MODE = "other_mode"  # a test record where live ones are wanted, or the reverse
    ROW_DELETED = "row_deleted"  # a deleted row takes no payment back
    TRUNCATED = "truncated"  # the whole table was emptied
    MESSAGE = "message"  # a logical decoding message
    TRANSACTION = "transaction"  # begin or end of a transaction
    SCHEMA_CHANGE = "schema_change"  # a change of the table's definition
    HEARTBEAT = "heartbeat"  # a sign of life of the connector


@dataclass(frozen=True, slots=True)
class Ignored:
    """A valid record that carries nothing for payments: counted, never a dead letter.

    `detail` names what it was (an event type, a table); it is for the log, not for a label.
    """

    reason: Why
    detail: str


@dataclass(frozen=True, slots=True)
class Decoded:
    """One event, and how far its source can be trusted.

    `advisory`: the version is only a plausible order. Where the event is stale or in conflict,
    the PSP is to be asked, and no person. An advisory event without fields says that something
    moved, and not to what: ask.

    `unaddressed`: the record does not name its payment; `event.payment_id` is empty and is to be
    found by (psp, psp_reference), or else the record is refused with this.
    """

    event: Event
    advisory: bool = False
    unaddressed: Refused | None = None


Reading = Sequence[Decoded] | Sequence[Fact] | Tombstone | Ignored


class Decoder(Protocol):
    """Reads one record. Raises Refused, and nothing else, whatever the bytes."""

    def __call__(self, *, key: bytes | None, value: bytes | None, headers: Headers) -> Reading:
        """Decode one record; one record can give several events or facts."""
