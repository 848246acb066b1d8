"""A source that restarts its version counter is noticed, never silently dropped as stale."""

from service.ingest.reset_watch import ResetWatch


def ids(first: int, number: int) -> list[str]:
    return [f"p-{first + place}" for place in range(number)]


def test_fifty_payments_and_half_of_the_events_are_suspicious() -> None:
    """Reported as hal0 785."""
    watch = ResetWatch()
    watch.observe(events=60, stale_later=ids(0, 25), now=0)
    assert not watch.suspected(1)
    watch.observe(events=40, stale_later=ids(25, 25), now=20)
    assert watch.suspected(21)


def test_half_of_the_events_is_needed() -> None:
    watch = ResetWatch()
    watch.observe(events=101, stale_later=ids(0, 50), now=0)
    assert not watch.suspected(1)


def test_one_payment_that_is_stale_often_is_no_reset() -> None:
    watch = ResetWatch()
    watch.observe(events=100, stale_later=["p-1"] * 100, now=0)
    assert not watch.suspected(1)


def test_suspicion_ends_after_five_minutes() -> None:
    watch = ResetWatch()
    watch.observe(events=50, stale_later=ids(0, 50), now=0)
    assert watch.suspected(299)
    assert not watch.suspected(300)
