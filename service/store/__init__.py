"""The only rooms that know asyncpg: one file a table, SQL in sql/*.sql."""
