"""Every claim of the checker holds for a real story without faults, and each can fail."""

import asyncio
from copy import deepcopy
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from service.sandbox.broker import EmbeddedBroker
from service.sandbox.postgres import EmbeddedPostgres
from tests.faults.breaking import BREACHES, Breach
from tests.faults.breaking.outgoing import payment_told_twice
from tests.faults.checker import CLAIMS, violations
from tests.faults.told_story import ToldStory, tell_story
from tests.support.postgres import Database

STORY_DATABASE = "told_story"


@pytest.fixture(scope="module", name="story")
def told_story(
    postgres: EmbeddedPostgres,
    migrated_template: str,
    embedded_broker: EmbeddedBroker,
    tmp_path_factory: pytest.TempPathFactory,
) -> ToldStory:
    """Told once; each test has its own copy of the history."""

    async def tell(directory: Path) -> ToldStory:
        admin: Any = await asyncpg.connect(postgres.url)
        await admin.execute(f"CREATE DATABASE {STORY_DATABASE} TEMPLATE {migrated_template}")
        try:
            database = Database(postgres.url_of(STORY_DATABASE))
            return await tell_story(embedded_broker, database, directory)
        finally:
            await admin.execute(f"DROP DATABASE {STORY_DATABASE} WITH (FORCE)")
            await admin.close()

    return asyncio.run(tell(tmp_path_factory.mktemp("story")))


def test_story_without_faults_breaks_no_claim(story: ToldStory) -> None:
    history = story.history
    assert violations(history) == []
    assert len(history.payments) == len(history.told.expected)
    assert history.told.heal_only
    assert {row["outcome"] for row in history.log} == {"applied", "stale", "conflict"}
    assert len(history.log) + len(history.dead_letters) < len(history.sent)


@pytest.mark.parametrize("breach", BREACHES, ids=[breach.name for breach in BREACHES])
def test_each_breach_is_reported_by_its_claim_alone(story: ToldStory, breach: Breach) -> None:
    history = deepcopy(story.history)
    breach.commit(history)
    said = violations(history)
    assert {each.partition(":")[0] for each in said} == breach.claims, said


def test_payment_changed_by_hand_is_not_the_fold_of_its_log(story: ToldStory) -> None:
    said = violations(story.tampered)
    assert said == ["fold_of_log: pay-00000: erp_currency is 'USD', the log makes it 'EUR'"]


def test_every_claim_can_fail() -> None:
    broken = frozenset[str]().union(*(breach.claims for breach in BREACHES)) | {"fold_of_log"}
    assert broken == {claim.__name__ for claim in CLAIMS}


def test_repeated_message_is_no_breach(story: ToldStory) -> None:
    history = deepcopy(story.history)
    repeated = [history.outcomes[place] for place in payment_told_twice(history)]
    history.outcomes = [*history.outcomes, *repeated]
    assert violations(history) == []
