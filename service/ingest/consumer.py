"""Ingest as the rest of the service sees it: run it, ask how it is doing."""

import asyncio
import random
import time
from typing import Any

import structlog
from aiokafka.errors import KafkaError

from service.diagnosis.kafka import broker_trouble
from service.errors import SupervisionError
from service.ingest.client import consumer_of
from service.ingest.ledger import Ledger
from service.ingest.options import IngestOptions, KafkaOptions
from service.ingest.session import Session
from service.ingest.status import IngestStatus, PartitionStatus
from service.ingest.watch import Stalled, lag_of
from service.ingest.writer import Writer
from service.lifecycle import wait_for_stop
from service.observe.events import Event
from service.observe.metrics import IngestMetrics
from service.store.faults import Reaction

log = structlog.get_logger(__name__)

START_TIMEOUT_SECONDS = 30
STALLS_MAX = 1
"""A consumer that stopped to fetch is rebuilt so often; stalls between which records came do not
add up. One more, and the process ends: a new one begins without whatever state is left here."""


class Ingest:
    """Consumes the source topics into the database, over as many consumers as it takes."""

    def __init__(
        self, pool: Any, *, kafka: KafkaOptions, options: IngestOptions, metrics: IngestMetrics
    ) -> None:
        self._kafka = kafka
        self._options = options
        self._metrics = metrics
        self._ledger = Ledger(metrics, options.reset)
        self._writer = Writer(
            pool,
            options.apply,
            acquire_timeout_seconds=options.acquire_timeout_seconds,
            backoff_max_seconds=options.backoff_max_seconds,
            on_retry=self._count_retry,
        )
        self._session: Session | None = None
        self._rebuilds = 0
        self._records_lost = 0

    async def run(self, stop: asyncio.Event) -> None:
        """Consume until `stop`. A broker that is away is waited for without limit.

        Raises TopicRecreated (a person decides where to read on), SupervisionError (the rebuilt
        consumer stalled too), and the database's error if our own statement is wrong.
        """
        failures = stalls = 0
        while not stop.is_set():
            error = await self._one_session(stop)
            if error is None:
                return
            if not isinstance(error, KafkaError | TimeoutError | OSError):
                raise error
            if self._session is not None and self._session.progressed:
                failures = stalls = 0
            failures += 1
            stalls += isinstance(error, Stalled)
            if stalls > STALLS_MAX:
                raise SupervisionError("fetching stalled again with a new consumer") from error
            self._rebuilds += 1
            log.warning(Event.BROKER_LOST, error=await self._told(error), attempt=failures)
            ceiling = min(self._options.backoff_max_seconds, 0.5 * 2 ** min(failures, 10))
            await wait_for_stop(stop, random.uniform(ceiling / 2, ceiling))  # noqa: S311 - jitter

    def status(self) -> IngestStatus:
        """How it is doing now; asks nobody."""
        session = self._session
        tenure = session.rebalances.tenure if session else None
        now = time.monotonic()
        partitions = tuple(
            PartitionStatus(
                topic=track.partition.topic,
                number=track.partition.number,
                next_offset=track.stored if track.known else None,
                end_offset=track.end,
                lag=lag_of(track),
                paused=session.fetcher.paused_because(track) if session else None,
                seconds_since_progress=now - track.progress_at,
                caught_up=track.caught_up,
            )
            for track in (tenure.tracks.values() if tenure else ())
        )
        return IngestStatus(
            kafka_connected=session is not None and session.watch.connected,
            database_available=self._writer.available,
            partitions=partitions,
            resets_suspected=self._ledger.resets_suspected(),
            rebuilds=self._rebuilds,
            seconds_since_poll=now - session.fetcher.polled_at if session else 0.0,
            records_lost=self._records_lost + (session.fetcher.records_lost if session else 0),
        )

    async def _one_session(self, stop: asyncio.Event) -> Exception | None:
        """Build a consumer and use it until `stop`; the error that ended it, if one did."""
        self._end_session()
        consumer = consumer_of(self._kafka)
        session = Session(
            consumer,
            writer=self._writer,
            ledger=self._ledger,
            kafka=self._kafka,
            options=self._options,
            metrics=self._metrics,
        )
        try:
            async with asyncio.timeout(START_TIMEOUT_SECONDS):
                await consumer.start()
        except (KafkaError, TimeoutError, OSError) as error:
            await session.close()
            return error
        self._session = session
        log.info(Event.BROKER_CONNECTED, topics=list(self._kafka.topics))
        try:
            await session.run(stop)
        except ExceptionGroup as group:
            return _first(group)
        return None

    async def _told(self, error: Exception) -> str:
        """An error by its name, or, where no consumer could start, why and the setting to see."""
        if self._session is not None:
            return type(error).__name__
        servers = self._kafka.bootstrap_servers
        return await broker_trouble({"bootstrap_servers": servers, **self._kafka.connection}, error)

    def _end_session(self) -> None:
        if self._session is not None:
            self._records_lost += self._session.fetcher.records_lost
        self._session = None

    def _count_retry(self, wanted: Reaction) -> None:
        self._metrics.transaction_retries.labels(reason=wanted.value).inc()


def _first(group: ExceptionGroup[Exception]) -> Exception:
    """What happened first; the others are its consequence."""
    error: Exception = group
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error
