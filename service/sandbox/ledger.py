"""What the demo reads from the service's database: progress, what the kill left, the payments."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from service.sandbox.truth import Truth
from service.store.pool import PoolOptions, Session, connect
from service.store.statements import sql

DUE_WITHIN_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Progress:
    """Counts at one moment. `due_payments` are those whose check is due within 5 seconds."""

    ingested: int = 0
    payments: int = 0
    applied: int = 0
    stale: int = 0
    conflicts: int = 0
    dead_letters: int = 0
    open_jobs: int = 0
    completed_jobs: int = 0
    dead_jobs: int = 0
    due_payments: int = 0
    announced: int = 0
    unpublished: int = 0

    def figures(self) -> list[tuple[str, str]]:
        """For the eyes, while it goes on."""
        return [
            ("ingested", f"{self.ingested:,}"),
            ("payments", f"{self.payments:,}"),
            ("stale", f"{self.stale:,}"),
            ("dead letters", f"{self.dead_letters:,}"),
            ("jobs open", f"{self.open_jobs:,}"),
            ("jobs done", f"{self.completed_jobs:,}"),
        ]

    def missing(self, sent: int) -> list[str]:
        """What has not come yet, in words; nothing once the story has come to rest."""
        counts = {
            "records not ingested": sent - self.ingested,
            "payments due for a check": self.due_payments,
            "open jobs": self.open_jobs,
            "outgoing events not published": self.unpublished,
        }
        return [f"{count:,} {what}" for what, count in counts.items() if count]


@dataclass(frozen=True, slots=True)
class Healed:
    """How many payments jobs healed, and the slowest of them from the job's making on."""

    payments: int
    slowest_seconds: float


class Ledger:
    """One connection of the demo's own."""

    def __init__(self, connection: Session, group_id: str) -> None:
        self._connection = connection
        self._group_id = group_id

    @classmethod
    async def open(cls, url: str, group_id: str) -> "Ledger":
        """Connect. Raises OSError, TimeoutError or the driver's error if that fails."""
        options = PoolOptions(url=url, application_name="reconciler-demo")
        return cls(await connect(options), group_id)

    async def close(self) -> None:
        """Close the connection, within seconds."""
        await self._connection.close(timeout=5)

    async def progress(self) -> Progress:
        """Where the story stands now."""
        row = await self._connection.fetchrow(
            sql("demo_progress"), self._group_id, DUE_WITHIN_SECONDS
        )
        return Progress(**dict(row or {}))

    async def payments(self) -> dict[str, Truth]:
        """Every payment as it stands here, by payment id."""
        return {row["payment_id"]: _found(row) for row in await self._rows("demo_payments")}

    async def held_jobs(self, pid: int) -> list[int]:
        """The jobs that a process of this machine holds a lease on."""
        return [row["job_id"] for row in await self._rows("demo_held_jobs", str(pid))]

    async def taken_over(self, jobs: Sequence[int], pid: int) -> int:
        """How many of `jobs` another process than `pid` completed."""
        rows = await self._rows("demo_taken_over", list(jobs), str(pid))
        return int(rows[0]["count"])

    async def healed(self, payment_ids: Iterable[str]) -> Healed:
        """What jobs healed among `payment_ids`."""
        row = (await self._rows("demo_healed", list(payment_ids)))[0]
        return Healed(row["healed"], row["slowest_seconds"])

    async def refusals(self) -> dict[str, int]:
        """Dead letters by their reason."""
        return {row["reason"]: row["records"] for row in await self._rows("demo_refusals")}

    async def _rows(self, name: str, *arguments: Any) -> list[Any]:
        return list(await self._connection.fetch(sql(name), *arguments))


def _found(row: Mapping[str, Any]) -> Truth:
    fields = dict(row)
    del fields["payment_id"]
    return Truth(**{**fields, "open_discrepancies": tuple(fields["open_discrepancies"])})
