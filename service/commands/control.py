"""`reconciler control`: what steers the healing of all processes, shown and changed."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from rich.console import Console

from service.commands.reachable import reaching
from service.connections import pool_options
from service.errors import ReconcilerError
from service.settings import Settings
from service.store import controls, operator_actions
from service.store.controls import Controls
from service.store.operator_actions import Action
from service.store.pool import connect

_TRIES_MAX = 2
_CLOSE_SECONDS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is to be set; None: as it is."""

    healing_paused: bool | None = None
    mode: str | None = None

    def holds(self, now: Controls) -> bool:
        """Whether it is set already."""
        return self.healing_paused in {None, now.healing_paused} and self.mode in {None, now.mode}


async def show(settings: Settings) -> int:
    """Print what is set."""
    return await _with_connection(settings, _show)


async def change(settings: Settings, wanted: Wanted, *, actor: str) -> int:
    """Change what is wanted, note who did it, and print before and after."""
    return await _with_connection(settings, partial(steer, wanted=wanted, actor=actor))


async def steer(connection: Any, *, wanted: Wanted, actor: str) -> None:
    """Change over the version read; if somebody else was faster, read and try once more.

    Raises ReconcilerError if that fails too: nothing is changed then.
    """
    for _ in range(_TRIES_MAX):
        before = await controls.read(connection)
        if wanted.holds(before):
            _print("unchanged", before)
            return
        async with connection.transaction():
            after = await _changed(connection, before, wanted, actor=actor)
        if after is not None:
            _print("before", before)
            _print("after", after)
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


async def _changed(
    connection: Any, before: Controls, wanted: Wanted, *, actor: str
) -> Controls | None:
    """The controls as they are now; None if somebody else has changed them since `before`."""
    if not await controls.change(
        connection,
        version=before.version,
        healing_paused=wanted.healing_paused,
        mode=wanted.mode,
    ):
        return None
    after = await controls.read(connection)
    action = Action(
        actor=actor,
        action="controls.change",
        subject="controls",
        before=_told(before),
        after=_told(after),
    )
    await operator_actions.record(connection, action)
    return after


def _told(seen: Controls) -> dict[str, Any]:
    return {
        "healing_paused": seen.healing_paused,
        "mode": seen.mode,
        "version": seen.version,
    }


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
