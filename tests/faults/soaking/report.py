"""The tables at the end of a soak."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.table import Table

from tests.faults.soaking.deadlocks import Deadlock
from tests.faults.soaking.flatness import MIB, not_flat
from tests.faults.soaking.samples import (
    Life,
    Moment,
    connections,
    files,
    lags,
    rss,
    share_of,
    threads,
)

LIVES_MAX = 12
TREND_SECONDS_MIN = 60.0
"""A shorter life only warms up: it has no slope."""
_COUNTERS = {
    "transactions tried again": "reconciler_transaction_retries_total",
    "batches fenced by the offset": "reconciler_offsets_fenced_total",
    "leases lost": "reconciler_leases_lost_total",
    "parts of a process begun again": "reconciler_restarts_total",
    "failed rounds of the relay": "reconciler_outbox_publish_failures_total",
    "records lost to retention": "reconciler_records_lost_total",
}
"""What the processes' own metrics add up to, as far as they were asked before they ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Soaked:
    """A soak that has come to its end. `violations` are the checker's, and how processes ended."""

    seed: int
    seconds: float
    sent: int
    counts: Mapping[str, int]
    faults: Counter[str]
    lives: Sequence[Life]
    moments: Sequence[Moment]
    left_behind: Mapping[str, int]
    deadlocks: Sequence[Deadlock]
    violations: Sequence[str]

    @property
    def wrong(self) -> list[str]:
        """All that makes it fail, a line each."""
        own = [each for each in self.deadlocks if not each.foreign]
        return [
            *self.violations,
            *(f"our own statements deadlocked:\n{each.text}" for each in own),
            *not_flat(self.lives, self.left_behind, soak_seconds=self.seconds),
        ]

    @property
    def starts(self) -> int:
        """How often a process was started again."""
        return sum(life.start > 1 for life in self.lives)


def table_of_lives(soaked: Soaked) -> Table:
    """Memory, files, threads and connections of each process's longest lives."""
    table = Table(title="processes, by their longest lives")
    for name in ("process", "lived", "MiB at 10 %", "50 %", "100 %", "MiB an hour"):
        table.add_column(name, justify="left" if name == "process" else "right")
    for name in ("files", "threads", "connections most/end", "lag p50/p99/most ms"):
        table.add_column(name, justify="right")
    longest = sorted(soaked.lives, key=lambda life: -life.seconds)[:LIVES_MAX]
    for life in sorted(longest, key=lambda life: (life.name, life.start)):
        table.add_row(*_cells(life))
    return table


def table_of_figures(soaked: Soaked) -> Table:
    """Everything that is one number."""
    table = Table(title=f"soak of {soaked.seconds / 60:.1f} minutes, seed {soaked.seed}")
    table.add_column("figure")
    table.add_column("value", justify="right")
    for name, value in _figures(soaked):
        table.add_row(name, value)
    return table


def _cells(life: Life) -> list[str]:
    early, half, end = (
        life.around(begin, until, rss) / MIB
        for begin, until in ((0.1, 0.2), (0.45, 0.55), (0.9, 1.0))
    )
    calm = lags([life], calm=True)
    return [
        life.title,
        f"{life.seconds:.0f} s",
        f"{early:.1f}",
        f"{half:.1f}",
        f"{end:.1f}",
        f"{life.slope_per_hour(rss) / MIB:+.1f}" if life.seconds >= TREND_SECONDS_MIN else "",
        f"{life.around(0.1, 0.2, files):.0f} → {life.last(files):.0f}",
        f"{life.around(0.1, 0.2, threads):.0f} → {life.last(threads):.0f}",
        f"{life.most(connections):.0f} / {life.last(connections):.0f}",
        _in_ms(calm),
    ]


def _figures(soaked: Soaked) -> list[tuple[str, str]]:
    moments = soaked.moments
    foreign = sum(each.foreign for each in soaked.deadlocks)
    expired = max((each.expired_lease_seconds for each in moments), default=0.0)
    overdue = max((each.overdue_check_seconds for each in moments), default=0.0)
    waiting = max((each.outbox_seconds for each in moments), default=0.0)
    behind = [each.records_behind for each in moments] or [0]
    held = [each.connections for each in moments] or [0]
    return [
        ("records sent", f"{soaked.sent:,}"),
        *((name, f"{number:,}") for name, number in soaked.counts.items()),
        ("faults", f"{soaked.faults.total()}"),
        *((f"  {kind}", f"{number}") for kind, number in soaked.faults.most_common()),
        ("starts after an end", f"{soaked.starts}"),
        *((name, f"{_sum_of(metric, soaked.lives):,.0f}") for name, metric in _COUNTERS.items()),
        ("loop lag in calm times, p50/p99/most ms", _in_ms(lags(soaked.lives, calm=True))),
        ("  in all times, p50/p99/most ms", _in_ms(lags(soaked.lives, calm=False))),
        ("connections of the service, most/end", f"{max(held)} / {held[-1]}"),
        ("records behind, most/end", f"{max(behind):,} / {behind[-1]:,}"),
        ("oldest expired lease", f"{expired:.1f} s"),
        ("most overdue check", f"{overdue:.1f} s"),
        ("oldest unpublished outbox row", f"{waiting:.1f} s"),
        ("deadlocks, own/made by a fault", f"{len(soaked.deadlocks) - foreign} / {foreign}"),
    ]


def _sum_of(metric: str, lives: Sequence[Life]) -> float:
    """A counter begins anew with each life, and only rises within it."""
    return sum(life.most(lambda look: look.metrics.get(metric)) for life in lives)


def _in_ms(seconds: Sequence[float]) -> str:
    told = (share_of(seconds, 0.5), share_of(seconds, 0.99), max(seconds, default=0.0))
    return " / ".join(f"{each * 1000:.0f}" for each in told)
