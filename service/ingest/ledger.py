"""Tells metrics and logs what became of a batch, once it is in the database."""

import time
from collections import Counter
from collections.abc import Sequence

import structlog

from service.ingest.apply import Applied
from service.ingest.batch import Batch, Item, Refusal
from service.ingest.reset_watch import ResetLimits, ResetWatch
from service.ingest.writer import Landed
from service.observe.events import Event
from service.observe.metrics import SOURCES, IngestMetrics

log = structlog.get_logger(__name__)


class Ledger:
    """Counts what has landed; nothing is counted for a batch that rolled back."""

    def __init__(self, metrics: IngestMetrics, limits: ResetLimits) -> None:
        self._metrics = metrics
        self._watches = {source: ResetWatch(limits) for source in SOURCES}
        self._suspected: frozenset[str] = frozenset()

    def landed(self, batch: Batch, landed: Landed) -> None:
        """Take in one batch."""
        metrics = self._metrics
        metrics.batch_seconds.observe(landed.seconds)
        metrics.batch_events.observe(len(batch.items))
        if batch.tombstones:
            metrics.tombstones.inc(batch.tombstones)
        if batch.keys_absent:
            metrics.key_absent.inc(batch.keys_absent)
        for reason, number in batch.ignored.items():
            metrics.ignored.labels(reason=reason).inc(number)
        for applied in landed.parts:
            self._count(applied)
            _log_refused(applied.refused)
        self._look_for_reset(landed.parts)

    def resets_suspected(self) -> frozenset[str]:
        """The sources whose version counter seems to have restarted."""
        now = time.monotonic()
        suspected = frozenset(
            source for source, watch in self._watches.items() if watch.suspected(now)
        )
        for source in SOURCES:
            self._metrics.counter_reset_suspected.labels(source=source).set(source in suspected)
        for source in sorted(suspected - self._suspected):
            log.error(Event.COUNTER_RESET_SUSPECTED, source=source)
        self._suspected = suspected
        return suspected

    def _count(self, applied: Applied) -> None:
        for (source, outcome), number in applied.counts.items():
            self._metrics.events.labels(source=source, outcome=outcome).inc(number)
        for reason, number in Counter(applied.reasons).items():
            self._metrics.dead_letters.labels(reason=reason).inc(number)

    def _look_for_reset(self, parts: Sequence[Applied]) -> None:
        now = time.monotonic()
        for source, watch in self._watches.items():
            events = sum(
                number
                for applied in parts
                for (of, _), number in applied.counts.items()
                if of == source
            )
            stale = [key for applied in parts for of, key in applied.stale_later if of == source]
            if events:
                watch.observe(events=events, stale_later=stale, now=now)


def _log_refused(refused: Sequence[Item]) -> None:
    for item in refused:
        if isinstance(item.content, Refusal):
            log.warning(
                Event.RECORD_QUARANTINED,
                topic=item.record.topic,
                partition=item.record.partition,
                offset=item.record.offset,
                reason=item.content.reason,
                error=item.content.error,
                payment_id=item.content.payment_id,
            )
