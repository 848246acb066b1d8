"""Settings to connections: certificates and passwords from files, and what is said of bad ones."""

import ssl
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from cryptography.hazmat.primitives import serialization

from service.connections import kafka_connection, pool_options
from service.diagnosis.database import database_trouble
from service.diagnosis.kafka import kafka_trouble
from service.errors import ConfigurationError
from service.settings_loading import load
from service.store.pool import PoolOptions
from tests.support.certificates import Authority

URL = "postgresql://reconciler@db.example/payments"
HIDDEN = "hunter2"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Signs what these tests read."""
    return Authority(tmp_path_factory.mktemp("certificates") / "authority")


def options_of(url: str = URL, **given: str) -> PoolOptions:
    """How PostgreSQL is reached with these settings of the group."""
    named = {f"RECONCILER_DATABASE__{name}": value for name, value in given.items()}
    settings = load({"RECONCILER_DATABASE__URL": url, **named})
    return pool_options(settings.database, application_name="test")


def kafka_of(**given: str) -> dict[str, Any]:
    """The arguments of a Kafka client over TLS."""
    named = {f"RECONCILER_KAFKA__{name}": value for name, value in given.items()}
    common = {
        "RECONCILER_KAFKA__BOOTSTRAP_SERVERS": "kafka.example:9093",
        "RECONCILER_KAFKA__SECURITY_PROTOCOL": "SSL",
    }
    return kafka_connection(load({**common, **named}).kafka)


def encrypted(key: Path, directory: Path) -> Path:
    """The same private key under a pass phrase."""
    loaded = serialization.load_pem_private_key(key.read_bytes(), password=None)
    secured = directory / "encrypted.pem"
    secured.write_bytes(
        loaded.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(HIDDEN.encode()),
        )
    )
    return secured


@pytest.mark.parametrize(
    ("url", "given"),
    [(URL, {}), (f"{URL}?sslmode=verify-full&sslrootcert=/ca.pem", {"SSL_MODE": "verify-full"})],
)
def test_what_the_url_says_of_tls_is_left_to_the_driver(url: str, given: dict[str, str]) -> None:
    assert options_of(url, **given).tls == given.get("SSL_MODE")


def test_mode_that_verifies_nothing_is_passed_on_by_its_name() -> None:
    assert options_of(SSL_MODE="require").tls == "require"


@pytest.mark.parametrize(
    ("url", "mode", "checks_host"),
    [
        (URL, "", True),
        (URL, "require", True),
        (URL, "verify-full", True),
        (URL, "verify-ca", False),
        (f"{URL}?sslmode=verify-ca", "", False),
    ],
)
def test_authority_that_is_named_is_demanded_and_the_host_unless_waived(
    authority: Authority, url: str, mode: str, *, checks_host: bool
) -> None:
    tls = options_of(url, SSL_MODE=mode, SSL_ROOT_CERT_FILE=str(authority.ca_file)).tls
    assert isinstance(tls, ssl.SSLContext)
    assert tls.verify_mode is ssl.CERT_REQUIRED
    assert tls.check_hostname is checks_host
    assert len(tls.get_ca_certs()) == 1


def test_verifying_without_a_file_trusts_the_systems_authorities() -> None:
    contexts = [options_of(SSL_MODE="verify-full").tls, kafka_of()["ssl_context"]]
    for context in contexts:
        assert isinstance(context, ssl.SSLContext)
        assert context.verify_mode is ssl.CERT_REQUIRED
        assert context.check_hostname


def test_url_that_waives_tls_and_certificates_contradict_each_other(authority: Authority) -> None:
    with pytest.raises(ConfigurationError, match="says sslmode=disable while"):
        options_of(f"{URL}?sslmode=disable", SSL_ROOT_CERT_FILE=str(authority.ca_file))


def test_file_that_holds_no_certificate_names_its_setting(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_text("nothing\n", encoding="utf-8")
    with pytest.raises(ConfigurationError, match="RECONCILER_DATABASE__SSL_ROOT_CERT_FILE cannot"):
        options_of(SSL_ROOT_CERT_FILE=str(file))
    with pytest.raises(ConfigurationError, match="RECONCILER_KAFKA__TLS_CA_FILE cannot"):
        kafka_of(TLS_CA_FILE=str(file))


def test_encrypted_key_needs_its_password_and_asks_nobody_for_it(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    card = authority.issue("client.example")
    files = {
        "TLS_CERT_FILE": str(card.chain),
        "TLS_KEY_FILE": str(encrypted(card.key, tmp_path)),
    }
    asked: list[Any] = []
    load_chain = ssl.SSLContext.load_cert_chain

    def watched(context: ssl.SSLContext, *arguments: Any) -> None:
        asked.append(arguments[2])
        load_chain(context, *arguments)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", watched)
    kafka_of(**files, TLS_KEY_PASSWORD=HIDDEN)
    for wrong in ("", "another"):
        with pytest.raises(ConfigurationError, match="_KEY_PASSWORD cannot be used") as raised:
            kafka_of(**files, TLS_KEY_PASSWORD=wrong)
        assert HIDDEN not in str(raised.value)
    assert None not in asked  # OpenSSL would ask at the terminal


def test_renewal_that_is_half_done_fails_the_connection_and_not_the_process(
    authority: Authority, tmp_path: Path
) -> None:
    file = tmp_path / "ca.pem"
    file.write_bytes(authority.ca_file.read_bytes())
    context = kafka_of(TLS_CA_FILE=str(file))["ssl_context"]
    file.write_text("half", encoding="utf-8")
    with pytest.raises(ConnectionError, match="RECONCILER_KAFKA__TLS_CA_FILE cannot"):
        context.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname="kafka.example")
    file.write_bytes(authority.ca_file.read_bytes())
    context.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname="kafka.example")


async def test_password_is_read_anew_at_each_connect(tmp_path: Path) -> None:
    """Reported as asyncpg 291."""
    file = tmp_path / "password"
    read: Any = options_of(PASSWORD_FILE=str(file)).read_password
    for password in ("first", "second"):
        file.write_text(f"{password}\n", encoding="utf-8")
        assert await read() == password


@pytest.mark.parametrize("content", [None, b" \n", b"\xff" + HIDDEN.encode()])
async def test_password_file_that_gives_none_is_waited_for_and_named(
    content: bytes | None, tmp_path: Path
) -> None:
    file = tmp_path / "password"
    if content is not None:
        file.write_bytes(content)
    read: Any = options_of(PASSWORD_FILE=str(file)).read_password
    with pytest.raises(OSError, match="RECONCILER_DATABASE__PASSWORD_FILE") as raised:
        await read()
    told = database_trouble(raised.value)
    assert "RECONCILER_DATABASE__PASSWORD_FILE" in told
    assert HIDDEN not in told


def test_unknown_trouble_is_told_masked_in_one_line_with_a_setting() -> None:
    error = RuntimeError(f"postgresql://reconciler:{HIDDEN}@db failed\nand more")
    for told, setting in (
        (database_trouble(error), "RECONCILER_DATABASE__URL"),
        (kafka_trouble(error), "RECONCILER_KAFKA__BOOTSTRAP_SERVERS"),
    ):
        assert "RuntimeError: postgresql://reconciler:****@db failed" in told
        assert told.endswith(f"check {setting}")


def test_trouble_is_told_by_what_was_wrapped_and_not_by_what_was_handled_meanwhile() -> None:
    error = TimeoutError("outer")
    error.__context__ = ConnectionRefusedError("handled meanwhile")
    assert "outer" in kafka_trouble(error)
    error.__cause__ = ssl.SSLCertVerificationError("wrapped")
    assert "wrapped" in kafka_trouble(error)


@pytest.mark.parametrize(
    "error",
    [
        asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation"),
        ConnectionResetError("reset by peer"),
    ],
)
def test_server_that_hangs_up_may_have_refused_the_client_certificate(error: Exception) -> None:
    """With TLS 1.3 it does so after the handshake, and its reason may be lost on the way."""
    told = database_trouble(error)
    assert "client certificate" in told
    assert "RECONCILER_DATABASE__SSL_CERT_FILE" in told


def test_broker_that_hangs_up_may_have_refused_the_client_certificate() -> None:
    told = kafka_trouble(ConnectionResetError("reset by peer"))
    assert "client certificate" in told
    assert "RECONCILER_KAFKA__TLS_CERT_FILE" in told
