"""`reconciler dead-letters`: what could not be read is looked at, replayed once, or discarded."""

import asyncio
import json
import sys
from datetime import datetime
from typing import Any

import pytest

from tests.acceptance.commands import COMMAND_SECONDS, Ended, reconciler
from tests.faults.house import variables
from tests.support.dead_letters import TOPIC, actions, of_own_exponent, park, statuses, written
from tests.support.postgres import Database
from tests.support.processes import clean_environment
from tests.support.waiting import eventually

# One that only an account with its own exponent for the króna may send.
OWN_EXPONENT = {"PSP__EXPONENTS": '{"acme-eu": {"ISK": 2}}'}
BY_ANA = ("--by", "ana", "--note", "mended")
CARD = "4111111111111111"
WAITING = (
    "SELECT count(*) FROM pg_stat_activity"
    " WHERE wait_event_type = 'Lock' AND datname = current_database()"
)


async def dead_letters(database: Database, *arguments: str, **given: str) -> Ended:
    settings = variables(DATABASE__URL=database.url, **given)
    return await reconciler("dead-letters", *arguments, settings=settings)


async def log_of(connection: Any) -> list[tuple[Any, ...]]:
    query = (
        'SELECT payment_id, version, outcome, topic, partition, "offset"'
        " FROM payment_events ORDER BY log_id"
    )
    return [tuple(row) for row in await connection.fetch(query)]


async def test_list_tells_which_are_parked_and_sums_them_up_by_reason(database: Database) -> None:
    first = await park(database.url, 1, b"{")
    second = await park(database.url, 2, b"\xff")
    third = await park(database.url, 9, of_own_exponent("p-1", 1), key=b"p-1")
    fourth = await park(database.url, 10, b"[", key=b"p-2")
    told = await dead_letters(database, "list")
    assert told.code == 0, told.text
    rows = [line.split("\t") for line in told.out.splitlines()]
    assert [int(row[0]) for row in rows] == [fourth, third, second, first]
    assert rows[1][2:7] == ["parked", "bad_exponent", f"{TOPIC}/0/9", "p-1", rows[1][6]]
    assert told.err == "4 dead letters: not_json 2, bad_exponent 1, not_utf8 1\n"
    few = await dead_letters(database, "list", "--limit", "1")
    assert few.out.startswith(f"{fourth}\t")
    assert few.out.count("\n") == 1
    assert few.err.startswith("4 dead letters (the newest 1 shown: --limit): not_json 2")


async def test_json_of_a_list_is_one_object_a_line(database: Database) -> None:
    parked = await park(database.url, 7, b"{", key=b"p-1")
    told = await dead_letters(database, "list", "--json")
    (line,) = told.out.splitlines()
    found = json.loads(line)
    assert datetime.fromisoformat(found.pop("received_at")).tzinfo is not None
    assert "send one JSON text" in found.pop("error")
    assert found == {
        "dead_letter_id": parked,
        "topic": TOPIC,
        "partition": 0,
        "offset": 7,
        "reason": "not_json",
        "payment_id": "p-1",
        "status": "parked",
        "value_bytes": 1,
    }


async def test_nothing_of_a_record_can_move_an_operators_cursor(database: Database) -> None:
    parked = await park(
        database.url, 1, b"{\x1b[2J", key=b"a\tb\n\x1b[31m", headers=[("h\x1b", b"\x1b[1m\xff")]
    )
    for command in (("list",), ("list", "--json"), ("show", str(parked))):
        told = await dead_letters(database, *command)
        assert "\x1b" not in told.out
        assert told.code == 0
    listed = await dead_letters(database, "list")
    assert listed.out.count("\n") == 1
    assert "a\\tb\\n\\x1b[31m" in listed.out


@pytest.mark.parametrize("form", [(), ("--json",)])
async def test_list_masks_card_numbers_that_a_stored_sentence_may_hold(
    database: Database, form: tuple[str, ...]
) -> None:
    await park(database.url, 1, b"{")
    connection = await database.connect()
    await connection.execute("UPDATE dead_letters SET error = 'no such card: ' || $1::text", CARD)
    told = await dead_letters(database, "list", *form)
    assert "no such card: ****" in told.out
    assert CARD not in told.text


async def test_show_tells_everything_and_masks_card_numbers(database: Database) -> None:
    value = b'{"card": "' + CARD.encode() + b'", "n": "\xc3\xa9"'
    headers: list[tuple[str, bytes | None]] = [
        ("content-type", b"text/plain"),
        ("authorization", b"Bearer abcdefgh"),
        ("empty", None),
    ]
    parked = await park(database.url, 5, value, key=CARD.encode(), headers=headers)
    told = await dead_letters(database, "show", str(parked))
    assert told.code == 0, told.text
    for words in (
        f"dead letter  {parked}, parked",
        "reason       not_json: ",
        f"place        {TOPIC}, partition 0, offset 5",
        "content-type: text/plain",
        "empty: null",
        f"{len(value)} bytes",
        '{"card": "****", "n": "é"',
    ):
        assert words in told.out
    assert "abcdefgh" not in told.out
    assert CARD not in told.out.replace(f"payment      {CARD}", "")


async def test_card_number_among_other_bytes_is_masked_in_hexadecimal_too(
    database: Database,
) -> None:
    parked = await park(database.url, 5, b"\xff card " + CARD.encode() + b" \x00")
    told = await dead_letters(database, "show", str(parked))
    assert "ff 20 63 61 72 64 20 2a 2a 2a 2a 20 00" in told.out
    assert CARD.encode().hex(" ") not in told.out


async def test_raw_is_the_values_exact_bytes_and_nothing_else(database: Database) -> None:
    value = b"\xff\x00\r\n" + CARD.encode()
    parked = await park(database.url, 5, value)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "service", "dead-letters", "show", str(parked), "--raw"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**clean_environment(), **variables(DATABASE__URL=database.url)},
        cwd="/",
    )
    async with asyncio.timeout(COMMAND_SECONDS):
        assert await process.communicate() == (value, b"")
    assert process.returncode == 0


async def test_show_cuts_a_large_value_and_says_how_to_get_it_all(database: Database) -> None:
    parked = await park(database.url, 5, b"x" * 65_530 + CARD.encode() + b"y" * 900)
    told = await dead_letters(database, "show", str(parked))
    assert "--raw" in told.out
    assert "x" * 65_530 in told.out.replace("\n", "")
    assert CARD[:6] not in told.out


@pytest.mark.parametrize("command", [("show", "77"), ("replay", "77"), ("discard", "77")])
async def test_unknown_id_is_named_and_exit_code_1(
    database: Database, command: tuple[str, ...]
) -> None:
    told = await dead_letters(database, *command)
    assert told.code == 1
    assert "77" in told.text
    assert "no such dead letter" in told.text or "no dead letter 77" in told.text
    assert "Traceback" not in told.text


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("replay",), ("ids", "filter", "--all")),
        (("replay", "--limit", "3"), ("ids", "filter", "--all")),
        (("replay", "1", "--all"), ("contradict",)),
        (("discard",), ("ids", "filter", "--all")),
        (("list", "--since", "yesterday"), ("--since", "RFC 3339", "2h")),
    ],
)
async def test_command_that_says_too_little_is_exit_code_2_and_changes_nothing(
    database: Database, command: tuple[str, ...], words: tuple[str, ...]
) -> None:
    await park(database.url, 1, b"{")
    connection = await database.connect()
    before = await written(connection)
    told = await dead_letters(database, *command)
    assert told.code == 2, told.text
    for word in words:
        assert word in told.err
    assert "Traceback" not in told.text
    assert await written(connection) == before


async def test_letter_that_todays_settings_can_read_is_replayed_once(database: Database) -> None:
    """Its event is in the log with the place it came from, and a second replay changes nothing."""
    parked = await park(database.url, 9, of_own_exponent("p-1", 4), key=b"p-1")
    connection = await database.connect()
    told = await dead_letters(database, "replay", str(parked), *BY_ANA, **OWN_EXPONENT)
    assert (told.code, told.out) == (0, "replayed 1 (applied 1)\n"), told.text
    assert told.err == ""
    assert await log_of(connection) == [("p-1", 4, "applied", TOPIC, 0, 9)]
    assert await statuses(connection) == {parked: "replayed"}
    expected = [("dead_letters.replay", str(parked), "ana", "mended")]
    assert await actions(connection) == expected
    before = await written(connection)
    again = await dead_letters(database, "replay", str(parked), **OWN_EXPONENT)
    assert again.code == 0
    assert f"{parked}: is replayed already" in again.out
    assert "replayed 0, replayed already 1" in again.out
    every = await dead_letters(database, "replay", "--all", **OWN_EXPONENT)
    assert (every.code, every.out) == (0, "replayed 0\n")
    assert await written(connection) == before
    shown = await dead_letters(database, "show", str(parked))
    assert "replayed (applied 1) by ana: mended" in shown.out


async def test_action_without_a_name_is_by_the_account_and_the_host(database: Database) -> None:
    parked = await park(database.url, 1, b"{")
    assert (await dead_letters(database, "discard", str(parked), "--note", "old")).code == 0
    ((_, _, actor, _),) = await actions(await database.connect())
    assert "@" in actor.strip("@")


async def test_refused_letter_stays_parked_and_the_others_land(database: Database) -> None:
    good = await park(database.url, 1, of_own_exponent("p-1", 1), key=b"p-1")
    bad = await park(database.url, 2, b"{")
    last = await park(database.url, 3, of_own_exponent("p-2", 1), key=b"p-2")
    told = await dead_letters(database, "replay", "--all", **OWN_EXPONENT)
    assert told.code == 1
    assert f"{bad}: still refused, not_json: " in told.out
    assert "send one JSON text" in told.out
    assert "replayed 2 (applied 2), still refused 1" in told.out
    assert "stays parked" in told.out
    connection = await database.connect()
    assert await statuses(connection) == {good: "replayed", bad: "parked", last: "replayed"}
    assert len(await actions(connection)) == 2


async def test_discarded_letter_is_kept_and_only_replayed_when_it_is_said(
    database: Database,
) -> None:
    parked = await park(database.url, 9, of_own_exponent("p-1", 4), key=b"p-1")
    connection = await database.connect()
    kept = await connection.fetchrow("SELECT value, reason, error FROM dead_letters")
    told = await dead_letters(database, "discard", "--reason", "bad_exponent", *BY_ANA)
    assert (told.code, told.out) == (0, "discarded 1\n"), told.text
    assert await statuses(connection) == {parked: "discarded"}
    assert await connection.fetchrow("SELECT value, reason, error FROM dead_letters") == kept
    assert await actions(connection) == [("dead_letters.discard", str(parked), "ana", "mended")]
    again = await dead_letters(database, "discard", "--id", str(parked), "--note", "again")
    assert again.code == 0
    assert f"{parked}: is discarded already" in again.out
    every = await dead_letters(database, "replay", "--all", **OWN_EXPONENT)
    assert (every.code, every.out) == (0, "replayed 0\n")
    named = await dead_letters(database, "replay", str(parked), **OWN_EXPONENT)
    assert named.code == 1
    assert "--status discarded" in named.out
    assert await log_of(connection) == []
    said = await dead_letters(
        database, "replay", str(parked), "--status", "discarded", **OWN_EXPONENT
    )
    assert (said.code, said.out) == (0, "replayed 1 (applied 1)\n")
    late = await dead_letters(database, "discard", str(parked), "--note", "too late")
    assert late.code == 1
    assert f"{parked}: is replayed, not parked" in late.out
    assert await statuses(connection) == {parked: "replayed"}


async def test_dry_run_names_what_would_be_touched_and_touches_nothing(database: Database) -> None:
    good = await park(database.url, 1, of_own_exponent("p-1", 1), key=b"p-1")
    bad = await park(database.url, 2, b"{")
    connection = await database.connect()
    before = await written(connection)
    told = await dead_letters(database, "replay", "--all", "--dry-run", **OWN_EXPONENT)
    assert told.code == 1
    assert f"{good}: would be replayed" in told.out
    assert f"{bad}: still refused, not_json" in told.out
    assert "would be replayed 1, still refused 1" in told.out
    told = await dead_letters(database, "discard", "--all", "--dry-run", "--note", "why")
    assert told.code == 0
    assert "would be discarded 2" in told.out
    assert await written(connection) == before


async def test_two_operators_at_once_replay_a_letter_once(database: Database) -> None:
    await park(database.url, 1, of_own_exponent("p-1", 1), key=b"p-1")
    assert (await dead_letters(database, "replay", "--all", **OWN_EXPONENT)).code == 0
    parked = await park(database.url, 2, of_own_exponent("p-1", 2), key=b"p-1")
    connection, holder = await database.connect(), await database.connect()

    async def both_wait() -> bool:
        return bool(await connection.fetchval(WAITING) == 2)

    async with asyncio.TaskGroup() as group, holder.transaction():
        await holder.execute("SELECT 1 FROM payments FOR NO KEY UPDATE")
        commands = [
            group.create_task(
                dead_letters(database, "replay", str(parked), "--by", name, **OWN_EXPONENT)
            )
            for name in ("ana", "bo")
        ]
        await eventually(both_wait, within_seconds=20, what="both commands wait")
    told = sorted(command.result().out for command in commands)
    assert told[1] == "replayed 1 (applied 1)\n"
    assert told[0] == f"{parked}: is replayed already\nreplayed 0, replayed already 1\n"
    assert {command.result().code for command in commands} == {0}
    assert [row[1:3] for row in await log_of(connection)] == [(1, "applied"), (2, "applied")]
    assert len([row for row in await actions(connection) if row[1] == str(parked)]) == 1
