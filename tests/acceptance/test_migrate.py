"""`reconciler migrate` against a real PostgreSQL."""

import asyncio
from typing import Any

from tests.acceptance.commands import Ended, reconciler
from tests.support.postgres import Database

COLUMNS = """
SELECT table_name, column_name, data_type, is_nullable, column_default, collation_name
FROM information_schema.columns WHERE table_schema = 'public'
ORDER BY table_name, column_name
"""
RULES = """
SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
WHERE connamespace = 'public'::regnamespace ORDER BY 1, 2
"""
INDEXES = "SELECT tablename, indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1, 2"


async def migrate(database: Database, *options: str) -> Ended:
    return await reconciler("migrate", *options, settings=settings_of(database))


def settings_of(database: Database) -> dict[str, str]:
    return {"RECONCILER_DATABASE__URL": database.url}


async def schema_of(database: Database) -> list[list[tuple[Any, ...]]]:
    connection = await database.connect()
    try:
        queries = (COLUMNS, RULES, INDEXES)
        return [[tuple(row) for row in await connection.fetch(query)] for query in queries]
    finally:
        await connection.close()


async def test_migrating_twice_changes_nothing_and_check_says_how_it_stands(
    empty_database: Database,
) -> None:
    before = await migrate(empty_database, "--check")
    assert before.code == 3
    assert "reconciler migrate" in before.err
    assert await schema_of(empty_database) == [[], [], []]

    first = await migrate(empty_database)
    once = await schema_of(empty_database)
    second = await migrate(empty_database)
    assert (first.code, second.code) == (0, 0)
    assert "is current" in second.err
    assert await schema_of(empty_database) == once

    after = await migrate(empty_database, "--check")
    assert after.code == 0
    assert "current" in after.err


async def test_two_runs_at_once_do_the_work_once(empty_database: Database) -> None:
    """Reported as rhesis 2545."""
    ends = await asyncio.gather(migrate(empty_database), migrate(empty_database))
    assert [end.code for end in ends] == [0, 0]
    assert sorted("is current" in end.err for end in ends) == [False, True]


async def test_printed_sql_makes_the_same_schema(
    database: Database, empty_database: Database
) -> None:
    printed = await reconciler("migrate", "--sql")
    assert printed.code == 0
    by_hand = await empty_database.connect()
    await by_hand.execute(printed.out)
    assert await schema_of(empty_database) == await schema_of(database)
    checked = await migrate(empty_database, "--check")
    assert checked.code == 0


async def test_a_lock_held_elsewhere_ends_it_with_a_clear_error_and_nothing_changed(
    empty_database: Database,
) -> None:
    holder = await empty_database.connect()
    try:
        # The revision table is the first that a migration touches.
        await holder.execute("CREATE TABLE alembic_version (version_num varchar(32) PRIMARY KEY)")
        before = await schema_of(empty_database)
        async with holder.transaction():
            await holder.execute("LOCK TABLE alembic_version IN ACCESS EXCLUSIVE MODE")
            ended = await migrate(empty_database)
        assert ended.code == 1, ended.text
        assert "lock" in ended.err
        assert "Traceback" not in ended.text
        assert await schema_of(empty_database) == before
    finally:
        await holder.close()


async def test_unreachable_database_is_one_line_that_names_the_setting() -> None:
    ended = await reconciler(
        "migrate",
        settings={"RECONCILER_DATABASE__URL": "postgresql://who:hunter2@127.0.0.1:1/nowhere"},
    )
    assert ended.code == 1
    assert "RECONCILER_DATABASE__URL" in ended.err
    assert "hunter2" not in ended.text
    assert len(ended.err.strip().splitlines()) == 1


async def test_schema_of_a_newer_release_is_left_alone(database: Database) -> None:
    connection = await database.connect()
    await connection.execute("UPDATE alembic_version SET version_num = '9999'")
    before = await schema_of(database)
    upgraded = await migrate(database)
    checked = await migrate(database, "--check")
    assert (upgraded.code, checked.code) == (0, 0)
    assert await connection.fetchval("SELECT version_num FROM alembic_version") == "9999"
    assert await schema_of(database) == before
