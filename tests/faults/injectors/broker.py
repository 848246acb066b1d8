"""Faults of Kafka itself."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from tests.faults.plan import Fault, Kind
from tests.faults.stage import Stage


async def stop(stage: Stage, fault: Fault) -> None:
    """A clean stop, and a start after a while."""
    await stage.kafka.stop()
    await asyncio.sleep(fault.seconds)
    await stage.kafka.start()


async def pause(stage: Stage, fault: Fault) -> None:
    """Connections stay open and nobody answers."""
    stage.kafka.pause()
    try:
        await asyncio.sleep(fault.seconds)
    finally:
        stage.kafka.resume()


BROKER: Mapping[Kind, Callable[[Stage, Fault], Awaitable[None]]] = {
    Kind.KAFKA_STOP: stop,
    Kind.KAFKA_PAUSE: pause,
}
