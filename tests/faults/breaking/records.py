"""Records that are lost, told twice, or came from nowhere."""

from typing import Any

from tests.faults.breaking.breach import breach, first
from tests.faults.checking.history import History
from tests.support.events import erp_event


def drop(rows: list[Any], **wanted: Any) -> None:
    rows.remove(first(rows, **wanted))


@breach("accounted_for")
def event_without_a_row(history: History) -> None:
    drop(history.log, outcome="stale")


@breach("accounted_for")
def event_logged_twice(history: History) -> None:
    row = first(history.log, outcome="stale")
    history.log.insert(history.log.index(row), dict(row))


@breach("accounted_for")
def row_from_nowhere(history: History) -> None:
    row = first(history.log, outcome="stale")
    history.log.insert(history.log.index(row), {**row, "offset": 10**6})


@breach("accounted_for")
def row_of_a_duplicate(history: History) -> None:
    stale = first(history.log, outcome="stale")
    logged = {(row["topic"], row["partition"], row["offset"]) for row in history.log}
    silent = next(
        each
        for each in history.sent
        if each.record.value and b'-again"' in each.record.value and each.origin not in logged
    )
    row = {**stale, "topic": silent.topic, "partition": silent.partition, "offset": silent.offset}
    history.log.insert(history.log.index(stale), row)


@breach("accounted_for")
def other_outcome(history: History) -> None:
    first(history.log, outcome="stale")["outcome"] = "shadow"


@breach("accounted_for")
def other_content(history: History) -> None:
    first(history.log, outcome="stale")["data"]["status"] = "paid"


@breach("accounted_for", "at_the_end")
def last_event_of_a_partition_lost(history: History) -> None:
    last = max(history.sent, key=lambda each: each.offset)
    lost = last._replace(record=erp_event("pay-00000", 99), offset=last.offset + 1)
    history.sent = [*history.sent, lost]


@breach("accounted_for")
def other_reason(history: History) -> None:
    history.dead_letters[0]["reason"] = "missed"


@breach("accounted_for", "dead_letters_copied")
def bad_record_lost(history: History) -> None:
    history.dead_letters.pop()


@breach("accounted_for", "dead_letters_copied")
def bytes_lost(history: History) -> None:
    history.dead_letters[0]["value"] = b"{}"


@breach("without_origin")
def event_of_no_record(history: History) -> None:
    row = first(history.log, outcome="stale")
    history.log.insert(history.log.index(row), {**row, "topic": None})


@breach("at_the_end")
def position_behind(history: History) -> None:
    history.offsets[0]["next_offset"] -= 1


@breach("at_the_end")
def position_of_a_partition_without_records(history: History) -> None:
    history.offsets.append({**history.offsets[0], "partition": 99})
