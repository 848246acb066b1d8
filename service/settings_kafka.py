"""Settings of the Kafka connection: topics, group, security."""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, SecretStr

from service.errors import ConfigurationError
from service.settings_fields import Group, Name, Path, Seconds, missing

ErpDecoder = Literal["cloudevents", "debezium", "mapping"]
PspDecoder = Literal["cloudevents", "debezium", "stripe", "adyen", "mapping"]

SERVERS_ALLOWED = "host:port, several separated by commas"
_SERVER = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):(?P<port>\d{1,5})")


def _servers(value: str) -> str:
    servers = [server.strip() for server in value.split(",")]
    for server in servers:
        match = _SERVER.fullmatch(server)
        if match is None or not 0 < int(match["port"]) < 65_536:
            raise ValueError(SERVERS_ALLOWED)
    return ",".join(servers)


class KafkaSettings(Group):
    """One consumer group over the source topics, one producer for outcomes and dead letters."""

    # Needed by `run`.
    bootstrap_servers: Annotated[str, AfterValidator(_servers)] | None = None
    group_id: Name = "payment-reconciler"
    erp_topic: Name = "erp.payments"
    psp_topic: Name = "psp.payments"
    outcome_topic: Name = "reconciler.payments"
    dead_letter_topic: Name = "reconciler.dead-letters"

    # In whose words a topic's records are: the own contract's (cloudevents), or a source's own.
    erp_decoder: ErpDecoder = "cloudevents"
    psp_decoder: PspDecoder = "cloudevents"
    # A JSON document: what is where (debezium, mapping), or the account (adyen; stripe may).
    erp_decoder_file: Path | None = None
    psp_decoder_file: Path | None = None

    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = None
    sasl_username: str | None = None
    sasl_password: SecretStr | None = None
    # Not set: the system's certificate authorities. Files that change are read again.
    tls_ca_file: Path | None = None
    tls_cert_file: Path | None = None
    tls_key_file: Path | None = None
    tls_key_password: SecretStr | None = None

    # After this silence the broker takes a member for dead.
    session_timeout_seconds: Seconds = 45.0
    # The whole time for giving partitions back at a rebalance.
    rebalance_timeout_seconds: Seconds = 60.0
    # Records in one batch, which is one transaction.
    batch_max: int = Field(default=1000, ge=1, le=10_000)
    poll_seconds: Seconds = 0.5

    def required_bootstrap_servers(self) -> str:
        """`host:port,…`; raises ConfigurationError where it is not set."""
        if self.bootstrap_servers is None:
            raise ConfigurationError(missing("kafka.bootstrap_servers", SERVERS_ALLOWED))
        return self.bootstrap_servers
