"""Alembic's entry: online on the connection that the runner opened, offline as a script to read."""

from alembic import context
from sqlalchemy.engine import Connection


def run_online(connection: Connection) -> None:
    """Run the pending revisions in the transaction that the runner holds."""
    context.configure(connection=connection, target_metadata=None)
    with context.begin_transaction():
        context.run_migrations()


def run_offline() -> None:
    """Print the SQL instead of running it."""
    context.configure(url="postgresql://", literal_binds=True, dialect_name="postgresql")
    with context.begin_transaction():
        context.run_migrations()


if context.is_offline_mode():
    run_offline()
else:
    run_online(context.config.attributes["connection"])
