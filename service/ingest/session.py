"""One consumer's life, from its start to its stop.

Two coroutines and a queue of one: while the database works on a batch, the next is fetched and
decoded. A third watches the broker.
"""

import asyncio
import time

import structlog
from aiokafka.errors import KafkaError

from service.errors import OffsetFenced
from service.ingest.batch import Batch
from service.ingest.client import Consumer, stop_consumer
from service.ingest.fetcher import Fetcher, Handed
from service.ingest.ledger import Ledger
from service.ingest.options import IngestOptions, KafkaOptions
from service.ingest.rebalance import Rebalances
from service.ingest.tenure import Tenure
from service.ingest.watch import Watch
from service.ingest.writer import Writer
from service.observe.events import Event
from service.observe.metrics import IngestMetrics

log = structlog.get_logger(__name__)

FENCED_MAX = 3
"""So many fenced batches in a row, with none stored between: begin with a new consumer."""


class FencedTooOften(KafkaError):  # noqa: N818 - named after what happened
    """This consumer's view of its positions does not heal by itself."""


class Session:
    """A consumer and the coroutines around it."""

    def __init__(
        self,
        consumer: Consumer,
        *,
        writer: Writer,
        ledger: Ledger,
        kafka: KafkaOptions,
        options: IngestOptions,
        metrics: IngestMetrics,
    ) -> None:
        self._consumer = consumer
        self._writer = writer
        self._ledger = ledger
        self._options = options
        self._metrics = metrics
        self._topics = kafka.topics
        self._fenced = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._queue: asyncio.Queue[Handed | None] = asyncio.Queue(maxsize=1)
        self.progressed = False
        wait_seconds = kafka.rebalance_timeout_seconds - options.revocation_margin_seconds
        self.rebalances = Rebalances(
            consumer,
            limits=options.breaker,
            clock=time.monotonic,
            idle=self._idle,
            wait_seconds=max(1.0, wait_seconds),
            metrics=metrics,
        )
        self.fetcher = Fetcher(
            consumer,
            rebalances=self.rebalances,
            queue=self._queue,
            writer=writer,
            options=options,
        )
        self.watch = Watch(
            consumer,
            rebalances=self.rebalances,
            fetcher=self.fetcher,
            ledger=ledger,
            writer=writer,
            options=options,
            metrics=metrics,
        )
        self.rebalances.before_release = self.watch.commit

    async def run(self, stop: asyncio.Event) -> None:
        """Consume until `stop`, then let the running batch end and leave the group.

        Raises an ExceptionGroup of what its coroutines raised; the consumer is stopped then too.
        """
        self._consumer.subscribe(topics=self._topics, listener=self.rebalances)
        try:
            async with asyncio.TaskGroup() as group:
                fetching = group.create_task(self.fetcher.run(stop), name="ingest-fetch")
                writing = group.create_task(self._write(), name="ingest-write")
                watching = group.create_task(self.watch.run(stop), name="ingest-watch")
                await stop.wait()
                await self._drain(fetching, writing)
                await self.close()
                for task in (fetching, writing, watching):
                    task.cancel()
        finally:
            await self.close()

    async def close(self) -> None:
        """Leave the group and close, within bounds: with all brokers gone it could hang."""
        await stop_consumer(self._consumer, timeout_seconds=self._options.stop_timeout_seconds)

    async def _drain(self, fetching: "asyncio.Task[None]", writing: "asyncio.Task[None]") -> None:
        """The running batch ends; what is only queued is read again by the next owner."""
        tenure = self.rebalances.tenure
        if tenure is not None:
            tenure.over.set()
        # A poll ends by itself, unless it waits for an assignment: stopping the consumer ends that.
        await asyncio.wait({fetching}, timeout=self._options.poll_seconds + 1)
        while not self._queue.empty():
            self._queue.get_nowait()
        self._queue.put_nowait(None)
        await asyncio.wait({writing}, timeout=self._options.stop_timeout_seconds)
        if tenure is not None:
            await self.watch.commit(tenure)

    async def _write(self) -> None:
        """Write what is handed over, in order, until None comes."""
        while True:
            handed = await self._queue.get()
            self.fetcher.taken.set()
            if handed is None:
                return
            self._idle.clear()
            try:
                await self._write_one(*handed)
            finally:
                self._idle.set()

    async def _write_one(self, batch: Batch, tenure: Tenure) -> None:
        if not tenure.fits(batch):
            tenure.drop(batch)
            return
        try:
            landed = await self._writer.write(batch, give_up=tenure.over)
        except OffsetFenced as error:
            self._count_fenced(error)
            landed = None
        if landed is None:
            tenure.drop(batch)
            return
        self._fenced = 0
        self.progressed = True
        tenure.stored(batch)
        self._ledger.landed(batch, landed)

    def _count_fenced(self, error: OffsetFenced) -> None:
        self._fenced += 1
        self._metrics.offsets_fenced.inc()
        log.warning(Event.OFFSET_FENCED, in_a_row=self._fenced, error=str(error))
        if self._fenced >= FENCED_MAX:
            raise FencedTooOften(f"{self._fenced} batches in a row were fenced") from error
