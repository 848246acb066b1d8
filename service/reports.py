"""From what the parts say of themselves to health checks, gauges and counters.

Each function gives a report: what to call once a second. A report asks nobody and cannot wait.
"""

from prometheus_client import Counter

from service.ingest.consumer import Ingest
from service.ingest.status import PartitionStatus
from service.observe.metrics import Metrics
from service.outbox.relay import RelayActivity
from service.psp.breaker import CircuitBreaker
from service.reconcile.activity import Activity
from service.web.checks import Status
from service.web.parts import Report, age_check
from service.web.snapshot import Check

PROVIDER = "default"
_STALLED_SECONDS = 120


class _Following:
    """A counter that follows a running total kept elsewhere."""

    def __init__(self, counter: Counter) -> None:
        self._counter = counter
        self._counted = 0

    def to(self, total: int) -> None:
        self._counter.inc(total - self._counted)
        self._counted = total


def ingest_report(ingest: Ingest, metrics: Metrics) -> Report:
    """Connection, assignment, and a row of lag a partition; a replica without any is well."""
    lost = _Following(metrics.ingest.records_lost)

    def report() -> list[Check]:
        status = ingest.status()
        partitions = status.partitions
        lost.to(status.records_lost)
        connected = Status.PASS if status.kafka_connected else Status.WARN
        said = None if status.kafka_connected else "no broker answers"
        reset = Status.WARN if status.resets_suspected else Status.PASS
        suspicion = "a source seems to have restarted its versions" if reset else None
        metrics.ingest.partitions_assigned.set(len(partitions))
        metrics.ingest.partitions_paused.set(sum(each.paused is not None for each in partitions))
        assigned = Check(
            "kafka", "assignment", reset, len(partitions), "partitions", output=suspicion
        )
        connection = Check("kafka", "connection", connected, output=said)
        return [connection, assigned, *(_lag(each) for each in partitions)]

    return report


def relay_report(activity: RelayActivity, metrics: Metrics) -> Report:
    """Numbers alone: how much waits in the outbox is sampled from the database."""
    published = _Following(metrics.outbox.published)
    failures = _Following(metrics.outbox.failures)

    def report() -> list[Check]:
        metrics.outbox.leading.set(activity.leading)
        published.to(activity.published)
        failures.to(activity.failures)
        return []

    return report


def healing_report(
    activity: Activity,
    breaker: CircuitBreaker,
    metrics: Metrics,
    *,
    ttl_seconds: float,
    shadow: bool = False,
) -> Report:
    """Slots in use, age of the heartbeat, state of the PSP's breaker; `shadow` by this process's
    own settings.
    """
    claimed = _Following(metrics.jobs.jobs_claimed)
    scheduled = _Following(metrics.jobs.jobs_scheduled)
    deferred = _Following(metrics.jobs.heals_deferred.labels(reason="paused_or_capped"))

    def report() -> list[Check]:
        is_open = breaker.state == "open"
        claimed.to(activity.claimed)
        scheduled.to(activity.scheduled)
        deferred.to(activity.heals_deferred)
        metrics.psp.breaker_open.labels(provider=PROVIDER).set(is_open)
        metrics.jobs.jobs_running.set(activity.slots_used)
        workers = Check(
            "lease",
            "workers",
            Status.WARN if is_open else Status.PASS,
            activity.slots_used,
            f"of {activity.slots} slots",
            output=_said_of_workers(breaker_open=is_open, shadow=shadow),
        )
        beat = age_check(
            "lease",
            "heartbeatAge",
            activity.heartbeat_at,
            warn_seconds=ttl_seconds / 2,
            fail_seconds=ttl_seconds,
        )
        if beat.observed_value is not None:
            metrics.jobs.heartbeat_age.set(float(beat.observed_value))
        return [workers, beat]

    return report


def _said_of_workers(*, breaker_open: bool, shadow: bool) -> str | None:
    if breaker_open:
        return "the PSP does not answer; its jobs wait"
    return "this process is set to shadow mode: payments stay as they are" if shadow else None


def watcher_report(activity: Activity, metrics: Metrics, *, interval_seconds: float) -> Report:
    """When the watcher last finished a round."""
    good = _Following(metrics.jobs.watcher_rounds.labels(result="ok"))
    failed = _Following(metrics.jobs.watcher_rounds.labels(result="failed"))

    def report() -> list[Check]:
        good.to(activity.watcher_rounds)
        failed.to(activity.watcher_failures)
        metrics.jobs.lease_expired_oldest.set(activity.oldest_expired_seconds)
        warn_seconds = 3 * interval_seconds
        return [
            age_check("watcher", "lastSuccessAge", activity.watcher_at, warn_seconds=warn_seconds)
        ]

    return report


def _lag(partition: PartitionStatus) -> Check:
    stalled = bool(partition.lag) and partition.seconds_since_progress > _STALLED_SECONDS
    warn = partition.paused == "breaker" or stalled
    said = {
        "breaker": "stopped: too many bad records in a row",
        "database": "paused until the database answers",
        "placing": "its position is being read",
    }.get(partition.paused or "")
    return Check(
        "kafka",
        "lag",
        Status.WARN if warn else Status.PASS,
        partition.lag,
        "records",
        output="no progress lately" if stalled and said is None else said,
        part=f"{partition.topic}/{partition.number}",
    )
