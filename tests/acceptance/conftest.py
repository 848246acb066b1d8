"""A database without a schema, and the fault tests' houses, for whole commands."""

import secrets
from collections.abc import AsyncIterator

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
    name = f"empty_{secrets.token_hex(4)}"
    database = Database(await postgres.create_database(name))
    try:
        yield database
    finally:
        database.hang_up()
        connection = await asyncpg.connect(postgres.url, timeout=10)
        await connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
        await connection.close()
