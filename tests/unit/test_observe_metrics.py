import re

import pytest
from prometheus_client import generate_latest

from service.observe.metrics import Metrics

NAME = re.compile(r"reconciler_[a-z]+(_[a-z]+)*")
WATCHED = [
    "reconciler_events_total",
    "reconciler_batch_seconds_bucket",
    "reconciler_batch_events_sum",
    "reconciler_dead_letters_total",
    "reconciler_tombstones_total",
    "reconciler_key_absent_total",
    "reconciler_records_ignored_total",
    "reconciler_consumer_lag",
    "reconciler_jobs_total",
    "reconciler_jobs_claimed_total",
    "reconciler_leases_lost_total",
    "reconciler_lease_expired_oldest_seconds",
    "reconciler_heals_total",
    "reconciler_psp_requests_total",
    "reconciler_psp_request_seconds_count",
    "reconciler_breaker_open",
    "reconciler_payments_pending_oldest_seconds",
    "reconciler_discrepancies_open",
    "reconciler_dead_letters_parked",
    "reconciler_outbox_unpublished",
    "reconciler_outbox_published_total",
    "reconciler_event_loop_lag_seconds",
    "reconciler_restarts_total",
    "reconciler_counter_reset_suspected",
    "reconciler_commit_failures_total",
]


def exposed(metrics: Metrics) -> str:
    return generate_latest(metrics.registry).decode()


def test_every_name_has_the_prefix_and_base_units() -> None:
    names = Metrics("1.0").names()

    assert all(NAME.fullmatch(name) for name in names)
    assert not [name for name in names if re.search(r"_(ms|milliseconds|minutes|kb)(_|$)", name)]


@pytest.mark.parametrize("name", WATCHED)
def test_names_that_alerts_rely_on_are_in_the_list(name: str) -> None:
    assert name in Metrics("1.0").names()


def test_no_label_is_an_id() -> None:
    labels = {
        label
        for metric in Metrics("1.0").registry._names_to_collectors.values()
        for label in getattr(metric, "_labelnames", ())
    }

    assert labels <= {
        *("source", "outcome", "reason", "topic", "partition", "result", "provider"),
        *("kind", "version", "name", "state"),
    }


def test_two_processes_parts_share_no_number() -> None:
    first, second = Metrics("1.0"), Metrics("1.0")
    first.jobs.heals.inc()

    assert "reconciler_heals_total 1.0" in exposed(first)
    assert "reconciler_heals_total 0.0" in exposed(second)


def test_outcomes_are_zero_before_they_first_happen() -> None:
    text = exposed(Metrics("1.0"))

    assert 'reconciler_events_total{outcome="conflict",source="psp"} 0.0' in text
    assert 'reconciler_jobs_total{outcome="dead"} 0.0' in text
    assert "_created" not in text


def test_the_lag_of_a_revoked_partition_goes_away() -> None:
    metrics = Metrics("1.0")
    for partition in ("0", "1"):
        metrics.ingest.consumer_lag.labels(topic="erp.payments", partition=partition).set(5)
    metrics.ingest.forget_partition("erp.payments", 0)
    metrics.ingest.forget_partition("psp.payments", 0)

    assert 'partition="0"' not in exposed(metrics)
    assert 'partition="1"' in exposed(metrics)
