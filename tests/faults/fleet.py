"""The service's processes in a storm: started, ended and started again, each on its own ports."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from signal import SIGKILL, SIGUSR1

from tests.faults.plan import Part
from tests.support.processes import ServiceProcess
from tests.support.skew import faketime_library, skewed
from tests.support.waiting import eventually

STARTED_SECONDS = 60.0
STOP_SECONDS = 30.0
"""The drain, and what the service allows itself beyond it, on a busy machine."""
INJECTED = Path(__file__).with_name("injected")


class State(StrEnum):
    """What a process is meant to be doing."""

    STARTING = "starting"
    UP = "up"
    HELD = "held"  # stopped by a signal, or its loop blocked
    DOWN = "down"


class Member:
    """One process over all its starts, which share one log."""

    def __init__(self, number: int, part: Part, directory: Path, settings: Mapping[str, str]):
        self.name = f"service-{number + 1}"
        self.part = part
        self.state = State.DOWN
        self.up_since = float("inf")
        self.starts = 0
        self.busy = asyncio.Lock()
        self.service = ServiceProcess(directory / f"{self.name}.log")
        self._block_file = directory / f"{self.name}.block"
        self._settings = settings
        self._log_from = 0

    @property
    def skewed(self) -> bool:
        """Whether its clock is wrong, as planned; not where there is no libfaketime."""
        return bool(self.part.skew_seconds) and faketime_library() is not None

    @property
    def watches(self) -> bool:
        """Whether it returns expired leases."""
        return "watch" in self.part.roles

    def start(self) -> None:
        """Start it; `until_up` waits."""
        log = self.service.log
        self._log_from = log.stat().st_size if log.exists() else 0
        own = {"STORM_BLOCK_FILE": str(self._block_file), "PYTHONPATH": _python_path()}
        skew = skewed(self.part.skew_seconds) if self.skewed else {}
        args = ("run", "--roles", self.part.roles)
        self.service.start(args, env={**self._settings, **own, **skew})
        self.starts += 1
        self.state = State.STARTING

    async def until_up(self) -> None:
        """Wait until every part of it runs, however long the database is away."""

        def is_up() -> bool:
            return not self.service.running or self._says_started()

        await eventually(
            is_up,
            within_seconds=STARTED_SECONDS,
            every_seconds=0.1,
            what=f"{self.name} starts",
        )
        self.note_up()

    def note_up(self) -> None:
        """Note that it works, or works again."""
        self.state = State.UP
        self.up_since = asyncio.get_running_loop().time()

    def hold(self) -> None:
        """SIGSTOP."""
        self._no_longer_up(State.HELD)
        self.service.pause()

    def release(self) -> None:
        """SIGCONT."""
        self.service.resume()
        self.note_up()

    def block(self, seconds: float) -> None:
        """Let its main thread do nothing for so long."""
        self._no_longer_up(State.HELD)
        self._block_file.write_text(str(seconds), encoding="ascii")
        os.kill(self.service.pid, SIGUSR1)

    async def kill(self) -> int:
        """SIGKILL; returns the exit code."""
        self._no_longer_up(State.DOWN)
        self.service.kill()
        return await self.service.wait(STOP_SECONDS)

    async def terminate(self) -> int:
        """SIGTERM; returns the exit code. Raises TimeoutError if it goes on for too long."""
        self._no_longer_up(State.DOWN)
        self.service.terminate()
        return await self.service.wait(STOP_SECONDS)

    def unexpected_end(self) -> str | None:
        """What to say of a process that has ended and should not have."""
        if self.state is State.DOWN or self.service.running:
            return None
        return f"{self.name} ended with {self.service.returncode} although nobody ended it"

    def _no_longer_up(self, state: State) -> None:
        self.state = state
        self.up_since = float("inf")

    def _says_started(self) -> bool:
        with self.service.log.open("rb") as log:
            log.seek(self._log_from)
            return b'"process.started"' in log.read()


class Fleet:
    """All processes of a storm. `failures` are the ends that nobody asked for, or not that way."""

    def __init__(self, parts: Sequence[Part], directory: Path, settings: Mapping[str, str]):
        self.members = [
            Member(number, part, directory, settings) for number, part in enumerate(parts)
        ]
        self.failures: list[str] = []

    @property
    def services(self) -> list[ServiceProcess]:
        """The processes themselves: pid, health, log."""
        return [member.service for member in self.members]

    async def start(self) -> None:
        """Start all, and wait until they work."""
        for member in self.members:
            member.start()
        await asyncio.gather(*(member.until_up() for member in self.members))
        self.look()

    def look(self) -> None:
        """Note every process that has ended by itself."""
        for member in self.members:
            if (said := member.unexpected_end()) is not None:
                member.state = State.DOWN
                self.failures.append(said)

    async def stop(self) -> None:
        """SIGTERM to all at once: each has to end with 0."""
        self.look()
        running = [member for member in self.members if member.state is not State.DOWN]
        await asyncio.gather(*(self.end(member) for member in running))

    async def end(self, member: Member) -> None:
        """SIGTERM to one: it has to end with 0, in time."""
        try:
            code = await member.terminate()
        except TimeoutError:
            self.failures.append(f"{member.name} did not end within {STOP_SECONDS:.0f} s")
            await member.kill()
            return
        if code != 0:
            self.failures.append(f"{member.name} ended with {code} after SIGTERM")

    async def close(self) -> None:
        """Kill what still runs."""
        for member in self.members:
            await member.service.close()


def _python_path() -> str:
    """Ours, with the file before it that lets a signal block the main thread."""
    return os.pathsep.join(filter(None, (str(INJECTED), os.environ.get("PYTHONPATH"))))


KILLED = -SIGKILL
