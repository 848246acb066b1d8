"""What happens when the group moves partitions: the running batch ends before they are given up."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

import structlog
from aiokafka import ConsumerRebalanceListener, TopicPartition

from service.ingest.breaker import BreakerLimits
from service.ingest.client import Consumer
from service.ingest.tenure import Tenure
from service.observe.events import Event
from service.observe.metrics import IngestMetrics
from service.store.offsets import Partition

log = structlog.get_logger(__name__)


class Rebalances(ConsumerRebalanceListener):
    """Keeps the present tenure. Nothing it awaits depends on the loop that polls.

    aiokafka only logs what a listener raises, so nothing here may fail for a reason that matters.
    """

    def __init__(
        self,
        consumer: Consumer,
        *,
        limits: BreakerLimits,
        clock: Callable[[], float],
        idle: asyncio.Event,
        wait_seconds: float,
        metrics: IngestMetrics,
    ) -> None:
        self.tenure: Tenure | None = None
        self.before_release: Callable[[Tenure], Awaitable[None]] | None = None
        self._consumer = consumer
        self._limits = limits
        self._clock = clock
        self._idle = idle
        self._wait_seconds = wait_seconds
        self._metrics = metrics

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """Let the batch that is being written finish, as long as the rebalance allows.

        Past that it is fenced: the next owner moves the offset on, and the late commit fails.
        """
        tenure, self.tenure = self.tenure, None
        if tenure is None:
            return
        tenure.over.set()
        self._metrics.rebalances.inc()
        self._metrics.partitions_assigned.set(0)
        finished = await self._until_idle()
        if finished and self.before_release is not None:
            await self.before_release(tenure)
        for partition in tenure.tracks:
            self._metrics.forget_partition(*partition)
        log.info(Event.PARTITIONS_REVOKED, partitions=len(list(revoked)), finished=finished)

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Begin a tenure, paused: where each partition is read on is the database's to say."""
        partitions = [Partition(each.topic, each.partition) for each in assigned]
        self._consumer.pause(*(TopicPartition(*each) for each in partitions))
        self.tenure = Tenure(partitions, limits=self._limits, clock=self._clock)
        self._metrics.rebalances.inc()
        self._metrics.partitions_assigned.set(len(partitions))
        log.info(Event.PARTITIONS_ASSIGNED, partitions=len(partitions))

    async def _until_idle(self) -> bool:
        try:
            async with asyncio.timeout(self._wait_seconds):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True
