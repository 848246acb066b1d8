"""Ways to PostgreSQL: a pool for short transactions, and dedicated connections beside it.

Every session is bounded by the server (lock, statement and idle-in-transaction time-outs) and by
the client (a statement whose answer never comes), and refuses a server that cannot write.
"""

import json
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import asyncpg
from asyncpg.connect_utils import SessionAttribute


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolOptions:
    """Where the database is and how long anything may take there.

    `read_password` is called at each connect, so that a rotated password is used without a
    restart; None leaves it to the URL. `tls` is a context or the name of an sslmode; None leaves it
    to the URL. `prepared_statements` off is for a pooler that hands each
    transaction another server session. A connection that nobody used for `idle_seconds_max` is
    closed: one that was expired is not kept on a demoted server.
    """

    url: str
    application_name: str = "payment-reconciler"
    connections_min: int = 1
    connections_max: int = 10
    connect_timeout_seconds: float = 10
    lock_timeout_seconds: float = 5
    statement_timeout_seconds: float = 15
    idle_in_transaction_timeout_seconds: float = 30
    idle_seconds_max: float = 60
    prepared_statements: bool = True
    read_password: Callable[[], str | Awaitable[str]] | None = None
    tls: ssl.SSLContext | str | None = None


if TYPE_CHECKING:
    _Connection = asyncpg.Connection[asyncpg.Record]
else:
    # Generic for the type checker alone.
    _Connection = asyncpg.Connection


class Session(_Connection):
    """A connection that carries no state from one use to the next, so that giving it back to the
    pool costs no reset query.

    It holds for this service because nothing here sets session variables, listens, or takes
    session locks on a pooled connection; an open transaction is rolled back all the same.
    """

    def get_reset_query(self) -> str:
        """Nothing to reset."""
        return ""


async def open_pool(options: PoolOptions) -> "asyncpg.Pool[asyncpg.Record]":
    """Open a pool. Raises OSError, TimeoutError or asyncpg.PostgresError if no connection comes."""
    return await asyncpg.create_pool(
        min_size=options.connections_min,
        max_size=options.connections_max,
        max_inactive_connection_lifetime=options.idle_seconds_max,
        **_arguments(options),
        init=_initialise,
    )


async def connect(options: PoolOptions) -> Session:
    """Open a connection of one's own (heartbeat, relay), which no pool can starve.

    Raises as `open_pool` does.
    """
    connection: Session = await asyncpg.connect(**_arguments(options))
    await _initialise(connection)
    return connection


async def expire(pool: "asyncpg.Pool[asyncpg.Record]") -> None:
    """Let no connection that is open now be used again: after a failover each of them may lead to
    a server that was demoted.
    """
    await pool.expire_connections()


def compact_json(value: Any) -> str:
    """JSON text as the jsonb columns take it."""
    return _ENCODER.encode(value)


_JSONB_VERSION = b"\x01"
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _arguments(options: PoolOptions) -> dict[str, Any]:
    password = {"password": options.read_password} if options.read_password else {}
    tls = {"ssl": options.tls} if options.tls else {}
    return {
        "dsn": options.url,
        "connection_class": Session,
        "timeout": options.connect_timeout_seconds,
        # The server ends a statement first; the client's limit is for a server that went silent.
        "command_timeout": options.statement_timeout_seconds + options.connect_timeout_seconds,
        "statement_cache_size": 100 if options.prepared_statements else 0,
        "target_session_attrs": SessionAttribute.read_write,
        "server_settings": {
            "application_name": options.application_name,
            "lock_timeout": _milliseconds(options.lock_timeout_seconds),
            "statement_timeout": _milliseconds(options.statement_timeout_seconds),
            "idle_in_transaction_session_timeout": _milliseconds(
                options.idle_in_transaction_timeout_seconds
            ),
            # Statements are short and run by the thousand: compiling them only costs.
            "jit": "off",
        },
        **password,
        **tls,
    }


def _milliseconds(seconds: float) -> str:
    return str(max(1, round(seconds * 1000)))


async def _initialise(connection: Any) -> None:
    await connection.set_type_codec(
        "jsonb", schema="pg_catalog", encoder=_jsonb, decoder=_of_jsonb, format="binary"
    )


def _jsonb(value: Any) -> bytes:
    """jsonb on the wire, as COPY needs it too: a version byte, then the text."""
    return _JSONB_VERSION + compact_json(value).encode()


def _of_jsonb(raw: bytes) -> Any:
    return json.loads(raw[1:])
