"""`reconciler control`: what steers the healing of all processes, shown and changed."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from rich.console import Console

from service.commands.reachable import reaching
from service.connections import pool_options
from service.errors import ReconcilerError
from service.settings import Settings
from service.store import controls
from service.store.controls import Controls
from service.store.pool import connect

_TRIES_MAX = 2
_CLOSE_SECONDS = 5


async def show(settings: Settings) -> int:
    """Print what is set."""
    return await _with_connection(settings, _show)


async def change(
    settings: Settings, *, healing_paused: bool | None = None, mode: str | None = None
) -> int:
    """Change what is given (None: as it is), and print before and after."""
    change_by_version = partial(steer, healing_paused=healing_paused, mode=mode)
    return await _with_connection(settings, change_by_version)


async def steer(connection: Any, *, healing_paused: bool | None, mode: str | None) -> None:
    """Change over the version read; if somebody else was faster, read and try once more.

    Raises ReconcilerError if that fails too: nothing is changed then.
    """
    for _ in range(_TRIES_MAX):
        before = await controls.read(connection)
        if _holds(before, healing_paused=healing_paused, mode=mode):
            _print("unchanged", before)
            return
        if await controls.change(
            connection, version=before.version, healing_paused=healing_paused, mode=mode
        ):
            _print("before", before)
            _print("after", await controls.read(connection))
            return
    raise ReconcilerError(
        "somebody else changed the controls at the same time, twice; nothing was changed:"
        " look at `reconciler control show` and say it again"
    )


async def _with_connection(settings: Settings, run: Callable[[Any], Awaitable[None]]) -> int:
    options = pool_options(settings.database, application_name="reconciler-control")
    async with reaching("RECONCILER_DATABASE__URL"):
        connection = await connect(options)
        try:
            await run(connection)
        finally:
            await connection.close(timeout=_CLOSE_SECONDS)
    return 0


async def _show(connection: Any) -> None:
    _print("now", await controls.read(connection))


def _holds(now: Controls, *, healing_paused: bool | None, mode: str | None) -> bool:
    return healing_paused in {None, now.healing_paused} and mode in {None, now.mode}


def _print(when: str, seen: Controls) -> None:
    """The heals left are those of the minute in which one was taken last; the next begins anew."""
    console = Console(highlight=False, markup=False)
    healing = "paused" if seen.healing_paused else "on"
    heals = "no heal taken yet"
    if seen.heals_minute.year > 1:
        heals = f"heals left {seen.heals_left} of {seen.heals_minute:%Y-%m-%d %H:%M} UTC"
    console.print(
        f"{when}: healing {healing}, mode {seen.mode}, version {seen.version}, {heals}",
        soft_wrap=True,
    )
