"""The service behind PgBouncer in transaction mode; what the doctor says where it cannot work."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from service.sandbox.broker import EmbeddedBroker
from service.sandbox.psp_server import PspServer
from tests.acceptance.commands import reconciler
from tests.faults.house import House, until_health, until_started, variables
from tests.support.events import erp_event, psp_event
from tests.support.kafka import Topics
from tests.support.pgbouncer import pgbouncer, pgbouncer_program
from tests.support.postgres import Database
from tests.support.processes import ServiceProcesses

LIMITS = ("lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout")
IGNORED = f"{','.join(LIMITS)},jit"


@pytest.fixture(scope="session")
def program() -> str:
    """PgBouncer's path."""
    found = pgbouncer_program()
    if found is None:
        pytest.skip("PgBouncer is not on this machine")
    return found


@asynccontextmanager
async def pooled(
    program: str, database: Database, *, ignored: str = IGNORED, limited: bool = True
) -> AsyncIterator[str]:
    """The database's URL through a pooler with fewer sessions than the service has connections."""
    if limited:
        connection = await database.connect()
        name = await connection.fetchval("SELECT current_database()")
        for limit in LIMITS:
            await connection.execute(f"ALTER DATABASE {name} SET {limit} = '4s'")
    async with pgbouncer(program, database.url, ignored=ignored, sessions=3) as url:
        yield url


async def doctors_word(url: str, *, statement_cache: bool) -> str:
    """What the doctor says of the database."""
    cache = str(statement_cache).lower()
    settings = variables(DATABASE__URL=url, DATABASE__STATEMENT_CACHE=cache)
    ended = await reconciler("doctor", settings=settings)
    (line,) = [line for line in ended.out.splitlines() if line.startswith("postgres ")]
    return line


async def test_whole_service_works_with_sessions_that_change_with_each_transaction(
    program: str,
    database: Database,
    psp: PspServer,
    services: ServiceProcesses,
    embedded_broker: EmbeddedBroker,
    embedded_topics: Topics,
) -> None:
    """Reported as asyncpg 945 and asyncpg 1058."""
    broker = (embedded_broker.bootstrap_servers, embedded_topics)
    async with (
        pooled(program, database) as url,
        House.open(database, psp, services, broker) as house,
    ):
        process = house.start(DATABASE__URL=url, DATABASE__STATEMENT_CACHE="false")
        await until_started(process)
        lost = [f"lost-{number}" for number in range(20)]
        house.know(*lost)
        house.slow_down(0.3)  # so that leases are renewed meanwhile
        await house.send(*(erp_event(name, 1) for name in lost))
        await house.send(*(psp_event(name, 1, status="pending") for name in lost))
        await house.until_count(
            "SELECT count(*) FROM payments WHERE status = 'succeeded'", len(lost)
        )
        assert await house.attempts() == [(1, "healed")] * len(lost)
        await house.until_count("SELECT count(*) FROM outbox WHERE published_at IS NULL", 0)
        await until_health(process, "/readyz", 200)
        assert not [line for line in process.log_lines() if "prepared statement" in line]


async def test_doctor_finds_all_well_behind_a_pooler_that_is_set_up(
    program: str, database: Database
) -> None:
    async with pooled(program, database) as url:
        assert "well" in await doctors_word(url, statement_cache=False)


async def test_doctor_names_the_setting_where_prepared_statements_get_lost(
    program: str, database: Database
) -> None:
    """Reported as asyncpg 945 and asyncpg 1058."""
    async with pooled(program, database) as url:
        said = await doctors_word(url, statement_cache=True)
    assert "FAIL" in said
    assert "RECONCILER_DATABASE__STATEMENT_CACHE=false" in said


async def test_doctor_tells_what_a_pooler_has_to_let_pass(program: str, database: Database) -> None:
    async with pooled(program, database, ignored="") as url:
        said = await doctors_word(url, statement_cache=False)
    assert "FAIL" in said
    assert f"ignore_startup_parameters = {IGNORED}" in said


async def test_doctor_tells_of_sessions_that_nothing_limits(
    program: str, database: Database
) -> None:
    async with pooled(program, database, limited=False) as url:
        said = await doctors_word(url, statement_cache=False)
    assert "FAIL" in said
    assert all(limit in said for limit in LIMITS)
    assert "ALTER ROLE" in said
