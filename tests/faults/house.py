"""One database, topics of its own on a broker, a PSP, and the service's processes between them."""

import json
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any, Self

from service.sandbox.psp_server import Faults, PspServer
from tests.support.events import Record, psp_answer
from tests.support.kafka import Topics
from tests.support.postgres import Database
from tests.support.processes import ServiceProcess, ServiceProcesses
from tests.support.producer import send
from tests.support.waiting import eventually

DEADLINE_SECONDS = 40.0

# What takes minutes in production takes one or two seconds here.
QUICK = {
    "RECONCILE__PENDING_AFTER_SECONDS": "1",
    "RECONCILE__SCHEDULE_SECONDS": "0.5",
    "LEASE__TTL_SECONDS": "3",
    "LEASE__HEARTBEAT_SECONDS": "1",
    "LEASE__CLAIM_POLL_SECONDS": "0.2",
    "LEASE__BACKOFF_MAX_SECONDS": "1",
    "LEASE__DRAIN_SECONDS": "3",
    "WATCHER__INTERVAL_SECONDS": "1",
    "PSP__BUDGET_SECONDS": "2",
    "PSP__TIMEOUT_SECONDS": "0.5",
    "KAFKA__POLL_SECONDS": "0.1",
    "KAFKA__SESSION_TIMEOUT_SECONDS": "6",
}
TABLES = (
    "payments",
    "psp_payments",
    "payment_events",
    "reconciliation_jobs",
    "reconciliation_attempts",
    "discrepancies",
    "outbox",
)
INSERT_PAYMENT = """
INSERT INTO payments (
    payment_id, row_version, order_id, erp_version, erp_status, erp_amount_minor, erp_currency,
    pending_since
) VALUES ($1, 1, 'order-' || $1, 1, 'pending', 1999, 'EUR', now())
"""
INSERT_JOB = "INSERT INTO reconciliation_jobs (payment_id, reason) VALUES ($1, 'due')"


def variables(**given: str) -> dict[str, str]:
    """Environment variables: `DATABASE__URL="…"` beside the quick times, which it overrides."""
    return {f"RECONCILER_{name}": value for name, value in {**QUICK, **given}.items()}


class House:
    """Where a story takes place; without a broker only jobs are worked on."""

    def __init__(
        self,
        connection: Any,
        url: str,
        psp: PspServer,
        services: ServiceProcesses,
        broker: tuple[str, Topics] | None,
    ) -> None:
        self.connection = connection
        self.url = url
        self.psp = psp
        self._services = services
        self._broker = broker

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        database: Database,
        psp: PspServer,
        services: ServiceProcesses,
        broker: tuple[str, Topics] | None = None,
    ) -> AsyncIterator[Self]:
        """Open it; the servers are the caller's."""
        connection = await database.connect()
        yield cls(connection, database.url, psp, services, broker)

    @property
    def servers(self) -> str:
        """The broker's address."""
        assert self._broker is not None
        return self._broker[0]

    @property
    def topics(self) -> Topics:
        """The topics and the group."""
        assert self._broker is not None
        return self._broker[1]

    def settings(self, **given: str) -> dict[str, str]:
        """Every setting of a process in this house."""
        joined = {"DATABASE__URL": self.url, "PSP__BASE_URL": self.psp.url}
        if self._broker is not None:
            joined |= {
                "KAFKA__BOOTSTRAP_SERVERS": self.servers,
                "KAFKA__GROUP_ID": self.topics.group_id,
                "KAFKA__ERP_TOPIC": self.topics.erp,
                "KAFKA__PSP_TOPIC": self.topics.psp,
                "KAFKA__OUTCOME_TOPIC": self.topics.outcome,
                "KAFKA__DEAD_LETTER_TOPIC": self.topics.dead_letter,
            }
        return variables(**{**joined, **given})

    def start(self, roles: str = "ingest,reconcile,watch", **given: str) -> ServiceProcess:
        """Start a process; does not wait for it."""
        process = self._services.new()
        process.start(("run", "--roles", roles), env=self.settings(**given))
        return process

    async def send(self, *records: Record) -> list[Any]:
        """Send records, in order, to the topics of their sources."""
        return await send(self.servers, records, topics=self.topics.by_source)

    def know(self, *payment_ids: str, **data: Any) -> None:
        """Let the PSP hold payments: succeeded, unless `data` says otherwise."""
        for payment_id in payment_ids:
            self.psp.put(payment_id, psp_answer(payment_id, **data))

    def slow_down(self, seconds: float) -> None:
        """Let each of the PSP's answers take so long."""
        self.psp.faults = Faults(latency_seconds=seconds)

    async def add_job(self, payment_id: str) -> None:
        """A payment that is pending here, with a job that is due."""
        await self.connection.execute(INSERT_PAYMENT, payment_id)
        await self.connection.execute(INSERT_JOB, payment_id)

    async def rows(self, query: str, *arguments: Any) -> list[tuple[Any, ...]]:
        """What the database holds."""
        return [tuple(row) for row in await self.connection.fetch(query, *arguments)]

    async def everything(self) -> dict[str, list[tuple[Any, ...]]]:
        """All that business, jobs and history hold."""
        return {table: await self.rows(f"TABLE {table}") for table in TABLES}

    async def status_of(self, payment_id: str) -> str | None:
        """A payment's status, None while there is no such row."""
        query = "SELECT status FROM payments WHERE payment_id = $1"
        found: str | None = await self.connection.fetchval(query, payment_id)
        return found

    async def until_status(self, payment_id: str, status: str) -> None:
        """Wait until a payment has a status."""

        async def has_it() -> bool:
            return await self.status_of(payment_id) == status

        await until(has_it, f"{payment_id} is {status}")

    async def until_count(self, query: str, number: int) -> None:
        """Wait until a counting query gives `number`."""

        async def is_there() -> bool:
            return bool(await self.connection.fetchval(query) == number)

        await until(is_there, f"{query} = {number}")

    async def log_of(self, payment_id: str) -> list[tuple[str, str]]:
        """The payment's log: kind and outcome, in order."""
        query = "SELECT kind, outcome FROM payment_events WHERE payment_id = $1 ORDER BY log_id"
        return [(row[0], row[1]) for row in await self.connection.fetch(query, payment_id)]

    async def attempts(self) -> list[tuple[int, str | None]]:
        """Epoch and outcome of all attempts, None for one that is open."""
        query = "SELECT lease_epoch, outcome FROM reconciliation_attempts ORDER BY job_id, 1"
        return [(row[0], row[1]) for row in await self.connection.fetch(query)]

    async def jobs(self) -> list[tuple[str, str | None]]:
        """Status and outcome of all jobs."""
        query = "SELECT status, outcome FROM reconciliation_jobs ORDER BY job_id"
        return [(row[0], row[1]) for row in await self.connection.fetch(query)]


async def until(condition: Callable[[], Any], what: str) -> Any:
    """Wait for a condition as long as a busy machine may need."""
    return await eventually(
        condition, within_seconds=DEADLINE_SECONDS, every_seconds=0.05, what=what
    )


def logged(process: ServiceProcess, event: str) -> list[dict[str, Any]]:
    """The lines of one event in a process's log."""
    lines: Iterable[str] = (line for line in process.log_lines() if line.startswith("{"))
    return [line for line in map(json.loads, lines) if line["event"] == event]


async def until_logged(process: ServiceProcess, event: str) -> None:
    """Wait for a line of an event; fails at once if the process has ended without it."""
    await until(
        lambda: logged(process, event) or not process.running, f"{event} of {process.log.name}"
    )
    assert logged(process, event), process.log_lines()[-5:]


async def until_started(process: ServiceProcess) -> None:
    """Wait until every part of a process runs."""
    await until_logged(process, "process.started")


async def until_health(process: ServiceProcess, path: str, status: int) -> Any:
    """Wait until a probe is answered with a status code; returns the body."""

    async def is_answered() -> Any:
        code, body = await process.health(path)
        return (body or "empty") if code == status else None

    return await until(is_answered, f"{path} answers {status}")
