"""The servers of the fault tests."""

from tests.faults.servers import (
    embedded_broker,
    embedded_topics,
    house,
    kafka_house,
    own_postgres,
    psp,
    worker_house,
)

__all__ = [
    "embedded_broker",
    "embedded_topics",
    "house",
    "kafka_house",
    "own_postgres",
    "psp",
    "worker_house",
]
