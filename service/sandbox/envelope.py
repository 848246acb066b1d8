"""Kafka records of the story: one CloudEvent each, in structured or in binary mode."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from service.sandbox.plots import Said, Source

STORY_BEGINS = datetime(2026, 1, 5, 8, 0, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Record:
    """What is sent to a source's topic."""

    source: Source
    key: bytes
    value: bytes
    headers: tuple[tuple[str, bytes], ...]

    @property
    def structured(self) -> bool:
        """Whether the value is the whole CloudEvent."""
        return len(self.headers) == 1


def record_of(payment_id: str, said: Said, step: int, *, structured: bool) -> Record:
    """The record of an event; `step` is its place among all that is said of the payment."""
    attributes = _attributes(payment_id, said, step)
    if structured:
        value = encoded({**attributes, "data": said.data})
        headers = (("content-type", b"application/cloudevents+json"),)
        return Record(said.source, payment_id.encode(), value, headers)
    names = tuple((f"ce_{name}", text.encode()) for name, text in attributes.items())
    return Record(
        said.source,
        payment_id.encode(),
        encoded(said.data),
        (*names, ("content-type", b"application/json")),
    )


def encoded(value: Mapping[str, Any]) -> bytes:
    """Compact JSON."""
    return json.dumps(value, separators=(",", ":")).encode()


def _attributes(payment_id: str, said: Said, step: int) -> dict[str, str]:
    at = STORY_BEGINS + timedelta(minutes=7 * step)
    origin = said.data["psp"] if said.source == "psp" else "orders"
    reference = f"-{said.data['psp_reference']}" if said.source == "psp" else ""
    attributes = {
        "specversion": "1.0",
        "id": f"{payment_id}-{said.source}{reference}-{said.version}",
        "source": f"/{said.source}/{origin}",
        "type": f"{said.source}.payment.v1",
        "time": at.isoformat(),
        "subject": payment_id,
        "entityversion": str(said.version),
    }
    if said.patch:
        attributes["changekind"] = "patch"
    return attributes
