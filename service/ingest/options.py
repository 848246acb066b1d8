"""What ingest is built with: plain values, no settings object."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from schemas.currency import Exponents
from schemas.fields import NO_EXCEPTIONS
from service.ingest.apply import ApplyOptions
from service.ingest.breaker import BreakerLimits
from service.ingest.decode import Source
from service.ingest.reset_watch import ResetLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaOptions:
    """The broker and the group. `connection` goes to aiokafka as it is: security_protocol,
    ssl_context, the sasl_ names.
    """

    bootstrap_servers: str
    group_id: str
    topics: tuple[str, ...]
    client_id: str = "payment-reconciler"
    connection: Mapping[str, Any] = field(default_factory=dict)
    session_timeout_seconds: float = 30
    heartbeat_seconds: float = 3
    rebalance_timeout_seconds: float = 60
    poll_interval_max_seconds: float = 300
    request_timeout_seconds: float = 40
    metadata_age_max_seconds: float = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestOptions:
    """How much at once, and how long to wait for what.

    `sources` tells by topic how records are read that are not of the own contract.
    `revocation_margin_seconds` is kept free of the rebalance time-out. A partition with records
    to fetch that yields none for `stall_seconds` has its consumer rebuilt.
    """

    apply: ApplyOptions
    exponents: Exponents = field(default_factory=lambda: NO_EXCEPTIONS)
    sources: Mapping[str, Source] = field(default_factory=dict)
    breaker: BreakerLimits = field(default_factory=BreakerLimits)
    reset: ResetLimits = field(default_factory=ResetLimits)
    batch_records_max: int = 1_000
    poll_seconds: float = 0.5
    sample_seconds: float = 5
    commit_seconds: float = 1
    kafka_timeout_seconds: float = 10
    acquire_timeout_seconds: float = 10
    backoff_max_seconds: float = 10
    revocation_margin_seconds: float = 5
    stall_seconds: float = 120
    stop_timeout_seconds: float = 10
