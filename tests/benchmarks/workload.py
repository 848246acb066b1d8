"""The benchmark's events: the same at every run, spread over payments as live traffic is.

Each payment has five: the ERP's order and its settlement, and the PSP's three steps to the money.
Half of the payments hear the PSP's first step after its second: one event in ten is stale. The
events of one payment lie about a tenth of the payments apart, so a batch of a thousand records
holds hundreds of payments, not two hundred whole stories.
"""

import json
import random
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from service.store.offsets import Partition

EVENTS_A_PAYMENT = 5
PAYMENTS_A_STALE_EVENT = 2
PARTITIONS = 3
HEADERS = (("content-type", b"application/cloudevents+json"),)

_SEED = 20_260_105
_BEGINS = datetime(2026, 1, 5, 8, tzinfo=UTC)
_IN_ORDER = (("erp", 1), ("psp", 1), ("psp", 2), ("psp", 3), ("erp", 2))
_LATE = (("erp", 1), ("psp", 2), ("psp", 1), ("psp", 3), ("erp", 2))
_ERP_STATUS = {1: "pending", 2: "paid"}
_PSP_STATUS = {1: "pending", 2: "authorised", 3: "succeeded"}


class Produced(NamedTuple):
    """A record to be sent, and where to."""

    partition: Partition
    key: bytes
    value: bytes


@dataclass(frozen=True, slots=True)
class Workload:
    """`payments` stories of five events. `topics` are the ERP's and the PSP's."""

    payments: int
    topics: tuple[str, str]

    @property
    def events(self) -> int:
        """How many records there are."""
        return self.payments * EVENTS_A_PAYMENT

    @property
    def stale(self) -> int:
        """How many of them come too late."""
        return self.payments // PAYMENTS_A_STALE_EVENT

    def records(self) -> Iterator[Produced]:
        """All records, in the order in which they are produced."""
        randomly = random.Random(_SEED)  # noqa: S311 - the same traffic at every run
        gap = self.payments / 10
        said: list[tuple[float, int, str, int]] = []
        for number in range(self.payments):
            moment = float(number)
            late = number % PAYMENTS_A_STALE_EVENT == 1
            for source, version in _LATE if late else _IN_ORDER:
                said.append((moment, number, source, version))
                moment += gap * randomly.uniform(0.5, 1.5)
        for _, number, source, version in sorted(said):
            yield self._record(number, source, version)

    def logs(self) -> dict[Partition, list[Produced]]:
        """The records as the partitions' logs hold them."""
        logs: dict[Partition, list[Produced]] = {}
        for record in self.records():
            logs.setdefault(record.partition, []).append(record)
        return logs

    def _record(self, number: int, source: str, version: int) -> Produced:
        payment_id = f"pay-{number:08d}"
        key = payment_id.encode()
        topic = self.topics[0] if source == "erp" else self.topics[1]
        return Produced(
            Partition(topic, zlib.crc32(key) % PARTITIONS),
            key,
            _encoded(payment_id, number, source, version),
        )


def _encoded(payment_id: str, number: int, source: str, version: int) -> bytes:
    data = _erp(number, version) if source == "erp" else _psp(number, version)
    event = {
        "specversion": "1.0",
        "id": f"{payment_id}-{source}-{version}",
        "source": f"/{source}/shop",
        "type": f"{source}.payment.v1",
        "time": (_BEGINS + timedelta(seconds=number, minutes=version)).isoformat(),
        "subject": payment_id,
        "entityversion": str(version),
        "datacontenttype": "application/json",
        "data": data,
    }
    return json.dumps(event, separators=(",", ":")).encode()


def _erp(number: int, version: int) -> dict[str, Any]:
    return {
        "order_id": f"order-{number:08d}",
        "status": _ERP_STATUS[version],
        "amount": _amount(number),
    }


def _psp(number: int, version: int) -> dict[str, Any]:
    return {
        "psp": "acme",
        "psp_reference": f"ch-{number:08d}",
        "status": _PSP_STATUS[version],
        "amount": _amount(number),
    }


def _amount(number: int) -> dict[str, Any]:
    return {"minor": 100 + number % 90_000, "currency": "EUR"}
