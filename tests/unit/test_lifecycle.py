import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from service.errors import ConfigurationError, SupervisionError
from service.lifecycle import (
    Condition,
    Deadline,
    RestartBounds,
    Supervised,
    supervise,
    wait_for_stop,
)

QUICK = RestartBounds(restarts_max=2, window_seconds=60, backoff_first_seconds=0.001)

# The slow import stands for aiokafka, pydantic and the rest.
SLOW_IMPORT = """
import sys
from service.lifecycle import StopSignals
signals = StopSignals()
signals.stand_by()
print("importing", flush=True)
sys.stdin.readline()
import asyncio

async def main():
    stop = signals.attach(asyncio.get_running_loop())
    print("stop is set" if stop.is_set() else "running", flush=True)
    await stop.wait()
    print(f"draining after {signals.received}", flush=True)
    sys.stdin.readline()

asyncio.run(main())
"""


@contextmanager
def script() -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW_IMPORT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def heard(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def proceed(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def test_a_signal_during_imports_is_not_lost() -> None:
    """Reported as pipecat 104."""
    with script() as process:
        assert heard(process) == "importing"
        process.send_signal(signal.SIGTERM)
        proceed(process)
        assert heard(process) == "stop is set"
        assert heard(process) == "draining after 15"
        proceed(process)
        assert process.wait(10) == 0


def test_a_signal_wakes_a_loop_that_sleeps() -> None:
    with script() as process:
        assert heard(process) == "importing"
        proceed(process)
        assert heard(process) == "running"
        process.send_signal(signal.SIGINT)
        assert heard(process) == "draining after 2"
        proceed(process)
        assert process.wait(10) == 0


def test_a_second_signal_ends_a_drain_at_once() -> None:
    with script() as process:
        assert heard(process) == "importing"
        proceed(process)
        assert heard(process) == "running"
        process.send_signal(signal.SIGTERM)
        assert heard(process) == "draining after 15"
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 143


def test_a_second_signal_ends_the_imports_at_once() -> None:
    with script() as process:
        assert heard(process) == "importing"
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)
        assert process.wait(10) in (130, 143)


def test_lifecycle_imports_nothing_heavy() -> None:
    code = "import sys, service.lifecycle; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()

    assert not {"pydantic", "aiokafka", "asyncpg", "structlog", "starlette"} & set(loaded)


def test_a_deadline_counts_down_to_zero() -> None:
    now = [100.0]
    deadline = Deadline(5, clock=lambda: now[0])
    assert deadline.left() == 5
    now[0] = 104.0
    assert deadline.left() == 1
    assert not deadline.passed
    now[0] = 200.0
    assert deadline.left() == 0
    assert deadline.passed


async def test_waiting_ends_with_its_time_or_with_stop() -> None:
    stop = asyncio.Event()
    assert not await wait_for_stop(stop, 0.001)
    assert not await wait_for_stop(stop, -1)
    asyncio.get_running_loop().call_soon(stop.set)
    assert await wait_for_stop(stop, 60)
    assert await wait_for_stop(stop, 0)


class Part:
    """A coroutine that crashes as often as it is told, then waits for stop."""

    def __init__(self, stop: asyncio.Event, *errors: Exception) -> None:
        self.stop = stop
        self.errors = list(errors)
        self.states: list[Supervised] = []

    async def run(self) -> None:
        if self.errors:
            raise self.errors.pop(0)
        await self.stop.wait()

    async def supervised(self, *, bounds: RestartBounds = QUICK) -> None:
        await supervise(
            "part", self.run, stop=self.stop, on_state=self.states.append, bounds=bounds
        )

    @property
    def conditions(self) -> list[Condition]:
        return [state.condition for state in self.states]


async def until(met: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not met():  # noqa: ASYNC110 - the states are a list, which has no event
            await asyncio.sleep(0)


async def test_a_crashed_part_starts_again_until_stop() -> None:
    stop = asyncio.Event()
    first = OSError("gone")
    part = Part(stop, first, OSError("again"))
    async with asyncio.TaskGroup() as group:
        group.create_task(part.supervised())
        await until(lambda: part.conditions.count(Condition.RUNNING) == 3)
        stop.set()

    running, restarting, finished = Condition.RUNNING, Condition.RESTARTING, Condition.FINISHED
    assert part.conditions == [running, restarting, running, restarting, running, finished]
    assert part.states[1] == Supervised("part", restarting, 1, first)
    assert part.states[-1] == Supervised("part", finished, 2)


async def test_too_many_crashes_end_the_process() -> None:
    last = OSError("three")
    part = Part(asyncio.Event(), OSError("one"), OSError("two"), last)
    with pytest.raises(SupervisionError, match="part crashed 3 times") as raised:
        await part.supervised()

    assert raised.value.__cause__ is last
    assert part.states[-1] == Supervised("part", Condition.DEAD, 2, last)


async def test_crashes_outside_the_window_are_forgotten() -> None:
    stop = asyncio.Event()
    part = Part(stop, *(OSError(str(number)) for number in range(6)))
    async with asyncio.TaskGroup() as group:
        group.create_task(
            part.supervised(
                bounds=RestartBounds(restarts_max=1, window_seconds=0, backoff_first_seconds=0)
            )
        )
        await until(lambda: not part.errors and part.conditions[-1] is Condition.RUNNING)
        stop.set()

    assert part.states[-1].restarts == 6


async def test_a_part_that_returns_before_stop_has_failed() -> None:
    async def returns() -> None:
        return None

    with pytest.raises(SupervisionError) as raised:
        await supervise(
            "part", returns, stop=asyncio.Event(), on_state=lambda _: None, bounds=QUICK
        )
    assert "returned before it was asked to" in str(raised.value.__cause__)


async def test_settings_that_cannot_work_are_not_tried_again() -> None:
    part = Part(asyncio.Event(), ConfigurationError("port taken"))
    with pytest.raises(ConfigurationError, match="port taken"):
        await part.supervised()

    assert part.conditions == [Condition.RUNNING, Condition.DEAD]


async def test_stop_ends_the_pause_before_a_restart() -> None:
    stop = asyncio.Event()
    part = Part(stop, OSError("gone"))
    bounds = RestartBounds(backoff_first_seconds=1e9, backoff_max_seconds=1e9)
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        group.create_task(part.supervised(bounds=bounds))
        await until(lambda: Condition.RESTARTING in part.conditions)
        stop.set()

    assert part.conditions[-1] is Condition.FINISHED


async def test_a_crash_in_the_drain_is_reported_and_cancels_no_sibling() -> None:
    stop = asyncio.Event()
    error = OSError("database gone")
    states: list[Supervised] = []

    async def crashes_when_stopped() -> None:
        await stop.wait()
        raise error

    async with asyncio.TaskGroup() as group:
        group.create_task(
            supervise("part", crashes_when_stopped, stop=stop, on_state=states.append)
        )
        await until(lambda: bool(states))
        stop.set()

    assert states[-1] == Supervised("part", Condition.FINISHED, 0, error)


async def test_cancellation_passes_through_supervision() -> None:
    part = Part(asyncio.Event())
    running = asyncio.create_task(part.supervised())
    await until(lambda: bool(part.states))
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert part.conditions == [Condition.RUNNING]
