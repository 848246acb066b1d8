"""What the driver asks of the measured process, and what that one answers: a line of JSON each."""

import json
from dataclasses import asdict, dataclass
from typing import Literal, Self

from tests.benchmarks.workload import Workload

Kind = Literal["kafka", "memory", "jobs"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One measurement. It goes through standard input: a URL may hold a password.

    `payments` is the number of payments, or of jobs. `profile` is a file for a sampled profile:
    such a run is slower, and its rate counts for nothing.
    """

    kind: Kind
    database_url: str
    payments: int
    bootstrap_servers: str = ""
    topics: tuple[str, str] = ("erp.payments", "psp.payments")
    group: str = "bench"
    concurrency: int = 100
    profile: str | None = None

    @property
    def workload(self) -> Workload:
        """The events of a measurement of ingest."""
        return Workload(self.payments, self.topics)

    def to_line(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self)) + "\n"

    @classmethod
    def from_line(cls, line: str) -> Self:
        """The order in a line of JSON."""
        fields = json.loads(line)
        fields["topics"] = tuple(fields["topics"])
        return cls(**fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The figures of one run; `cpu_seconds` is what the process itself used of `seconds`."""

    done: int
    seconds: float
    cpu_seconds: float
    transactions: int
    peak_memory_bytes: int
    lag_p99_seconds: float
    lag_max_seconds: float

    @property
    def rate(self) -> float:
        """Events, or jobs, a second."""
        return self.done / self.seconds

    def to_line(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self)) + "\n"

    @classmethod
    def from_line(cls, line: str) -> Self:
        """The figures in a line of JSON."""
        return cls(**json.loads(line))
