"""Where a storm takes place: a PostgreSQL and a PSP of its own, one Kafka, and ways that fail."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Self

from migrations import runner
from service.sandbox.ports import LOOPBACK, free_port
from service.sandbox.postgres import EmbeddedPostgres
from service.sandbox.psp_server import Faults, PspServer
from tests.faults.fleet import Fleet
from tests.faults.house import variables
from tests.faults.plan import Plan
from tests.faults.sabotage import prepare
from tests.support.kafka import ApacheKafka, Topics
from tests.support.postgres import OPTIONS, chosen_bin_dir
from tests.support.proxy import TcpProxy, database_proxy, tcp_proxy

PARTITIONS = 4
PSP_SECONDS = 0.05
_OPTIONS = {
    **OPTIONS,
    "max_connections": "60",
    "superuser_reserved_connections": "0",
    "deadlock_timeout": "200ms",
}
# Beyond the quick times of every house: what would make a storm wait, or hide a fault.
_QUICK = {
    "DATABASE__CONNECT_TIMEOUT_SECONDS": "2",
    "DATABASE__LOCK_TIMEOUT_SECONDS": "1",
    "DATABASE__STATEMENT_TIMEOUT_SECONDS": "4",
    # Longer than a process is stopped: one that wakes up finds its transaction alive.
    "DATABASE__IDLE_IN_TRANSACTION_TIMEOUT_SECONDS": "8",
    "KAFKA__REBALANCE_TIMEOUT_SECONDS": "10",
    "KAFKA__BATCH_MAX": "200",
    "PSP__BREAKER_OPEN_SECONDS": "1",
}


@dataclass(frozen=True, slots=True)
class ProxiedKafka:
    """A Kafka, and the port of loopback where a storm's proxy to it listens."""

    kafka: ApacheKafka
    port: int

    @classmethod
    def new(cls) -> Self:
        """One that is not started yet."""
        port = free_port()
        return cls(ApacheKafka(proxied_port=port), port)


@dataclass(slots=True, kw_only=True)
class Stage:
    """The servers, the ways to them, and the processes. `rng` belongs to the injectors."""

    postgres: EmbeddedPostgres
    to_postgres: TcpProxy
    kafka: ApacheKafka
    to_kafka: TcpProxy
    topics: Topics
    psp: PspServer
    fleet: Fleet
    rng: Random

    @property
    def usual(self) -> Faults:
        """How the PSP behaves when nothing is wrong with it."""
        return Faults(latency_seconds=PSP_SECONDS)

    @classmethod
    @asynccontextmanager
    async def open(
        cls, proxied: ProxiedKafka, plan: Plan, directory: Path, settings: Mapping[str, str]
    ) -> AsyncIterator[Self]:
        """Start everything but the processes. Kafka is the caller's, and runs."""
        kafka = proxied.kafka
        async with AsyncExitStack() as stack:
            postgres = EmbeddedPostgres(bin_dir=chosen_bin_dir(), options=_OPTIONS)
            await stack.enter_async_context(postgres)
            await runner.upgrade(postgres.url)
            await prepare(postgres.url)
            to_postgres = await stack.enter_async_context(database_proxy(postgres.url))
            to_kafka = await stack.enter_async_context(
                tcp_proxy(LOOPBACK, kafka.behind_proxy_port, proxied.port)
            )
            psp = await stack.enter_async_context(PspServer())
            topics = Topics.unique()
            await kafka.create_topics(dict.fromkeys(topics.names, PARTITIONS))
            own = _settings(to_postgres.url(postgres.url), to_kafka.port, topics, psp)
            fleet = Fleet(plan.parts, directory, variables(**{**_QUICK, **own, **settings}))
            stack.push_async_callback(fleet.close)
            stage = cls(
                postgres=postgres,
                to_postgres=to_postgres,
                kafka=kafka,
                to_kafka=to_kafka,
                topics=topics,
                psp=psp,
                fleet=fleet,
                rng=Random(plan.seed),  # noqa: S311 - a storm to repeat, not a secret
            )
            psp.faults = stage.usual
            yield stage


def _settings(url: str, kafka_port: int, topics: Topics, psp: PspServer) -> dict[str, str]:
    return {
        "DATABASE__URL": url,
        "PSP__BASE_URL": psp.url,
        "KAFKA__BOOTSTRAP_SERVERS": f"{LOOPBACK}:{kafka_port}",
        "KAFKA__GROUP_ID": topics.group_id,
        "KAFKA__ERP_TOPIC": topics.erp,
        "KAFKA__PSP_TOPIC": topics.psp,
        "KAFKA__OUTCOME_TOPIC": topics.outcome,
        "KAFKA__DEAD_LETTER_TOPIC": topics.dead_letter,
    }
