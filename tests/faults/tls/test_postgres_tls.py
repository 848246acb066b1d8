"""PostgreSQL over TLS: who is let in, and what is said, and not said, where somebody is not."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from service.connections import pool_options
from service.diagnosis.database import database_trouble
from service.sandbox.postgres import EmbeddedPostgres
from service.settings_loading import load
from service.store.pool import connect
from tests.acceptance.commands import reconciler
from tests.faults.house import logged, until_health, until_logged, variables
from tests.faults.tls.hiding import assert_command_hides, assert_service_hides
from tests.support.certificates import YESTERDAY, Authority
from tests.support.processes import ServiceProcesses
from tests.support.secure_postgres import CARD_HOLDER, SecurePostgres

WRONG = "wrong-hunter2"
CA = "RECONCILER_DATABASE__SSL_ROOT_CERT_FILE"
CARD = "RECONCILER_DATABASE__SSL_CERT_FILE"
MODE = "RECONCILER_DATABASE__SSL_MODE"
FILE = "RECONCILER_DATABASE__PASSWORD_FILE"
URL = "RECONCILER_DATABASE__URL"


def trusting(authority: Authority, url: str, **given: str) -> dict[str, str]:
    """The settings of a client that verifies everything."""
    return variables(
        DATABASE__URL=url,
        DATABASE__SSL_MODE="verify-full",
        DATABASE__SSL_ROOT_CERT_FILE=str(authority.ca_file),
        **given,
    )


async def session_of(settings: dict[str, str]) -> Any:
    """A connection as every part of the service opens it."""
    options = pool_options(load(settings).database, application_name="test")
    return await connect(options)


async def refusal_of(settings: dict[str, str]) -> str:
    """What an operator is told of a connection that cannot be made."""
    with pytest.raises(Exception) as raised:  # noqa: PT011 - whatever the driver raises is told
        await (await session_of(settings)).close()
    return database_trouble(raised.value)


@asynccontextmanager
async def showing(
    authority: Authority, tls_bin: Path, host: str = "127.0.0.1", **valid: Any
) -> AsyncIterator[SecurePostgres]:
    """A server with a certificate of its own."""
    certificate = authority.issue(host, **valid)
    async with SecurePostgres(authority, certificate, bin_dir=tls_bin) as server:
        yield server


async def test_right_settings_connect_over_tls_with_password_and_with_certificate(
    tls_postgres: SecurePostgres, authority: Authority
) -> None:
    card = authority.issue("client.example", common_name=CARD_HOLDER)
    ways = [
        trusting(authority, tls_postgres.url(password=tls_postgres.password)),
        trusting(
            authority,
            tls_postgres.url(role=CARD_HOLDER),
            DATABASE__SSL_CERT_FILE=str(card.chain),
            DATABASE__SSL_KEY_FILE=str(card.key),
        ),
    ]
    for settings in ways:
        connection = await session_of(settings)
        query = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
        assert await connection.fetchval(query)
        await connection.close()


async def test_wrong_password_or_user_names_where_the_password_is_looked_for(
    tls_postgres: SecurePostgres, authority: Authority
) -> None:
    told = await refusal_of(trusting(authority, tls_postgres.url(password=WRONG)))
    assert "password authentication failed" in told
    assert FILE in told
    assert URL in told

    unknown = tls_postgres.url(role="nobody_knows", password=WRONG)
    unknown_told = await refusal_of(trusting(authority, unknown))
    assert "check the user in" in unknown_told
    assert WRONG not in told + unknown_told


async def test_authority_that_did_not_sign_names_the_file_of_the_authority(
    tls_postgres: SecurePostgres, stranger: Authority
) -> None:
    told = await refusal_of(trusting(stranger, tls_postgres.url(password=tls_postgres.password)))
    assert f"{CA} has to hold the authority" in told


async def test_verify_full_without_a_file_trusts_only_the_system(
    tls_postgres: SecurePostgres,
) -> None:
    url = tls_postgres.url(password=tls_postgres.password)
    told = await refusal_of(variables(DATABASE__URL=url, DATABASE__SSL_MODE="verify-full"))
    assert f"{CA} has to hold the authority" in told


async def test_expired_certificate_is_told_as_the_servers(
    authority: Authority, tls_bin: Path
) -> None:
    async with showing(authority, tls_bin, valid_for=YESTERDAY) as server:
        told = await refusal_of(trusting(authority, server.url(password=server.password)))
    assert "certificate has expired" in told
    assert "renew it there" in told


async def test_other_hosts_certificate_is_refused_unless_only_the_authority_is_verified(
    authority: Authority, tls_bin: Path
) -> None:
    async with showing(authority, tls_bin, "db.example") as server:
        settings = trusting(authority, server.url(password=server.password))
        told = await refusal_of(settings)
        connection = await session_of({**settings, MODE: "verify-ca"})
        await connection.close()
    assert "made out to another host" in told
    assert URL in told
    assert f"{MODE} be verify-ca" in told


async def test_server_without_tls_is_refused_where_tls_is_demanded(
    postgres: EmbeddedPostgres, authority: Authority
) -> None:
    for settings in (
        trusting(authority, postgres.url),
        variables(DATABASE__URL=postgres.url, DATABASE__SSL_MODE="require"),
    ):
        told = await refusal_of(settings)
        assert "the server speaks no TLS" in told
        assert MODE in told


async def test_server_that_demands_tls_is_told_with_the_mode_to_set(
    tls_postgres: SecurePostgres,
) -> None:
    url = tls_postgres.url(password=tls_postgres.password)
    told = await refusal_of(variables(DATABASE__URL=url, DATABASE__SSL_MODE="disable"))
    assert "no encryption" in told
    assert MODE in told


@pytest.mark.parametrize("signed_by", [None, "stranger"])
async def test_missing_or_foreign_client_certificate_is_told_with_its_setting(
    signed_by: str | None,
    tls_postgres: SecurePostgres,
    authority: Authority,
    stranger: Authority,
) -> None:
    own: dict[str, str] = {}
    if signed_by is not None:
        card = stranger.issue("client.example", common_name=CARD_HOLDER)
        own = {"DATABASE__SSL_CERT_FILE": str(card.chain), "DATABASE__SSL_KEY_FILE": str(card.key)}
    told = await refusal_of(trusting(authority, tls_postgres.url(role=CARD_HOLDER), **own))
    assert "client certificate" in told
    assert CARD in told


async def test_renewed_certificates_are_used_without_a_restart(
    tls_postgres: SecurePostgres, authority: Authority, stranger: Authority, tmp_path: Path
) -> None:
    files = {name: tmp_path / f"{name}.pem" for name in ("ca", "cert", "key")}

    def mount(signer: Authority) -> None:
        card = signer.issue("client.example", common_name=CARD_HOLDER)
        for name, source in (("ca", signer.ca_file), ("cert", card.chain), ("key", card.key)):
            fresh = tmp_path / f"{name}.fresh"
            fresh.write_bytes(source.read_bytes())
            fresh.rename(files[name])

    mount(stranger)
    settings = variables(
        DATABASE__URL=tls_postgres.url(role=CARD_HOLDER),
        DATABASE__SSL_ROOT_CERT_FILE=str(files["ca"]),
        DATABASE__SSL_CERT_FILE=str(files["cert"]),
        DATABASE__SSL_KEY_FILE=str(files["key"]),
    )
    options = pool_options(load(settings).database, application_name="test")
    with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
        await connect(options)
    mount(authority)
    connection = await connect(options)
    await connection.close()


async def test_commands_migrate_over_tls_and_tell_a_wrong_authority_without_the_password(
    tls_postgres: SecurePostgres, authority: Authority, stranger: Authority
) -> None:
    password = tls_postgres.password
    right = trusting(authority, tls_postgres.url(password=password))
    migrated = await reconciler("migrate", settings=right)
    assert migrated.code == 0, migrated.text
    well = await reconciler("doctor", settings=right)
    assert "postgres  well" in well.out, well.text
    assert_command_hides(well, password)

    wrong = trusting(stranger, tls_postgres.url(password=password))
    for command in ("doctor", "migrate"):
        ended = await reconciler(command, settings=wrong)
        assert ended.code == 1
        assert f"{CA} has to hold the authority" in ended.text
        assert_command_hides(ended, password)


async def test_certificate_file_that_cannot_be_read_is_wrong_usage(
    tls_postgres: SecurePostgres, tmp_path: Path
) -> None:
    settings = variables(
        DATABASE__URL=tls_postgres.url(password=WRONG),
        DATABASE__SSL_ROOT_CERT_FILE=str(tmp_path / "absent.pem"),
    )
    for command in (("migrate",), ("run", "--roles", "watch")):
        ended = await reconciler(*command, settings=settings)
        assert ended.code == 2
        assert f"{CA} cannot be used (FileNotFoundError" in ended.text
        assert_command_hides(ended, WRONG)


async def test_rotated_password_is_used_by_the_running_service(
    tls_postgres: SecurePostgres,
    authority: Authority,
    services: ServiceProcesses,
    tmp_path: Path,
) -> None:
    """Reported as asyncpg 291."""
    file = tmp_path / "database_password"
    file.write_text(f"{WRONG}\n", encoding="utf-8")
    settings = trusting(
        authority, tls_postgres.url(), DATABASE__PASSWORD_FILE=str(file), DATABASE__POOL_MIN="1"
    )
    process = services.new()
    process.start(("run", "--roles", "watch"), env=settings)
    await until_logged(process, "database.lost")
    assert FILE in logged(process, "database.lost")[0]["error"]
    await until_health(process, "/readyz", 503)
    await assert_service_hides(process, WRONG)

    first = tls_postgres.password
    file.write_text(first, encoding="utf-8")
    migrated = await reconciler("migrate", settings=settings)
    assert migrated.code == 0, migrated.text
    await until_health(process, "/readyz", 200)

    second = "second-hunter2"
    await tls_postgres.change_password(second)
    await until_health(process, "/readyz", 503)
    file.write_text(second, encoding="utf-8")
    await until_health(process, "/readyz", 200)
    await until_health(process, "/livez", 200)
    assert process.running
    await assert_service_hides(process, WRONG, first, second)
