"""One clear line instead of a traceback when a command cannot reach its database."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from service.errors import ReconcilerError
from service.observe.redaction import mask_text


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
        raise ReconcilerError(reason(setting, error)) from error


def reason(setting: str, error: BaseException) -> str:
    """What went wrong, masked, and what to look at."""
    cause = getattr(error, "orig", None) or error
    text = mask_text(str(cause)).splitlines()
    said = f": {text[0]}" if text else ""
    return f"the database cannot be used ({type(cause).__name__}{said}); check {setting}"
