"""`reconciler migrate`: bring the schema up, print it, or tell whether it is there."""

import sys
from functools import partial

from rich.console import Console

from migrations import runner
from service.commands.reachable import reaching
from service.connections import pool_options
from service.errors import SchemaError
from service.settings import Settings
from service.store.pool import connect

_BEHIND = "the database's schema is {state}: run `reconciler migrate`"


async def upgrade(settings: Settings) -> int:
    """Run what is missing. Raises SchemaError when a lock could not be had in time."""
    options = pool_options(settings.database, application_name="reconciler-migrate")
    async with reaching("RECONCILER_DATABASE__URL"):
        before, after = await runner.upgrade(partial(connect, options))
    done = "is current" if before == after else f"went from {before or 'nothing'} to {after}"
    Console(stderr=True).print(f"schema {done} ({after})")
    return 0


async def check(settings: Settings) -> int:
    """0 if this release can work with the schema. Raises SchemaError if it is behind."""
    options = pool_options(settings.database, application_name="reconciler-migrate")
    async with reaching("RECONCILER_DATABASE__URL"):
        state = await runner.state(partial(connect, options))
    if state in {runner.SchemaState.EMPTY, runner.SchemaState.BEHIND}:
        raise SchemaError(_BEHIND.format(state=state))
    Console(stderr=True).print(f"schema is {state}")
    return 0


def print_sql() -> int:
    """Write the whole migration to stdout, for a database administrator to read and run."""
    sys.stdout.write(runner.script())
    return 0
