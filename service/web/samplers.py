"""What the process tells of itself without asking anybody: loop lag, supervised coroutines."""

import asyncio
import time

import structlog

from service.lifecycle import Condition, Supervised, wait_for_stop
from service.observe.events import Event
from service.observe.metrics import Metrics
from service.web.checks import Status
from service.web.snapshot import Check, HealthBoard

TICK_SECONDS = 1.0
LAG_WARN_SECONDS = 1.0
# A heartbeat is due every 15 seconds: a loop that is late by this much cannot hold its leases.
LAG_FAIL_SECONDS = 10.0

_log = structlog.get_logger(__name__)

_STATUS = {
    Condition.RUNNING: Status.PASS,
    Condition.RESTARTING: Status.WARN,
    Condition.FINISHED: Status.PASS,
    Condition.DEAD: Status.FAIL,
}


async def sample_loop_lag(board: HealthBoard, metrics: Metrics, *, stop: asyncio.Event) -> None:
    """Measure once a second how late the event loop is, until `stop` is set.

    Pass the event that ends the health port, not the one that begins the drain: liveness listens
    during the drain too.
    """
    publish_lag(board, metrics, 0.0)
    due = time.monotonic() + TICK_SECONDS
    while not await wait_for_stop(stop, TICK_SECONDS):
        publish_lag(board, metrics, max(0.0, time.monotonic() - due))
        due = time.monotonic() + TICK_SECONDS


def publish_lag(board: HealthBoard, metrics: Metrics, lag_seconds: float) -> None:
    """Put one measurement on the board and into the metrics."""
    status = Status.PASS
    if lag_seconds > LAG_WARN_SECONDS:
        status = Status.FAIL if lag_seconds > LAG_FAIL_SECONDS else Status.WARN
        _log.warning(Event.LOOP_BLOCKED, seconds=round(lag_seconds, 3))
    metrics.process.event_loop_lag.set(lag_seconds)
    board.publish(Check("runtime", "eventLoopLag", status, round(lag_seconds, 4), "s"))


class SupervisedParts:
    """The conditions of all supervised coroutines; `note` is the callback of `supervise`."""

    def __init__(self, board: HealthBoard, metrics: Metrics) -> None:
        self._board = board
        self._metrics = metrics
        self._last: dict[str, Supervised] = {}

    def note(self, state: Supervised) -> None:
        """Keep the newest condition of a coroutine, publish all, count restarts."""
        restarts = self._metrics.process.restarts.labels(name=state.name)
        if state.condition is Condition.RESTARTING:
            restarts.inc()
        self._last[state.name] = state
        self._board.publish(*(_row(last) for last in self._last.values()))


def _row(state: Supervised) -> Check:
    status = _STATUS[state.condition]
    return Check("runtime", "tasks", status, state.condition.value, part=state.name)
