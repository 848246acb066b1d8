"""Plain SQL files as migrations: read, split, run."""

from pathlib import Path

from alembic import op

SQL = Path(__file__).parent / "sql"


def split(script: str) -> list[str]:
    """Cut a script into statements at every semicolon that ends a line.

    The driver prepares each statement, so it takes one at a time. Our migrations hold no
    function bodies.
    """
    return [part.strip() for part in f"{script}\n".split(";\n") if part.strip()]


def run_file(name: str) -> None:
    """Run every statement of migrations/sql/`name` in the migration's transaction."""
    for statement in split((SQL / name).read_text(encoding="utf-8")):
        op.execute(statement.replace(":", r"\:"))
