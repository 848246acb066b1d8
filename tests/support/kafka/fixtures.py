"""Fixtures: one Apache Kafka a session, topics and a group of one's own a test."""

import asyncio
import secrets
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.support.kafka.broker import ApacheKafka
from tests.support.kafka.jars import MissingTool

PARTITIONS = 4


@dataclass(frozen=True)
class Topics:
    """Names that no other test uses."""

    erp: str
    psp: str
    outcome: str
    dead_letter: str
    group_id: str

    @classmethod
    def unique(cls) -> "Topics":
        prefix = f"test-{secrets.token_hex(6)}"
        return cls(
            erp=f"{prefix}.erp.payments",
            psp=f"{prefix}.psp.payments",
            outcome=f"{prefix}.reconciler.payments",
            dead_letter=f"{prefix}.dead-letters",
            group_id=f"{prefix}.group",
        )

    @property
    def names(self) -> tuple[str, ...]:
        return self.erp, self.psp, self.outcome, self.dead_letter

    @property
    def by_source(self) -> dict[str, str]:
        return {"erp": self.erp, "psp": self.psp}


@pytest.fixture(scope="session")
def apache_kafka() -> Iterator[ApacheKafka]:
    """Apache Kafka, shared by all tests: whoever stops or pauses it brings it back."""
    kafka = ApacheKafka()
    try:
        asyncio.run(kafka.start())
    except MissingTool as missing:
        pytest.skip(str(missing))
    try:
        yield kafka
    finally:
        asyncio.run(kafka.close())


@pytest.fixture
async def topics(apache_kafka: ApacheKafka) -> Topics:
    """Topics of this test alone, on Apache Kafka, with 4 partitions each."""
    own = Topics.unique()
    await apache_kafka.create_topics(dict.fromkeys(own.names, PARTITIONS))
    return own
