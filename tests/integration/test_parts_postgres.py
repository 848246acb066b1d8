"""The PostgreSQL that demo and tests run on."""

import asyncio
import os
import stat
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from service.sandbox import SandboxError
from service.sandbox import binaries as binaries_of
from service.sandbox.binaries import readable_by_others, wheel_bin_dir
from service.sandbox.child import is_gone
from service.sandbox.postgres import EmbeddedPostgres
from tests.support.postgres import OPTIONS, Database, chosen_bin_dir
from tests.support.waiting import eventually

PARENT = """
import asyncio, sys
from pathlib import Path
from service.sandbox.postgres import EmbeddedPostgres

async def main():
    bin_dir = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    async with EmbeddedPostgres(bin_dir=bin_dir, options={"fsync": "off"}) as server:
        print(server._child.pid, server._directory, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.fixture
async def server() -> AsyncIterator[EmbeddedPostgres]:
    async with EmbeddedPostgres(bin_dir=chosen_bin_dir(), options=OPTIONS) as own:
        yield own


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """A folder that an unprivileged user can reach, which pytest's own is not."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        directory.chmod(0o755)
        yield directory


async def _value(url: str, query: str) -> Any:
    connection: Any = await asyncpg.connect(url, timeout=10)
    try:
        return await connection.fetchval(query, timeout=10)
    finally:
        await connection.close()


async def _execute(url: str, statement: str) -> None:
    connection: Any = await asyncpg.connect(url, timeout=10)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


async def test_durability_is_on_unless_options_say_otherwise() -> None:
    async with EmbeddedPostgres(bin_dir=chosen_bin_dir(), options={"work_mem": "7MB"}) as server:
        assert await _value(server.url, "SHOW fsync") == "on"
        assert await _value(server.url, "SHOW work_mem") == "7MB"


async def test_committed_rows_survive_a_kill(server: EmbeddedPostgres) -> None:
    await _execute(server.url, "CREATE TABLE kept AS SELECT 41 AS n")
    held: Any = await asyncpg.connect(server.url)

    await server.kill()

    assert not server.running
    with pytest.raises(OSError, match="Connect call failed"):
        await asyncpg.connect(server.url)
    await server.start()
    assert await _value(server.url, "SELECT n FROM kept") == 41
    held.terminate()


async def test_paused_server_answers_nobody_and_goes_on_after(server: EmbeddedPostgres) -> None:
    connection: Any = await asyncpg.connect(server.url)
    server.pause()
    try:
        with pytest.raises(TimeoutError):
            await connection.fetchval("SELECT 1", timeout=0.2)
        with pytest.raises(TimeoutError):
            await asyncpg.connect(server.url, timeout=0.2)
    finally:
        server.resume()
    connection.terminate()

    assert await _value(server.url, "SELECT 2") == 2


async def test_paused_server_stops_cleanly(server: EmbeddedPostgres) -> None:
    held: Any = await asyncpg.connect(server.url)
    server.pause()

    await server.stop()

    await server.start()
    log = (_directory(server) / "postgres.log").read_text(encoding="utf-8")
    assert "not properly shut down" not in log
    held.terminate()


async def test_database_is_a_copy_of_its_template(server: EmbeddedPostgres) -> None:
    await _execute(await server.create_database("mould"), "CREATE TABLE shape AS SELECT 5 AS n")

    copy = await server.create_database("-odd \"name'", template="mould")

    assert copy == server.url_of("-odd \"name'")
    names = await _value(server.url, "SELECT array_agg(datname::text) FROM pg_database")
    assert "-odd \"name'" in names
    assert await _value(await server.create_database("c", template="mould"), "TABLE shape") == 5


async def test_existing_database_is_refused(server: EmbeddedPostgres) -> None:
    with pytest.raises(SandboxError, match="already exists"):
        await server.create_database("postgres")


async def test_data_in_a_given_directory_are_found_by_the_next_server(
    open_directory: Path,
) -> None:
    given = open_directory / "kept"
    async with EmbeddedPostgres(given, bin_dir=chosen_bin_dir(), options=OPTIONS) as first:
        await _execute(first.url, "CREATE TABLE kept AS SELECT 3 AS n")

    async with EmbeddedPostgres(given, bin_dir=chosen_bin_dir(), options=OPTIONS) as second:
        assert await _value(second.url, "SELECT n FROM kept") == 3


async def test_server_that_does_not_start_says_why_and_leaves_nothing() -> None:
    broken = EmbeddedPostgres(bin_dir=chosen_bin_dir(), options={"no_such_setting": "1"})

    with pytest.raises(SandboxError, match="no_such_setting"):
        await broken.__aenter__()

    assert broken._directory is None
    assert not broken.running


async def test_temporary_data_are_gone_after_the_block() -> None:
    async with EmbeddedPostgres(bin_dir=chosen_bin_dir(), options=OPTIONS) as server:
        directory = _directory(server)
        assert directory.exists()

    assert not directory.exists()


async def test_killed_parent_leaves_neither_server_nor_data() -> None:
    bin_dir = [str(chosen_bin_dir())] if chosen_bin_dir() else []
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PARENT, *bin_dir, stdout=asyncio.subprocess.PIPE
    )
    assert parent.stdout is not None
    pid, directory = (await parent.stdout.readline()).decode().split()
    parent.kill()
    await parent.wait()

    await eventually(lambda: is_gone(int(pid)), within_seconds=15, what="the server ends")
    await eventually(
        lambda: not Path(directory).exists(), within_seconds=15, what="its data are removed"
    )


def test_missing_wheel_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binaries_of, "find_spec", lambda _: None)

    with pytest.raises(SandboxError, match=r'pip install "payment-reconciler\[demo\]"'):
        wheel_bin_dir()


class TestBinariesInAPrivateHome:
    @pytest.fixture
    def home(self, monkeypatch: pytest.MonkeyPatch, open_directory: Path) -> Path:
        """An installation that only its owner can reach; copies go beside it."""
        monkeypatch.setattr(tempfile, "tempdir", str(open_directory))
        home = open_directory / "home"
        for part in ("bin", "lib", "share"):
            (home / "pg" / part).mkdir(parents=True)
        (home / "pg" / "bin" / "postgres").write_text("#!/bin/sh\n")
        (home / "pg" / "bin" / "postgres").chmod(0o700)
        home.chmod(0o700)
        return home

    def test_are_copied_once_to_where_everyone_may_run_them(self, home: Path) -> None:
        copied = readable_by_others(home / "pg" / "bin")

        assert not copied.is_relative_to(home)
        assert stat.S_IMODE((copied / "postgres").stat().st_mode) & 0o555 == 0o555
        (copied / "mark").touch()
        assert readable_by_others(home / "pg" / "bin") == copied
        assert (copied / "mark").exists()

    def test_are_refused_where_somebody_else_could_have_put_the_copy(self, home: Path) -> None:
        readable_by_others(home / "pg" / "bin")
        (copy,) = home.parent.glob("payment-reconciler-postgres-*")
        copy.chmod(0o777)

        with pytest.raises(SandboxError, match="not this user's own folder"):
            readable_by_others(home / "pg" / "bin")

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root hands the server to another user")
    async def test_run_from_their_copy(
        self, monkeypatch: pytest.MonkeyPatch, open_directory: Path
    ) -> None:
        monkeypatch.setattr(tempfile, "tempdir", str(open_directory))
        monkeypatch.setattr(binaries_of, "_open_to_all", lambda _: False)
        async with EmbeddedPostgres(options=OPTIONS) as server:
            assert await _value(server.url, "SELECT 6") == 6
            assert server._bin_dir.is_relative_to(open_directory)


class TestDatabaseOfATest:
    async def test_is_migrated(self, database: Database) -> None:
        connection = await database.connect()
        assert await connection.fetchval("SELECT count(*) FROM payments") == 0
        await connection.execute("INSERT INTO controls SELECT * FROM controls LIMIT 0")
        await connection.execute("CREATE TABLE left_behind ()")

    async def test_holds_nothing_of_another_test(self, database: Database) -> None:
        connection = await database.connect()
        assert await connection.fetchval("SELECT to_regclass('left_behind')") is None
        tests = "SELECT count(*) FROM pg_database WHERE starts_with(datname, 'test_')"
        assert await connection.fetchval(tests) == 1

    def test_serves_tests_without_a_loop(self, database: Database) -> None:
        assert database.url.startswith("postgresql://")


def _directory(server: EmbeddedPostgres) -> Path:
    assert server._directory is not None
    return server._directory
