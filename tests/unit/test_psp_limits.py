"""The token bucket, on a clock that the test moves."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.psp.limits import TokenBucket


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)


arrivals = st.lists(st.floats(min_value=0, max_value=5), min_size=1, max_size=60)
rates = st.floats(min_value=0.1, max_value=50)
bursts = st.integers(min_value=1, max_value=10)


@given(gaps=arrivals, rate=rates, burst=bursts)
async def test_bucket_never_gives_more_than_burst_plus_rate_in_any_window(
    gaps: list[float], rate: float, burst: int
) -> None:
    clock = Clock()
    bucket = TokenBucket(rate, burst, clock=clock, sleep=clock.sleep)
    taken: list[float] = []
    for gap in gaps:
        clock.now += gap
        if await bucket.acquire(deadline=clock.now + 3):
            taken.append(clock.now)
    for first in range(len(taken)):
        for last in range(first, len(taken)):
            window = taken[last] - taken[first]
            assert last - first + 1 <= burst + rate * window + 1e-6


@given(waiters=st.integers(min_value=1, max_value=30), rate=rates, burst=bursts)
async def test_waiters_are_served_in_order_and_no_faster_than_the_rate(
    waiters: int, rate: float, burst: int
) -> None:
    clock = Clock()
    bucket = TokenBucket(rate, burst, clock=clock, sleep=clock.sleep)
    started = clock.now
    served: list[tuple[int, float]] = []

    async def wait(number: int) -> None:
        assert await bucket.acquire(deadline=clock.now + 1e6)
        served.append((number, clock.now))

    async with asyncio.TaskGroup() as group:
        for number in range(waiters):
            group.create_task(wait(number))
    assert [number for number, _ in served] == list(range(waiters))
    for number, at in served:
        assert at - started >= (number + 1 - burst) / rate - 1e-6


async def test_wait_that_would_end_too_late_is_refused_without_waiting() -> None:
    clock = Clock()
    bucket = TokenBucket(1, 1, clock=clock, sleep=clock.sleep)
    assert await bucket.acquire(deadline=clock.now)
    before = clock.now
    assert not await bucket.acquire(deadline=before + 0.5)
    assert clock.now == before
    assert await bucket.acquire(deadline=before + 1.5)


async def test_hold_gives_out_nothing_until_it_is_over() -> None:
    clock = Clock()
    bucket = TokenBucket(10, 5, clock=clock, sleep=clock.sleep)
    bucket.hold(30)
    bucket.hold(10)
    assert bucket.held_seconds == 30
    assert not await bucket.acquire(deadline=clock.now + 29)
    before = clock.now
    assert await bucket.acquire(deadline=before + 31)
    assert clock.now >= before + 30


async def test_waiter_gives_up_once_a_hold_goes_past_its_deadline() -> None:
    clock = Clock()

    async def sleep_and_be_held(seconds: float) -> None:
        await clock.sleep(seconds)
        bucket.hold(100)

    bucket = TokenBucket(1, 1, clock=clock, sleep=sleep_and_be_held)
    started = clock.now
    assert await bucket.acquire(deadline=started + 5)
    assert not await bucket.acquire(deadline=started + 5)
    assert clock.now <= started + 5


async def test_cancelled_waiters_take_nothing_and_leave_the_queue() -> None:
    bucket = TokenBucket(0.001, 1)
    now = asyncio.get_running_loop().time()
    assert await bucket.acquire(deadline=now + 1)
    waiting = [asyncio.create_task(bucket.acquire(deadline=now + 1e6)) for _ in range(20)]
    await asyncio.sleep(0)
    assert bucket.expected_wait_seconds > 20_000
    async with asyncio.timeout(5):
        assert not await bucket.acquire(deadline=now + 15_000)
    for waiter in waiting:
        waiter.cancel()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(result, asyncio.CancelledError) for result in results)
    assert bucket.expected_wait_seconds <= 1000


@pytest.mark.parametrize(("rate", "burst"), [(0, 1), (-1, 1), (1, 0)])
def test_bucket_that_could_never_give_a_token_is_refused(rate: float, burst: int) -> None:
    with pytest.raises(ValueError, match="token bucket"):
        TokenBucket(rate, burst)
