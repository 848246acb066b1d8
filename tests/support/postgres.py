"""Fixtures: one PostgreSQL a session, a migrated database of its own a test."""

import asyncio
import itertools
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from service.sandbox.postgres import EmbeddedPostgres

TEMPLATE = "migrated"

_CONNECT_SECONDS = 10.0
_NUMBERS = itertools.count(1)
# A test's database need not outlive the power.
OPTIONS = {
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "200",
    "shared_buffers": "64MB",
}


class Database:
    """A migrated database that no other test uses."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._connections: list[Any] = []

    async def connect(self) -> Any:
        """A new connection, ended with the test if the test does not close it."""
        connection: Any = await asyncpg.connect(self.url, timeout=_CONNECT_SECONDS)
        self._connections.append(connection)
        return connection

    def hang_up(self) -> None:
        """End the connections that are still open, whatever they are doing."""
        for connection in self._connections:
            if not connection.is_closed():
                connection.terminate()


def chosen_bin_dir() -> Path | None:
    """What `TEST_POSTGRES_BIN` names; without it None, the wheel."""
    named = os.environ.get("TEST_POSTGRES_BIN")
    return Path(named) if named else None


@pytest.fixture(scope="session")
def postgres() -> Iterator[EmbeddedPostgres]:
    """PostgreSQL, shared by all tests: whoever stops or pauses it brings it back."""
    server = EmbeddedPostgres(bin_dir=chosen_bin_dir(), options=OPTIONS)
    asyncio.run(server.__aenter__())
    try:
        yield server
    finally:
        asyncio.run(server.close())


@pytest.fixture(scope="session")
def migrated_template(postgres: EmbeddedPostgres) -> str:
    """The name of the database that is migrated once and copied for each test."""

    async def migrate() -> None:
        from migrations import runner  # noqa: PLC0415 - tests without a database need none of it

        await runner.upgrade(await postgres.create_database(TEMPLATE))

    asyncio.run(migrate())
    return TEMPLATE


@pytest.fixture
async def database(postgres: EmbeddedPostgres, migrated_template: str) -> AsyncIterator[Database]:
    """A migrated database of this test alone; connections left open end with it."""
    name = f"test_{next(_NUMBERS)}"
    await _administer(postgres, f"CREATE DATABASE {name} TEMPLATE {migrated_template}")
    own = Database(postgres.url_of(name))
    try:
        yield own
    finally:
        own.hang_up()
        await _administer(postgres, f"DROP DATABASE {name} WITH (FORCE)")


async def _administer(postgres: EmbeddedPostgres, statement: str) -> None:
    connection: Any = await asyncpg.connect(postgres.url, timeout=_CONNECT_SECONDS)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()
