"""Operators steer all processes from the command line, by the version that they saw."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from service.commands import control
from service.errors import ReconcilerError
from service.store import controls
from service.store.pool import PoolOptions, connect
from tests.acceptance.commands import Ended, reconciler

WANTED = control.Wanted(healing_paused=True)


@pytest_asyncio.fixture
async def connection(database: Any) -> AsyncIterator[Any]:
    opened = await connect(PoolOptions(url=database.url))
    yield opened
    await opened.close()


async def run(database: Any, *words: str) -> Ended:
    return await reconciler("control", *words, settings={"RECONCILER_DATABASE__URL": database.url})


async def test_pause_and_resume_are_printed_before_and_after(
    database: Any, connection: Any
) -> None:
    paused = await run(database, "pause")
    assert paused.code == 0, paused.text
    assert paused.out.splitlines() == [
        "before: healing on, mode enforce, version 0, no heal taken yet",
        "after: healing paused, mode enforce, version 1, no heal taken yet",
    ]
    assert (await controls.read(connection)).healing_paused
    again = await run(database, "pause")
    assert again.out == "unchanged: healing paused, mode enforce, version 1, no heal taken yet\n"
    assert (await run(database, "resume")).code == 0
    assert not (await controls.read(connection)).healing_paused


async def test_mode_is_shadow_or_enforce_and_nothing_else(database: Any, connection: Any) -> None:
    assert (await run(database, "mode", "shadow")).code == 0
    assert (await controls.read(connection)).mode == "shadow"
    wrong = await run(database, "mode", "off")
    assert wrong.code == 2
    assert "Traceback" not in wrong.text
    assert (await controls.read(connection)).mode == "shadow"


async def test_show_tells_the_heals_that_are_left(database: Any, connection: Any) -> None:
    await controls.take_heals(connection, wanted=3, per_minute=10)
    shown = await run(database, "show")
    assert shown.out.startswith("now: healing on, mode enforce, version 0, heals left 7 of ")


class Overtaken:
    """A connection after whose first readings somebody else changes the mode."""

    def __init__(self, connection: Any, times: int) -> None:
        self._connection = connection
        self._left = times

    async def fetchrow(self, statement: str) -> Any:
        row = await self._connection.fetchrow(statement)
        if self._left:
            self._left -= 1
            seen = controls.Controls(*row)
            other = "shadow" if seen.mode == "enforce" else "enforce"
            assert await controls.change(self._connection, version=seen.version, mode=other)
        return row

    def transaction(self) -> Any:
        return self._connection.transaction()

    async def execute(self, statement: str, *values: Any) -> Any:
        return await self._connection.execute(statement, *values)


async def test_change_of_somebody_else_is_read_and_kept(
    connection: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    await control.steer(Overtaken(connection, times=1), wanted=WANTED, actor="ann")
    assert "before: healing on, mode shadow, version 1" in capsys.readouterr().out
    now = await controls.read(connection)
    assert (now.healing_paused, now.mode, now.version) == (True, "shadow", 2)


async def test_who_is_overtaken_twice_changes_nothing_and_is_told(connection: Any) -> None:
    with pytest.raises(ReconcilerError, match="nothing was changed"):
        await control.steer(Overtaken(connection, times=2), wanted=WANTED, actor="ann")
    now = await controls.read(connection)
    assert (now.healing_paused, now.version) == (False, 2)
    assert await connection.fetchval("SELECT count(*) FROM operator_actions") == 0


async def test_change_is_noted_with_who_and_from_what_to_what(
    database: Any, connection: Any
) -> None:
    assert (await run(database, "pause", "--by", "ann")).code == 0
    assert (await run(database, "pause", "--by", "bob")).code == 0
    (noted,) = await connection.fetch("TABLE operator_actions")
    assert (noted["actor"], noted["action"], noted["subject"]) == (
        "ann",
        "controls.change",
        "controls",
    )
    assert noted["before"] == {"healing_paused": False, "mode": "enforce", "version": 0}
    assert noted["after"] == {"healing_paused": True, "mode": "enforce", "version": 1}
