"""Alembic migrations: plain SQL inside, expand before contract."""
