"""What tests wait, build and watch with."""

import asyncio
import os
import sys
from pathlib import Path
from signal import SIGKILL, SIGTERM

import pytest

from schemas.cloudevent import Event, decode
from service.sandbox.child import ChildProcess, Command
from tests.support.events import Record, binary, erp_event, erp_patch, psp_event, psp_patch
from tests.support.processes import ServiceProcesses, clean_environment
from tests.support.waiting import eventually

EVENTS = [
    erp_event("pay-1", 3, status="paid", psp_reference="r", epoch=2),
    psp_event("pay-1", 4, refunded_minor=5),
    erp_patch("pay-1", 5, status="cancelled"),
    psp_patch("pay-1", 6, refunded_minor=7),
]


async def test_wait_returns_the_first_true_value() -> None:
    values = iter([0, None, "", "here"])

    assert await eventually(lambda: next(values), every_seconds=0) == "here"


async def test_wait_that_fails_names_what_and_the_last_value() -> None:
    with pytest.raises(AssertionError, match=r"the payment is healed; last: 0"):
        await eventually(lambda: 0, within_seconds=0.05, what="the payment is healed")


async def test_wait_bounds_a_condition_that_hangs() -> None:
    with pytest.raises(AssertionError, match="never came back"):
        await eventually(asyncio.Event().wait, within_seconds=0.05)


async def test_wait_lets_the_condition_s_own_time_out_through() -> None:
    async def times_out() -> None:
        raise TimeoutError("mine")

    with pytest.raises(TimeoutError, match="mine"):
        await eventually(times_out)


@pytest.mark.parametrize("record", EVENTS, ids=lambda record: record.headers[0][0])
def test_built_events_keep_the_contract_in_both_modes(record: Record) -> None:
    in_modes = [
        decode(key=one.key, value=one.value, headers=list(one.headers))
        for one in (record, binary(record))
    ]

    assert all(isinstance(event, Event) for event in in_modes)
    assert in_modes[0] == in_modes[1]


async def test_service_runs_as_a_process_with_its_log_at_hand(services: ServiceProcesses) -> None:
    process = services.new()
    process.start(["--help"])

    assert await process.wait() == 0
    assert any("migrate" in line for line in process.log_lines())


async def test_nothing_listens_before_the_start(services: ServiceProcesses) -> None:
    assert await services.new().health() == (0, None)


def test_settings_of_the_tester_reach_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECONCILER_LOG__LEVEL", "debug")
    monkeypatch.setenv("PGHOST", "elsewhere")

    environment = clean_environment()

    assert not {"RECONCILER_LOG__LEVEL", "PGHOST"} & environment.keys()
    assert environment["PATH"] == os.environ["PATH"]


async def test_process_that_ignores_the_request_is_killed(tmp_path: Path) -> None:
    stubborn = (
        "import signal; signal.signal(15, signal.SIG_IGN); print('up', flush=True); signal.pause()"
    )
    command = Command(
        argv=[sys.executable, "-c", stubborn],
        env={},
        log=tmp_path / "log",
    )
    child = ChildProcess(command)
    await eventually(lambda: child.log_tail() == "up", what="the process is up")

    assert await child.stop(SIGTERM, within_seconds=0.1) == -SIGKILL
