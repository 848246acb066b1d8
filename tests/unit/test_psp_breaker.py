"""The circuit breaker, on a clock that the test moves."""

import pytest

from service.psp.breaker import BreakerState, CircuitBreaker, Permit


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def breaker(clock: Clock) -> CircuitBreaker:
    return CircuitBreaker(3, 30.0, clock=clock)


def admitted(breaker: CircuitBreaker) -> Permit:
    permit = breaker.admit()
    assert permit is not None
    return permit


def state(breaker: CircuitBreaker) -> BreakerState:
    return breaker.state


def fail(breaker: CircuitBreaker, times: int) -> None:
    for _ in range(times):
        breaker.failed(admitted(breaker))


def test_opens_after_the_failures_in_a_row_and_says_when_to_come_back(
    breaker: CircuitBreaker, clock: Clock
) -> None:
    fail(breaker, 2)
    assert state(breaker) == "closed"
    assert breaker.retry_after_seconds is None
    fail(breaker, 1)
    assert state(breaker) == "open"
    assert breaker.admit() is None
    clock.now += 10
    assert breaker.retry_after_seconds == 20


def test_one_success_forgets_the_failures_before_it(breaker: CircuitBreaker) -> None:
    fail(breaker, 2)
    breaker.succeeded(admitted(breaker))
    fail(breaker, 2)
    assert state(breaker) == "closed"


def test_half_open_lets_one_probe_through_at_a_time(breaker: CircuitBreaker, clock: Clock) -> None:
    fail(breaker, 3)
    clock.now += 30
    assert state(breaker) == "half_open"
    probe = admitted(breaker)
    assert breaker.admit() is None
    breaker.succeeded(probe)
    assert state(breaker) == "closed"
    assert breaker.admit() is not None


def test_failed_probe_opens_again_for_the_whole_time(breaker: CircuitBreaker, clock: Clock) -> None:
    fail(breaker, 3)
    clock.now += 31
    fail(breaker, 1)
    assert state(breaker) == "open"
    assert breaker.retry_after_seconds == 30


def test_withdrawn_probe_leaves_room_for_the_next(breaker: CircuitBreaker, clock: Clock) -> None:
    fail(breaker, 3)
    clock.now += 30
    breaker.withdrawn(admitted(breaker))
    assert state(breaker) == "half_open"
    assert breaker.admit() is not None


def test_calls_from_before_it_opened_move_nothing(breaker: CircuitBreaker, clock: Clock) -> None:
    late = [admitted(breaker) for _ in range(6)]
    fail(breaker, 3)
    clock.now += 29
    breaker.failed(late[0])
    assert breaker.retry_after_seconds == 1
    breaker.succeeded(late[1])
    assert state(breaker) == "open"
    clock.now += 1
    probe = admitted(breaker)
    breaker.withdrawn(late[2])
    breaker.failed(late[3])
    breaker.succeeded(late[4])
    assert state(breaker) == "half_open"
    assert breaker.admit() is None
    breaker.succeeded(probe)
    breaker.failed(late[5])
    fail(breaker, 2)
    assert state(breaker) == "closed"


@pytest.mark.parametrize(("failures_max", "open_seconds"), [(0, 1.0), (1, 0.0)])
def test_breaker_that_cannot_work_is_refused(failures_max: int, open_seconds: float) -> None:
    with pytest.raises(ValueError, match="circuit breaker"):
        CircuitBreaker(failures_max, open_seconds)
