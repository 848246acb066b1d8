"""The demo's verdict: exit 0 only for a whole truth, and a line for each thing that is not."""

import io
from collections.abc import Mapping
from dataclasses import replace

import pytest
from rich.console import Console

from service.sandbox.ledger import Healed, Progress
from service.sandbox.outcome import Outcome
from service.sandbox.report import DIFFERENCES_SHOWN_MAX, Report
from service.sandbox.story import tell

STORY = tell(100, seed=1)
REFUSED = sum(STORY.broken.values())


def _outcome(**changes: object) -> Outcome:
    told = len(STORY.records)
    progress = Progress(ingested=told, applied=told - REFUSED - 12, stale=7, dead_letters=REFUSED)
    whole = Outcome(
        story=STORY,
        progress=progress,
        duplicates=5,
        refusals=STORY.broken,
        found=STORY.truth,
        healed=Healed(payments=len(STORY.lost), slowest_seconds=1.5),
        interrupted=3,
        taken_over=3,
        ingest_seconds=2.0,
    )
    return replace(whole, **changes)  # type: ignore[arg-type]  # names and values by the cases


def test_a_whole_truth_has_no_failures() -> None:
    assert _outcome().failures() == []
    assert _outcome().verdict() == "all 100 payments equal the truth"


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"duplicates": 4}, "records accounted for: should be {told}, found {fewer}"),
        ({"taken_over": 2}, "jobs taken over after the kill: should be 3, found 2"),
        ({"healed": Healed(0, 0.0)}, "lost successes healed: should be {lost}, found 0"),
        ({"refusals": {}}, "dead letters by reason: should be {broken}, found {{}}"),
    ],
)
def test_each_wrong_count_is_a_failure(changes: Mapping[str, object], line: str) -> None:
    told = len(STORY.records)
    expected = line.format(
        told=told, fewer=told - 1, lost=len(STORY.lost), broken=dict(STORY.broken)
    )
    outcome = _outcome(**changes)
    assert outcome.failures() == [expected]
    assert outcome.verdict() == "all 100 payments equal the truth, but 1 counts are wrong"


def test_wrong_payments_are_counted_once_each() -> None:
    payment_id = min(STORY.truth)
    wrong = replace(STORY.truth[payment_id], status="expired", refunded_minor=1)
    outcome = _outcome(found={**STORY.truth, payment_id: wrong})
    assert len(outcome.failures()) == 2
    assert outcome.verdict() == "1 of 100 payments differ from the truth"


def test_outside_a_terminal_the_report_is_plain_lines() -> None:
    console = Console(file=io.StringIO(), force_terminal=False, highlight=False, width=60)
    with Report(console) as report:
        report.phase("a phase with [brackets] and a text that is longer than one line is wide")
        report.end(_outcome().figures())
        report.failures([f"failure {number}" for number in range(DIFFERENCES_SHOWN_MAX + 2)])
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert not {"\x1b", "\r", "─"} & set(text)
    assert "0.0 s  a phase with [brackets] and a text that is longer than one line is wide" in text
    assert "lost successes" in text
    assert text.endswith("failure 49\n… and 2 more\n")


def test_on_a_terminal_figures_change_in_place() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=80)
    with Report(console) as report:
        report.figures([("ingested", "1,234")])
    assert isinstance(console.file, io.StringIO)
    assert "1,234" in console.file.getvalue()
    assert "\x1b[" in console.file.getvalue()
