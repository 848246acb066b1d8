"""Why a Kafka broker does not let us in: its client library says it only in passing."""

import asyncio
import socket
from collections.abc import Mapping
from typing import Any

from aiokafka import errors
from aiokafka.conn import collect_hosts, create_conn
from aiokafka.protocol.metadata import MetadataRequest

from service.diagnosis.causes import TlsSettings, causes, tls_advice, words

SERVERS = "RECONCILER_KAFKA__BOOTSTRAP_SERVERS"
_PROTOCOL = "RECONCILER_KAFKA__SECURITY_PROTOCOL"
_TLS = TlsSettings(
    authority="RECONCILER_KAFKA__TLS_CA_FILE",
    certificate="RECONCILER_KAFKA__TLS_CERT_FILE and _TLS_KEY_FILE",
    address=SERVERS,
    other_host=" (as the broker's advertised.listeners must)",
)
_ASK_SECONDS = 5.0
_CREDENTIALS = (
    "check RECONCILER_KAFKA__SASL_USERNAME, _SASL_PASSWORD and _SASL_MECHANISM: the broker knows no"
    " such user with that password"
)
_HUNG_UP = (
    f"the broker hung up: check that {_PROTOCOL} is what the port speaks, and, if it asks for a"
    f" client certificate, {_TLS.certificate}"
)
_FORBIDDEN = "the broker's administrator has to allow it to this user"
_ADVICE: tuple[tuple[type[BaseException], str], ...] = (
    (errors.SaslAuthenticationFailed, _CREDENTIALS),
    (
        errors.UnsupportedSaslMechanismError,
        "RECONCILER_KAFKA__SASL_MECHANISM has to be one that the broker has turned on",
    ),
    (errors.IllegalSaslStateError, f"this port of the broker knows no SASL: check {_PROTOCOL}"),
    (errors.TopicAuthorizationFailedError, _FORBIDDEN),
    (errors.GroupAuthorizationFailedError, _FORBIDDEN),
    (errors.ClusterAuthorizationFailedError, _FORBIDDEN),
    (socket.gaierror, f"a host in {SERVERS} is not known here"),
    (ConnectionRefusedError, f"nobody listens there: check {SERVERS}"),
    (TimeoutError, f"nobody answered in time: check {SERVERS}"),
    (ConnectionResetError, _HUNG_UP),
    (errors.KafkaConnectionError, _HUNG_UP),
)


async def broker_trouble(connection: Mapping[str, Any], error: BaseException) -> str:
    """What went wrong and what to do about `error`, which a client with these arguments raised.

    A client that finds no broker keeps the reasons to itself, so the servers are asked once more,
    for five seconds at most.
    """
    if not isinstance(error, errors.KafkaConnectionError | TimeoutError):
        return kafka_trouble(error)
    try:
        async with asyncio.timeout(_ASK_SECONDS):
            reason = await _reason(connection)
    except TimeoutError as silence:
        reason = silence
    if reason is None:
        return f"Kafka cannot be used ({words(error)}); by now it answers: try again"
    return kafka_trouble(reason)


def kafka_trouble(error: BaseException) -> str:
    """What went wrong, what to look at and what to do."""
    for cause in causes(error):
        if advice := _advice(cause):
            return f"Kafka cannot be used ({words(cause)}); {advice}"
    return f"Kafka cannot be used ({words(error)}); check {SERVERS}"


async def _reason(connection: Mapping[str, Any]) -> Exception | None:
    """Why the last of the servers cannot be used; None if one of them can."""
    arguments = dict(connection)
    reason: Exception | None = None
    for host, port, _ in collect_hosts(arguments.pop("bootstrap_servers")):
        try:
            opened = await create_conn(host, port, **arguments)
        except (errors.KafkaError, OSError, TimeoutError) as error:
            reason = error
            continue
        try:
            await opened.send(MetadataRequest([]))
        except (errors.KafkaError, OSError, TimeoutError) as error:
            reason = error
        else:
            return None
        finally:
            opened.close()
    return reason


def _advice(error: BaseException) -> str | None:
    if (advice := tls_advice(error, _TLS)) is not None:
        return advice
    return next((advice for kind, advice in _ADVICE if isinstance(error, kind)), None)
