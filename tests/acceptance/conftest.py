"""Databases without a schema, and the fault tests' houses, for whole commands."""

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest

from service.sandbox.postgres import EmbeddedPostgres
from tests.faults.servers import (
    embedded_broker,
    embedded_topics,
    house,
    kafka_house,
    psp,
    worker_house,
)
from tests.support.postgres import Database

__all__ = [
    "embedded_broker",
    "embedded_topics",
    "house",
    "kafka_house",
    "psp",
    "worker_house",
]


@pytest.fixture
async def empty_database(postgres: EmbeddedPostgres) -> AsyncIterator[Database]:
    """A database without a schema."""
    async with _empty(postgres) as database:
        yield database


@pytest.fixture
async def another_empty_database(postgres: EmbeddedPostgres) -> AsyncIterator[Database]:
    """A second one."""
    async with _empty(postgres) as database:
        yield database


@asynccontextmanager
async def _empty(postgres: EmbeddedPostgres) -> AsyncIterator[Database]:
    name = f"empty_{secrets.token_hex(4)}"
    database = Database(await postgres.create_database(name))
    try:
        yield database
    finally:
        database.hang_up()
        connection = await asyncpg.connect(postgres.url, timeout=10)
        await connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
        await connection.close()
