"""Rate limit and circuit breaker around any adapter, one pair a provider account."""

import time
from collections.abc import Callable

from service.psp.breaker import CircuitBreaker, Permit
from service.psp.limits import TokenBucket
from service.psp.port import Answer, Answered, NotFound, PspPort, Question, Unavailable

Observe = Callable[[str, float], None]

_OUTAGE = frozenset({"server_error", "timeout", "connection", "refused"})
# A provider may ask for a day; our own quiet stays short enough that one odd header cannot
# silence an account. The worker still gets the whole time and puts the job off by it.
_HOLD_MAX_SECONDS = 300.0


class GuardedPsp:
    """Passes a question on if the breaker and the bucket let it, else says why not.

    A token is waited for at most `wait_max_seconds`. `observe` hears the result and the seconds of
    every try, those that were not let through included.
    """

    def __init__(
        self,
        port: PspPort,
        bucket: TokenBucket,
        breaker: CircuitBreaker,
        *,
        wait_max_seconds: float = 10.0,
        observe: Observe | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._port = port
        self._bucket = bucket
        self._breaker = breaker
        self._wait_max_seconds = wait_max_seconds
        self._observe = observe
        self._clock = clock

    async def ask(self, question: Question) -> Answer:
        """Ask once, within the limits. Raises nothing for what the far end does."""
        started = self._clock()
        answer = await self._ask_within_limits(question)
        if self._observe is not None:
            self._observe(result_of(answer), self._clock() - started)
        return answer

    async def _ask_within_limits(self, question: Question) -> Answer:
        if not self._breaker.admits:
            return self._breaker_open()
        if not await self._bucket.acquire(deadline=self._clock() + self._wait_max_seconds):
            return self._no_token()
        permit = self._breaker.admit()  # the breaker may have opened during the wait
        if permit is None:
            return self._breaker_open()
        return await self._ask_with(permit, question)

    async def _ask_with(self, permit: Permit, question: Question) -> Answer:
        settle: Callable[[Permit], None] = self._breaker.withdrawn
        try:
            answer = await self._port.ask(question)
            settle = self._verdict(answer)
        finally:  # a cancelled probe must not keep the breaker half open for ever
            settle(permit)
        if isinstance(answer, Unavailable) and answer.reason == "throttled":
            self._bucket.hold(min(answer.retry_after_seconds or 0.0, _HOLD_MAX_SECONDS))
        return answer

    def _verdict(self, answer: Answer) -> Callable[[Permit], None]:
        if not isinstance(answer, Unavailable) or answer.reason == "throttled":
            return self._breaker.succeeded  # who says 429 is alive; the bucket slows us down
        if answer.reason in _OUTAGE:
            return self._breaker.failed
        # Nonsense may be about one payment alone: some bad rows must not cut off all others.
        return self._breaker.withdrawn

    def _breaker_open(self) -> Unavailable:
        wait = self._breaker.retry_after_seconds
        return Unavailable("breaker_open", wait, "too many failures in a row")

    def _no_token(self) -> Unavailable:
        wait = self._bucket.expected_wait_seconds
        if self._bucket.held_seconds > 0:
            return Unavailable("throttled", wait, "the provider asked for quiet")
        return Unavailable("budget", wait, "our own rate limit leaves no room in time")


def result_of(answer: Answer) -> str:
    """Name an answer for a metric: `answered`, `not_found`, or the reason of no answer."""
    match answer:
        case Answered():
            return "answered"
        case NotFound():
            return "not_found"
        case Unavailable(reason=reason):
            return reason
