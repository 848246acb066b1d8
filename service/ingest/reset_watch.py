"""Notices a source whose version counter has restarted: everything new would be dropped as stale.

Pure but for the time, which the caller gives (monotonic seconds).
"""

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field


@dataclass(slots=True)
class _Slot:
    """A stretch of time: how many events came, and which payments had a stale one that its source
    calls later than what is stored.
    """

    begins: float
    events: int = 0
    stale: int = 0
    payment_ids: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class ResetLimits:
    """When a reset is suspected: `payments_min` payments and `share_min` of a source's events."""

    payments_min: int = 50
    share_min: float = 0.5
    window_seconds: float = 300
    slot_seconds: float = 10


DEFAULT_LIMITS = ResetLimits()


class ResetWatch:
    """Watches one source."""

    def __init__(self, limits: ResetLimits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._slots: deque[_Slot] = deque()

    def observe(self, *, events: int, stale_later: Collection[str], now: float) -> None:
        """Take in how many events came, and the payment id of each that was stale though later."""
        if not self._slots or now >= self._slots[-1].begins + self._limits.slot_seconds:
            self._slots.append(_Slot(now))
        slot = self._slots[-1]
        slot.events += events
        slot.stale += len(stale_later)
        slot.payment_ids.update(stale_later)
        self._forget(now)

    def suspected(self, now: float) -> bool:
        """Whether a restarted counter explains what came within the window."""
        self._forget(now)
        stale = sum(slot.stale for slot in self._slots)
        events = sum(slot.events for slot in self._slots)
        if stale < self._limits.payments_min or stale < self._limits.share_min * events:
            return False
        payment_ids = set().union(*(slot.payment_ids for slot in self._slots))
        return len(payment_ids) >= self._limits.payments_min

    def _forget(self, now: float) -> None:
        while self._slots and self._slots[0].begins <= now - self._limits.window_seconds:
            self._slots.popleft()
