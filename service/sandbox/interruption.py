"""What a signal does to the demo: it ends a story in the midst of it, and a service that stands."""

import asyncio
import signal
from typing import Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruption:
    """Takes SIGINT and SIGTERM over for the coroutine that enters it.

    The first one cancels that coroutine, unless it waits in `wait`. More of them change nothing:
    what is left to do then is to end the processes, and that is bounded.
    """

    def __init__(self) -> None:
        self._signum: int | None = None
        self._waiting: asyncio.Event | None = None
        self._coroutine: asyncio.Task[object] | None = None

    def __enter__(self) -> Self:
        self._coroutine = asyncio.current_task()
        for signum in _SIGNALS:
            asyncio.get_running_loop().add_signal_handler(signum, self._take, signum)
        return self

    def __exit__(self, *_: object) -> None:
        for signum in _SIGNALS:
            asyncio.get_running_loop().remove_signal_handler(signum)

    @property
    def exit_code(self) -> int | None:
        """A shell's code for the signal, None where none has come."""
        return None if self._signum is None else 128 + self._signum

    async def wait(self) -> None:
        """Return at the first signal, without being cancelled by it."""
        self._waiting = asyncio.Event()
        await self._waiting.wait()

    def _take(self, signum: int) -> None:
        if self._signum is not None:
            return
        self._signum = signum
        if self._waiting is not None:
            self._waiting.set()
        elif self._coroutine is not None:
            self._coroutine.cancel()
