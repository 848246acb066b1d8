"""The token bucket that keeps one process below a provider account's rate.

Why not aiolimiter: it cannot refuse a wait that would end after the deadline, so a question would
spend its whole budget in the queue; it cannot be told to hold back after a 429; and its clock
cannot be set by a test.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable

_SHORTEST_SLEEP_SECONDS = 0.001


class TokenBucket:
    """At most `burst + rate_per_second * t` tokens in any `t` seconds, first come first served.

    `rate_per_second` > 0, `burst` >= 1 (ValueError otherwise). The bucket starts full.
    """

    def __init__(
        self,
        rate_per_second: float,
        burst: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        if rate_per_second <= 0 or burst < 1:
            raise ValueError("a token bucket needs rate_per_second > 0 and burst >= 1")
        self._rate = rate_per_second
        self._burst = burst
        self._clock = clock
        self._sleep = sleep
        self._tokens = float(burst)
        self._filled_at = self._held_until = clock()
        self._turn = asyncio.Lock()
        self._waiting = 0

    @property
    def held_seconds(self) -> float:
        """For how long no token is given out because the provider asked for quiet."""
        return max(self._held_until - self._clock(), 0.0)

    @property
    def expected_wait_seconds(self) -> float:
        """How long a newcomer would wait behind those who already do."""
        return self._wait_for(self._waiting + 1)

    def hold(self, seconds: float) -> None:
        """Give out no token for `seconds` from now; a longer hold that runs already stays."""
        self._held_until = max(self._held_until, self._clock() + seconds)

    async def acquire(self, *, deadline: float) -> bool:
        """Take one token by `deadline` (of the bucket's clock), or give up without waiting for it.

        False: it would come too late. A cancelled waiter takes nothing.
        """
        if self._clock() + self.expected_wait_seconds > deadline:
            return False
        self._waiting += 1
        try:
            async with self._turn:
                while (wait := self._wait_for(1)) > 0:
                    if self._clock() + wait > deadline:
                        return False
                    await self._sleep(max(wait, _SHORTEST_SLEEP_SECONDS))
                self._tokens -= 1
                return True
        finally:
            self._waiting -= 1

    def _wait_for(self, tokens: int) -> float:
        now = self._clock()
        gained = (now - self._filled_at) * self._rate
        self._tokens = min(self._tokens + gained, float(self._burst))
        self._filled_at = now
        return max((tokens - self._tokens) / self._rate, self._held_until - now, 0.0)
