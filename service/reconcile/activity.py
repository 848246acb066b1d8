"""What the workers are doing, for health and metrics: written by them, read by samplers."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Activity:
    """Numbers of this process. Moments are on the monotonic clock, None until the first.

    `ended` counts attempts by how they ended: a job's outcome, or released, failed, lost, expired,
    dead. `on_ended(outcome, count)` hears each of them, so that a counter can follow.
    """

    slots: int = 0
    slots_used: int = 0
    claimed: int = 0
    scheduled: int = 0
    ended: Counter[str] = field(default_factory=Counter)
    heals: int = 0
    heals_deferred: int = 0
    heartbeat_at: float | None = None
    heartbeat_failures: int = 0
    watcher_at: float | None = None
    watcher_rounds: int = 0
    watcher_failures: int = 0
    oldest_expired_seconds: float = 0.0
    on_ended: Callable[[str, int], None] | None = None

    @property
    def slots_free(self) -> int:
        """How many more jobs this process would take."""
        return max(0, self.slots - self.slots_used)

    def count(self, outcome: str, number: int = 1) -> None:
        """Count `number` attempts that ended as `outcome`."""
        if number:
            self.ended[outcome] += number
            if self.on_ended is not None:
                self.on_ended(outcome, number)
