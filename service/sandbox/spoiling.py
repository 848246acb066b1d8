"""Broken records: a copy of a good one, spoiled so that it is refused for one known reason.

Copies, so that a service which took one by mistake would show a difference from the truth or
nothing at all, and none of them is needed for it.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from service.sandbox.envelope import Record, encoded

Spoiler = Callable[[Record], Record]


def spoiled(record: Record, reason: str) -> Record:
    """A copy of a structured `record` that is refused for `reason`."""
    return SPOILERS[reason](record)


def _cut(record: Record) -> Record:
    return replace(record, value=record.value[: len(record.value) // 2])


def _framed(record: Record) -> Record:
    return replace(record, value=b"\x00\x00\x00\x00\x2a" + record.value)


def _latin_1(record: Record) -> Record:
    return replace(record, value=record.value.replace(b'"pay-', b'"p\xe4y-', 1))


def _doubled_key(record: Record) -> Record:
    return replace(record, value=b'{"subject":"pay-000001",' + record.value[1:])


def _key_of_another(record: Record) -> Record:
    return replace(record, key=b"another-payment")


def _with(**attributes: Any) -> Spoiler:
    def spoil(record: Record) -> Record:
        return replace(record, value=encoded({**json.loads(record.value), **attributes}))

    return spoil


def _without_version(record: Record) -> Record:
    event = json.loads(record.value)
    del event["entityversion"]
    return replace(record, value=encoded(event))


def _float_amount(record: Record) -> Record:
    event = json.loads(record.value)
    event["data"]["amount"] = {"minor": 19.99, "currency": "EUR"}
    return replace(record, value=encoded(event))


SPOILERS: Mapping[str, Spoiler] = {
    "not_json": _cut,
    "registry_framed": _framed,
    "not_utf8": _latin_1,
    "duplicate_key": _doubled_key,
    "key_mismatch": _key_of_another,
    "unknown_type": _with(type="erp.refund.v1"),
    "bad_time": _with(time="2026-01-05 08:00"),
    "missing_field": _without_version,
    "bad_amount": _float_amount,
}
"""Reason of refusal -> what spoils a record so that it is refused for it."""
