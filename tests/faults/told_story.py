"""A short story told to one process without faults, and its whole history: what a checker reads."""

import asyncio
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from service.sandbox.broker import EmbeddedBroker
from service.sandbox.psp_server import PspServer
from tests.faults.checker import read_sent, read_topic
from tests.faults.checking.history import History, read_history
from tests.faults.house import House, until, until_started
from tests.faults.servers import make_topics
from tests.faults.workload import Workload
from tests.support.kafka import Topics
from tests.support.postgres import Database
from tests.support.processes import ServiceProcesses

PAYMENTS = 60
STOP_SECONDS = 20.0
TAMPERED = "UPDATE payments SET erp_currency = 'USD' WHERE payment_id = 'pay-00000'"

_WAITING = """
SELECT
    (SELECT coalesce(sum(next_offset), 0) FROM consumer_offsets) < $1
    OR EXISTS (SELECT FROM payments WHERE next_check_at < clock_timestamp() + interval '5 s')
    OR EXISTS (SELECT FROM reconciliation_jobs WHERE status IN ('pending', 'processing'))
    OR EXISTS (SELECT FROM outbox WHERE published_at IS NULL)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldStory:
    """`history` is what the checker reads, `tampered` what it reads when somebody has changed one
    payment by hand.
    """

    history: History
    tampered: History


async def tell_story(broker: EmbeddedBroker, database: Database, directory: Path) -> ToldStory:
    """Send a workload to one process, let it come to rest, stop it, read everything."""
    topics, services = Topics.unique(), ServiceProcesses(directory)
    await make_topics(broker.bootstrap_servers, topics)
    try:
        async with (
            PspServer() as psp,
            House.open(database, psp, services, (broker.bootstrap_servers, topics)) as house,
        ):
            workload = Workload(1, PAYMENTS)
            await _work_off(house, workload)
            return await _read(house, workload)
    finally:
        await asyncio.gather(*(process.close() for process in services.started))
        database.hang_up()


async def _work_off(house: House, workload: Workload) -> None:
    workload.tell(house.psp)
    process = house.start()
    for portion in workload.portions():
        await house.send(*portion)
    await until_started(process)

    async def at_rest() -> bool:
        return not await house.connection.fetchval(_WAITING, len(workload.records))

    await until(at_rest, "nothing is left to do")
    process.terminate()
    assert await process.wait(STOP_SECONDS) == 0


async def _read(house: House, workload: Workload) -> ToldStory:
    connection = house.connection
    given = partial(
        read_history,
        connection,
        told=workload.told,
        sent=await read_sent(house.servers, house.topics.by_source),
        outcomes=await read_topic(house.servers, house.topics.outcome),
        dead_letter_copies=await read_topic(house.servers, house.topics.dead_letter),
        group=house.topics.group_id,
    )
    history = await given()
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute(TAMPERED)
    tampered = await given()
    await transaction.rollback()
    return ToldStory(history=history, tampered=tampered)
