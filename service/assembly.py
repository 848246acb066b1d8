"""Settings to the terms of each part: every number that a part is built with comes from here."""

from pathlib import PurePath

from service.connections import kafka_connection, psp_exponents
from service.decoders import sources_of
from service.domain.schedule import Rules
from service.ingest.apply import ApplyOptions
from service.ingest.options import IngestOptions, KafkaOptions
from service.outbox.relay import RelayTerms
from service.reconcile.group import SettleTerms
from service.reconcile.job import AskTerms
from service.reconcile.lease import LeaseTerms
from service.reconcile.scheduler import SchedulerTerms
from service.reconcile.sweep_terms import SweeperTerms
from service.reconcile.watcher import WatcherTerms
from service.reconcile.worker import WorkerTerms
from service.settings import Settings

_MARGIN_SHARE_OF_TTL = 1 / 12
_STATEMENT_SHARE_OF_TTL = 1 / 4
_ASK_GRACE_SECONDS = 5


def rules_of(settings: Settings) -> Rules:
    """The times of the payment rules."""
    reconcile = settings.reconcile
    return Rules(
        pending_after_seconds=reconcile.pending_after_seconds,
        poll_plan_seconds=tuple(float(step) for step in reconcile.poll_plan_seconds),
        not_found_grace_seconds=reconcile.not_found_grace_seconds,
        poll_plans={
            key: tuple(float(step) for step in plan) for key, plan in reconcile.poll_plans.items()
        },
    )


def kafka_options(settings: Settings) -> KafkaOptions:
    """The consumer group and what it reads."""
    kafka = settings.kafka
    connection = kafka_connection(kafka)
    return KafkaOptions(
        bootstrap_servers=connection.pop("bootstrap_servers"),
        group_id=kafka.group_id,
        topics=(kafka.erp_topic, kafka.psp_topic),
        connection=connection,
        session_timeout_seconds=kafka.session_timeout_seconds,
        rebalance_timeout_seconds=kafka.rebalance_timeout_seconds,
    )


def ingest_options(settings: Settings) -> IngestOptions:
    """How batches are read and written."""
    kafka = settings.kafka
    return IngestOptions(
        apply=ApplyOptions(
            group=kafka.group_id,
            outcome_topic=kafka.outcome_topic,
            dead_letter_topic=kafka.dead_letter_topic,
            rules=rules_of(settings),
        ),
        exponents=psp_exponents(settings.psp),
        sources=sources_of(settings),
        batch_records_max=kafka.batch_max,
        poll_seconds=kafka.poll_seconds,
    )


def relay_terms(settings: Settings, owner: str) -> RelayTerms:
    """For whom the outbox is relayed, and over which connection."""
    return RelayTerms(owner=owner, connection=kafka_connection(settings.kafka))


def lease_terms(settings: Settings, owner: str) -> LeaseTerms:
    """For whom and how long jobs are leased."""
    ttl = settings.lease.ttl_seconds
    return LeaseTerms(
        owner=owner,
        ttl_seconds=ttl,
        heartbeat_seconds=settings.lease.heartbeat_seconds,
        margin_seconds=ttl * _MARGIN_SHARE_OF_TTL,
        statement_seconds=ttl * _STATEMENT_SHARE_OF_TTL,
    )


def worker_terms(settings: Settings, owner: str) -> WorkerTerms:
    """How many jobs at once, and how they end."""
    lease = settings.lease
    return WorkerTerms(
        lease=lease_terms(settings, owner),
        settle=SettleTerms(
            outcome_topic=settings.kafka.outcome_topic,
            rules=rules_of(settings),
            mode=settings.reconcile.mode,
            heals_per_minute=settings.reconcile.heals_per_minute_max,
        ),
        ask=AskTerms(
            asks_max=settings.reconcile.asks_max,
            ask_seconds_max=settings.psp.budget_seconds + _ASK_GRACE_SECONDS,
            backoff_max_seconds=lease.backoff_max_seconds,
        ),
        concurrency=lease.concurrency,
        poll_seconds=lease.claim_poll_seconds,
        drain_seconds=lease.drain_seconds,
    )


def scheduler_terms(settings: Settings) -> SchedulerTerms:
    """How due payments become jobs."""
    return SchedulerTerms(
        consumer_group=settings.kafka.group_id,
        interval_seconds=settings.reconcile.schedule_seconds,
        attempts_max=settings.lease.attempts_max,
    )


def sweeper_terms(settings: Settings, owner: str) -> SweeperTerms:
    """How long each source may take before a case is opened."""
    reconcile = settings.reconcile
    return SweeperTerms(
        actor=owner,
        consumer_group=settings.kafka.group_id,
        outcome_topic=settings.kafka.outcome_topic,
        rules=rules_of(settings),
        interval_seconds=reconcile.sweep_seconds,
        missing_at_erp_after_seconds=reconcile.missing_at_erp_after_seconds,
        erp_settle_seconds=reconcile.erp_settle_seconds,
    )


def watcher_terms(settings: Settings, owner: str) -> WatcherTerms:
    """How abandoned jobs are found, and what is written when one dies."""
    return WatcherTerms(
        actor=owner,
        outcome_topic=settings.kafka.outcome_topic,
        rules=rules_of(settings),
        interval_seconds=settings.watcher.interval_seconds,
    )


def application_name(owner: str) -> str:
    """What pg_stat_activity shows: the process, without the part that makes its leases unique."""
    return f"payment-reconciler {PurePath(owner).parent}"[:63]
