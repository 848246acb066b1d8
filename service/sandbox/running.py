"""What runs while a block runs."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Running(ABC):
    """A server of the sandbox: started when the block begins, closed when it ends.

    What failed to start, or was cancelled meanwhile, is closed too.
    """

    @abstractmethod
    async def start(self) -> None:
        """Start, and wait until it answers."""

    @abstractmethod
    async def close(self) -> None:
        """End it, whether or not it has started, and remove what it leaves behind."""

    async def __aenter__(self) -> Self:
        """Start the server."""
        try:
            await self.start()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the server."""
        await self.close()
