"""What was measured of a soak: a life a process from start to end, and the database beside them."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

_HOUR_SECONDS = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One look at one process. `connections` is None while the database is away.

    `lag_seconds` and `metrics` are what its metrics say, where it answered in time; `calm`: no
    fault has stopped or blocked it for a while.
    """

    at_seconds: float
    rss_bytes: int
    threads: int
    files: int
    connections: int | None
    lag_seconds: float | None
    calm: bool
    metrics: dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """One look at the database. Ages in seconds, 0 where there is nothing of the kind."""

    at_seconds: float
    connections: int
    expired_lease_seconds: float
    overdue_check_seconds: float
    outbox_seconds: float
    records_behind: int


@dataclass(slots=True)
class Life:
    """One process from one start to its end."""

    name: str
    start: int
    looks: list[Look] = field(default_factory=list)

    @property
    def title(self) -> str:
        """Which process, and the how-manieth start of it."""
        return f"{self.name} #{self.start}"

    @property
    def seconds(self) -> float:
        """How long it was looked at."""
        return self.looks[-1].at_seconds - self.looks[0].at_seconds if self.looks else 0.0

    def around(self, begin: float, end: float, value: Callable[[Look], float]) -> float:
        """The median of a value between two shares of the life; the nearest look if there is
        none.
        """
        first = self.looks[0].at_seconds
        places = [
            (look.at_seconds - first) / self.seconds if self.seconds else 1.0 for look in self.looks
        ]
        chosen = [
            value(look)
            for look, place in zip(self.looks, places, strict=True)
            if begin <= place <= end
        ]
        if chosen:
            return statistics.median(chosen)
        nearest = min(range(len(places)), key=lambda number: abs(places[number] - end))
        return value(self.looks[nearest])

    def slope_per_hour(self, value: Callable[[Look], float]) -> float:
        """The rise of a value in an hour, by least squares over all but the first tenth."""
        first = self.looks[0].at_seconds + self.seconds / 10
        points = [(look.at_seconds, value(look)) for look in self.looks if look.at_seconds >= first]
        if len(points) < 3:
            return 0.0
        times, values = [at for at, _ in points], [each for _, each in points]
        return statistics.linear_regression(times, values).slope * _HOUR_SECONDS

    def most(self, value: Callable[[Look], float | None]) -> float:
        """The highest value seen."""
        return max((each for look in self.looks if (each := value(look)) is not None), default=0)

    def last(self, value: Callable[[Look], float | None]) -> float:
        """The last value seen."""
        return next((each for look in reversed(self.looks) if (each := value(look)) is not None), 0)


def share_of(values: Sequence[float], share: float) -> float:
    """The value that `share` of all stay within."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def rss(look: Look) -> float:
    return look.rss_bytes


def files(look: Look) -> float:
    return look.files


def threads(look: Look) -> float:
    return look.threads


def connections(look: Look) -> float | None:
    return look.connections


def lags(lives: Sequence[Life], *, calm: bool) -> list[float]:
    """Every lag of the event loop that was told, in calm times or in all."""
    return [
        look.lag_seconds
        for life in lives
        for look in life.looks
        if look.lag_seconds is not None and (look.calm or not calm)
    ]
