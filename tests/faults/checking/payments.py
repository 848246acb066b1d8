"""Payments are the fold of their log and the truth; versions only rise."""

from collections import defaultdict
from collections.abc import Iterator

from tests.faults.checking.fates import FIELDS, Event, Standing, Stream
from tests.faults.checking.history import History, Row
from tests.faults.scenes import TIMED_KINDS, Expected


def fold_of_log(history: History) -> Iterator[str]:
    """Every payment is what its log makes of it, as `reconciler verify` proves."""
    for each in history.differences:
        yield (
            f"{each.payment_id}: {each.field} is {each.stored!r},"
            f" the log makes it {each.recomputed!r}"
        )


def the_truth(history: History) -> Iterator[str]:
    """Every payment of the workload stands as it must, and there is no other."""
    found = {row["payment_id"]: row for row in history.payments}
    expected = history.told.expected
    dead = {row["payment_id"] for row in history.jobs if row["status"] == "dead"}
    for payment_id in sorted(expected.keys() | found.keys()):
        if payment_id not in expected:
            yield f"{payment_id} is a payment that nobody told of"
        elif payment_id not in found:
            yield f"{payment_id} is missing: {expected[payment_id]}"
        elif (stands := _stands(found[payment_id])) != expected[payment_id]:
            why = " (its job is dead)" if payment_id in dead else ""
            yield f"{payment_id} should be {expected[payment_id]}, is {stands}{why}"


def row_versions_rise(history: History) -> Iterator[str]:
    """In the log a payment's row version rises by one with each change, and never else; the table
    has the last one.
    """
    versions: dict[str, int] = defaultdict(int)
    for row in history.log:
        before, after = versions[row["payment_id"]], row["row_version"]
        steps = {"applied": (1,), "conflict": (0, 1)}.get(row["outcome"], (0,))
        if after - before not in steps:
            yield (
                f"{row['payment_id']}: log {row['log_id']}, {row['outcome']},"
                f" takes the row version from {before} to {after}"
            )
        versions[row["payment_id"]] = after
    for row in history.payments:
        last = versions[row["payment_id"]]
        if row["row_version"] != last:
            found = row["row_version"]
            yield f"{row['payment_id']} has row version {found}, its log ends at {last}"


def field_versions_rise(history: History) -> Iterator[str]:
    """What is applied advances a field of its stream: nothing older ever overwrites."""
    streams: dict[Stream, Standing] = defaultdict(Standing)
    for row in history.log:
        if row["outcome"] != "applied" or row["version"] is None:
            continue
        event = _event(row)
        standing = streams[event.stream]
        if not standing.advances(event):
            yield (
                f"{row['payment_id']}: log {row['log_id']} applies version {event.version}"
                f" of {event.stream[1:]}, and every field stands at it or above"
            )
        standing.take(event)


def one_case_a_kind(history: History) -> Iterator[str]:
    """At most one discrepancy is held a payment and kind; an open one holds, and only closed ones
    say when they were.
    """
    held: dict[tuple[str, str], int] = {}
    for row in history.discrepancies:
        name = f"discrepancy {row['discrepancy_id']} of {row['payment_id']}"
        key = (row["payment_id"], row["kind"])
        if row["holds"] and (other := held.setdefault(key, row["discrepancy_id"])):
            if other != row["discrepancy_id"]:
                yield f"{name}: {row['kind']} is held by {other} already"
        elif row["status"] == "open":
            yield f"{name} is open though the facts agree"
        if (row["status"] == "open") != (row["resolved_at"] is None):
            yield f"{name} is {row['status']}, resolved at {row['resolved_at']}"


def _stands(row: Row) -> Expected:
    return Expected(
        status=row["status"],
        captured_minor=row["captured_minor"],
        refunded_minor=row["refunded_minor"],
        disputed_minor=row["disputed_minor"],
        kinds=tuple(kind for kind in row["kinds"] if kind not in TIMED_KINDS),
    )


def _event(row: Row) -> Event:
    source = "erp" if row["kind"] == "erp" else "psp"
    patch = row["changekind"] == "patch"
    references = (row["psp"] or "", row["psp_reference"] or "") if source == "psp" else ("", "")
    given = frozenset(row["data"]) - {"psp", "psp_reference"} if source == "psp" else row["data"]
    return Event(
        stream=(row["payment_id"], source, *references),
        version=(row["epoch"], row["version"]),
        fields=frozenset(given) if patch else FIELDS[source],
        patch=patch,
        data=row["data"],
    )
