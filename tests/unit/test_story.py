"""The demo's story: it can be told again byte for byte, and it is as bad as it claims to be."""

from collections import Counter
from itertools import pairwise

import pytest

from schemas.cloudevent import Event, decode
from schemas.refusal import Refused
from service.sandbox.envelope import Record
from service.sandbox.plots import PLOTS
from service.sandbox.story import Story, tell


@pytest.fixture(scope="module")
def story() -> Story:
    return tell(400, seed=7)


def _decoded(record: Record) -> Event | str:
    try:
        event = decode(key=record.key, value=record.value, headers=record.headers)
    except Refused as refusal:
        return str(refusal.reason)
    assert isinstance(event, Event)
    return event


def _events(story: Story) -> list[Event]:
    return [event for record in story.records if isinstance(event := _decoded(record), Event)]


def test_same_seed_tells_same_events_in_same_order(story: Story) -> None:
    again = tell(400, seed=7)
    assert again.records == story.records
    assert again.holdings == story.holdings
    assert again.truth == story.truth
    assert again.lost == story.lost


def test_another_seed_tells_another_story(story: Story) -> None:
    assert tell(400, seed=8).records != story.records


def test_every_payment_has_a_truth_and_is_told_of(story: Story) -> None:
    assert len(story.truth) == 400
    assert {event.payment_id for event in _events(story)} == set(story.truth)
    assert {holding.payment_id for holding in story.holdings} == set(story.truth)


@pytest.mark.parametrize("payments", [100, 400])
def test_every_plot_is_played_whatever_the_size(payments: int) -> None:
    played = tell(payments, seed=3).plots
    assert set(played) == {*(plot.__name__ for plot in PLOTS), "paid"}
    assert sum(played.values()) == payments


def test_asked_share_of_the_successes_is_lost(story: Story) -> None:
    told = tell(400, seed=7, lost_share=0)
    successes = {
        (event.payment_id, event.fields["psp_reference"], event.version)
        for event in _events(told)
        if event.kind == "psp" and event.fields.get("status") == "succeeded"
    }
    # the lost refunds are successes too, and lost by their plot
    assert len(story.lost) == round(0.05 * (len(successes) + told.plots["refund_lost"]))


def test_no_event_tells_of_a_lost_success(story: Story) -> None:
    told = {
        event.payment_id
        for event in _events(story)
        if event.kind == "psp" and event.fields["status"] == "succeeded"
    }
    assert told.isdisjoint(story.lost)
    assert all(story.truth[payment_id].status == "succeeded" for payment_id in story.lost)


def test_broken_records_are_refused_for_the_reasons_they_claim(story: Story) -> None:
    refusals = Counter(
        outcome for record in story.records if isinstance(outcome := _decoded(record), str)
    )
    assert refusals == dict(story.broken)
    assert len(refusals) >= 5


def test_records_come_in_both_modes_doubled_and_out_of_order(story: Story) -> None:
    modes = Counter(record.structured for record in story.records)
    assert min(modes.values()) > len(story.records) / 3
    newest: dict[tuple[str, str, str], int] = {}
    late = doubled = 0
    for event in _events(story):
        stream = (event.payment_id, event.kind, str(event.fields.get("psp_reference")))
        late += event.version < newest.get(stream, -1)
        doubled += event.version == newest.get(stream, -1)
        newest[stream] = max(event.version, newest.get(stream, -1))
    assert late > len(story.records) / 50
    assert doubled > len(story.records) / 50


def test_some_events_come_first_when_the_payment_is_long_past_them(story: Story) -> None:
    begun: dict[tuple[str, int], int] = {}
    told: set[str] = set()
    very_late = 0
    for place, event in enumerate(_events(story)):
        if event.event_id not in told:
            stream = f"{event.payment_id} {event.kind} {event.fields.get('psp_reference')}"
            newer = [
                begun[stream, above]
                for above in range(event.version + 1, 9)
                if (stream, above) in begun
            ]
            very_late += bool(newer) and place - min(newer) > len(story.records) / 10
            begun[stream, event.version] = place
        told.add(event.event_id)
    assert very_late > len(story.records) / 200


def test_broken_records_stand_far_apart(story: Story) -> None:
    places = [
        place for place, record in enumerate(story.records) if isinstance(_decoded(record), str)
    ]
    gaps = [later - sooner for sooner, later in pairwise(places)]
    assert min(gaps) > len(story.records) // 20
