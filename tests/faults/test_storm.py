"""Storms: real processes, real PostgreSQL, real Kafka, and a seeded plan against all of them.

`make faults SEEDS=50` runs a whole row; here are the first few, and what every plan must be.
"""

import asyncio
from collections.abc import Iterator

import pytest

from tests.faults.injectors import INJECTORS
from tests.faults.plan import (
    FAULTS_MAX,
    FAULTS_MIN,
    NATURES,
    OF_DATABASE,
    OUTSIDE,
    STORM_SECONDS,
    Kind,
    Place,
    draw,
)
from tests.faults.seed import run_seed
from tests.faults.stage import ProxiedKafka
from tests.support.kafka import MissingTool

SEEDS = range(1, 201)


@pytest.fixture(scope="module")
def proxied_kafka() -> Iterator[ProxiedKafka]:
    """Apache Kafka behind the storms' proxy."""
    proxied = ProxiedKafka.new()
    try:
        asyncio.run(proxied.kafka.start())
    except MissingTool as missing:
        pytest.skip(str(missing))
    try:
        yield proxied
    finally:
        asyncio.run(proxied.kafka.close())


@pytest.mark.kafka
@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_seeded_storm_loses_nothing_and_heals_nothing_twice(
    proxied_kafka: ProxiedKafka, seed: int
) -> None:
    outcome = await run_seed(proxied_kafka, seed)
    assert not outcome.violations, outcome.report()
    assert outcome.counts["heals"] > 0


def test_each_plan_strikes_a_process_and_the_database_and_the_broker_or_the_psp() -> None:
    for seed in SEEDS:
        places = {NATURES[fault.kind].place for fault in draw(seed).faults}
        assert Place.PROCESS in places, seed
        assert places & OF_DATABASE, seed
        assert places & OUTSIDE, seed


def test_plans_hold_what_a_storm_can_bear() -> None:
    for seed in SEEDS:
        faults = draw(seed).faults
        assert FAULTS_MIN <= len(faults) <= FAULTS_MAX, seed
        assert max(fault.at_seconds + fault.seconds for fault in faults) <= STORM_SECONDS, seed
        assert not any(
            one.collides(other) for place, one in enumerate(faults) for other in faults[:place]
        ), seed


def test_same_seed_draws_the_same_plan_and_fifty_draw_every_kind() -> None:
    assert draw(7) == draw(7)
    assert draw(7) != draw(8)
    assert {fault.kind for seed in SEEDS[:50] for fault in draw(seed).faults} == set(Kind)
    assert set(INJECTORS) == set(Kind) == set(NATURES)


def test_longer_storm_goes_on_as_it_began() -> None:
    faults = draw(7, seconds=10 * STORM_SECONDS).faults
    for start in range(10):
        window = [
            fault
            for fault in faults
            if start * STORM_SECONDS <= fault.at_seconds < (start + 1) * STORM_SECONDS
        ]
        assert FAULTS_MIN <= len(window) <= FAULTS_MAX
