"""What is refused before anything starts: one clear line, and an exit code that says which kind."""

import pytest

from tests.acceptance.commands import reconciler
from tests.faults.house import variables
from tests.support.postgres import Database

HIDDEN = "hunter2"
URL = f"postgresql://reconciler:{HIDDEN}@127.0.0.1:1/payments"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"DATABSE__URL": URL}, ("RECONCILER_DATABSE__URL", "RECONCILER_DATABASE__URL")),
        ({"LEASE__TTL_SECONDS": "2"}, ("RECONCILER_LEASE__TTL_SECONDS", "heartbeat")),
        ({"PSP__BASE_URL": "ftp://psp"}, ("RECONCILER_PSP__BASE_URL", "http")),
    ],
    ids=["unknown name", "lease shorter than three heartbeats", "no http address"],
)
async def test_settings_that_cannot_work_are_told_with_the_nearest_that_can(
    given: dict[str, str], told: tuple[str, ...]
) -> None:
    ended = await reconciler("run", settings=variables(DATABASE__URL=URL, **given))
    assert ended.code == 2, ended.text
    for words in told:
        assert words in ended.err
    assert HIDDEN not in ended.text
    assert "Traceback" not in ended.text


async def test_run_names_everything_that_its_roles_need_and_nobody_has_set() -> None:
    ended = await reconciler("run")
    assert ended.code == 2
    for name in ("DATABASE__URL", "KAFKA__BOOTSTRAP_SERVERS", "PSP__BASE_URL"):
        assert f"RECONCILER_{name} is not set" in ended.err


async def test_workers_alone_need_no_kafka_setting() -> None:
    ended = await reconciler("run", "--roles", "reconcile,watch")
    assert ended.code == 2
    assert "RECONCILER_DATABASE__URL" in ended.err
    assert "KAFKA" not in ended.err


@pytest.mark.parametrize("roles", ["reconcile,witch", ","])
async def test_role_that_there_is_not_is_refused_with_those_there_are(roles: str) -> None:
    ended = await reconciler("run", "--roles", roles, settings=variables(DATABASE__URL=URL))
    assert ended.code == 2
    assert "ingest, reconcile, watch" in ended.err
    assert "Traceback" not in ended.text


async def test_run_on_a_database_that_is_not_migrated_ends_with_the_remedy(
    empty_database: Database,
) -> None:
    settings = variables(
        DATABASE__URL=empty_database.url,
        PSP__BASE_URL="http://127.0.0.1:1",
        HEALTH__HOST="127.0.0.1",
        HEALTH__PORT="0",
    )
    ended = await reconciler("run", "--roles", "reconcile,watch", settings=settings)
    assert ended.code == 3, ended.text
    assert "reconciler migrate" in ended.err
    assert "Traceback" not in ended.text


async def test_version_and_help_need_no_setting() -> None:
    version = await reconciler("--version")
    assert (version.code, version.out.count(".")) == (0, 2)
    shown = await reconciler("--help")
    assert shown.code == 0
    for command in ("run", "migrate", "demo", "doctor", "explain"):
        assert command in shown.out
