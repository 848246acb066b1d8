"""Settings to connections: what each client wants to hear, for the service and the commands."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from pydantic import SecretStr

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
from service.tls import TlsFiles, client_context

_UNLIMITED_PER_SECOND = 1_000_000.0
_SPARE_CONNECTIONS = 4
_VERIFYING = ("verify-ca", "verify-full")
_PASSWORD_FILE = "RECONCILER_DATABASE__PASSWORD_FILE"  # noqa: S105 - a setting's name
_URL_WITHOUT_TLS = (
    "RECONCILER_DATABASE__URL says sslmode=disable while certificate files are given; allowed: a"
    " mode that uses them; remedy: say verify-full, or unset the files"
)


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
        arguments["ssl_context"] = client_context(
            TlsFiles(
                ca_setting="RECONCILER_KAFKA__TLS_CA_FILE",
                own_setting="RECONCILER_KAFKA__TLS_CERT_FILE, _KEY_FILE or _KEY_PASSWORD",
                ca_file=settings.tls_ca_file,
                cert_file=settings.tls_cert_file,
                key_file=settings.tls_key_file,
                key_password=_secret(settings.tls_key_password),
            )
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


def _password_reader(file: str | None) -> Callable[[], Awaitable[str]] | None:
    """What reads the password at each connect; a file that is not there now may come back.

    In a thread, for a mounted secret may lie on a file system that hangs.
    """
    if file is None:
        return None
    path = Path(file)

    async def read() -> str:
        try:
            password = (await asyncio.to_thread(path.read_text, encoding="utf-8")).strip()
        except (OSError, ValueError) as error:
            raise OSError(f"{_PASSWORD_FILE} cannot be read ({type(error).__name__})") from None
        if not password:
            raise OSError(f"{_PASSWORD_FILE} names an empty file")
        return password

    return read


def _postgres_tls(settings: DatabaseSettings) -> ssl.SSLContext | str | None:
    """None: what the URL says. A context where a certificate is verified by what our settings say,
    else the mode's own name. Raises ConfigurationError for files that the mode has no use for.
    """
    said = parse_qs(urlsplit(settings.required_url()).query)
    mode = settings.ssl_mode or said.get("sslmode", [None])[-1]
    files = TlsFiles(
        ca_setting="RECONCILER_DATABASE__SSL_ROOT_CERT_FILE",
        own_setting="RECONCILER_DATABASE__SSL_CERT_FILE or _SSL_KEY_FILE",
        ca_file=settings.ssl_root_cert_file,
        cert_file=settings.ssl_cert_file,
        key_file=settings.ssl_key_file,
    )
    if mode == "disable" and files.given:
        raise ConfigurationError(_URL_WITHOUT_TLS)
    verifies = settings.ssl_mode in _VERIFYING and "sslrootcert" not in said
    if not files.given and not verifies:
        return settings.ssl_mode
    return client_context(files, check_hostname=mode != "verify-ca")


def _secret(value: SecretStr | None) -> str | None:
    return value.get_secret_value() if value is not None else None
