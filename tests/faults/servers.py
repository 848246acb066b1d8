"""Fixtures: a house on each kind of broker, and the servers that belong to one test alone."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
from aiokafka import AIOKafkaProducer

from migrations import runner
from service.sandbox.broker import EmbeddedBroker
from service.sandbox.postgres import EmbeddedPostgres
from service.sandbox.psp_server import PspServer
from tests.faults.house import House
from tests.support.kafka import ApacheKafka, Topics
from tests.support.postgres import OPTIONS, Database, chosen_bin_dir
from tests.support.processes import ServiceProcesses


@pytest.fixture(scope="session")
def embedded_broker() -> Iterator[EmbeddedBroker]:
    """The demo's broker: enough for one consumer."""
    broker = EmbeddedBroker()
    asyncio.run(broker.__aenter__())
    try:
        yield broker
    finally:
        asyncio.run(broker.close())


@pytest.fixture
async def psp() -> AsyncIterator[PspServer]:
    """A PSP that knows nothing yet."""
    async with PspServer() as server:
        yield server


@pytest.fixture
async def own_postgres() -> AsyncIterator[EmbeddedPostgres]:
    """A PostgreSQL that a test may stop, with a migrated database."""
    async with EmbeddedPostgres(bin_dir=chosen_bin_dir(), options=OPTIONS) as postgres:
        await runner.upgrade(postgres.url)
        yield postgres


@pytest.fixture
async def worker_house(
    database: Database, psp: PspServer, services: ServiceProcesses
) -> AsyncIterator[House]:
    """Without a broker."""
    async with House.open(database, psp, services) as house:
        yield house


@pytest.fixture
async def embedded_topics(embedded_broker: EmbeddedBroker) -> Topics:
    """Topics of this test alone on the embedded broker, which makes them at first use."""
    topics = Topics.unique()
    await make_topics(embedded_broker.bootstrap_servers, topics)
    return topics


@pytest.fixture
async def house(
    database: Database,
    psp: PspServer,
    services: ServiceProcesses,
    embedded_broker: EmbeddedBroker,
    embedded_topics: Topics,
) -> AsyncIterator[House]:
    """On the embedded broker."""
    broker = (embedded_broker.bootstrap_servers, embedded_topics)
    async with House.open(database, psp, services, broker) as opened:
        yield opened


@pytest.fixture
async def kafka_house(
    database: Database,
    psp: PspServer,
    services: ServiceProcesses,
    apache_kafka: ApacheKafka,
    topics: Topics,
) -> AsyncIterator[House]:
    """On Apache Kafka."""
    broker = (apache_kafka.bootstrap_servers, topics)
    async with House.open(database, psp, services, broker) as opened:
        yield opened


async def make_topics(bootstrap_servers: str, topics: Topics) -> None:
    """Let a broker that makes topics at first use make these."""
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap_servers)
    await producer.start()
    try:
        for topic in topics.names:
            await producer.partitions_for(topic)
    finally:
        await producer.stop()
