"""The table at the end: what was measured, how much it spread, and what it was to be."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.table import Table

from tests.benchmarks.measuring import Runs
from tests.benchmarks.order import Measured

EVENTS_PER_SECOND_MIN = 10_000
SHARE_OF_CEILING_MIN = 0.7
JOBS_PER_SECOND_MIN = 5_000
PEAK_MEMORY_MB_MAX = 160
LOOP_LAG_MS_MAX = 50

_BYTES_A_MB = 1_000_000
_MS_A_SECOND = 1_000
_US_A_SECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class Row:
    """One measure over all rounds. Without an aim it stands beside the others to compare."""

    measure: str
    values: Sequence[float]
    form: str
    aim: float | None = None
    at_least: bool = True

    @property
    def value(self) -> str:
        """The median, with what it spread over."""
        middle, low, high = statistics.median(self.values), min(self.values), max(self.values)
        if len(self.values) == 1:
            return self.form.format(middle)
        return f"{self.form.format(middle)} ({self.form.format(low)} to {self.form.format(high)})"

    @property
    def wanted(self) -> str:
        """The aim, as a condition."""
        if self.aim is None:
            return "-"
        return f"{'≥' if self.at_least else '≤'} {self.form.format(self.aim)}"

    @property
    def met(self) -> str:
        """Whether the median meets the aim."""
        if self.aim is None:
            return "-"
        middle = statistics.median(self.values)
        return "yes" if (middle >= self.aim if self.at_least else middle <= self.aim) else "no"


def ingest_rows(runs: Runs) -> list[Row]:
    """Kafka-fed beside memory-fed; the share is taken round by round."""
    kafka, memory = runs["kafka"], runs["memory"]
    shares = [fed.rate / ceiling.rate for fed, ceiling in zip(kafka, memory, strict=True)]
    return [
        Row("ingest from Kafka, events/s", _rates(kafka), "{:,.0f}", EVENTS_PER_SECOND_MIN),
        Row("ingest fed from memory, events/s", _rates(memory), "{:,.0f}"),
        Row("share of the memory-fed rate", shares, "{:.2f}", SHARE_OF_CEILING_MIN),
        Row("events a transaction, from Kafka", _of(kafka, _events_a_transaction), "{:,.0f}"),
        *_costs("ingest", kafka),
    ]


def job_rows(runs: Runs) -> list[Row]:
    """Jobs, each a PSP's answer and a heal."""
    jobs = runs["jobs"]
    return [
        Row("jobs healed, jobs/s", _rates(jobs), "{:,.0f}", JOBS_PER_SECOND_MIN),
        *_costs("jobs", jobs),
    ]


def table_of(rows: Sequence[Row]) -> Table:
    """The rows for people."""
    table = Table("measure")
    table.add_column("value", justify="right")
    table.add_column("aim", justify="right")
    table.add_column("met")
    for row in rows:
        table.add_row(row.measure, row.value, row.wanted, row.met)
    return table


def _costs(what: str, runs: Sequence[Measured]) -> list[Row]:
    memory = _of(runs, lambda run: run.peak_memory_bytes / _BYTES_A_MB)
    late = _of(runs, lambda run: run.lag_p99_seconds * _MS_A_SECOND)
    worst = _of(runs, lambda run: run.lag_max_seconds * _MS_A_SECOND)
    busy = _of(runs, lambda run: run.cpu_seconds / run.seconds)
    spent = _of(runs, lambda run: run.cpu_seconds / run.done * _US_A_SECOND)
    return [
        Row(f"{what}: peak memory, MB", memory, "{:,.0f}", PEAK_MEMORY_MB_MAX, at_least=False),
        Row(f"{what}: event-loop lag p99, ms", late, "{:,.1f}", LOOP_LAG_MS_MAX, at_least=False),
        Row(f"{what}: event-loop lag, worst, ms", worst, "{:,.1f}"),
        Row(f"{what}: CPU of the service, cores", busy, "{:.2f}"),
        Row(f"{what}: CPU of the service, µs each", spent, "{:,.0f}"),
    ]


def _events_a_transaction(run: Measured) -> float:
    return run.done / max(1, run.transactions)


def _rates(runs: Sequence[Measured]) -> list[float]:
    return _of(runs, lambda run: run.rate)


def _of(runs: Sequence[Measured], figure: Callable[[Measured], float]) -> list[float]:
    return [figure(run) for run in runs]
