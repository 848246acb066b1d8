"""What each answer of the database means to the one who was writing."""

import asyncpg
import pytest

from service.errors import StaleWrite
from service.store.faults import Reaction, UnknownCommit, reaction


def refused(sqlstate: str, constraint: str | None = None) -> asyncpg.PostgresError:
    fields = {"C": sqlstate, "M": "refused"}
    if constraint:
        fields["n"] = constraint
    error = asyncpg.PostgresError.new(fields)
    assert isinstance(error, asyncpg.PostgresError)
    return error


@pytest.mark.parametrize(
    ("sqlstate", "wanted"),
    [
        ("40001", Reaction.RETRY),
        ("40P01", Reaction.RETRY),
        ("55P03", Reaction.RETRY),
        ("57P01", Reaction.RECONNECT),
        ("57P02", Reaction.RECONNECT),
        ("57P03", Reaction.RECONNECT),
        ("53300", Reaction.RECONNECT),
        ("25006", Reaction.RECONNECT),
        ("08006", Reaction.RECONNECT),
        ("22021", Reaction.BISECT),
        ("22003", Reaction.BISECT),
        ("42P01", Reaction.STOP),
        ("42703", Reaction.STOP),
        ("57014", Reaction.PAUSE),
        ("53100", Reaction.PAUSE),
        ("XX000", Reaction.PAUSE),
    ],
)
def test_sqlstate_decides(sqlstate: str, wanted: Reaction) -> None:
    assert reaction(refused(sqlstate)) is wanted


def test_only_a_constraint_of_ours_speaks_of_a_record() -> None:
    assert reaction(refused("23514", "payments_money_not_negative")) is Reaction.BISECT
    assert reaction(refused("23514", "somebody_elses_check")) is Reaction.PAUSE
    assert reaction(refused("23502")) is Reaction.PAUSE


@pytest.mark.parametrize(
    "error",
    [
        ConnectionRefusedError(),
        TimeoutError(),
        UnknownCommit(),
        asyncpg.ConnectionDoesNotExistError("closed in the middle of an operation"),
        asyncpg.InterfaceError("connection is closed"),
    ],
)
def test_lost_connection_drops_every_connection(error: Exception) -> None:
    assert reaction(error) is Reaction.RECONNECT


def test_stale_write_is_read_again() -> None:
    assert reaction(StaleWrite("moved")) is Reaction.RETRY


def test_our_own_mistake_stops() -> None:
    assert reaction(KeyError("x")) is Reaction.STOP
