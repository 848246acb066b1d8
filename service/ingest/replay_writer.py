"""Writers of batches that move no position: for good, or only to see what the database would do."""

from collections.abc import Awaitable, Callable
from typing import Any

from service.ingest.batch import Batch
from service.ingest.writer import Writer


class ReplayWriter(Writer):
    """Writes batches that move no position.

    Such a batch leaves no mark of its commit. One whose commit was never answered is written again,
    which changes nothing twice: its events are duplicates then.
    """

    async def _committed(self, batch: Batch, connection: Any) -> bool:
        return False


class DryWriter(ReplayWriter):
    """Writes each batch and takes it back: the database says what it would do, and keeps nothing.

    It holds the payments' locks as long as a batch takes.
    """

    async def in_transaction(self, write: Callable[[Any], Awaitable[Any]]) -> Any:
        """Run `write(connection)` in a transaction that is rolled back; give what it gives."""
        result: Any = None

        async def write_and_undo(connection: Any) -> None:
            nonlocal result
            result = await write(connection)
            raise _Undone

        try:
            await super().in_transaction(write_and_undo)
        except _Undone:
            self.available = True
        return result


class _Undone(Exception):  # noqa: N818 - named after what happened
    pass
