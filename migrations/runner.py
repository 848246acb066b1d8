"""Brings a database to this release's schema, or says how far it is from it.

One transaction under an advisory lock: two runs at once do the work once, and a run that cannot get
its table locks within `LOCK_TIMEOUT_SECONDS` fails and changes nothing, instead of queueing before
live writes and blocking them.
"""

import io
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any

import asyncpg
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import text
from sqlalchemy.engine import Connection
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine
from sqlalchemy.pool import NullPool

Connect = Callable[[], Awaitable[Any]]
"""Opens one asyncpg connection to the database that is to be migrated."""

LOCK_TIMEOUT_SECONDS = 5
OTHER_RUN_TIMEOUT_SECONDS = 120
ADVISORY_LOCK_KEY = 7_264_001_153


class SchemaState(StrEnum):
    """How a database's schema stands to the revisions of this release."""

    CURRENT = "current"
    EMPTY = "empty"
    BEHIND = "behind"
    NEWER = "newer"


async def upgrade(database: str | Connect) -> tuple[str | None, str]:
    """Bring `database` (a URL, or what opens a connection) to the newest revision.

    Returns the revision before and after. Raises SQLAlchemy's DBAPIError around asyncpg's
    LockNotAvailableError when another session holds a table too long; nothing is changed then.
    """
    async with _connection(database) as connection:
        await connection.execute(text(f"SET lock_timeout = '{OTHER_RUN_TIMEOUT_SECONDS}s'"))
        await connection.execute(
            text("SELECT pg_advisory_xact_lock(:key)"), {"key": ADVISORY_LOCK_KEY}
        )
        await connection.execute(text(f"SET lock_timeout = '{LOCK_TIMEOUT_SECONDS}s'"))
        before = await connection.run_sync(_revision)
        if _state(before) is not SchemaState.NEWER:
            await connection.run_sync(_run)
        after = await connection.run_sync(_revision)
        await connection.commit()
    return before, after or ""


async def state(database: str | Connect) -> SchemaState:
    """Tell how the schema stands, changing nothing."""
    async with _connection(database) as connection:
        return _state(await connection.run_sync(_revision))


def script() -> str:
    """The whole migration as SQL for a database administrator to read and run."""
    output = io.StringIO()
    config = _config()
    config.output_buffer = output
    command.upgrade(config, "head", sql=True)
    return output.getvalue()


def head() -> str:
    """This release's newest revision."""
    return ScriptDirectory.from_config(_config()).get_current_head() or ""


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    config.set_main_option("path_separator", "os")
    return config


def _run(connection: Connection) -> None:
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _revision(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def _state(revision: str | None) -> SchemaState:
    if revision is None:
        return SchemaState.EMPTY
    scripts = ScriptDirectory.from_config(_config())
    if revision == scripts.get_current_head():
        return SchemaState.CURRENT
    ours = {entry.revision for entry in scripts.walk_revisions()}
    return SchemaState.BEHIND if revision in ours else SchemaState.NEWER


@asynccontextmanager
async def _connection(database: str | Connect) -> AsyncIterator[AsyncConnection]:
    async def from_url() -> Any:
        return await asyncpg.connect(str(database), timeout=10)

    creator = from_url if isinstance(database, str) else database
    engine = create_async_engine("postgresql+asyncpg://", async_creator=creator, poolclass=NullPool)
    try:
        async with engine.connect() as connection:
            yield connection
    finally:
        await engine.dispose()
