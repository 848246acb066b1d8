"""Kafka over TLS and SASL: the whole service through it, and what is said where it is refused."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaConnectionError, KafkaError

from service.connections import kafka_connection
from service.diagnosis.kafka import broker_trouble
from service.sandbox.psp_server import PspServer
from service.settings_loading import load
from tests.acceptance.commands import reconciler
from tests.faults.house import (
    House,
    logged,
    until,
    until_health,
    until_logged,
    until_started,
    variables,
)
from tests.faults.tls.hiding import assert_command_hides, assert_service_hides
from tests.support.certificates import Authority, Certificate
from tests.support.events import erp_event, psp_event
from tests.support.kafka import Topics
from tests.support.kafka.listeners import Listener
from tests.support.kafka.secure import USER, SecureKafka
from tests.support.postgres import Database
from tests.support.processes import ServiceProcesses
from tests.support.secure_postgres import SecurePostgres

pytestmark = pytest.mark.kafka

WRONG = "wrong-hunter2"
CA = "RECONCILER_KAFKA__TLS_CA_FILE"
CARD = "RECONCILER_KAFKA__TLS_CERT_FILE"
PROTOCOL = "RECONCILER_KAFKA__SECURITY_PROTOCOL"
USERNAME = "RECONCILER_KAFKA__SASL_USERNAME"
MECHANISM = "RECONCILER_KAFKA__SASL_MECHANISM"
SERVERS = "RECONCILER_KAFKA__BOOTSTRAP_SERVERS"


@pytest.fixture(autouse=True)
async def goodbyes() -> AsyncIterator[None]:
    """aiokafka does not wait until a connection that was refused is closed; a test has to."""
    yield
    transports = asyncio.get_running_loop()._transports  # type: ignore[attr-defined] # CPython's

    def are_closed() -> bool:
        return all(transport._sock is None for transport in transports.values())

    await until(are_closed, "all connections are closed")


def through(door: Listener, authority: Authority, **given: str) -> dict[str, str]:
    """The settings of a client that knocks at one door."""
    return {
        "KAFKA__BOOTSTRAP_SERVERS": door.address,
        "KAFKA__SECURITY_PROTOCOL": door.protocol,
        "KAFKA__TLS_CA_FILE": str(authority.ca_file),
        **given,
    }


def with_password(secure: SecureKafka, mechanism: str = "SCRAM-SHA-512") -> dict[str, str]:
    """The settings of the user that the broker knows."""
    return {
        "KAFKA__SASL_MECHANISM": mechanism,
        "KAFKA__SASL_USERNAME": USER,
        "KAFKA__SASL_PASSWORD": secure.password,
    }


def with_card(card: Certificate) -> dict[str, str]:
    """The settings of a client that shows a certificate."""
    return {"KAFKA__TLS_CERT_FILE": str(card.chain), "KAFKA__TLS_KEY_FILE": str(card.key)}


def arguments_of(settings: Mapping[str, str]) -> dict[str, Any]:
    """The arguments of every client that the service makes from these settings."""
    return kafka_connection(load(variables(**settings)).kafka)


async def knock(arguments: Mapping[str, Any]) -> None:
    """Start a client and end it."""
    client = AIOKafkaAdminClient(**arguments)
    try:
        await client.start()
    finally:
        await client.close()


async def refusal_of(settings: Mapping[str, str]) -> str:
    """What an operator is told of a client that cannot start."""
    arguments = arguments_of(settings)
    with pytest.raises((KafkaError, OSError)) as raised:
        await knock(arguments)
    return await broker_trouble(arguments, raised.value)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
async def test_user_with_password_is_let_in(tls_kafka: SecureKafka, mechanism: str) -> None:
    door = tls_kafka.sasl
    await knock(
        arguments_of(through(door, tls_kafka.authority, **with_password(tls_kafka, mechanism)))
    )


async def test_client_with_certificate_is_let_in(tls_kafka: SecureKafka) -> None:
    card = with_card(tls_kafka.authority.issue("client.example"))
    await knock(arguments_of(through(tls_kafka.mutual, tls_kafka.authority, **card)))


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
@pytest.mark.parametrize("wrong", ["KAFKA__SASL_PASSWORD", "KAFKA__SASL_USERNAME"])
async def test_wrong_password_or_user_names_the_settings_of_both(
    tls_kafka: SecureKafka, mechanism: str, wrong: str
) -> None:
    user = {**with_password(tls_kafka, mechanism), wrong: WRONG}
    told = await refusal_of(through(tls_kafka.sasl, tls_kafka.authority, **user))
    assert "SaslAuthenticationFailed" in told
    assert f"{USERNAME}, _SASL_PASSWORD" in told
    assert WRONG not in told
    assert tls_kafka.password not in told


async def test_mechanism_that_is_not_turned_on_names_its_setting(tls_kafka: SecureKafka) -> None:
    user = with_password(tls_kafka, "SCRAM-SHA-256")
    told = await refusal_of(through(tls_kafka.sasl, tls_kafka.authority, **user))
    assert MECHANISM in told


async def test_authority_that_did_not_sign_names_the_file_of_the_authority(
    tls_kafka: SecureKafka, stranger: Authority
) -> None:
    told = await refusal_of(through(tls_kafka.sasl, stranger, **with_password(tls_kafka)))
    assert f"{CA} has to hold the authority" in told


async def test_expired_certificate_is_told_as_the_brokers(tls_kafka: SecureKafka) -> None:
    user = with_password(tls_kafka)
    told = await refusal_of(through(tls_kafka.expired, tls_kafka.authority, **user))
    assert "certificate has expired" in told
    assert "renew it there" in told


async def test_other_hosts_certificate_is_refused(tls_kafka: SecureKafka) -> None:
    user = with_password(tls_kafka)
    told = await refusal_of(through(tls_kafka.foreign, tls_kafka.authority, **user))
    assert "made out to another host" in told
    assert SERVERS in told


@pytest.mark.parametrize("own", [False, True])
async def test_missing_or_foreign_client_certificate_is_told_with_its_setting(
    tls_kafka: SecureKafka, stranger: Authority, *, own: bool
) -> None:
    card = with_card(stranger.issue("client.example")) if own else {}
    told = await refusal_of(through(tls_kafka.mutual, tls_kafka.authority, **card))
    assert "client certificate" in told
    assert CARD in told


async def test_protocol_that_the_port_does_not_speak_names_its_setting(
    tls_kafka: SecureKafka,
) -> None:
    plain, authority = tls_kafka.kafka.bootstrap_servers, tls_kafka.authority
    card = with_card(authority.issue("client.example"))
    user = with_password(tls_kafka)
    knocks = [
        {**through(tls_kafka.sasl, authority, **user), "KAFKA__BOOTSTRAP_SERVERS": plain},
        {"KAFKA__BOOTSTRAP_SERVERS": tls_kafka.sasl.address},
        {**through(tls_kafka.sasl, authority), "KAFKA__SECURITY_PROTOCOL": "SSL"},
        {
            **through(tls_kafka.mutual, authority, **card, **user),
            "KAFKA__SECURITY_PROTOCOL": "SASL_SSL",
        },
    ]
    for settings in knocks:
        assert PROTOCOL in await refusal_of(settings)


async def test_broker_that_never_answers_is_asked_for_a_bounded_time() -> None:
    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    async with server, asyncio.timeout(15):
        error = KafkaConnectionError("no broker")
        told = await broker_trouble({"bootstrap_servers": f"{host}:{port}"}, error)
    assert f"nobody answered in time: check {SERVERS}" in told


async def test_doctor_names_setting_and_remedy_and_no_password(
    tls_kafka: SecureKafka, stranger: Authority
) -> None:
    user = with_password(tls_kafka)
    wrong = {**user, "KAFKA__SASL_PASSWORD": WRONG}
    for settings, named in (
        (through(tls_kafka.sasl, stranger, **user), CA),
        (through(tls_kafka.sasl, tls_kafka.authority, **wrong), USERNAME),
    ):
        ended = await reconciler("doctor", settings=variables(**settings))
        assert ended.code == 1
        (line,) = [line for line in ended.out.splitlines() if line.startswith("kafka ")]
        assert "FAIL" in line
        assert named in line
        assert ended.err == ""
        assert_command_hides(ended, tls_kafka.password, WRONG)


async def test_service_waits_for_a_broker_that_refuses_it_and_says_why_without_the_password(
    tls_kafka: SecureKafka, database: Database, services: ServiceProcesses
) -> None:
    user = {**with_password(tls_kafka, "PLAIN"), "KAFKA__SASL_PASSWORD": WRONG}
    settings = through(tls_kafka.sasl, tls_kafka.authority, **user, DATABASE__URL=database.url)
    process = services.new()
    env = variables(**settings, LOG__LEVEL="DEBUG")
    process.start(("run", "--roles", "ingest"), env=env)
    await until_logged(process, "kafka.lost")
    assert USERNAME in logged(process, "kafka.lost")[0]["error"]

    async def warns() -> bool:
        _, body = await process.health()
        rows = body["checks"].get("kafka:connection", []) if body else []
        return any(row["status"] == "warn" for row in rows)

    await until(warns, "health warns of the broker")
    await until_health(process, "/livez", 200)
    assert process.running
    await assert_service_hides(process, WRONG)


async def test_whole_service_moves_an_event_over_tls_on_both_sides_with_secrets_from_files(
    tls_kafka: SecureKafka,
    tls_postgres: SecurePostgres,
    authority: Authority,
    psp: PspServer,
    services: ServiceProcesses,
    tmp_path: Path,
) -> None:
    secrets = {
        "database__url": tls_postgres.url(password=tls_postgres.password),
        "kafka__sasl_password": tls_kafka.password,
    }
    for name, text in secrets.items():
        (tmp_path / name).write_text(f"{text}\n", encoding="utf-8")
    topics = Topics.unique()
    await tls_kafka.kafka.create_topics(dict.fromkeys(topics.names, 2))
    user = with_password(tls_kafka, "PLAIN")
    user.pop("KAFKA__SASL_PASSWORD")
    given = {
        **through(tls_kafka.sasl, tls_kafka.authority, **user),
        "DATABASE__SSL_MODE": "verify-full",
        "DATABASE__SSL_ROOT_CERT_FILE": str(authority.ca_file),
        "SECRETS_DIR": str(tmp_path),
        "LOG__LEVEL": "DEBUG",
    }
    async with tls_postgres.administrator() as connection:
        broker = (tls_kafka.kafka.bootstrap_servers, topics)
        house = House(connection, "", psp, services, broker)
        migrated = await reconciler("migrate", settings=house.settings(**given))
        assert migrated.code == 0, migrated.text
        process = house.start(**given)
        await until_started(process)
        house.know("lost")
        await house.send(erp_event("lost", 1), psp_event("lost", 1, status="pending"))
        await house.until_status("lost", "succeeded")
        await house.until_count("SELECT count(*) FROM outbox WHERE published_at IS NULL", 0)
        sessions = await house.rows(
            "SELECT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)"
            " WHERE usename = 'reconciler'"
        )
        assert sessions
        assert all(ssl for (ssl,) in sessions)
        assert await outcomes(tls_kafka.kafka.bootstrap_servers, topics.outcome) > 0
        well = await reconciler("doctor", settings=house.settings(**given))
        assert well.code == 0, well.text
    hidden = (tls_kafka.password, tls_postgres.password)
    assert_command_hides(well, *hidden)
    await assert_service_hides(process, *hidden)


async def outcomes(bootstrap_servers: str, topic: str) -> int:
    """How many records the relay has published."""
    consumer: Any = AIOKafkaConsumer(
        topic, bootstrap_servers=bootstrap_servers, auto_offset_reset="earliest"
    )
    await consumer.start()
    try:
        batches = await consumer.getmany(timeout_ms=10_000)
        return sum(len(records) for records in batches.values())
    finally:
        await consumer.stop()
