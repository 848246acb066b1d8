"""Payments that are not what was told of them."""

from tests.faults.breaking.breach import breach, first
from tests.faults.checking.history import History


@breach("the_truth")
def payment_missing(history: History) -> None:
    history.payments.pop()


@breach("the_truth")
def other_money(history: History) -> None:
    first(history.payments, status="succeeded")["captured_minor"] -= 1


@breach("the_truth", "last_word_is_the_table")
def other_status(history: History) -> None:
    first(history.payments, status="succeeded")["status"] = "failed"


@breach("row_versions_rise")
def version_of_the_row_lost(history: History) -> None:
    history.payments[0]["row_version"] += 1


@breach("row_versions_rise")
def two_changes_of_one_version(history: History) -> None:
    row = next(
        row
        for row in history.log
        if row["outcome"] == "applied"
        and "status" not in row["changes"]
        and "open_discrepancies" not in row["changes"]
    )
    row["row_version"] -= 1


@breach("accounted_for", "field_versions_rise")
def older_version_applied_again(history: History) -> None:
    first_seen: set[str] = set()
    for row in history.log:
        snapshot = (row["kind"], row["outcome"], row["changekind"]) == (
            "erp",
            "applied",
            "snapshot",
        )
        if snapshot and row["version"] == 2 and row["payment_id"] in first_seen:
            row["version"] = 1
            return
        if snapshot and row["version"] == 1:
            first_seen.add(row["payment_id"])


@breach("one_case_a_kind")
def kind_held_twice(history: History) -> None:
    held = first(history.discrepancies, holds=True)
    history.discrepancies.append({**held, "discrepancy_id": 10**6})


@breach("one_case_a_kind")
def case_open_without_facts(history: History) -> None:
    first(history.discrepancies, status="open")["holds"] = False


@breach("one_case_a_kind")
def case_closed_at_no_time(history: History) -> None:
    first(history.discrepancies, status="resolved")["resolved_at"] = None
