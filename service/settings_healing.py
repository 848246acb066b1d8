"""Settings of jobs, leases, the watcher, the rules of healing, and the questions to the PSP."""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_settings import NoDecode

from service.errors import ConfigurationError
from service.settings_fields import Group, LongSeconds, Path, Seconds, missing

BASE_URL_ALLOWED = "http://host or https://host, with an optional path"
OBJECT_ALLOWED = "a JSON object, each name once"

PollStep = Annotated[int, Field(ge=1, le=30 * 86_400)]
Account = Annotated[str, Field(min_length=1, max_length=256)]


def _listed(value: object) -> object:
    """Take `60,300` and `[60, 300]` alike."""
    if not isinstance(value, str):
        return value
    return [step.strip() for step in value.strip().removeprefix("[").removesuffix("]").split(",")]


def _object(value: object) -> object:
    """Take a JSON object in which no name stands twice: one of the two would be lost silently."""
    if not isinstance(value, str):
        return value
    try:
        named = json.loads(value, object_pairs_hook=_once)
    except (ValueError, RecursionError):
        named = None
    if not isinstance(named, dict):
        raise ValueError(OBJECT_ALLOWED)  # noqa: TRY004 - pydantic takes no TypeError
    return named


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    named = dict(pairs)
    if len(named) < len(pairs):
        raise ValueError(OBJECT_ALLOWED)
    return named


def _http(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        # The library's text repeats the URL, password included.
        raise ValueError(BASE_URL_ALLOWED) from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(BASE_URL_ALLOWED)
    if parts.query or parts.fragment:
        raise ValueError(f"{BASE_URL_ALLOWED}, without a query")
    return url.rstrip("/")


class LeaseSettings(Group):
    """One owner a job: how long it is trusted, and how many jobs a process holds."""

    ttl_seconds: Seconds = 60.0
    heartbeat_seconds: Seconds = 15.0
    claim_poll_seconds: Seconds = 1.0
    # Jobs that one process works on at the same time.
    concurrency: int = Field(default=20, ge=1, le=1000)
    # Claims that ended in a crash or a lost lease; one more makes the job dead.
    attempts_max: int = Field(default=8, ge=1, le=100)
    # Ceiling of the backoff of a released job.
    backoff_max_seconds: Seconds = 300.0
    # From the first signal until what is left is released.
    drain_seconds: Seconds = 20.0


class WatcherSettings(Group):
    """The round that returns expired leases."""

    interval_seconds: Seconds = 30.0


class ReconcileSettings(Group):
    """When a payment is asked about, and what may be done with the answer."""

    # Age of a pending payment at its first check.
    pending_after_seconds: LongSeconds = 300.0
    schedule_seconds: Seconds = 10.0
    # Between two looks at what waits too long for the ERP, and at orders paid twice.
    sweep_seconds: Seconds = 60.0
    # shadow: log what would have been done, change nothing.
    mode: Literal["enforce", "shadow"] = "enforce"
    # Over all processes.
    heals_per_minute_max: int = Field(default=60_000, ge=1, le=10_000_000)
    # Pauses between checks while the PSP says pending; after the last one, daily.
    poll_plan_seconds: Annotated[
        tuple[PollStep, ...],
        NoDecode,
        BeforeValidator(_listed),
        Field(min_length=1, max_length=50),
    ] = (60, 300, 900, 3_600, 21_600, 86_400)
    # Other plans: {"account": [60, 300], "account/method": [5, 60]}.
    poll_plans: Annotated[
        Mapping[
            Annotated[str, Field(min_length=1, max_length=513)],
            Annotated[tuple[PollStep, ...], Field(min_length=1, max_length=50)],
        ],
        NoDecode,
        BeforeValidator(_object),
    ] = {}
    # Between the two answers that make a payment missing at the PSP.
    not_found_grace_seconds: LongSeconds = 600.0
    missing_at_erp_after_seconds: LongSeconds = 3_600.0
    erp_settle_seconds: LongSeconds = 86_400.0
    # Questions of one attempt while the payment keeps moving.
    asks_max: int = Field(default=3, ge=1, le=10)


class PspSettings(Group):
    """The HTTP port of a payment service provider."""

    # generic: our own plain HTTP contract. stripe: Stripe's API.
    adapter: Literal["generic", "stripe"] = "generic"
    # The account's name in events, for a provider that does not say it (stripe).
    account: Account = "stripe"
    # Needed by `run` with workers, and by `explain --check-now`.
    base_url: Annotated[str, AfterValidator(_http)] | None = None
    # One try.
    timeout_seconds: Seconds = 5.0
    # All tries of one question, pauses included.
    budget_seconds: Seconds = 20.0
    # Bearer token, read anew when it changes; not set: no token is sent.
    token_file: Path | None = None
    # {"account": {"ISK": 2}}: digits of the minor unit where an account departs from ISO 4217.
    exponents: Annotated[
        Mapping[
            Account,
            Mapping[
                Annotated[str, Field(pattern="^[A-Z]{3}$")],
                Annotated[int, Field(strict=True, ge=0, le=18)],
            ],
        ],
        NoDecode,
        BeforeValidator(_object),
    ] = {}
    # Of this process: the account's limit divided by the replicas. Not set: no limit of our own.
    rate_per_second: Annotated[float, Field(gt=0, le=1_000_000, allow_inf_nan=False)] | None = None
    # Failures in a row that open the breaker, and how long it stays open.
    breaker_failures: int = Field(default=5, ge=1, le=1000)
    breaker_open_seconds: Seconds = 30.0

    def required_base_url(self) -> str:
        """The URL without a trailing slash; raises ConfigurationError where it is not set."""
        if self.base_url is None:
            raise ConfigurationError(missing("psp.base_url", BASE_URL_ALLOWED))
        return self.base_url
