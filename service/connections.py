"""Settings to connections: what each client wants to hear, for the service and the commands."""

import ssl
from pathlib import Path
from typing import Any

from schemas.currency import Exponents
from service.errors import ConfigurationError
from service.psp.account import PspAccount
from service.psp.breaker import CircuitBreaker
from service.psp.stripe import with_own_exponents
from service.settings import Settings
from service.settings_database import DatabaseSettings
from service.settings_healing import PspSettings
from service.settings_kafka import KafkaSettings
from service.store.pool import PoolOptions

_UNLIMITED_PER_SECOND = 1_000_000.0
_SPARE_CONNECTIONS = 4


def pool_options(settings: DatabaseSettings, *, application_name: str) -> PoolOptions:
    """How PostgreSQL is reached. Raises ConfigurationError for certificates that cannot be read."""
    return PoolOptions(
        url=settings.required_url(),
        application_name=application_name,
        connections_min=settings.pool_min,
        connections_max=settings.pool_max,
        connect_timeout_seconds=settings.connect_timeout_seconds,
        lock_timeout_seconds=settings.lock_timeout_seconds,
        statement_timeout_seconds=settings.statement_timeout_seconds,
        idle_in_transaction_timeout_seconds=settings.idle_in_transaction_timeout_seconds,
        prepared_statements=settings.statement_cache,
        read_password=_password_reader(settings.password_file),
        tls=_postgres_tls(settings),
    )


def kafka_connection(settings: KafkaSettings) -> dict[str, Any]:
    """The arguments that every Kafka client of ours shares: servers, TLS, SASL."""
    arguments: dict[str, Any] = {
        "bootstrap_servers": settings.required_bootstrap_servers(),
        "security_protocol": settings.security_protocol,
    }
    if settings.security_protocol in ("SSL", "SASL_SSL"):
        arguments["ssl_context"] = _context(
            ca_file=settings.tls_ca_file,
            cert_file=settings.tls_cert_file,
            key_file=settings.tls_key_file,
            key_password=_secret(settings.tls_key_password),
            named="RECONCILER_KAFKA__TLS_CA_FILE, _CERT_FILE or _KEY_FILE",
        )
    if settings.security_protocol.startswith("SASL"):
        arguments["sasl_mechanism"] = settings.sasl_mechanism or "PLAIN"
        arguments["sasl_plain_username"] = settings.sasl_username
        arguments["sasl_plain_password"] = _secret(settings.sasl_password)
    return arguments


def psp_exponents(settings: PspSettings) -> Exponents:
    """How accounts count where they depart from ISO 4217: for their events and answers alike."""
    if settings.adapter == "stripe":
        return with_own_exponents(settings.exponents, settings.account)
    return settings.exponents


def psp_account(settings: Settings) -> PspAccount:
    """Where the PSP is and how much may be asked of it."""
    psp = settings.psp
    rate = psp.rate_per_second or _UNLIMITED_PER_SECOND
    return PspAccount(
        base_url=psp.required_base_url(),
        adapter=psp.adapter,
        name=psp.account,
        timeout_seconds=psp.timeout_seconds,
        budget_seconds=psp.budget_seconds,
        token_file=Path(psp.token_file) if psp.token_file else None,
        rate_per_second=rate,
        burst=max(1, round(rate)),
        concurrency_max=settings.lease.concurrency + _SPARE_CONNECTIONS,
        exponents=psp_exponents(psp),
    )


def never_open() -> CircuitBreaker:
    """For a command that asks once and wants to hear the PSP's own trouble, not the breaker's."""
    return CircuitBreaker(1_000_000, 1)


def _password_reader(file: str | None) -> Any:
    if file is None:
        return None
    path = Path(file)

    def read() -> str:
        return path.read_text(encoding="utf-8").strip()

    return read


def _postgres_tls(settings: DatabaseSettings) -> ssl.SSLContext | str | None:
    """None: what the URL says. A context where files are named, else the mode's own name."""
    files = (settings.ssl_root_cert_file, settings.ssl_cert_file, settings.ssl_key_file)
    if not any(files):
        return settings.ssl_mode
    context = _context(
        ca_file=settings.ssl_root_cert_file,
        cert_file=settings.ssl_cert_file,
        key_file=settings.ssl_key_file,
        key_password=None,
        named="RECONCILER_DATABASE__SSL_ROOT_CERT_FILE, _SSL_CERT_FILE or _SSL_KEY_FILE",
    )
    context.check_hostname = settings.ssl_mode != "verify-ca"
    return context


def _context(
    *,
    ca_file: str | None,
    cert_file: str | None,
    key_file: str | None,
    key_password: str | None,
    named: str,
) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=ca_file)
        if cert_file:
            context.load_cert_chain(cert_file, key_file, key_password)
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(
            f"{named} cannot be used ({type(error).__name__}: {error.strerror or 'unreadable'});"
            " give PEM files that this user can read"
        ) from error
    return context


def _secret(value: Any) -> str | None:
    return value.get_secret_value() if value is not None else None
