"""`reconciler verify`: computes every payment anew from its log and compares it with the tables."""

from collections.abc import AsyncIterator
from typing import Any

from rich.console import Console

from service.commands.progress import progress_bar
from service.commands.reachable import reaching
from service.connections import pool_options, psp_exponents
from service.settings import Settings
from service.store.pool import connect
from service.store.verification import Verified, about_total, verify_chunk

CHUNK_PAYMENTS = 500
_CLOSE_SECONDS = 5


async def verify(settings: Settings) -> int:
    """Print a line a difference, then the sum; 1 if there was one. Nothing is changed or locked."""
    out = Console(width=None if Console().is_terminal else 200, highlight=False, markup=False)
    options = pool_options(settings.database, application_name="reconciler-verify")
    payments = differences = 0
    async with reaching("RECONCILER_DATABASE__URL"):
        connection = await connect(options)
        try:
            with progress_bar() as progress:
                bar = progress.add_task("payments", total=await about_total(connection))
                async for chunk in _chunks(connection, settings):
                    payments += chunk.payments
                    differences += len(chunk.differences)
                    progress.update(bar, completed=payments)
                    for each in chunk.differences:
                        out.print(
                            f"{each.payment_id}: {each.field} is {_text(each.stored)},"
                            f" the log makes it {_text(each.recomputed)}",
                            soft_wrap=True,
                        )
        finally:
            await connection.close(timeout=_CLOSE_SECONDS)
    out.print(f"{payments} payments verified, {differences} differences")
    return 1 if differences else 0


async def _chunks(connection: Any, settings: Settings) -> AsyncIterator[Verified]:
    """Chunk by chunk, each in a snapshot of its own."""
    exponents = psp_exponents(settings.psp)
    after = ""
    while True:
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            chunk = await verify_chunk(
                connection, after=after, limit=CHUNK_PAYMENTS, exponents=exponents
            )
        if chunk.last_payment_id is None:
            return
        yield chunk
        after = chunk.last_payment_id


def _text(value: object) -> str:
    return "empty" if value is None else str(value)
