"""The real service as a process, with its log at hand when a test fails."""

import os
import sys
from collections.abc import AsyncIterator, Generator, Mapping, Sequence
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP, SIGTERM
from typing import Any

import aiohttp
import pytest

from service.sandbox.child import ChildProcess, Command
from service.sandbox.ports import LOOPBACK, free_port

_CHECKOUT = Path(__file__).resolve().parents[2]
_ANSWER_SECONDS = 5.0
NOBODY_LISTENS = 0


class ServiceProcess:
    """`python -m service …` with health and API on free ports of loopback.

    Its environment is ours without any `RECONCILER_` and `PG` names, plus what `start` is given.
    """

    def __init__(self, log: Path) -> None:
        self.log = log
        self.health_port = free_port()
        self.api_port = free_port()
        self._child: ChildProcess | None = None

    def start(self, args: Sequence[str] = ("run",), env: Mapping[str, str] | None = None) -> None:
        """Start it, a second time on the same ports and log if the first has ended."""
        if self._child is not None and self._child.running:
            raise RuntimeError("this process is running already")
        own = {
            "RECONCILER_HEALTH__HOST": LOOPBACK,
            "RECONCILER_HEALTH__PORT": str(self.health_port),
            "RECONCILER_API__PORT": str(self.api_port),
        }
        command = Command(
            argv=[sys.executable, "-m", "service", *args],
            env={**clean_environment(), **own, **(env or {})},
            log=self.log,
            cwd=_CHECKOUT,
        )
        self._child = ChildProcess(command)

    @property
    def pid(self) -> int:
        return self._started.pid

    @property
    def running(self) -> bool:
        """Whether it has not ended; a paused one has not."""
        return self._child is not None and self._child.running

    @property
    def returncode(self) -> int | None:
        return self._started.returncode

    @property
    def health_url(self) -> str:
        """Before the path of a probe."""
        return f"http://{LOOPBACK}:{self.health_port}"

    @property
    def api_url(self) -> str:
        """Before the path of a resource."""
        return f"http://{LOOPBACK}:{self.api_port}"

    def terminate(self) -> None:
        self._started.signal(SIGTERM)

    def kill(self) -> None:
        self._started.signal(SIGKILL)

    def pause(self) -> None:
        self._started.signal(SIGSTOP)

    def resume(self) -> None:
        self._started.signal(SIGCONT)

    async def wait(self, within_seconds: float = 30.0) -> int:
        """The exit code, minus the number of the signal that killed it; raises TimeoutError."""
        return await self._started.wait(within_seconds)

    async def health(self, path: str = "/health") -> tuple[int, Any]:
        """Status code and JSON (text if it is none); 0 and None while nobody listens."""
        timeout = aiohttp.ClientTimeout(total=_ANSWER_SECONDS)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.get(self.health_url + path) as response,
            ):
                if response.content_type.endswith("json"):
                    return response.status, await response.json(content_type=None)
                return response.status, await response.text()
        except aiohttp.ClientConnectionError:
            return NOBODY_LISTENS, None

    def log_lines(self) -> list[str]:
        """All that it wrote so far to stdout and stderr, of earlier starts too."""
        if not self.log.exists():
            return []
        return self.log.read_text(encoding="utf-8", errors="replace").splitlines()

    async def close(self) -> None:
        """Kill it if it still runs."""
        if self._child is not None:
            await self._child.stop(SIGKILL, within_seconds=10.0)

    @property
    def _started(self) -> ChildProcess:
        if self._child is None:
            raise RuntimeError("this process has not been started")
        return self._child


class ServiceProcesses:
    """The processes of one test; each `new()` is one more, not started yet."""

    def __init__(self, directory: Path) -> None:
        self.started: list[ServiceProcess] = []
        self._directory = directory

    def new(self) -> ServiceProcess:
        process = ServiceProcess(self._directory / f"service-{len(self.started) + 1}.log")
        self.started.append(process)
        return process


_PROCESSES = pytest.StashKey[ServiceProcesses]()


@pytest.fixture
async def services(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[ServiceProcesses]:
    """Makes service processes for this test and kills what it leaves behind."""
    processes = ServiceProcesses(tmp_path)
    request.node.stash[_PROCESSES] = processes
    yield processes
    for process in processes.started:
        await process.close()


def clean_environment() -> dict[str, str]:
    """Our environment without whatever could reach the service by accident."""
    foreign = ("RECONCILER_", "PG")
    return {name: text for name, text in os.environ.items() if not name.startswith(foreign)}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the end of each service process's log beside a failed test."""
    report = yield
    processes = item.stash.get(_PROCESSES, None)
    if report.when == "call" and report.failed and processes is not None:
        for process in processes.started:
            tail = "\n".join(process.log_lines()[-60:])
            report.sections.append((f"{process.log.name}, the last lines", tail))
    return report
