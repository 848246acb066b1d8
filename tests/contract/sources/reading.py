"""Decode a payload, and take what comes."""

import json
from typing import Any

from schemas.cloudevent import Event
from schemas.sources.contract import Decoded, Decoder, Reading
from schemas.sources.fact import Fact


def read(decoder: Decoder, payload: Any, *, key: bytes | None = b"k") -> Reading:
    """What a decoder makes of a payload: bytes as they are, anything else as JSON."""
    value = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    return decoder(key=key, value=value, headers=[])


def decoded(decoder: Decoder, payload: Any) -> Decoded:
    """The one event with what is said about it."""
    reading = read(decoder, payload)
    assert isinstance(reading, tuple)
    (only,) = reading
    assert isinstance(only, Decoded)
    return only


def event(decoder: Decoder, payload: Any) -> Event:
    """The one event."""
    return decoded(decoder, payload).event


def facts(decoder: Decoder, payload: Any) -> list[Fact]:
    """The facts of one record."""
    reading = read(decoder, payload)
    assert isinstance(reading, list)
    return [fact for fact in reading if isinstance(fact, Fact)]


def order(decoder: Decoder, *payloads: Any) -> list[tuple[int, int]]:
    """Epoch and version of each payload."""
    events = [event(decoder, payload) for payload in payloads]
    return [(each.epoch, each.version) for each in events]
