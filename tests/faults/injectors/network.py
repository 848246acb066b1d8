"""Faults of the ways to PostgreSQL and to Kafka: late, cut, silent, and answers that get lost."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from random import Random

from tests.faults.plan import Fault, Kind
from tests.faults.stage import Stage
from tests.support.proxy import Cut, TcpProxy

COMMITS_EVERY_SECONDS = 0.15
SHARE_OF_MESSAGES = 0.03
# What makes the server do something: a simple query, and the end of an extended one.
_DOING = (b"Q", b"S")


async def late(proxy: TcpProxy, rng: Random, seconds: float) -> None:
    """Each piece, in each direction."""
    proxy.latency_seconds = rng.choice((0.01, 0.05, 0.2))
    try:
        await asyncio.sleep(seconds)
    finally:
        proxy.latency_seconds = 0


async def cut(proxy: TcpProxy, rng: Random, seconds: float) -> None:
    """All connections, and no new ones for a while; every second time only the first."""
    proxy.refuse = rng.random() < 0.5
    try:
        proxy.cut()
        await asyncio.sleep(seconds)
    finally:
        proxy.refuse = False


async def silent(proxy: TcpProxy, rng: Random, seconds: float) -> None:
    """Connections stay open and nothing passes; every second time they are cut at the end."""
    proxy.black_hole = True
    try:
        await asyncio.sleep(seconds)
    finally:
        if rng.random() < 0.5:
            proxy.cut()
        proxy.black_hole = False


async def lose_commits(proxy: TcpProxy, rng: Random, seconds: float) -> None:
    """One COMMIT after the other is done, and its client never hears of it; some never arrive."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while loop.time() < until:
        proxy.cut_commit(Cut.AFTER if rng.random() < 0.8 else Cut.BEFORE)
        await asyncio.sleep(COMMITS_EVERY_SECONDS)


async def lose_messages(proxy: TcpProxy, rng: Random, seconds: float) -> None:
    """A share of all statements is done unheard or never arrives: also those without a COMMIT."""

    def fate(message: bytes) -> Cut | None:
        if message[:1] not in _DOING or rng.random() >= SHARE_OF_MESSAGES:
            return None
        return rng.choice((Cut.AFTER, Cut.BEFORE))

    proxy.on_message = fate
    try:
        await asyncio.sleep(seconds)
    finally:
        proxy.on_message = None


Harm = Callable[[TcpProxy, Random, float], Awaitable[None]]


async def to_postgres(harm: Harm, stage: Stage, fault: Fault) -> None:
    """On the way to PostgreSQL."""
    await harm(stage.to_postgres, stage.rng, fault.seconds)


async def to_kafka(harm: Harm, stage: Stage, fault: Fault) -> None:
    """On the way to Kafka."""
    await harm(stage.to_kafka, stage.rng, fault.seconds)


NETWORK: Mapping[Kind, Callable[[Stage, Fault], Awaitable[None]]] = {
    Kind.POSTGRES_SLOW: partial(to_postgres, late),
    Kind.POSTGRES_CUT: partial(to_postgres, cut),
    Kind.POSTGRES_SILENT: partial(to_postgres, silent),
    Kind.COMMIT_LOST: partial(to_postgres, lose_commits),
    Kind.MESSAGES_LOST: partial(to_postgres, lose_messages),
    Kind.KAFKA_SLOW: partial(to_kafka, late),
    Kind.KAFKA_CUT: partial(to_kafka, cut),
    Kind.KAFKA_SILENT: partial(to_kafka, silent),
}
