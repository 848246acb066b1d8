import asyncio

import pytest

from service.lifecycle import Condition, Supervised
from service.observe.metrics import Metrics
from service.web.checks import RULES, Probe, Status
from service.web.samplers import SupervisedParts, publish_lag, sample_loop_lag
from service.web.snapshot import Check, HealthBoard, Phase

PASS, WARN, FAIL = Status.PASS, Status.WARN, Status.FAIL


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def board(*expected: str, clock: Clock | None = None, phase: Phase = Phase.RUNNING) -> HealthBoard:
    made = HealthBoard(expected=expected, clock=clock or Clock())
    if phase is not Phase.STARTING:
        made.enter(phase)
    return made


def statuses(made: HealthBoard) -> dict[Probe, Status]:
    return {probe: made.view(probe).status for probe in Probe}


def told(liveness: Status, readiness: Status, health: Status) -> dict[Probe, Status]:
    return {Probe.LIVENESS: liveness, Probe.READINESS: readiness, Probe.HEALTH: health}


def test_the_closed_list_is_the_public_one() -> None:
    assert set(RULES) == {
        *("postgres:responseTime", "postgres:schema"),
        *("kafka:connection", "kafka:assignment", "kafka:lag"),
        *("lease:workers", "lease:heartbeatAge", "watcher:lastSuccessAge"),
        *("payments:oldestPendingAge", "payments:deadLetters", "discrepancies:open"),
        *("runtime:eventLoopLag", "runtime:tasks"),
    }


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("postgres:responseTime", told(PASS, FAIL, FAIL)),
        ("postgres:schema", told(PASS, FAIL, FAIL)),
        ("kafka:connection", told(PASS, WARN, WARN)),
        ("kafka:assignment", told(PASS, WARN, WARN)),
        ("kafka:lag", told(PASS, PASS, WARN)),
        ("lease:workers", told(PASS, PASS, WARN)),
        ("lease:heartbeatAge", told(PASS, FAIL, FAIL)),
        ("watcher:lastSuccessAge", told(PASS, PASS, WARN)),
        ("payments:oldestPendingAge", told(PASS, PASS, WARN)),
        ("payments:deadLetters", told(PASS, PASS, WARN)),
        ("discrepancies:open", told(PASS, PASS, WARN)),
        ("runtime:eventLoopLag", told(FAIL, PASS, FAIL)),
        ("runtime:tasks", told(FAIL, PASS, FAIL)),
    ],
)
def test_each_failed_check_moves_the_probes_it_should(
    key: str, expected: dict[Probe, Status]
) -> None:
    made = board()
    component, measurement = key.split(":")
    made.publish(Check(component, measurement, FAIL))

    assert statuses(made) == expected


def test_an_unknown_check_is_refused() -> None:
    with pytest.raises(ValueError, match="postgres:mood"):
        board().publish(Check("postgres", "mood", PASS))
    with pytest.raises(ValueError, match="postgres:mood"):
        HealthBoard(expected=["postgres:mood"])


@pytest.mark.parametrize(
    ("key", "probe", "status"),
    [
        ("postgres:responseTime", Probe.READINESS, FAIL),
        ("runtime:eventLoopLag", Probe.LIVENESS, FAIL),
        ("kafka:connection", Probe.READINESS, WARN),
        ("payments:deadLetters", Probe.HEALTH, WARN),
        ("runtime:tasks", Probe.LIVENESS, PASS),
    ],
)
def test_an_old_pass_counts_for_nothing(key: str, probe: Probe, status: Status) -> None:
    clock = Clock()
    made = board(clock=clock)
    component, measurement = key.split(":")
    made.publish(Check(component, measurement, PASS))
    clock.now = RULES[key].age_seconds_max or 0.0
    assert made.view(probe).status is PASS
    clock.now = 1e6

    assert made.view(probe).status is status


def test_a_sampler_that_never_spoke_is_found_out() -> None:
    clock = Clock()
    made = board("postgres:responseTime", clock=clock)
    assert made.view(Probe.READINESS).status is PASS
    clock.now = 31.0

    view = made.view(Probe.READINESS)
    assert view.status is FAIL
    assert view.checks["postgres:responseTime"][0].output == "never measured"


def test_a_process_that_starts_or_drains_is_alive_but_not_ready() -> None:
    made = board(phase=Phase.STARTING)
    assert statuses(made) == told(PASS, FAIL, WARN)

    made.enter(Phase.RUNNING)
    assert statuses(made) == told(PASS, PASS, PASS)

    made.enter(Phase.DRAINING)
    assert statuses(made) == told(PASS, FAIL, WARN)
    (row,) = made.view(Probe.READINESS).checks["runtime:tasks"]
    assert row.observed_value == "draining"


def test_a_drain_does_not_undo_the_start() -> None:
    made = HealthBoard()
    started = [made.started]
    for phase in (Phase.RUNNING, Phase.DRAINING):
        made.enter(phase)
        started.append(made.started)

    assert started == [False, True, True]


def test_the_worst_row_of_a_measurement_counts_and_all_are_shown() -> None:
    made = board()
    made.publish(
        Check("kafka", "lag", PASS, 0, "records", part="erp.payments/0"),
        Check("kafka", "lag", WARN, 9, "records", part="erp.payments/1"),
    )
    assert made.view(Probe.HEALTH).status is WARN
    assert len(made.view(Probe.HEALTH).checks["kafka:lag"]) == 2

    made.publish(Check("kafka", "lag", PASS, 0, "records", part="erp.payments/0"))
    assert made.view(Probe.HEALTH).status is PASS

    made.withdraw("kafka:lag")
    assert "kafka:lag" not in made.view(Probe.HEALTH).checks


@pytest.mark.parametrize(("lag", "status"), [(0.2, PASS), (1.5, WARN), (10.5, FAIL)])
def test_a_blocked_loop_fails_liveness(lag: float, status: Status) -> None:
    made, metrics = board(), Metrics("1.0")
    publish_lag(made, metrics, lag)

    assert made.view(Probe.LIVENESS).status is status
    assert metrics.registry.get_sample_value("reconciler_event_loop_lag_seconds") == lag


async def test_the_lag_sampler_publishes_at_once_and_ends_with_stop() -> None:
    made, stop = board("runtime:eventLoopLag"), asyncio.Event()
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        group.create_task(sample_loop_lag(made, Metrics("1.0"), stop=stop))
        asyncio.get_running_loop().call_soon(stop.set)

    assert "runtime:eventLoopLag" in made.view(Probe.LIVENESS).checks


def test_a_dead_coroutine_fails_liveness() -> None:
    made, metrics = board(), Metrics("1.0")
    parts = SupervisedParts(made, metrics)
    parts.note(Supervised("watcher", Condition.RUNNING, 0))
    parts.note(Supervised("worker", Condition.RUNNING, 0))
    assert made.view(Probe.LIVENESS).status is PASS

    parts.note(Supervised("watcher", Condition.RESTARTING, 1, OSError("a host name")))
    assert made.view(Probe.LIVENESS).status is WARN
    assert metrics.registry.get_sample_value("reconciler_restarts_total", {"name": "watcher"}) == 1

    parts.note(Supervised("watcher", Condition.DEAD, 1, OSError("a host name")))
    view = made.view(Probe.LIVENESS)
    assert view.status is FAIL
    assert "a host name" not in repr(view)
    assert [row.part for row in view.checks["runtime:tasks"]] == ["watcher", "worker"]
