"""Any order, any repetition and any batches of the same events give the same payment."""

from copy import deepcopy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from service.domain.events import LogEntry, Outcome, SourceEvent
from service.domain.fold import Folded, fold
from service.domain.payment import Payment
from service.domain.status import deciding
from service.domain.versions import UNSEEN, Version
from service.domain.views import SourceView
from service.ingest.apply import asked
from tests.support.histories import agreeing_events, batches, conflicting_events, deliveries
from tests.unit.domain_events import NOW, RULES

Log = list[LogEntry]


def _seen(log: Log, payment: Payment, events: list[SourceEvent]) -> dict[Any, bytes]:
    """What the log is asked for before a batch."""
    wanted = {(event.stream, event.version) for event in asked(payment, events)}
    digests: dict[Any, bytes] = {}
    for entry in log:
        if entry.outcome is Outcome.APPLIED and entry.event is not None:
            digests.setdefault((entry.event.stream, entry.event.version), entry.event.digest)
    return {key: digest for key, digest in digests.items() if key in wanted}


def _run(cut: list[list[SourceEvent]]) -> Folded:
    """All batches in turn, as one step."""
    whole = Folded(before=Payment("pay-1"), payment=Payment("pay-1"))
    for events in cut:
        seen = _seen(whole.entries, whole.payment, events)
        step = fold(whole.payment, events, seen=seen, now=NOW, rules=RULES)
        whole.payment = step.payment
        whole.entries += step.entries
        whole.announcements += step.announcements
        whole.closed += step.closed
        for count, number in step.counts.items():
            whole.counts[count] = whole.counts.get(count, 0) + number
    return whole


def _said(view: SourceView) -> dict[str, Any]:
    """Each field's value and version. A snapshot that comes after patches of every field advances
    none and leaves no trace but in the log, so the version of the last snapshot is not compared.
    """
    said = {name: (value, view.version_of(name)) for name, value in view.fields.items()}
    return {**said, "time": view.time, "newest": view.newest, "conflict": view.conflict}


def _state(payment: Payment) -> dict[Any, Any]:
    """All that must not depend on the order: not the row version, not the poll bookkeeping."""
    chosen = deciding(payment)
    return {
        "status": payment.status,
        "deciding": chosen.key if chosen else None,
        "checked": payment.schedule.next_check_at is not None,
        "erp": _said(payment.erp),
        **{key: (_said(each.view), each.facts) for key, each in payment.psp_payments.items()},
        **payment.cases,
    }


@given(st.data())
def test_any_order_and_repetition_gives_the_same_payment(data: st.DataObject) -> None:
    events = data.draw(agreeing_events())
    first = _run([[event] for event in data.draw(deliveries(events))])
    second = _run([[event] for event in data.draw(deliveries(events))])
    assert _state(first.payment) == _state(second.payment)


@given(st.data())
def test_a_batch_is_exactly_its_events_one_by_one(data: st.DataObject) -> None:
    events = data.draw(deliveries(data.draw(conflicting_events())))
    one_by_one = _run([[event] for event in events])
    assert _run(data.draw(batches(events))) == one_by_one
    assert _run([events]) == one_by_one


@given(st.data())
def test_row_version_counts_the_steps_that_changed_something(data: st.DataObject) -> None:
    events = data.draw(deliveries(data.draw(conflicting_events())))
    whole = _run([events])
    row_version = 0
    for entry in whole.entries:
        assert entry.row_version - row_version in {0, 1}
        if entry.outcome is Outcome.APPLIED:
            assert entry.row_version == row_version + 1
        row_version = entry.row_version
    assert whole.payment.row_version == row_version
    told = [each.row_version for each in whole.announcements]
    assert told == sorted(set(told))


def _versions(payment: Payment) -> dict[Any, Version]:
    views = {("", ""): payment.erp}
    views.update({key: each.view for key, each in payment.psp_payments.items()})
    return {
        (stream, name): view.version_of(name)
        for stream, view in views.items()
        for name in view.fields
    }


@given(st.data())
def test_applied_versions_of_a_field_only_rise(data: st.DataObject) -> None:
    payment, log = Payment("pay-1"), Log()
    for event in data.draw(deliveries(data.draw(conflicting_events()))):
        seen = _seen(log, payment, [event])
        step = fold(payment, [event], seen=seen, now=NOW, rules=RULES)
        old, new = _versions(payment), _versions(step.payment)
        assert all(new[place] >= version for place, version in old.items())
        if [entry.outcome for entry in step.entries] == [Outcome.APPLIED]:
            assert any(version > old.get(place, UNSEEN) for place, version in new.items())
        payment, log = step.payment, log + step.entries


@given(st.data())
def test_stale_and_doubled_events_change_nothing_but_the_log(data: st.DataObject) -> None:
    events = data.draw(agreeing_events())
    payment = _run([events]).payment
    before = deepcopy(payment)
    step = fold(payment, data.draw(deliveries(events)), seen={}, now=NOW, rules=RULES)
    assert step.payment is payment
    assert payment == before
    assert {entry.outcome for entry in step.entries} <= {Outcome.STALE}
    assert step.announcements == []
    assert step.closed == []


@given(st.data())
def test_fold_leaves_the_payment_it_was_given_alone(data: st.DataObject) -> None:
    events = data.draw(deliveries(data.draw(conflicting_events())))
    payment = _run([events[: len(events) // 2]]).payment
    before = deepcopy(payment)
    fold(payment, events, seen={}, now=NOW, rules=RULES)
    assert payment == before


@given(st.data())
def test_applied_log_folds_to_the_same_payment(data: st.DataObject) -> None:
    whole = _run([data.draw(deliveries(data.draw(agreeing_events())))])
    applied = [
        entry.event
        for entry in whole.entries
        if entry.outcome is Outcome.APPLIED and entry.event is not None
    ]
    again = _run([applied])
    assert again.payment == whole.payment
    assert {entry.outcome for entry in again.entries} <= {Outcome.APPLIED}
    assert again.announcements == whole.announcements


@given(st.data())
def test_changes_of_the_log_lead_from_nothing_to_the_payment(data: st.DataObject) -> None:
    whole = _run([data.draw(deliveries(data.draw(conflicting_events())))])
    told: dict[str, Any] = {"status": "pending", "open_discrepancies": []}
    for entry in whole.entries:
        for name in told.keys() & entry.changes.keys():
            old, new = entry.changes[name]
            assert old == told[name]
            told[name] = new
    assert told == {
        "status": whole.payment.status,
        "open_discrepancies": whole.payment.open_kinds,
    }
