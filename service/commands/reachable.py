"""One clear line instead of a traceback when a command cannot reach its database."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from service.diagnosis.database import database_trouble
from service.errors import ReconcilerError


@asynccontextmanager
async def reaching(setting: str) -> AsyncIterator[None]:
    """Turn a failure to reach the database into an error that names the setting to look at.

    Raises ReconcilerError; errors of ours pass as they are.
    """
    try:
        yield
    except ReconcilerError:
        raise
    except Exception as error:
        raise ReconcilerError(database_trouble(error, setting=setting)) from error
