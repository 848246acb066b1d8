"""The breaker stops a partition before a bad deploy empties itself into the quarantine."""

from service.ingest.breaker import Breaker, BreakerLimits

LIMITS = BreakerLimits(
    run_max=5, share_max=0.5, share_records_min=20, window_records=40, retry_seconds=60
)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_run_of_bad_records_trips_it() -> None:
    breaker = Breaker(LIMITS, clock=Clock())
    assert [breaker.observe(bad=True) for _ in range(5)] == [False] * 4 + [True]
    assert breaker.open


def test_good_record_ends_a_run() -> None:
    breaker = Breaker(LIMITS, clock=Clock())
    assert not any(breaker.observe(bad=number % 5 != 4) for number in range(19))


def test_too_large_a_share_trips_it_once_enough_were_seen() -> None:
    breaker = Breaker(LIMITS, clock=Clock())
    tripped = [breaker.observe(bad=number % 3 != 0) for number in range(20)]
    assert tripped == [False] * 19 + [True]


def test_old_records_leave_the_window() -> None:
    breaker = Breaker(LIMITS, clock=Clock())
    for number in range(400):
        assert not breaker.observe(bad=number % 2 == 1)
    for _ in range(40):
        breaker.observe(bad=False)
    assert not any(breaker.observe(bad=number % 4 != 3) for number in range(12))


def test_it_lets_a_try_through_after_a_while_and_alarms_until_one_passes() -> None:
    clock = Clock()
    breaker = Breaker(LIMITS, clock=clock)
    for _ in range(5):
        breaker.observe(bad=True)
    clock.now = 61
    assert not breaker.open
    assert breaker.alarmed
    breaker.observe(bad=False)
    breaker.passed()
    assert not breaker.alarmed


def test_try_that_meets_the_same_run_stops_again() -> None:
    clock = Clock()
    breaker = Breaker(LIMITS, clock=clock)
    for _ in range(5):
        breaker.observe(bad=True)
    clock.now = 61
    assert [breaker.observe(bad=True) for _ in range(5)][-1]
    assert breaker.open


def test_run_that_comes_in_small_fetches_stops_for_good_all_the_same() -> None:
    """Two bad records a fetch: four have landed when the fifth trips it, and a try lands none."""
    clock = Clock()
    breaker = Breaker(LIMITS, clock=clock)
    landed = [fetch(breaker, clock, [True, True]) for _ in range(10)]
    assert landed == [True] * 2 + [False] * 8
    assert fetch(breaker, clock, [False, True])
    assert not breaker.alarmed


def test_run_that_a_good_record_has_ended_is_forgotten_when_a_later_one_trips() -> None:
    clock = Clock()
    breaker = Breaker(LIMITS, clock=clock)
    assert fetch(breaker, clock, [True, True, True])
    assert not fetch(breaker, clock, [False, True, True, True, True, True])
    assert fetch(breaker, clock, [True, True, True, True, False])


def fetch(breaker: Breaker, clock: Clock, records: list[bool]) -> bool:
    """One fetch, after a pause that is long enough for a try; whether all of it lands."""
    clock.now += LIMITS.retry_seconds + 1
    if any(breaker.observe(bad=bad) for bad in records):
        return False
    breaker.passed()
    return True
