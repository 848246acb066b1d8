"""Every metric of the service: the closed list that alerts and dashboards are tested against.

Prefix `reconciler_`, base units (seconds, events), never an id as a label: each label's values are
few and known. Gauges about the database are the same in every process: take `max()` over them.
Made by a factory on a registry of its own, so that tests and several apps in one process never
share a number.
"""

from collections.abc import Iterable

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)

PREFIX = "reconciler"

SOURCES = ("erp", "psp")
EVENT_OUTCOMES = ("applied", "stale", "duplicate", "conflict", "quarantined")
JOB_OUTCOMES = (
    *("healed", "consistent", "still_pending", "discrepancy", "not_found", "superseded", "shadow"),
    *("released", "expired", "lost", "failed", "dead"),
)

_BATCH_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15)
_BATCH_EVENTS = (1, 10, 50, 100, 250, 500, 1000, 2500, 5000)
_ANSWER_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20)


class Metrics:
    """All metrics of one process; pass each part its own group."""

    def __init__(self, version: str) -> None:
        # The library's only switch, process-wide: a `_created` twin of every series helps nobody.
        disable_created_metrics()  # type: ignore[no-untyped-call]  # the library leaves it untyped
        self.registry = CollectorRegistry()
        self.ingest = IngestMetrics(self.registry)
        self.jobs = JobMetrics(self.registry)
        self.psp = PspMetrics(self.registry)
        self.outbox = OutboxMetrics(self.registry)
        self.payments = PaymentMetrics(self.registry)
        self.process = ProcessMetrics(self.registry)
        self.process.build_info.labels(version=version).set(1)

    def names(self) -> frozenset[str]:
        """Every series name an alert or a dashboard may use, `_total`, `_bucket` … included."""
        suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}
        return frozenset(
            family.name + suffix
            for family in self.registry.collect()
            for suffix in suffixes.get(family.type, ("",))
        )


class IngestMetrics:
    """Kafka to payments."""

    def __init__(self, registry: CollectorRegistry) -> None:
        # What became of each event; a rise of conflict or quarantined deserves a look.
        self.events = _counter(registry, "events", "Events by source and outcome", "source outcome")
        for source in SOURCES:
            for outcome in EVENT_OUTCOMES:
                self.events.labels(source=source, outcome=outcome)
        # From the first statement of a batch's transaction to its commit.
        self.batch_seconds = _histogram(
            registry, "batch_seconds", "Time to write one batch of events", _BATCH_SECONDS
        )
        # Small batches under lag mean the broker or the decoder is the bottleneck.
        self.batch_events = _histogram(
            registry, "batch_events", "Events in one written batch", _BATCH_EVENTS
        )
        # Refused records by reason code.
        self.dead_letters = _counter(registry, "dead_letters", "Records quarantined", "reason")
        # Null values: ignored on purpose, yet a flood of them is a producer's mistake.
        self.tombstones = _counter(registry, "tombstones", "Records without a value")
        # Records of a foreign source that say nothing of payments, by reason: no dead letters.
        self.ignored = _counter(
            registry, "records_ignored", "Records that say nothing of payments", "reason"
        )
        # Records without a key are accepted, but their order is the broker's luck.
        self.key_absent = _counter(registry, "key_absent", "Records without a key")
        # End offset minus the offset stored in the database, for the partitions assigned here.
        self.consumer_lag = _gauge(
            registry, "consumer_lag", "Records not yet applied", "topic partition"
        )
        # 0 is healthy where there are more replicas than partitions.
        self.partitions_assigned = _gauge(
            registry, "partitions_assigned", "Partitions this process consumes"
        )
        # Stopped by the dead-letter limit, or until the database is back.
        self.partitions_paused = _gauge(registry, "partitions_paused", "Assigned, but not fetched")
        self.rebalances = _counter(registry, "rebalances", "Assignments and revocations")
        # Two consumers on one partition: the later batch was rolled back.
        self.offsets_fenced = _counter(registry, "offsets_fenced", "Batches fenced by the offset")
        # Kafka's copy of the offset for tools; the database's is the truth.
        self.commit_failures = _counter(registry, "commit_failures", "Failed commits to Kafka")
        # Deleted by the log's retention before they could be read: page somebody.
        self.records_lost = _counter(registry, "records_lost", "Records lost to retention")
        # 40001, 40P01, 55P03: retried with the connection kept.
        self.transaction_retries = _counter(
            registry, "transaction_retries", "Transactions tried again", "reason"
        )
        # 1 while a source seems to have restarted its version counter.
        self.counter_reset_suspected = _gauge(
            registry, "counter_reset_suspected", "Source restarted its versions", "source"
        )

    def forget_partition(self, topic: str, partition: int) -> None:
        """Drop the lag of a revoked partition: a frozen number would look like a stuck consumer."""
        self.consumer_lag.remove_by_labels({"topic": topic, "partition": str(partition)})


class JobMetrics:
    """Jobs, leases, heals."""

    def __init__(self, registry: CollectorRegistry) -> None:
        # Attempts by how they ended.
        self.jobs = _counter(registry, "jobs", "Attempts at jobs by outcome", "outcome")
        for outcome in JOB_OUTCOMES:
            self.jobs.labels(outcome=outcome)
        self.jobs_claimed = _counter(registry, "jobs_claimed", "Jobs claimed")
        self.jobs_scheduled = _counter(registry, "jobs_scheduled", "Jobs inserted")
        # Equal to the concurrency for long: more replicas or slots are needed.
        self.jobs_running = _gauge(registry, "jobs_running", "Jobs this process holds")
        # Due, not claimed: the age of the queue.
        self.jobs_due_oldest = _gauge(
            registry, "jobs_due_oldest_seconds", "Age of the oldest due pending job"
        )
        # Each is a worker that was paused, partitioned or too slow.
        self.leases_lost = _counter(registry, "leases_lost", "Leases lost to expiry")
        # Above TTL + watcher interval: no watcher runs anywhere.
        self.lease_expired_oldest = _gauge(
            registry, "lease_expired_oldest_seconds", "Age of the oldest expired lease"
        )
        # Near the TTL: leases are about to be lost.
        self.heartbeat_age = _gauge(
            registry, "heartbeat_age_seconds", "Time since the last good heartbeat round"
        )
        self.watcher_rounds = _counter(registry, "watcher_rounds", "Watcher rounds", "result")
        # Payments that succeeded at the PSP and had been missed here.
        self.heals = _counter(registry, "heals", "Payments healed")
        # Paused, capped, in shadow mode, or waiting for the initial lag.
        self.heals_deferred = _counter(registry, "heals_deferred", "Heals not done", "reason")


class PspMetrics:
    """Questions to the provider; `provider` is the account, of which there are few."""

    def __init__(self, registry: CollectorRegistry) -> None:
        # answered, not_found, or the reason why there was no answer.
        self.requests = _counter(
            registry, "psp_requests", "Questions asked by result", "provider result"
        )
        # One question with all its tries.
        self.request_seconds = _histogram(
            registry, "psp_request_seconds", "Time to an answer", _ANSWER_SECONDS, "provider"
        )
        # 1 while the account is left alone.
        self.breaker_open = _gauge(registry, "breaker_open", "Breaker is open", "provider")


class OutboxMetrics:
    """Outcomes and dead letters on their way out."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.unpublished = _gauge(registry, "outbox_unpublished", "Outbox rows not yet published")
        # The delay that consumers of outcomes see.
        self.oldest = _gauge(
            registry, "outbox_oldest_seconds", "Age of the oldest unpublished outbox row"
        )
        self.published = _counter(registry, "outbox_published", "Outbox rows published")
        self.failures = _counter(registry, "outbox_publish_failures", "Failed publish rounds")
        # Exactly one process of all should say 1.
        self.leading = _gauge(registry, "outbox_leading", "This process relays the outbox")


class PaymentMetrics:
    """What the database holds; sampled."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.pending_oldest = _gauge(
            registry, "payments_pending_oldest_seconds", "Age of the oldest pending payment"
        )
        self.pending = _gauge(registry, "payments_pending", "Payments pending")
        # Each open one is for a person.
        self.discrepancies_open = _gauge(
            registry, "discrepancies_open", "Open discrepancies", "kind"
        )
        self.dead_letters_parked = _gauge(
            registry, "dead_letters_parked", "Dead letters neither replayed nor discarded"
        )
        # 1 while an operator has paused healing for all processes.
        self.healing_paused = _gauge(registry, "healing_paused", "Healing is paused")
        # 1 while an operator has set shadow mode for all processes: heals are only logged.
        self.healing_shadow = _gauge(registry, "healing_shadow", "Healing is in shadow mode")
        # Of all processes; 0 for long means the cap is too low, NaN that none was taken yet.
        self.heals_left = _gauge(registry, "heals_left", "Heals left in this minute")


class ProcessMetrics:
    """The process itself, with the library's CPU, memory and file descriptors."""

    def __init__(self, registry: CollectorRegistry) -> None:
        ProcessCollector(namespace=PREFIX, registry=registry)
        self.build_info = _gauge(registry, "build_info", "Always 1", "version")
        # Time a due callback waited; high values mean blocking code or too little CPU.
        self.event_loop_lag = _gauge(registry, "event_loop_lag_seconds", "Lag of the event loop")
        # Of supervised coroutines.
        self.restarts = _counter(registry, "restarts", "Restarts of a part", "name")
        # 0: the health body says why.
        self.ready = _gauge(registry, "ready", "Readiness would pass now")
        # Round trip of the sampler's SELECT.
        self.database_response = _gauge(
            registry, "database_response_seconds", "Round trip to PostgreSQL"
        )
        self.pool_connections = _gauge(registry, "pool_connections", "Connections", "state")
        self.sampler_failures = _counter(
            registry, "sampler_failures", "Samples that could not be taken", "name"
        )


def _counter(registry: CollectorRegistry, name: str, text: str, labels: str = "") -> Counter:
    return Counter(name, text, labels.split(), namespace=PREFIX, registry=registry)


def _gauge(registry: CollectorRegistry, name: str, text: str, labels: str = "") -> Gauge:
    return Gauge(name, text, labels.split(), namespace=PREFIX, registry=registry)


def _histogram(
    registry: CollectorRegistry, name: str, text: str, buckets: Iterable[float], labels: str = ""
) -> Histogram:
    return Histogram(
        name, text, labels.split(), buckets=tuple(buckets), namespace=PREFIX, registry=registry
    )
