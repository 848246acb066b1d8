"""PostgreSQL's disk is full: everything waits, nothing is thrown away, and space alone heals it."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from migrations import runner
from service.sandbox.postgres import EmbeddedPostgres
from tests.faults.house import House, logged, until, until_health
from tests.faults.sabotage import session
from tests.faults.small_disk import SmallDisk, small_disk
from tests.support.events import erp_event, psp_event
from tests.support.postgres import OPTIONS, chosen_bin_dir

MEGABYTES = 48
FIRST, MANY, LOST = 50, 3_000, 20
# Longer than several retries; what a full disk breaks has broken by then.
FULL_SECONDS = 6.0
DISK_FULL = "53100"
ACCOUNTED = """
SELECT
    (SELECT count(*) FROM payments WHERE erp_version = 1),
    (SELECT count(*) FROM payment_events WHERE kind = 'erp' AND outcome = 'applied'),
    (SELECT count(*) FROM payment_events WHERE kind = 'heal' AND outcome = 'applied'),
    (SELECT count(*) FROM dead_letters),
    (SELECT count(*) FROM reconciliation_jobs WHERE status = 'dead')
"""


@dataclass(frozen=True, slots=True)
class SmallDatabase:
    """A database whose tables lie on a small disk; the write-ahead log lies elsewhere.

    Were the log on it too the server would end itself, and a stopped server is another test.
    """

    url: str
    disk: SmallDisk

    async def row(self, query: str) -> tuple[Any, ...]:
        """One row, over a session of its own."""
        async with session(self.url) as connection:
            return tuple(await connection.fetchrow(query))


@pytest.fixture
def disk() -> Iterator[SmallDisk]:
    """Beside the server's own folder, where its account may go."""
    with tempfile.TemporaryDirectory(prefix="small-disk-") as folder:
        Path(folder).chmod(0o755)
        with small_disk(Path(folder) / "disk", megabytes=MEGABYTES) as mounted:
            if mounted is None:
                pytest.skip("only root may mount a small disk")
            yield mounted


@pytest.fixture
async def small_database(disk: SmallDisk) -> AsyncIterator[SmallDatabase]:
    """A server and a migrated database in a tablespace on the small disk."""
    async with EmbeddedPostgres(bin_dir=chosen_bin_dir(), options=OPTIONS) as postgres:
        async with session(postgres.url) as connection:
            await connection.execute(f"CREATE TABLESPACE small LOCATION '{disk.path}'")
            await connection.execute("CREATE DATABASE small TABLESPACE small")
        url = postgres.url_of("small")
        await runner.upgrade(url)
        yield SmallDatabase(url, disk)


async def test_full_disk_is_waited_out_and_nothing_is_lost_or_dead_lettered(
    small_database: SmallDatabase, house: House
) -> None:
    small = small_database
    lost = [f"lost-{number}" for number in range(LOST)]
    house.know(*lost)
    service = house.start(DATABASE__URL=small.url)
    await until_health(service, "/readyz", 200)
    await house.send(*(erp_event(f"first-{number}", 1) for number in range(FIRST)))
    await until(lambda: has_payments(small, FIRST), "the first payments")

    small.disk.fill()
    events = [erp_event(f"many-{number}", 1) for number in range(MANY)]
    await house.send(*events, *(psp_event(each, 1, status="pending") for each in lost))
    await house.send(*(erp_event(each, 1) for each in lost))
    await until(
        lambda: any(line["sqlstate"] == DISK_FULL for line in logged(service, "database.lost")),
        "the full disk is noticed",
    )
    await asyncio.sleep(FULL_SECONDS)
    assert service.running
    assert (await service.health("/livez"))[0] == 200
    payments, *_, dead_letters, dead_jobs = await small.row(ACCOUNTED)
    assert payments < FIRST + MANY
    assert (dead_letters, dead_jobs) == (0, 0)

    small.disk.make_room()
    whole = (FIRST + MANY + LOST, FIRST + MANY + LOST, LOST, 0, 0)
    await until(lambda: has(small, whole), "everything is taken in and healed once")
    assert service.running
    assert not logged(service, "coroutine.crashed")
    await until_health(service, "/readyz", 200)


async def has_payments(small: SmallDatabase, number: int) -> bool:
    return bool((await small.row(ACCOUNTED))[0] == number)


async def has(small: SmallDatabase, row: tuple[int, ...]) -> bool:
    return await small.row(ACCOUNTED) == row
