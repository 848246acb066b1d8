"""The short retries of one question, all within one budget of time."""

import asyncio

from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_result,
    stop_before_delay,
    wait_exponential_jitter,
)

from service.psp.port import Answer, PspPort, Question, Unavailable

_WORTH_ANOTHER_TRY = frozenset({"throttled", "server_error", "timeout", "connection"})
_backoff_seconds = wait_exponential_jitter(multiplier=0.2, max=5.0, jitter=0.3)


class RetryingPsp:
    """Asks again while that can help and `budget_seconds` allow, else hands on the last answer.

    The budget bounds everything: tries, waits between them and the wait for a rate token. A
    `Retry-After` that fits in is waited out; one that does not ends the question at once.
    """

    def __init__(self, port: PspPort, budget_seconds: float) -> None:
        self._port = port
        self._budget_seconds = budget_seconds

    async def ask(self, question: Question) -> Answer:
        """Ask until there is an answer or no time. Raises nothing for what the far end does."""
        retrying = AsyncRetrying(
            sleep=asyncio.sleep,
            retry=retry_if_result(_worth_another_try),
            wait=_wait_seconds,
            stop=stop_before_delay(self._budget_seconds),
            retry_error_callback=_last_answer,
        )
        try:
            async with asyncio.timeout(self._budget_seconds):
                return await retrying(self._port.ask, question)
        except TimeoutError:
            detail = f"no answer within {self._budget_seconds:g} s"
            return Unavailable("budget", None, detail)


def _worth_another_try(answer: Answer) -> bool:
    return isinstance(answer, Unavailable) and answer.reason in _WORTH_ANOTHER_TRY


def _wait_seconds(state: RetryCallState) -> float:
    asked = getattr(_last_answer(state), "retry_after_seconds", None) or 0.0
    return asked + _backoff_seconds(state)  # jitter on top: not all jobs come back at once


def _last_answer(state: RetryCallState) -> Answer:
    if state.outcome is None:
        raise RuntimeError("tenacity asked for the outcome of a try that has not ended")
    answer: Answer = state.outcome.result()
    return answer
