"""What becomes of dead letters that are replayed: read with today's settings, in order, or told."""

import io
import json
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from service.commands.dead_letter_changes import replay_letters
from service.commands.dead_letter_choice import Choice
from service.ingest.letter_replay import By
from service.settings_loading import load
from tests.acceptance.commands import Ended
from tests.contract.records import EXAMPLES, record_of
from tests.contract.sources.stripe import intent, webhook
from tests.faults.house import variables
from tests.support.dead_letters import TOPIC, of_own_exponent, park, statuses, written
from tests.support.postgres import Database

# The account counts krónur in hundredths: refused without this.
OWN_EXPONENT = {"PSP__EXPONENTS": '{"acme-eu": {"ISK": 2}}'}
CUSTOMER = {"id": "cus_1", "object": "customer"}
REFUND = {
    "id": "re_1",
    "object": "refund",
    "amount": 5,
    "currency": "eur",
    "payment_intent": "pi_1",
    "metadata": {},
}


async def replayed(database: Database, choice: Choice, **given: str) -> Ended:
    """The command within this process: its exit code and what it prints."""
    settings = load(variables(DATABASE__URL=database.url, **given))
    out = io.StringIO()
    with redirect_stdout(out):
        code = await replay_letters(settings, choice, by=By(actor="ana", note=None), dry_run=False)
    return Ended(code, out.getvalue(), "")


async def log_of(connection: Any) -> list[tuple[Any, ...]]:
    query = 'SELECT payment_id, version, outcome, "offset" FROM payment_events ORDER BY log_id'
    return [tuple(row) for row in await connection.fetch(query)]


async def test_letters_of_every_reason_stay_parked_while_nothing_is_mended(
    database: Database,
) -> None:
    reasons: dict[str, Path] = {}
    for path in sorted((EXAMPLES / "invalid").iterdir()):
        reasons.setdefault(path.name.partition("-")[0], path)
    parked = {}
    for offset, (reason, path) in enumerate(reasons.items()):
        record = record_of(path)
        letter = await park(
            database.url, offset, record.value, key=record.key, headers=record.headers
        )
        parked[letter] = reason
    connection = await database.connect()
    before = await written(connection)
    told = await replayed(database, Choice(everything=True))
    assert told.code == 1
    for letter, reason in parked.items():
        assert f"{letter}: still refused, {reason}: " in told.out
    assert await written(connection) == before
    (too_large,) = (letter for letter, reason in parked.items() if reason == "too_large")
    line = next(line for line in told.out.splitlines() if line.startswith(f"{too_large}:"))
    offset = list(reasons).index("too_large")
    assert f"reconciler replay --topic {TOPIC} --partition 0 --from-offset {offset}" in line


async def test_value_that_may_have_been_cut_is_never_replayed_from_the_table(
    database: Database,
) -> None:
    whole = of_own_exponent("p-1", 1)
    parked = await park(database.url, 8, whole + b" " * ((1 << 20) - len(whole)), key=b"p-1")
    told = await replayed(database, Choice(ids=(parked,)), **OWN_EXPONENT)
    assert told.code == 1
    assert f"reconciler replay --topic {TOPIC} --partition 0 --from-offset 8" in told.out
    assert await log_of(await database.connect()) == []


async def test_letters_of_a_wrong_decoder_are_read_by_the_right_one(database: Database) -> None:
    """Events land, and a record that says nothing of payments is done with, too."""
    told_of = {
        1: webhook("payment_intent.succeeded", intent()),
        2: webhook("customer.created", CUSTOMER),
    }
    ids = [await park(database.url, at, json.dumps(told_of[at]).encode()) for at in told_of]
    refused = await replayed(database, Choice(reason="missing_field"))
    assert refused.code == 1
    told = await replayed(database, Choice(reason="missing_field"), KAFKA__PSP_DECODER="stripe")
    expected = "replayed 2 (applied 1, ignored, other_type 1)\n"
    assert (told.code, told.out) == (0, expected), told.text
    connection = await database.connect()
    assert await statuses(connection) == dict.fromkeys(ids, "replayed")
    assert [row[::2] for row in await log_of(connection)] == [("pay-1", "applied")]


async def test_record_that_names_no_payment_lands_once_its_payment_is_known(
    database: Database,
) -> None:
    refund = webhook("refund.created", REFUND)
    alone = await park(database.url, 1, json.dumps(refund).encode())
    told = await replayed(database, Choice(everything=True), KAFKA__PSP_DECODER="stripe")
    assert told.code == 1
    assert f"{alone}: still refused, missing_field" in told.out
    payment = webhook("payment_intent.succeeded", intent())
    await park(database.url, 2, json.dumps(payment).encode())
    first = await replayed(database, Choice(everything=True), KAFKA__PSP_DECODER="stripe")
    assert "replayed 1 (applied 1), still refused 1" in first.out
    told = await replayed(database, Choice(everything=True), KAFKA__PSP_DECODER="stripe")
    assert told.code == 0, told.text
    connection = await database.connect()
    assert set((await statuses(connection)).values()) == {"replayed"}


async def test_null_value_is_replayed_as_the_tombstone_it_is(database: Database) -> None:
    connection = await database.connect()
    await connection.execute(
        'INSERT INTO dead_letters (topic, partition, "offset", key, reason, error)'
        " VALUES ('psp.payments', 0, 1, 'p-1', 'not_json', 'by an older release')"
    )
    told = await replayed(database, Choice(everything=True))
    assert (told.code, told.out) == (0, "replayed 1 (tombstone 1)\n"), told.text
    assert await log_of(connection) == []


async def test_letter_of_a_topic_without_decoder_is_refused_with_the_setting(
    database: Database,
) -> None:
    parked = await park(database.url, 9, of_own_exponent("p-1", 4), key=b"p-1")
    other = {**OWN_EXPONENT, "KAFKA__PSP_TOPIC": "psp.payments.v2"}
    told = await replayed(database, Choice(ids=(parked,)), **other)
    assert told.code == 1
    assert "RECONCILER_KAFKA__PSP_TOPIC" in told.out
    assert await statuses(await database.connect()) == {parked: "parked"}


async def test_letters_of_a_payment_land_in_the_order_of_their_topic(database: Database) -> None:
    await park(database.url, 5, of_own_exponent("p-1", 2, refunded_minor=5), key=b"p-1")
    await park(database.url, 3, of_own_exponent("p-1", 1), key=b"p-1")
    told = await replayed(database, Choice(payment="p-1"), **OWN_EXPONENT)
    assert told.out == "replayed 2 (applied 2)\n", told.text
    log = await log_of(await database.connect())
    assert [row[1:] for row in log] == [(1, "applied", 3), (2, "applied", 5)]


async def test_older_letter_is_stale_and_never_turns_a_payment_back(database: Database) -> None:
    await park(database.url, 5, of_own_exponent("p-1", 2, refunded_minor=5), key=b"p-1")
    assert (await replayed(database, Choice(everything=True), **OWN_EXPONENT)).code == 0
    await park(database.url, 3, of_own_exponent("p-1", 1), key=b"p-1")
    connection = await database.connect()
    before = await connection.fetch("SELECT status, refunded_minor, row_version FROM payments")
    told = await replayed(database, Choice(everything=True), **OWN_EXPONENT)
    assert (told.code, told.out) == (0, "replayed 1 (stale 1)\n")
    after = await connection.fetch("SELECT status, refunded_minor, row_version FROM payments")
    assert after == before


async def test_limit_takes_the_first_of_the_topic(database: Database) -> None:
    ids = [await park(database.url, at, of_own_exponent(f"p-{at}", 1)) for at in (3, 1, 2)]
    told = await replayed(database, Choice(everything=True, limit=2), **OWN_EXPONENT)
    assert told.out == "replayed 2 (applied 2)\n"
    left = await statuses(await database.connect())
    assert left == {ids[0]: "parked", ids[1]: "replayed", ids[2]: "replayed"}
