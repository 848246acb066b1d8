"""The story's truth, written without the service's rules, and the rules themselves agree: wherever
in the story the PSP is asked, the fold ends where the truth says.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from itertools import groupby
from random import Random

import pytest

from schemas.cloudevent import Event, decode
from schemas.events import PspData
from schemas.fields import digest_of, known_fields
from schemas.refusal import Refused
from service.domain.events import SourceEvent
from service.domain.fold import fold
from service.domain.healing import Found, decide
from service.domain.payment import Payment
from service.domain.schedule import Rules, needs_check
from service.domain.status import deciding, event_facts
from service.domain.versions import Version
from service.domain.views import SourceView
from service.sandbox.story import Holding, Story, tell
from service.sandbox.truth import Truth, captured_minor, differences, truth_of

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
Log = dict[tuple[tuple[str, str], Version], bytes]
RULES = Rules(pending_after_seconds=3)


def _source_event(event: Event) -> SourceEvent:
    return SourceEvent(
        payment_id=event.payment_id,
        kind=event.kind,
        event_id=event.event_id,
        version=Version(event.epoch, event.version),
        fields=event.fields,
        data=event.data,
        time=event.time,
        digest=event.digest,
        patch=event.changekind == "patch",
        psp=event.fields["psp"] if event.kind == "psp" else "",
        psp_reference=event.fields["psp_reference"] if event.kind == "psp" else "",
    )


def _by_payment(story: Story) -> Iterator[tuple[str, list[SourceEvent]]]:
    events = []
    for record in story.records:
        try:
            event = decode(key=record.key, value=record.value, headers=record.headers)
        except Refused:
            continue
        assert isinstance(event, Event)
        events.append(_source_event(event))
    events.sort(key=lambda event: event.payment_id)
    for payment_id, group in groupby(events, key=lambda event: event.payment_id):
        yield payment_id, list(group)


def _answer(payment: Payment, held: list[Holding]) -> Found:
    """What the PSP says when asked for the deciding payment, or for the payment id alone."""
    chosen = deciding(payment)
    asked = [one for one in held if chosen and one.data["psp_reference"] == chosen.psp_reference]
    book = asked[0] if asked else max(held, key=lambda one: captured_minor(one.data))
    fields = known_fields(PspData.model_validate(dict(book.data)))
    event = None
    if book.version is not None:
        event = SourceEvent(
            payment_id=payment.payment_id,
            kind="heal",
            event_id="asked",
            version=Version(0, book.version),
            fields=fields,
            data=book.data,
            time=NOW,
            digest=digest_of(fields, "snapshot"),
            psp=fields["psp"],
            psp_reference=fields["psp_reference"],
        )
    facts = event_facts(SourceView(fields=fields))
    return Found(fields["psp"], fields["psp_reference"], facts, book.data, event)


def _run(events: list[SourceEvent], held: list[Holding], asked_after: set[int]) -> Payment:
    """Fold the events one by one; ask the PSP after some of them, and at the end."""
    payment, log = Payment(events[0].payment_id), Log()
    for place, event in enumerate(events):
        payment = fold(payment, [event], seen=log, now=NOW, rules=RULES).payment
        log.setdefault((event.stream, event.version), event.digest)
        if place in asked_after or place == len(events) - 1:
            payment = _asked(payment, held, log)
    return payment


def _asked(payment: Payment, held: list[Holding], log: Log) -> Payment:
    if not needs_check(payment):
        return payment
    reply = _answer(payment, held)
    decision = decide(payment, reply, seen=log, now=NOW, rules=RULES, actor="test")
    if reply.event is not None:
        log.setdefault((reply.event.stream, reply.event.version), reply.event.digest)
    return decision.folded.payment


def _found(payment: Payment) -> Truth:
    chosen = deciding(payment)
    facts = chosen.facts if chosen else None
    assert chosen is not None
    assert facts is not None
    assert facts.amount is not None
    fields = payment.erp.fields
    return Truth(
        status=payment.status.value,
        captured_minor=facts.captured_minor,
        refunded_minor=facts.refunded_minor,
        disputed_minor=facts.disputed_minor,
        psp_currency=facts.amount.currency,
        psp_reference=chosen.psp_reference,
        order_id=fields["order_id"],
        erp_status=fields["status"].value,
        erp_amount_minor=fields["amount"].minor,
        erp_currency=fields["amount"].currency,
        open_discrepancies=tuple(payment.open_kinds),
    )


@pytest.mark.parametrize("seed", range(4))
def test_rules_end_at_the_truth_wherever_the_psp_is_asked(seed: int) -> None:
    story = tell(300, seed=seed)
    rng = Random(seed)  # noqa: S311 - a story to repeat, not a secret
    found = {}
    for payment_id, events in _by_payment(story):
        held = [one for one in story.holdings if one.payment_id == payment_id]
        asked_after = {place for place in range(1, len(events)) if rng.random() < 0.3}
        found[payment_id] = _found(_run(events, held, asked_after))
    assert [str(one) for one in differences(story.truth, found)] == []


def test_without_asking_exactly_the_lost_ones_differ() -> None:
    story = tell(300, seed=1)
    found = {}
    for payment_id, events in _by_payment(story):
        folded = fold(Payment(payment_id), events, seen={}, now=NOW, rules=RULES)
        found[payment_id] = _found(folded.payment)
    lost = {one.payment_id for one in differences(story.truth, found) if one.field == "status"}
    assert story.lost <= lost
    assert len(lost) == len(story.lost) + story.plots["refund_lost"]


def test_a_difference_names_payment_field_expected_and_found() -> None:
    truth = tell(100, seed=1).truth
    payment_id = min(truth)
    wrong = {**truth, payment_id: replace(truth[payment_id], refunded_minor=1)}
    [difference] = differences(truth, wrong)
    assert str(difference) == f"{payment_id}: refunded_minor should be 0, found 1"


def test_a_payment_that_only_one_side_has_is_a_difference() -> None:
    truth = tell(100, seed=1).truth
    payment_id = min(truth)
    rest = {key: value for key, value in truth.items() if key != payment_id}
    assert [one.expected for one in differences(truth, rest)] == ["present"]
    assert [one.expected for one in differences(rest, truth)] == ["absent"]


def _book(status: str, **fields: object) -> dict[str, object]:
    amount = {"minor": 1000, "currency": "EUR"}
    return {"psp_reference": "ch_1", "status": status, "amount": amount, **fields}


@pytest.mark.parametrize(
    ("erp_status", "book", "status", "kinds"),
    [
        ("pending", _book("succeeded"), "succeeded", ()),
        ("pending", _book("authorised"), "authorised", ()),
        ("cancelled", _book("failed"), "cancelled", ()),
        ("cancelled", _book("succeeded"), "succeeded", ("PAID_AFTER_CANCEL",)),
        ("paid", _book("succeeded", captured_minor=999), "pending", ("AMOUNT_MISMATCH",)),
        (
            "paid",
            _book("succeeded", amount={"minor": 1000, "currency": "USD"}),
            "pending",
            ("CURRENCY_MISMATCH",),
        ),
        ("paid", _book("succeeded", refunded_minor=1000), "refunded", ()),
        ("paid", _book("succeeded", refunded_minor=1), "partially_refunded", ()),
        ("paid", _book("succeeded", disputed_minor=1000), "disputed", ()),
        ("refunded", _book("succeeded"), "succeeded", ("REFUND_MISSING",)),
    ],
)
def test_truth_of_one_payment(
    erp_status: str, book: dict[str, object], status: str, kinds: tuple[str, ...]
) -> None:
    erp = {
        "order_id": "SO-1",
        "status": erp_status,
        "amount": {"minor": 1000, "currency": "EUR"},
    }
    truth = truth_of(erp, [book])
    assert (truth.status, truth.open_discrepancies) == (status, kinds)


def test_two_captures_are_one_payment_and_a_case() -> None:
    erp = {"order_id": "SO-1", "status": "paid", "amount": {"minor": 1000, "currency": "EUR"}}
    truth = truth_of(erp, [_book("succeeded", psp_reference="ch_2"), _book("succeeded")])
    assert truth.psp_reference == "ch_1"
    assert truth.open_discrepancies == ("DUPLICATE_CAPTURE",)
