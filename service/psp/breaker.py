"""The circuit breaker that stops asking a provider account that keeps failing.

Why not purgatory: it wraps the call and raises, where a worker needs a value and a time to come
back; it lets every caller through at once when half open; and it counts the failures of calls that
began before it opened, so that one burst of time-outs keeps it open twice.
"""

import time
from collections.abc import Callable
from typing import Literal, NewType

BreakerState = Literal["closed", "open", "half_open"]
Permit = NewType("Permit", int)


class CircuitBreaker:
    """Opens after `failures_max` failures in a row, and tries one probe after `open_seconds`.

    Shared by all jobs of a process that ask one account. Whoever holds a permit settles it with
    exactly one of `succeeded`, `failed`, `withdrawn`. A permit from before the last change of state
    is spent: it says nothing about now.
    """

    def __init__(
        self,
        failures_max: int,
        open_seconds: float,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if failures_max < 1 or open_seconds <= 0:
            raise ValueError("a circuit breaker needs failures_max >= 1 and open_seconds > 0")
        self._failures_max = failures_max
        self._open_seconds = open_seconds
        self._clock = clock
        self._failures = 0
        self._open_until: float | None = None
        self._probing = False
        self._generation = 0

    @property
    def state(self) -> BreakerState:
        """What it is now; it turns half open by the passing of time alone."""
        if self._open_until is None:
            return "closed"
        return "open" if self._clock() < self._open_until else "half_open"

    @property
    def retry_after_seconds(self) -> float | None:
        """When the next probe may go; None where that is not a matter of time."""
        if self._open_until is None:
            return None
        return max(self._open_until - self._clock(), 0.0) or None

    @property
    def admits(self) -> bool:
        """Whether a caller would get a permit now."""
        return self.state == "closed" or (self.state == "half_open" and not self._probing)

    def admit(self) -> Permit | None:
        """Give a permit for one call, or None; while half open only one is out at a time."""
        if not self.admits:
            return None
        self._probing = self.state == "half_open"
        return Permit(self._generation)

    def succeeded(self, permit: Permit) -> None:
        """Count a call that the provider answered: closes."""
        if permit == self._generation:
            self._failures = 0
            if self._open_until is not None:
                self._turn(open_until=None)

    def failed(self, permit: Permit) -> None:
        """Count a call that the provider did not answer: opens at the limit, or after a probe."""
        if permit == self._generation:
            self._failures += 1
            if self._probing or self._failures >= self._failures_max:
                self._turn(open_until=self._clock() + self._open_seconds)

    def withdrawn(self, permit: Permit) -> None:
        """Give a permit back that proved nothing, such as that of a cancelled call."""
        if permit == self._generation:
            self._probing = False

    def _turn(self, *, open_until: float | None) -> None:
        self._open_until = open_until
        self._failures = 0
        self._probing = False
        self._generation += 1
