"""The health board: samplers publish what they saw, probes read what was seen last.

A probe never waits for a dependency. Each entry has a largest age: a sampler that hangs is found
out by its silence, since an old `pass` says nothing of now.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from service.web.checks import RULES, Probe, Status, worst

Clock = Callable[[], float]


class Phase(StrEnum):
    """Where the process is in its life."""

    STARTING = "starting"
    RUNNING = "running"
    DRAINING = "draining"


@dataclass(frozen=True, slots=True)
class Check:
    """One row of a health body.

    `output` is a fixed text of ours: never a host name, SQL, an id or an exception's text.
    `part` tells rows of one measurement apart, such as partitions.
    """

    component: str
    measurement: str
    status: Status
    observed_value: float | str | None = None
    observed_unit: str | None = None
    output: str | None = None
    part: str | None = None
    time: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def key(self) -> str:
        """`component:measurement`, as in the body."""
        return f"{self.component}:{self.measurement}"


@dataclass(frozen=True, slots=True)
class View:
    """What one probe is told."""

    status: Status
    checks: dict[str, list[Check]]


_PHASE_OUTPUT: Final = {
    Phase.STARTING: "the process is starting",
    Phase.DRAINING: "the process is draining and takes no new work",
}


class HealthBoard:
    """The last word of every sampler; belongs to one event loop.

    `expected` names the checks that this process's parts will publish: one that is silent after
    the start counts as stale. Checks of parts that do not run here are simply absent.
    """

    def __init__(self, *, expected: Iterable[str] = (), clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._expected = frozenset(expected)
        unknown = self._expected - RULES.keys()
        if unknown:
            raise ValueError(f"unknown checks: {sorted(unknown)}")
        self._rows: dict[str, list[Check]] = {}
        self._published: dict[str, float] = {}
        self._phase = Phase.STARTING
        self._started = False
        self._since = clock()

    @property
    def phase(self) -> Phase:
        """Where the process is."""
        return self._phase

    @property
    def started(self) -> bool:
        """Whether it has ever run; a drain does not undo it."""
        return self._started

    def enter(self, phase: Phase) -> None:
        """Note a new phase; silence of expected checks counts from here."""
        self._phase = phase
        self._started = self._started or phase is Phase.RUNNING
        self._since = self._clock()

    def publish(self, *checks: Check) -> None:
        """Replace the rows of every key in `checks`.

        Raises ValueError for a key that is not in the closed list.
        """
        rows: dict[str, list[Check]] = {}
        for check in checks:
            rows.setdefault(check.key, []).append(check)
        unknown = rows.keys() - RULES.keys()
        if unknown:
            raise ValueError(f"unknown checks: {sorted(unknown)}")
        self._rows.update(rows)
        self._published.update(dict.fromkeys(rows, self._clock()))

    def withdraw(self, key: str) -> None:
        """Take a key off the board, such as the lag of a process without partitions."""
        self._rows.pop(key, None)
        self._published.pop(key, None)

    def view(self, probe: Probe) -> View:
        """All checks that `probe` listens to, aged, and the worst of them."""
        checks = {
            key: self._aged(key)
            for key in RULES
            if probe in RULES[key].probes and (key in self._rows or self._is_overdue(key))
        }
        if probe is not Probe.LIVENESS and self._phase is not Phase.RUNNING:
            checks.setdefault("runtime:tasks", []).append(self._phase_row(probe))
        status = worst(row.status for rows in checks.values() for row in rows)
        return View(status, checks)

    def _is_overdue(self, key: str) -> bool:
        age_max = RULES[key].age_seconds_max
        return (
            key in self._expected
            and self._phase is not Phase.STARTING
            and age_max is not None
            and self._clock() - self._since > age_max
        )

    def _aged(self, key: str) -> list[Check]:
        rule = RULES[key]
        if key not in self._rows:
            component, measurement = key.split(":")
            return [Check(component, measurement, rule.stale, output="never measured")]
        rows = [replace(row, status=min(row.status, rule.worst)) for row in self._rows[key]]
        age = self._clock() - self._published[key]
        if rule.age_seconds_max is None or age <= rule.age_seconds_max:
            return rows
        return [
            replace(row, status=max(row.status, rule.stale), output="not measured lately")
            for row in rows
        ]

    def _phase_row(self, probe: Probe) -> Check:
        status = Status.FAIL if probe is Probe.READINESS else Status.WARN
        return Check(
            "runtime", "tasks", status, self._phase.value, output=_PHASE_OUTPUT[self._phase]
        )
