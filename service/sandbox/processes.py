"""The real service as processes of its own, with short times so that a story takes seconds."""

import asyncio
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import aiohttp

from service.sandbox import SandboxError
from service.sandbox.child import ChildProcess, Command
from service.sandbox.ports import LOOPBACK, free_port

PENDING_AFTER_SECONDS = 3
PREFIX = "RECONCILER_"

_READY_SECONDS = 60.0
_STOP_SECONDS = 20.0
_ANSWER_SECONDS = 5.0
_POLL_SECONDS = 0.05
_ERROR = '"level": "error"'
_ERRORS_MAX, _LOG_CHARACTERS_MAX = 5, 500
_QUICK = {
    "RECONCILE__PENDING_AFTER_SECONDS": str(PENDING_AFTER_SECONDS),
    "RECONCILE__SCHEDULE_SECONDS": "1",
    "LEASE__TTL_SECONDS": "3",
    "LEASE__HEARTBEAT_SECONDS": "1",
    "LEASE__CLAIM_POLL_SECONDS": "0.2",
    "LEASE__CONCURRENCY": "10",
    "LEASE__BACKOFF_MAX_SECONDS": "2",
    "WATCHER__INTERVAL_SECONDS": "1",
    "PSP__TIMEOUT_SECONDS": "0.8",
    "PSP__BUDGET_SECONDS": "2",
    "PSP__BREAKER_OPEN_SECONDS": "1",
    "HEALTH__HOST": LOOPBACK,
    "LOG__FORMAT": "json",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where the service finds the others, and under which names."""

    database_url: str
    bootstrap_servers: str
    psp_url: str
    run: str

    @property
    def group_id(self) -> str:
        """The consumer group, new with every run."""
        return f"reconciler-{self.run}"

    @property
    def topics(self) -> Mapping[str, str]:
        """Setting -> topic: `erp`, `psp`, and those that the service writes."""
        names = {
            "erp": "erp.payments",
            "psp": "psp.payments",
            "outcome": "reconciler.payments",
            "dead_letter": "reconciler.dead-letters",
        }
        return {name: f"{self.run}.{topic}" for name, topic in names.items()}


class ServiceProcess:
    """One process of the service; ends at the latest when the `async with` does."""

    def __init__(self, places: Places, roles: str, *, log: Path) -> None:
        self.health_port = free_port()
        self.roles = roles
        self._log = log
        self._child = ChildProcess(
            Command(
                argv=[sys.executable, "-m", "service", "run", "--roles", roles],
                env=_environment(places, self.health_port),
                log=log,
                cwd=Path(__file__).parents[2],  # where `service` is imported from here, too
            )
        )

    async def __aenter__(self) -> Self:
        """Nothing more to do: it runs already."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Drain and end it, by force after twenty seconds."""
        await self._child.stop(signal.SIGTERM, within_seconds=_STOP_SECONDS)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._child.pid

    @property
    def health_url(self) -> str:
        """Where it tells how it is."""
        return f"http://{LOOPBACK}:{self.health_port}/health"

    async def ready(self) -> None:
        """Wait until it says so. Raises SandboxError with its last words if it does not."""
        try:
            async with asyncio.timeout(_READY_SECONDS):
                while not await self._says_ready():
                    self.check()
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            raise SandboxError(
                f"the service ({self.roles}) is not ready:\n{self._child.log_tail()}"
            ) from None

    def check(self) -> None:
        """Raise SandboxError with its last words if it has ended by itself."""
        if not self._child.running:
            raise SandboxError(
                f"the service ({self.roles}) ended with {self._child.returncode}:\n"
                f"{self._child.log_tail()}"
            )

    def errors(self) -> list[str]:
        """The last few things that it logged as errors."""
        lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()
        return [line[:_LOG_CHARACTERS_MAX] for line in lines if _ERROR in line][-_ERRORS_MAX:]

    async def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self._child.signal(signal.SIGKILL)
        await self._child.wait(_STOP_SECONDS)

    async def duplicates(self) -> int:
        """How many events it counted as duplicates; they stand nowhere else."""
        async with _session() as session, session.get(self._url("/metrics")) as response:
            text = await response.text()
        return sum(
            int(float(line.rpartition(" ")[2]))
            for line in text.splitlines()
            if line.startswith("reconciler_events_total{") and 'outcome="duplicate"' in line
        )

    async def _says_ready(self) -> bool:
        try:
            async with _session() as session, session.get(self._url("/readyz")) as response:
                return response.status == 200
        except (aiohttp.ClientError, TimeoutError):
            return False

    def _url(self, path: str) -> str:
        return f"http://{LOOPBACK}:{self.health_port}{path}"


def _session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_ANSWER_SECONDS))


def _environment(places: Places, health_port: int) -> dict[str, str]:
    """Our own environment with nothing of the service's left in it but what is named here."""
    rest = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    settings = {
        **_QUICK,
        "DATABASE__URL": places.database_url,
        "KAFKA__BOOTSTRAP_SERVERS": places.bootstrap_servers,
        "KAFKA__GROUP_ID": places.group_id,
        **{f"KAFKA__{name.upper()}_TOPIC": topic for name, topic in places.topics.items()},
        "PSP__BASE_URL": places.psp_url,
        "HEALTH__PORT": str(health_port),
        "API__PORT": str(free_port()),
    }
    return rest | {PREFIX + name: value for name, value in settings.items()}
