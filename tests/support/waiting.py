"""Waiting for a condition with a deadline, in place of sleeping."""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any


async def eventually(
    condition: Callable[[], Any],
    *,
    within_seconds: float = 10.0,
    every_seconds: float = 0.02,
    what: str = "",
) -> Any:
    """Ask `condition`, async or not, until it gives something true, and return that.

    Raises AssertionError with `what` and the last value after `within_seconds`, which bounds a
    condition that hangs, too. What the condition raises goes through.
    """
    last: object = "nothing, the condition never came back"
    deadline = asyncio.timeout(within_seconds)
    try:
        async with deadline:
            while True:
                answer = condition()
                value = await answer if inspect.isawaitable(answer) else answer
                if value:
                    return value
                last = value
                await asyncio.sleep(every_seconds)
    except TimeoutError:
        if not deadline.expired():
            raise
        wanted = what or getattr(condition, "__qualname__", repr(condition))
        raise AssertionError(f"not within {within_seconds:g} s: {wanted}; last: {last!r}") from None
