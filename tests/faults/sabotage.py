"""What foreign sessions do to PostgreSQL: held rows, failing statements, taken slots."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from tests.support.waiting import eventually

ADMIN_SECONDS = 30.0
_CONNECT_SECONDS = 2.0
AWAY = (
    OSError,
    TimeoutError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)
"""What a session may end with while faults strike."""

# At any statement of these tables, and at the commits that end a batch or a job.
_PREPARE = """
CREATE SCHEMA storm;
CREATE TABLE storm.failing (share double precision NOT NULL);
INSERT INTO storm.failing VALUES (0);
CREATE FUNCTION storm.fail_sometimes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF random() < (SELECT share FROM storm.failing) THEN
        IF random() < 0.5 THEN
            RAISE EXCEPTION 'injected' USING ERRCODE = 'serialization_failure';
        END IF;
        RAISE EXCEPTION 'injected' USING ERRCODE = 'deadlock_detected';
    END IF;
    RETURN NULL;
END $$;
DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY[
        'payments', 'payment_events', 'reconciliation_jobs', 'consumer_offsets', 'outbox'
    ] LOOP
        EXECUTE format(
            'CREATE TRIGGER storm AFTER INSERT OR UPDATE ON %I'
            ' FOR EACH STATEMENT EXECUTE FUNCTION storm.fail_sometimes()', name);
    END LOOP;
    FOREACH name IN ARRAY ARRAY['consumer_offsets', 'reconciliation_attempts'] LOOP
        EXECUTE format(
            'CREATE CONSTRAINT TRIGGER storm_late AFTER UPDATE ON %I DEFERRABLE INITIALLY DEFERRED'
            ' FOR EACH ROW EXECUTE FUNCTION storm.fail_sometimes()', name);
    END LOOP;
END $$;
"""
SERVICE_SESSIONS = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE application_name LIKE 'payment-reconciler%' AND random() < $1
"""


async def prepare(url: str) -> None:
    """Put triggers where `fail_sometimes` will strike; they do nothing until then."""
    connection: Any = await asyncpg.connect(url, timeout=_CONNECT_SECONDS)
    try:
        await connection.execute(_PREPARE)
    finally:
        await connection.close()


async def administer(url: str, *statements: str) -> None:
    """Run statements as soon as the server lets anybody in, all of them again if one fails."""

    async def done() -> bool:
        try:
            async with session(url) as connection:
                for statement in statements:
                    await connection.execute(statement)
        except AWAY:
            return False
        return True

    await eventually(done, within_seconds=ADMIN_SECONDS, every_seconds=0.1, what=statements[0])


@asynccontextmanager
async def session(url: str) -> AsyncIterator[Any]:
    """A session that writes, locks for as long as it likes, and leaves deadlocks to the others."""
    settings = {"default_transaction_read_only": "off", "deadlock_timeout": "30s"}
    connection: Any = await asyncpg.connect(
        url, timeout=_CONNECT_SECONDS, command_timeout=5, server_settings=settings
    )
    try:
        yield connection
    finally:
        connection.terminate()


async def again_and_again(url: str, seconds: float, harm: Any) -> None:
    """Do harm in one transaction after the other, rolled back, for so long; what fails is tried
    again: other faults may take the session away.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while loop.time() < until:
        try:
            async with asyncio.timeout(until - loop.time()), session(url) as connection:
                while True:
                    running = connection.transaction()
                    await running.start()
                    await harm(connection)
                    await running.rollback()
                    await asyncio.sleep(0.05)
        except AWAY:
            await asyncio.sleep(0.1)
