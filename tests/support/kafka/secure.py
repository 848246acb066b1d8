"""An Apache Kafka that lets nobody in without TLS: listeners for every way in and every fault."""

import secrets
from collections.abc import Mapping
from pathlib import Path

from service.sandbox.ports import LOOPBACK
from tests.support.certificates import YESTERDAY, Authority, Certificate
from tests.support.kafka.broker import ApacheKafka
from tests.support.kafka.listeners import Listener, Security

USER = "reconciler"
MECHANISMS = ("PLAIN", "SCRAM-SHA-512")
"""What its doors with passwords know; not SCRAM-SHA-256."""


class SecureKafka:
    """One broker; all its doors but the first two have a fault.

    `sasl` asks for USER and `password`, `mutual` for a certificate of `authority`, `expired` shows
    a certificate that is no longer valid, `foreign` one that is made out to another host.
    """

    def __init__(self, directory: Path) -> None:
        self.password = secrets.token_urlsafe(24)
        self.authority = Authority(directory / "kafka-authority")
        good = self.authority.issue(LOOPBACK)
        expired = self.authority.issue(LOOPBACK, valid_for=YESTERDAY)
        self.sasl = self._asking_for_a_password("SASL", good)
        self.expired = self._asking_for_a_password("EXPIRED", expired)
        self.foreign = self._asking_for_a_password("FOREIGN", self.authority.issue("kafka.example"))
        self.mutual = Listener(name="MUTUAL", protocol="SSL", settings=self._mutual(good))
        doors = (self.sasl, self.mutual, self.expired, self.foreign)
        self.kafka = ApacheKafka(secure=Security(doors, scram_users=[(USER, self.password)]))

    def _asking_for_a_password(self, name: str, certificate: Certificate) -> Listener:
        plain = f'PlainLoginModule required user_{USER}="{self.password}";'
        scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        settings = {
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "plain.sasl.jaas.config": f"org.apache.kafka.common.security.plain.{plain}",
            "scram-sha-512.sasl.jaas.config": scram,
        }
        return Listener(
            name=name, protocol="SASL_SSL", settings={**_keystore(certificate), **settings}
        )

    def _mutual(self, certificate: Certificate) -> Mapping[str, str]:
        return {
            **_keystore(certificate),
            "ssl.client.auth": "required",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority.ca_file),
        }


def _keystore(certificate: Certificate) -> dict[str, str]:
    return {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(certificate.keystore)}
