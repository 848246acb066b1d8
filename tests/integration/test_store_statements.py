"""The statements as they stand in their files: each guards what it changes."""

import re
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from service.store.faults import CONTENT_CONSTRAINTS
from service.store.statements import sql

SQL = Path(__file__).parents[2] / "service" / "store" / "sql"
NAMES = sorted(path.stem for path in SQL.glob("*.sql"))

GUARDS = {
    "payments": (r"\brow_version = ",),
    "psp_payments": (r"\brow_version = ",),
    "discrepancies": (r"\bversion = ",),
    # Operators' settings by version; the relay's lease by its epoch or its expiry; the heal
    # allowance under a lock that the statement takes itself; the sweep by where it began.
    "controls": (
        *(r"\bversion = \$", r"relay_epoch = \$", r"relay_until < ", r"FOR NO KEY UPDATE"),
        r"orders_swept_log_id = \$1",
    ),
    "reconciliation_jobs": (r"\blease_epoch = ", r"\bstatus = 'pending'", r"\bstatus IN "),
    "consumer_offsets": (r"\bnext_offset = ",),
    "dead_letters": (r"\bstatus = ",),
}
UPDATE = re.compile(r"\bUPDATE\s+(?!SKIP\b|OF\b)([a-z_]+)\b", re.IGNORECASE)


def statement(name: str) -> str:
    """A statement without its comments."""
    return re.sub(r"--[^\n]*", "", sql(name))


def updated_tables(name: str) -> list[str]:
    text = re.sub(r"FOR (NO KEY )?UPDATE|DO UPDATE", "", statement(name))
    return [table for table in UPDATE.findall(text) if table in GUARDS]


UPDATES = [(name, table) for name in NAMES for table in updated_tables(name)]


@pytest.mark.parametrize("name", NAMES)
def test_statement_opens_with_its_intent(name: str) -> None:
    assert re.match(r"-- [A-Z\"].+\.\n", sql(name))


@pytest.mark.parametrize(("name", "table"), UPDATES)
def test_update_of_a_versioned_table_names_its_version(name: str, table: str) -> None:
    text = statement(name)
    conditions = text[text.index("WHERE") :] if table != "controls" else text
    assert any(re.search(guard, conditions) for guard in GUARDS[table]), text


def test_every_versioned_table_is_covered() -> None:
    assert {table for _, table in UPDATES} == set(GUARDS)


def test_no_statement_takes_the_lock_that_blocks_foreign_keys() -> None:
    for name in NAMES:
        assert not re.search(r"FOR UPDATE\b", statement(name)), name


def test_statements_are_never_put_together_from_text() -> None:
    for path in SQL.parent.glob("*.py"):
        source = path.read_text(encoding="utf-8")
        assert not re.search(r"(SELECT|INSERT INTO|UPDATE|DELETE FROM) [a-z_]+", source), path.name


async def test_content_constraints_exist_under_their_names(database: Any) -> None:
    connection = await asyncpg.connect(database.url)
    rows = await connection.fetch(
        "SELECT conname AS name FROM pg_constraint UNION SELECT relname FROM pg_class"
        " WHERE relkind = 'i'"
    )
    await connection.close()
    assert {row["name"] for row in rows} >= CONTENT_CONSTRAINTS


async def test_every_statement_is_valid_on_the_schema(database: Any) -> None:
    connection = await asyncpg.connect(database.url)
    for name in NAMES:
        await connection.prepare(sql(name))
    await connection.close()
