"""From the first signal to the last deadline: stop, wait, supervise.

Imports nothing heavy: signals must be handled before the slow imports begin, or a SIGTERM that
arrives meanwhile is lost (an interpreter that runs as PID 1 has no default action for it).
"""

import asyncio
import os
import random
import signal
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from types import FrameType

from service.errors import ConfigurationError, SchemaError, SupervisionError, TopicRecreated

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class StopSignals:
    """SIGTERM and SIGINT: the first asks for a drain, the second ends the process at once."""

    def __init__(self) -> None:
        self._received: int | None = None
        self._stop: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def received(self) -> int | None:
        """The first signal's number, or None; `128 + received` is a shell's exit code for it."""
        return self._received

    def stand_by(self) -> None:
        """Take the signals over; call it in the main thread, before anything heavy is imported."""
        for signum in _SIGNALS:
            signal.signal(signum, self._handle)

    def attach(self, loop: asyncio.AbstractEventLoop) -> asyncio.Event:
        """Give the event that the first signal sets; set already if that signal has come."""
        self._stop = asyncio.Event()
        self._loop = loop
        if self._received is not None:
            self._stop.set()
        return self._stop

    def _handle(self, signum: int, _frame: FrameType | None) -> None:
        if self._received is not None:
            os._exit(128 + signum)
        self._received = signum
        if self._loop is not None and self._stop is not None and not self._loop.is_closed():
            # The handler may interrupt the loop anywhere, even asleep: only this call wakes it.
            self._loop.call_soon_threadsafe(self._stop.set)


class Deadline:
    """A moment on the monotonic clock that several awaits share."""

    def __init__(self, seconds: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._ends = clock() + seconds

    def left(self) -> float:
        """Seconds until the deadline, 0 once it has passed."""
        return max(0.0, self._ends - self._clock())

    @property
    def passed(self) -> bool:
        """Whether nothing is left."""
        return self.left() == 0.0


async def wait_for_stop(stop: asyncio.Event, seconds: float) -> bool:
    """Sleep for `seconds`, or until `stop` is set; tell whether it is set."""
    try:
        async with asyncio.timeout(max(0.0, seconds)):
            await stop.wait()
    except TimeoutError:
        return stop.is_set()
    return True


class Condition(StrEnum):
    """How a supervised coroutine is doing."""

    RUNNING = "running"
    RESTARTING = "restarting"  # crashed, waits for its next start
    FINISHED = "finished"  # returned, or crashed, after stop was asked for
    DEAD = "dead"  # will not start again; the process ends


@dataclass(frozen=True)
class Supervised:
    """What `supervise` reports at every change."""

    name: str
    condition: Condition
    restarts: int  # in the whole life of the process
    error: Exception | None = None


@dataclass(frozen=True)
class RestartBounds:
    """More than `restarts_max` restarts within `window_seconds` are one too many."""

    restarts_max: int = 5
    window_seconds: float = 300.0
    backoff_first_seconds: float = 0.5
    backoff_max_seconds: float = 30.0

    def pause_seconds(self, crashes: int) -> float:
        """Full jitter below an exponential ceiling, so that replicas do not restart in step."""
        ceiling = min(self.backoff_max_seconds, self.backoff_first_seconds * 2 ** (crashes - 1))
        return random.uniform(0, ceiling)  # noqa: S311 - jitter, not a secret


DEFAULT_BOUNDS = RestartBounds()
INCURABLE = (ConfigurationError, SchemaError, TopicRecreated, SupervisionError)
"""What no restart of the coroutine changes: a person has to, or a new process."""


async def supervise(
    name: str,
    run: Callable[[], Awaitable[None]],
    *,
    stop: asyncio.Event,
    on_state: Callable[[Supervised], None],
    bounds: RestartBounds = DEFAULT_BOUNDS,
) -> None:
    """Keep `run()` alive until `stop` is set, then let it end by itself.

    A crash is restarted after a jittered pause. A return before `stop` counts as a crash. Errors
    that no restart can cure (`INCURABLE`, also within a group) end it at once. CancelledError
    passes.

    Raises:
        SupervisionError: too many crashes within the window; the cause is the last one.
        ConfigurationError, SchemaError, TopicRecreated, SupervisionError: as raised by `run`.
    """
    crashes: deque[float] = deque()
    restarts = 0
    while True:
        on_state(Supervised(name, Condition.RUNNING, restarts))
        error = await _crash_of(name, run, stop)
        if stop.is_set():
            # Raising now would cancel the siblings in the midst of their drain.
            on_state(Supervised(name, Condition.FINISHED, restarts, error))
            return
        within_window = _count(crashes, bounds.window_seconds)
        incurable = _incurable(error)
        if incurable or within_window > bounds.restarts_max:
            on_state(Supervised(name, Condition.DEAD, restarts, error))
            raise incurable or _fatal(name, within_window, error)
        restarts += 1
        on_state(Supervised(name, Condition.RESTARTING, restarts, error))
        if await wait_for_stop(stop, bounds.pause_seconds(within_window)):
            on_state(Supervised(name, Condition.FINISHED, restarts))
            return


async def _crash_of(
    name: str, run: Callable[[], Awaitable[None]], stop: asyncio.Event
) -> Exception | None:
    """Run once; give the error it ended with, or None where it ended as asked."""
    try:
        await run()
    except Exception as error:  # noqa: BLE001 - the supervisor counts, reports and bounds it
        return error
    return None if stop.is_set() else RuntimeError(f"{name} returned before it was asked to")


def _incurable(error: BaseException | None) -> Exception | None:
    """The first error that no restart cures: `error` itself, or one that its TaskGroup raised."""
    if isinstance(error, BaseExceptionGroup):
        return next(filter(None, map(_incurable, error.exceptions)), None)
    return error if isinstance(error, INCURABLE) else None


def _count(crashes: deque[float], window_seconds: float) -> int:
    """Note a crash now; give the number of crashes within the window."""
    now = time.monotonic()
    crashes.append(now)
    while crashes[0] < now - window_seconds:
        crashes.popleft()
    return len(crashes)


def _fatal(name: str, crashes: int, error: Exception | None) -> SupervisionError:
    """The error to leave with; it names the last crash as its cause."""
    fatal = SupervisionError(f"{name} crashed {crashes} times within its window")
    fatal.__cause__ = error
    return fatal
