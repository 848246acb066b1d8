"""What a fault run sends, by a seed: many small stories at once, spoiled in every way that real
topics are: late, twice, under another id, with nothing in it, with nothing that can be read.

The same seed, number and prefix give the same records in the same order, byte for byte.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from service.sandbox.psp_server import PspServer
from tests.contract.records import EXAMPLES, record_of
from tests.faults.scenes import (
    DEMO_PLOTS,
    OWN_PLOTS,
    TIMED_KINDS,
    Expected,
    Scene,
    scene_of_demo,
)
from tests.support.events import Record, binary, tombstone

__all__ = ["TIMED_KINDS", "Expected", "Told", "Workload", "endless"]

BINARY_SHARE, DELAYED_SHARE, REPEATED_SHARE = 0.2, 0.10, 0.12
TOMBSTONE_SHARE, BAD_SHARE = 0.02, 0.03
OWN_SHARE = 0.35
PORTION_MAX = 20
# The broker would not take these.
_BAD_BYTES_MAX = 100_000


@dataclass(frozen=True, slots=True)
class Told:
    """What a checker has to know of one workload or of several.

    `expected` names every payment. `heal_only` are those that no event brings to their status.
    `refusals`: bad record -> reason.
    """

    expected: Mapping[str, Expected]
    heal_only: frozenset[str]
    refusals: Mapping[Record, str]

    @classmethod
    def joined(cls, told: Sequence["Told"]) -> "Told":
        """Several as one."""
        return cls(
            {key: expected for each in told for key, expected in each.expected.items()},
            frozenset[str]().union(*(each.heal_only for each in told)),
            {record: reason for each in told for record, reason in each.refusals.items()},
        )


class Workload:
    """`payments` stories whose ids begin with `prefix`.

    `told` is for the checker. `psp_answers`: (payment id, what the PSP holds), to be put into a
    PSP before the first record is sent; no answer carries a version, so that none of them changes
    what is stale. What is timing-dependent (TIMED_KINDS) is not expected.
    """

    def __init__(self, seed: int, payments: int, *, prefix: str = "pay") -> None:
        self._rng = Random(f"{seed}/{prefix}")  # noqa: S311 - to be repeated, not a secret
        self._scenes = self._tell(payments, prefix)
        bad = _bad_records()
        chosen = self._rng.sample(list(bad), len(bad))
        self._bad = chosen[: max(3, round(payments * BAD_SHARE))]
        self.told = Told(
            expected={scene.payment_id: scene.expected for scene in self._scenes},
            heal_only=frozenset(scene.payment_id for scene in self._scenes if scene.heal_only),
            refusals={record: bad[record] for record in self._bad},
        )
        self.psp_answers: tuple[tuple[str, Mapping[str, Any]], ...] = tuple(
            (scene.payment_id, answer) for scene in self._scenes for answer in scene.answers
        )
        self.records = self._arranged()

    @property
    def expected(self) -> Mapping[str, Expected]:
        """Payment id -> what must stand in the end."""
        return self.told.expected

    def tell(self, psp: PspServer) -> None:
        """Put all answers into a PSP."""
        for payment_id, answer in self.psp_answers:
            psp.put(payment_id, answer)

    def portions(self) -> Iterator[list[Record]]:
        """The records in sending order, a few at a time."""
        rng, start = Random(len(self.records)), 0  # noqa: S311 - to be repeated, not a secret
        while start < len(self.records):
            end = start + rng.randint(1, PORTION_MAX)
            yield list(self.records[start:end])
            start = end

    def _tell(self, payments: int, prefix: str) -> list[Scene]:
        """Every plot in turn, its own kind and the demo's mixed, in an order of chance."""
        own = round(payments * OWN_SHARE)
        numbers = list(range(payments))
        self._rng.shuffle(numbers)
        scenes = []
        for place, number in enumerate(numbers):
            payment_id, minor = f"{prefix}-{number:05d}", self._rng.randrange(100, 100_000)
            if place < own:
                scene = Scene(payment_id, minor)
                OWN_PLOTS[place % len(OWN_PLOTS)](scene)
            else:
                scene = scene_of_demo(DEMO_PLOTS[place % len(DEMO_PLOTS)], payment_id, minor)
            scenes.append(scene)
        return sorted(scenes, key=lambda scene: scene.payment_id)

    def _arranged(self) -> tuple[Record, ...]:
        """Payments overlap, neighbours swap, some come much later, some twice."""
        rng, spread = self._rng, len(self._scenes)
        placed: list[tuple[float, Record]] = []
        for start, scene in enumerate(self._scenes):
            for step, said in enumerate(scene.records):
                place = start + 3 * step + rng.uniform(0, 9)
                if rng.random() < DELAYED_SHARE:
                    place += rng.uniform(0.1, 0.5) * spread
                record = binary(said) if rng.random() < BINARY_SHARE else said
                placed.append((place, record))
                if rng.random() < REPEATED_SHARE:
                    again = said if rng.random() < 0.5 else _under_another_id(said)
                    placed.append((place + rng.uniform(0, 0.4) * spread, again))
                if rng.random() < TOMBSTONE_SHARE:
                    placed.append((place, tombstone(scene.payment_id, said.source)))
        placed += [(rng.uniform(0, spread), record) for record in self._bad]
        return tuple(record for _, record in sorted(placed, key=lambda each: each[0]))


def endless(seed: int, *, payments: int = 60) -> Iterator[Workload]:
    """Workloads without end; no two share a payment."""
    number = 0
    while True:
        yield Workload(seed, payments, prefix=f"pay-{number:04d}")
        number += 1


def _under_another_id(record: Record) -> Record:
    """The same fact in another event, as a source sends that lost count of its deliveries."""
    event = json.loads(record.value or b"")
    event["id"] += "-again"
    event["time"] = event["time"].replace("2026-01", "2026-02")
    return replace(record, value=json.dumps(event).encode())


def _bad_records() -> dict[Record, str]:
    """One record of each kind that the contract refuses, with the reason that its file names."""
    bad = {}
    for path in sorted((EXAMPLES / "invalid").iterdir()):
        example = record_of(path)
        if len(example.value or b"") <= _BAD_BYTES_MAX:
            headers = tuple((name, value or b"") for name, value in example.headers)
            bad[Record("psp", example.key, example.value, headers)] = path.name.partition("-")[0]
    return bad
