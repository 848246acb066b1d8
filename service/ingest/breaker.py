"""The breaker: stops a partition instead of emptying a bad deploy into the quarantine."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BreakerLimits:
    """How many bad records are too many.

    A run of `run_max` of them, or more than `share_max` of the last `window_records` once
    `share_records_min` have been seen. A stopped partition is tried again after `retry_seconds`.
    """

    run_max: int = 200
    share_max: float = 0.5
    share_records_min: int = 500
    window_records: int = 1_000
    retry_seconds: float = 60


class Breaker:
    """Watches one partition's records in order. Its clock is monotonic seconds.

    Once it has tripped, nothing from the first bad record of that fetch on is moved past. A try
    begins with a clean window, but goes on with the run that has landed before it, so that a run
    that is too long waits for a person (a corrected release, a moved offset), in however small
    fetches it comes.
    """

    def __init__(self, limits: BreakerLimits, *, clock: Callable[[], float]) -> None:
        self._limits = limits
        self._clock = clock
        self._recent: deque[bool] = deque(maxlen=limits.window_records)
        self._bad = 0
        self._run = 0
        self._landed_run: int | None = None
        self._retry_at: float | None = None

    @property
    def open(self) -> bool:
        """Whether the partition is stopped; false again when it is time for a try."""
        return self._retry_at is not None and self._clock() < self._retry_at

    @property
    def alarmed(self) -> bool:
        """Whether it has tripped and no try has gone well since."""
        return self._retry_at is not None

    def observe(self, *, bad: bool) -> bool:
        """Take in the next record; tell whether that trips it, which ends its fetch."""
        if bad and self._landed_run is None:
            self._landed_run = self._run
        if len(self._recent) == self._limits.window_records:
            self._bad -= self._recent[0]
        self._recent.append(bad)
        self._bad += bad
        self._run = self._run + 1 if bad else 0
        tripped = self._run >= self._limits.run_max or self._too_large_a_share()
        if tripped:
            self._trip()
        return tripped

    def passed(self) -> None:
        """A fetch was within the limits: it lands."""
        self._landed_run = None
        self._retry_at = None

    def _too_large_a_share(self) -> bool:
        seen = len(self._recent)
        return seen >= self._limits.share_records_min and self._bad > self._limits.share_max * seen

    def _trip(self) -> None:
        self._recent.clear()
        self._bad = 0
        self._run = self._landed_run or 0
        self._landed_run = None
        self._retry_at = self._clock() + self._limits.retry_seconds
