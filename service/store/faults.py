"""What a failure at the database means for the one who was writing.

Decided by SQLSTATE, never by text: whether to try again, to wait for the database, to look for one
bad record, or to stop because the statement itself is wrong.
"""

from enum import StrEnum

import asyncpg

from service.errors import ReconcilerError, StaleWrite


class Reaction(StrEnum):
    """What the writer does after it has rolled back."""

    RETRY = "retry"  # at once with jitter, the connection is good
    RECONNECT = "reconnect"  # drop all connections, pause, back off without limit
    BISECT = "bisect"  # one record's content is refused: find it
    STOP = "stop"  # our own mistake: end loudly, nothing was written
    PAUSE = "pause"  # anything else: pause and try again, never a dead letter


class UnknownCommit(ReconcilerError):  # noqa: N818 - named after what happened
    """The connection was lost while a commit was awaited: it may have happened or not."""


CONTENT_CONSTRAINTS = frozenset(
    {
        "payments_payment_id_length",
        "payments_status_known",
        "payments_money_not_negative",
        "psp_payments_pkey",
        "psp_payments_payment_fkey",
        "psp_payments_money_not_negative",
        "psp_facts_payment_fkey",
        "psp_facts_money_not_negative",
        "payment_events_kind_known",
        "payment_events_outcome_known",
        "discrepancies_payment_fkey",
        "discrepancies_status_known",
        "discrepancies_kind_known",
        "discrepancies_one_held",
        "dead_letters_status_known",
    }
)
"""The constraints of the tables that a batch writes. One that somebody else has added says
nothing about a record."""

_RETRIED = frozenset({"40001", "40P01", "55P03"})
_CONNECTION = frozenset(
    {
        "57P01",  # the server is stopped
        "57P02",  # another server process crashed
        "57P03",  # the server starts up
        "57P05",  # idle for too long
        "53300",  # too many connections
        "25006",  # read only: a primary that was demoted
        "25P03",  # idle in a transaction for too long
        "28P01",  # a password that is being rotated
    }
)


def reaction(error: BaseException) -> Reaction:
    """What to do about `error`, which a transaction has raised. Pure."""
    if isinstance(error, StaleWrite | asyncpg.InvalidCachedStatementError):
        return Reaction.RETRY
    # The driver could not even encode the value: it is the record's, as with class 22.
    if isinstance(error, asyncpg.DataError):
        return Reaction.BISECT
    if isinstance(error, asyncpg.PostgresError):
        return _by_sqlstate(error)
    if isinstance(error, OSError | TimeoutError | UnknownCommit | asyncpg.InternalClientError):
        return Reaction.RECONNECT
    if isinstance(error, asyncpg.InterfaceError):
        return Reaction.RECONNECT if "clos" in str(error) else Reaction.PAUSE
    return Reaction.STOP


def _by_sqlstate(error: asyncpg.PostgresError) -> Reaction:
    sqlstate = error.sqlstate or ""
    if sqlstate in _RETRIED:
        return Reaction.RETRY
    if sqlstate in _CONNECTION or sqlstate.startswith("08"):
        return Reaction.RECONNECT
    if sqlstate.startswith("22"):
        return Reaction.BISECT
    if sqlstate.startswith("23") and error.constraint_name in CONTENT_CONSTRAINTS:
        return Reaction.BISECT
    return Reaction.STOP if sqlstate.startswith("42") else Reaction.PAUSE
