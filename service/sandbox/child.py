"""A server process that ends with whoever started it, even if that one is killed."""

import asyncio
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from signal import SIGCONT, SIGKILL, Signals
from typing import TypedDict

_POLL_SECONDS = 0.01
_KILL_SECONDS = 10.0
_TAIL_BYTES = 4096

# Reads until its starter is gone, for only the starter holds the other end of the pipe. A death
# signal set in the child itself would not survive a change of user, nor be portable.
_GUARD = """
read -r _
kill -s "$2" "$1"; kill -s CONT "$1"
tries=0
while kill -0 "$1" && [ "$tries" -lt 100 ]; do sleep 0.1; tries=$((tries + 1)); done
kill -s KILL "$1"
[ -z "$3" ] || rm -rf -- "$3"
"""


@dataclass(frozen=True, slots=True)
class Account:
    """The operating system user and group that a process runs as."""

    uid: int
    gid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What to run. Nothing of our own environment is passed on but what `env` holds.

    `orphan_signal` is sent if we die first, SIGKILL ten seconds later; then `scratch` is removed.
    """

    argv: Sequence[str]
    env: Mapping[str, str]
    log: Path
    cwd: Path = Path("/")
    account: Account | None = None
    orphan_signal: Signals = SIGKILL
    scratch: Path | None = None


class ChildProcess:
    """One running process in a session of its own; stdout and stderr are appended to `log`.

    Bound to no event loop: a server may be started under one and stopped under another.
    """

    def __init__(self, command: Command) -> None:
        self._log = command.log
        with command.log.open("ab") as log:
            self._server = subprocess.Popen(  # noqa: S603 - the callers name their own binaries
                command.argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=command.env,
                cwd=command.cwd,
                start_new_session=True,
                **run_as(command.account),
            )
        self._guard = _guard(self._server.pid, command)

    @property
    def pid(self) -> int:
        """The process id; it says nothing any more once `running` is false."""
        return self._server.pid

    @property
    def running(self) -> bool:
        """Whether the process has not ended yet; a paused one runs."""
        return self.returncode is None

    @property
    def returncode(self) -> int | None:
        """The exit code, minus the signal's number if one killed it, None while it runs."""
        code = self._server.poll()
        if code is not None and self._guard.returncode is None:
            self._guard.kill()
            self._guard.communicate()
        return code

    def signal(self, signum: Signals) -> None:
        """Send a signal; nothing happens if the process has ended."""
        if self.running:
            self._server.send_signal(signum)

    async def wait(self, within_seconds: float) -> int:
        """Return the exit code; raises TimeoutError if the process outlives `within_seconds`."""
        async with asyncio.timeout(within_seconds):
            while (code := self.returncode) is None:  # noqa: ASYNC110 - bound to no loop
                await asyncio.sleep(_POLL_SECONDS)
        return code

    async def stop(self, signum: Signals, *, within_seconds: float) -> int:
        """Ask the process to end, a paused one too, and kill it if it has not in time."""
        self.signal(signum)
        self.signal(SIGCONT)
        try:
            return await self.wait(within_seconds)
        except TimeoutError:
            self.signal(SIGKILL)
            return await self.wait(_KILL_SECONDS)

    def log_tail(self) -> str:
        """Return the process's last words, at most 4 KiB of them."""
        return log_tail(self._log)

    def children(self) -> list[int]:
        """Return the pids of its own children; Linux only, elsewhere none."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            state = _state_and_parent(int(entry.name))
            if state is not None and state[1] == self.pid:
                found.append(int(entry.name))
        return found


def log_tail(log: Path) -> str:
    """Return the end of a log file, at most 4 KiB, or nothing if there is none."""
    try:
        with log.open("rb") as file:
            file.seek(max(log.stat().st_size - _TAIL_BYTES, 0))
            return file.read().decode(errors="replace").strip()
    except FileNotFoundError:
        return ""


def is_gone(pid: int) -> bool:
    """Whether a process that need not be our child has ended, reaped or not; Linux only."""
    state = _state_and_parent(pid)
    return state is None or state[0] == "Z"


def signal_all(pids: Sequence[int], signum: Signals) -> None:
    """Send a signal to each, passing over those that have ended meanwhile."""
    for pid in pids:
        try:
            os.kill(pid, signum)
        except ProcessLookupError:
            continue


class RunAs(TypedDict, total=False):
    """How subprocess is told to run as somebody else."""

    user: int
    group: int
    extra_groups: list[int]


def run_as(account: Account | None) -> RunAs:
    """Return subprocess's arguments for running as `account`; none for running as ourselves."""
    if account is None:
        return {}
    return {"user": account.uid, "group": account.gid, "extra_groups": []}


def _guard(pid: int, command: Command) -> subprocess.Popen[bytes]:
    signal_name = command.orphan_signal.name.removeprefix("SIG")
    arguments = [str(pid), signal_name, str(command.scratch or "")]
    return subprocess.Popen(  # noqa: S603 - a constant script, its arguments are our own
        ["/bin/sh", "-c", _GUARD, "guard", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        start_new_session=True,
    )


def _state_and_parent(pid: int) -> tuple[str, int] | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    state, parent = stat.rpartition(")")[2].split()[:2]  # the name before it may hold anything
    return state, int(parent)
