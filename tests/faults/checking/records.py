"""Every record that was sent is accounted for exactly once, and nothing else is in the books."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.faults.checking.fates import Fate, fates_of
from tests.faults.checking.history import History, Origin, Row

_LOGGED = frozenset({"applied", "stale", "conflict"})


def accounted_for(history: History) -> Iterator[str]:
    """One log row for what is applied, stale or a conflict, one dead letter for what is refused,
    nothing for a duplicate or a tombstone; and no row of a record that was never sent.
    """
    log, letters = _by_origin(history.log), _by_origin(history.dead_letters)
    wanted_log: dict[Origin, list[Fate]] = defaultdict(list)
    wanted_letters: dict[Origin, list[Fate]] = defaultdict(list)
    silent: dict[Origin, Fate] = {}
    for fate in fates_of(history.sent, history.told.refusals):
        if fate.outcome in _LOGGED:
            wanted_log[fate.sent.origin].append(fate)
        elif fate.outcome == "refused":
            wanted_letters[fate.sent.origin].append(fate)
        else:
            silent[fate.sent.origin] = fate
    for origin in sorted(wanted_log.keys() | log.keys()):
        fates, rows = wanted_log.get(origin, []), log.get(origin, [])
        yield from _compared(origin, fates, rows, silent.get(origin))
    for origin in sorted(wanted_letters.keys() | letters.keys()):
        yield from _parked(origin, wanted_letters.get(origin, []), letters.get(origin, []))


def without_origin(history: History) -> Iterator[str]:
    """A row of a source's event names the record that it comes from."""
    for row in history.log:
        if row["kind"] in ("erp", "psp") and row["topic"] is None:
            yield f"log {row['log_id']} of {row['payment_id']} is a source's and names no record"


def at_the_end(history: History) -> Iterator[str]:
    """Every stored position is behind the last record that was sent."""
    ends: dict[tuple[str, int], int] = {}
    for each in history.sent:
        place = (each.topic, each.partition)
        ends[place] = max(ends.get(place, 0), each.offset + 1)
    stored = {(row["topic"], row["partition"]): row["next_offset"] for row in history.offsets}
    for place, end in sorted(ends.items()):
        if stored.get(place) != end:
            yield f"{_at(place)}: the stored offset is {stored.get(place)}, the end is {end}"
    for place in sorted(stored.keys() - ends.keys()):
        if stored[place] != 0:
            yield f"{_at(place)}: the stored offset is {stored[place]}, and nothing was sent"


def _compared(
    origin: Origin, fates: Sequence[Fate], rows: Sequence[Row], silent: Fate | None
) -> Iterator[str]:
    if len(rows) > len(fates):
        why = f"a {silent.outcome} has none" if silent else "nothing that was sent explains them"
        why = f"{len(fates)} expected" if fates else why
        ids = [row["log_id"] for row in rows]
        yield f"{_at(origin)} has {len(rows)} log rows {ids}: {why}"
    elif len(rows) < len(fates):
        told = [f"{fate.outcome} of {_payment(fate)}" for fate in fates]
        yield f"{_at(origin)} has {len(rows)} log rows, expected {told}: an event is lost"
    else:
        for fate, row in zip(fates, rows, strict=True):
            wanted, found = _as_sent(fate), _as_logged(row)
            if wanted != found:
                yield f"{_at(origin)} should be logged as {wanted}, log {row['log_id']} is {found}"


def _parked(origin: Origin, fates: Sequence[Fate], rows: Sequence[Row]) -> Iterator[str]:
    if len(fates) != len(rows):
        reasons = [fate.reason for fate in fates]
        yield f"{_at(origin)} has {len(rows)} dead letters, expected {reasons}"
        return
    for fate, row in zip(fates, rows, strict=True):
        name = f"dead letter {row['dead_letter_id']} of {_at(origin)}"
        if row["reason"] != fate.reason:
            yield f"{name} has the reason {row['reason']}, expected {fate.reason}"
        record = fate.sent.record
        if (row["key"], row["value"]) != (record.key, record.value):
            yield f"{name} does not hold the bytes that were sent"


def _as_sent(fate: Fate) -> tuple[Any, ...]:
    event = fate.event
    assert event is not None
    payment_id, source, *_ = event.stream
    changekind = "patch" if event.patch else "snapshot"
    return payment_id, source, *event.version, changekind, fate.outcome, _text(event.data)


def _as_logged(row: Row) -> tuple[Any, ...]:
    version = (row["epoch"], row["version"])
    told = (row["changekind"], row["outcome"], _text(row["data"]))
    return row["payment_id"], row["kind"], *version, *told


def _by_origin(rows: Sequence[Row]) -> Mapping[Origin, list[Row]]:
    grouped: dict[Origin, list[Row]] = defaultdict(list)
    for row in rows:
        if row["topic"] is not None:
            grouped[row["topic"], row["partition"], row["offset"]].append(row)
    return grouped


def _payment(fate: Fate) -> str:
    return fate.event.stream[0] if fate.event else "nobody"


def _text(data: Any) -> str:
    return json.dumps(data, sort_keys=True)


def _at(place: tuple[Any, ...]) -> str:
    return "/".join(str(part) for part in place)
