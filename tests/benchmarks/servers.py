"""The broker and the database beside which the service is measured: started here, or given."""

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from migrations import runner
from service.sandbox.postgres import EmbeddedPostgres
from tests.support.kafka import ApacheKafka

_FACTS = """
SELECT
    current_setting('server_version') AS version,
    current_setting('fsync') AS fsync,
    current_setting('synchronous_commit') AS synchronous_commit,
    current_setting('shared_buffers') AS shared_buffers
"""


class NotDurable(Exception):  # noqa: N818 - named after what was found
    """The server may lose what it has confirmed: its rates would say nothing."""


@asynccontextmanager
async def database_server(given: str | None) -> AsyncIterator[str]:
    """The URL of a server: the one given, or an embedded one with everything as it comes."""
    if given is not None:
        yield given
        return
    async with EmbeddedPostgres() as server:
        yield server.url


async def described(url: str) -> str:
    """The server and its durability in words. Raises NotDurable."""
    connection: Any = await asyncpg.connect(url)
    try:
        facts = await connection.fetchrow(_FACTS)
    finally:
        await connection.close()
    if (facts["fsync"], facts["synchronous_commit"]) != ("on", "on"):
        raise NotDurable("switch fsync and synchronous_commit on")
    return (
        f"PostgreSQL {facts['version'].split()[0]}, fsync and synchronous_commit on, "
        f"shared_buffers {facts['shared_buffers']}"
    )


@asynccontextmanager
async def fresh_database(server: str) -> AsyncIterator[str]:
    """The URL of a migrated database, which is dropped at the end."""
    name = f"bench_{secrets.token_hex(4)}"
    admin: Any = await asyncpg.connect(server)
    try:
        await admin.execute(f'CREATE DATABASE "{name}"')
        try:
            url = urlunsplit(urlsplit(server)._replace(path=f"/{name}"))
            await runner.upgrade(url)
            yield url
        finally:
            await admin.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
    finally:
        await admin.close()


@asynccontextmanager
async def broker(given: str | None) -> AsyncIterator[str]:
    """The address of Apache Kafka: the one given, or one started here. Raises MissingTool."""
    if given is not None:
        yield given
        return
    async with ApacheKafka() as kafka:
        yield kafka.bootstrap_servers
