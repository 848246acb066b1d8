"""Discrepancies: opened when the facts disagree, closed when they agree, one a payment and kind."""

from dataclasses import replace
from datetime import timedelta

import pytest

from schemas.money import Money
from service.domain.events import SourceEvent
from service.domain.fold import Folded
from service.domain.healing import open_duplicate_of_order, open_now
from service.domain.payment import Case, Kind, Payment, Status
from tests.unit.domain_events import (
    MISSING,
    NOW,
    RULES,
    after,
    asked,
    erp,
    folded,
    found,
    psp,
)

PAID = psp(1, "succeeded")
OTHER_PAID = psp(1, "succeeded", reference="ch_2")


def _opened(payment: Payment, *kinds: Kind) -> Folded:
    step = Folded(before=payment, payment=payment)
    open_now(step, frozenset(kinds), now=NOW, rules=RULES, actor="sweep")
    return step


def _closed_by_person(payment: Payment, kind: Kind, status: str = "ignored") -> Payment:
    case = replace(payment.cases[kind], status=status, discrepancy_id=7)
    return replace(payment, cases={**payment.cases, kind: case})


def test_amount_mismatch_has_the_difference_at_risk_and_closes_by_the_facts() -> None:
    payment = after(erp(1), psp(1, "succeeded", captured_minor=900))
    case = payment.cases[Kind.AMOUNT_MISMATCH]
    assert (case.amount_at_risk_minor, case.currency, case.open) == (100, "EUR", True)
    assert case.details["psp_reference"] == "ch_1"
    step = folded(psp(2, "succeeded"), payment=payment)
    assert step.payment.cases == {}
    assert [(each.kind, each.status, each.holds) for each in step.closed] == [
        (Kind.AMOUNT_MISMATCH, "resolved", False)
    ]
    assert step.payment.row_version == payment.row_version + 1
    assert step.entries[0].changes["open_discrepancies"] == [["AMOUNT_MISMATCH"], []]


def test_currency_mismatch_is_told_apart_from_the_amount() -> None:
    payment = after(erp(1), psp(1, "succeeded", amount=Money(900, "USD")))
    assert payment.open_kinds == ["CURRENCY_MISMATCH"]
    case = payment.cases[Kind.CURRENCY_MISMATCH]
    assert (case.amount_at_risk_minor, case.currency) == (900, "USD")


def test_unpaid_money_is_not_compared() -> None:
    assert after(erp(1), psp(1, "authorised", amount=Money(5, "USD"))).open_kinds == []


@pytest.mark.parametrize("events", [(erp(1, "cancelled"), PAID), (PAID, erp(1, "cancelled"))])
def test_cancelled_order_that_gets_paid_is_told(events: tuple[SourceEvent, SourceEvent]) -> None:
    """Reported as Sylius 8928, CoreShop 2529, adyen-magento2 3313."""
    payment = after(*events)
    assert (payment.status, payment.open_kinds) == (Status.SUCCEEDED, ["PAID_AFTER_CANCEL"])
    refunded = after(psp(2, "succeeded", refunded_minor=1000), payment=payment)
    assert (refunded.status, refunded.open_kinds) == (Status.REFUNDED, [])


def test_two_successes_for_one_payment_put_the_smaller_at_risk() -> None:
    """Reported as woocommerce-gateway-stripe 3638."""
    partly = psp(1, "succeeded", reference="ch_2", refunded_minor=300)
    payment = after(erp(1), PAID, partly)
    case = payment.cases[Kind.DUPLICATE_CAPTURE]
    assert (payment.status, case.amount_at_risk_minor) == (Status.PARTIALLY_REFUNDED, 700)
    returned = psp(2, "succeeded", reference="ch_2", refunded_minor=1000)
    assert after(returned, payment=payment).open_kinds == []


def test_second_capture_of_an_order_is_held_while_this_payment_keeps_money() -> None:
    payment = after(erp(1), PAID)
    step = Folded(before=payment, payment=payment)
    for _ in range(2):
        open_duplicate_of_order(step, frozenset({"pay-2"}), now=NOW, rules=RULES, actor="sweep")
    assert step.payment.row_version == payment.row_version + 1
    case = step.payment.cases[Kind.DUPLICATE_CAPTURE]
    assert case.details == {"order_id": "SO-1", "payments": ["pay-1", "pay-2"]}
    assert after(erp(2, "paid"), payment=step.payment).open_kinds == ["DUPLICATE_CAPTURE"]
    refunded = psp(2, "succeeded", refunded_minor=1000)
    assert after(refunded, payment=step.payment).open_kinds == []


def test_unpaid_payment_is_no_second_capture() -> None:
    payment = after(erp(1), psp(1, "failed"))
    step = Folded(before=payment, payment=payment)
    open_duplicate_of_order(step, frozenset({"pay-2"}), now=NOW, rules=RULES, actor="sweep")
    assert step.payment is payment


@pytest.mark.parametrize(
    ("kind", "events", "ending"),
    [
        (Kind.MISSING_AT_ERP, (PAID,), erp(1)),
        (Kind.ERP_NOT_SETTLED, (erp(1), PAID), erp(2, "paid")),
        (Kind.STUCK_PENDING, (erp(1),), PAID),
        (Kind.STUCK_PENDING, (erp(1, "cancelled"), psp(1, "pending")), psp(2, "succeeded")),
        (Kind.ERP_PAID_PSP_NOT, (erp(1, "paid"), psp(1, "failed")), OTHER_PAID),
        (Kind.REFUND_MISSING, (erp(1, "refunded"), PAID), psp(2, "succeeded", refunded_minor=1000)),
        (Kind.REFUND_MISSING, (erp(1, "refunded"), PAID), psp(2, "succeeded", disputed_minor=1)),
    ],
)
def test_learned_discrepancy_opens_once_and_closes_by_the_facts(
    kind: Kind, events: tuple[SourceEvent, ...], ending: SourceEvent
) -> None:
    payment = after(*events)
    opened = _opened(payment, kind).payment
    assert opened.open_kinds == [kind]
    assert opened.schedule == payment.schedule
    assert opened.row_version == payment.row_version + 1
    assert _opened(opened, kind).entries == []
    assert kind not in after(ending, payment=opened).open_kinds


@pytest.mark.parametrize(
    ("kind", "events", "unrelated"),
    [
        (Kind.MISSING_AT_ERP, (PAID,), psp(2, "succeeded", refunded_minor=1)),
        (Kind.ERP_NOT_SETTLED, (erp(1), PAID), psp(2, "succeeded", failure_code="x")),
        (Kind.STUCK_PENDING, (erp(1),), psp(1, "authorised")),
        (Kind.ERP_PAID_PSP_NOT, (erp(1, "paid"), psp(1, "failed")), psp(2, "expired")),
        (Kind.REFUND_MISSING, (erp(1, "refunded"), PAID), psp(2, "succeeded", refunded_minor=1)),
    ],
)
def test_learned_discrepancy_holds_through_events_that_do_not_end_it(
    kind: Kind, events: tuple[SourceEvent, ...], unrelated: SourceEvent
) -> None:
    opened = _opened(after(*events), kind).payment
    assert kind in after(unrelated, payment=opened).open_kinds


@pytest.mark.parametrize(
    ("kind", "events"),
    [
        (Kind.MISSING_AT_ERP, (erp(1), PAID)),
        (Kind.MISSING_AT_PSP, (erp(1),)),
        (Kind.ERP_NOT_SETTLED, (erp(1), psp(1, "authorised"))),
        (Kind.STUCK_PENDING, (erp(1), PAID)),
        (Kind.ERP_PAID_PSP_NOT, (erp(1, "paid"), PAID)),
        (Kind.REFUND_MISSING, (erp(1, "refunded"),)),
    ],
)
def test_facts_can_speak_against_a_learned_discrepancy(
    kind: Kind, events: tuple[SourceEvent, ...]
) -> None:
    payment = after(*events)
    assert _opened(payment, kind).payment is payment


def test_every_opening_and_closing_is_announced_with_the_row_version() -> None:
    step = folded(erp(1), psp(1, "authorised", captured_minor=900), psp(2, "succeeded"))
    told = [(each.row_version, each.data["open_discrepancies"]) for each in step.announcements]
    assert told == [(2, ["AMOUNT_MISMATCH"]), (3, [])]


def test_case_closed_by_a_person_stays_closed_by_the_same_facts() -> None:
    payment = _closed_by_person(
        after(erp(1), psp(1, "succeeded", captured_minor=900)), Kind.AMOUNT_MISMATCH
    )
    later = after(erp(2, "paid"), payment=payment)
    assert later.open_kinds == []
    assert later.status is Status.PENDING


def test_case_closed_by_a_person_opens_anew_when_more_is_at_risk() -> None:
    payment = _closed_by_person(
        after(erp(1), psp(1, "succeeded", captured_minor=900)), Kind.AMOUNT_MISMATCH
    )
    step = folded(psp(2, "succeeded", captured_minor=100), payment=payment)
    assert step.payment.cases[Kind.AMOUNT_MISMATCH].discrepancy_id is None
    assert step.payment.open_kinds == ["AMOUNT_MISMATCH"]
    assert [(each.discrepancy_id, each.status, each.holds) for each in step.closed] == [
        (7, "ignored", False)
    ]


def test_case_closed_by_a_person_ends_as_it_was_closed() -> None:
    payment = _closed_by_person(after(erp(1, "cancelled"), PAID), Kind.PAID_AFTER_CANCEL)
    step = folded(erp(2), payment=payment)
    assert [(each.status, each.holds) for each in step.closed] == [("ignored", False)]
    again = after(erp(3, "cancelled"), payment=step.payment)
    assert again.cases[Kind.PAID_AFTER_CANCEL].open


def test_conflict_of_two_psp_payments_is_one_case() -> None:
    payment = after(erp(1), psp(1, "pending"), psp(1, "failed"))
    both = after(
        psp(1, "pending", reference="ch_2"), psp(1, "failed", reference="ch_2"), payment=payment
    )
    details = both.cases[Kind.VERSION_CONFLICT].details["conflicts"]
    assert [each["psp_reference"] for each in details] == ["ch_1", "ch_2"]


def test_open_case_follows_the_facts() -> None:
    payment = after(erp(1), psp(1, "succeeded", captured_minor=900))
    case = replace(payment.cases[Kind.AMOUNT_MISMATCH], discrepancy_id=3, version=2)
    payment = replace(payment, cases={Kind.AMOUNT_MISMATCH: case})
    followed = after(psp(2, "succeeded", captured_minor=950), payment=payment)
    now = followed.cases[Kind.AMOUNT_MISMATCH]
    assert (now.discrepancy_id, now.version, now.amount_at_risk_minor) == (3, 2, 50)


def test_found_payment_is_missing_no_more() -> None:
    missing = asked(after(erp(1)), MISSING, MISSING).folded.payment
    assert missing.open_kinds == ["MISSING_AT_PSP"]
    assert after(psp(1, "pending"), payment=missing).open_kinds == []
    assert asked(missing, found("pending")).folded.payment.open_kinds == []
    assert after(erp(2, "cancelled"), payment=missing).open_kinds == []


def test_known_payment_that_the_psp_forgot_is_missing_until_found_again() -> None:
    payment = after(erp(1), psp(1, "pending"))
    missing = asked(payment, MISSING, MISSING).folded.payment
    assert (missing.status, missing.open_kinds) == (Status.PENDING, ["MISSING_AT_PSP"])
    again = asked(missing, found("pending", version=1), now=NOW + timedelta(hours=1))
    assert again.folded.payment.open_kinds == []
    assert [each.kind for each in again.folded.closed] == [Kind.MISSING_AT_PSP]


def test_case_is_open_until_a_person_or_the_facts_close_it() -> None:
    assert Case(Kind.STUCK_PENDING).open
    assert not Case(Kind.STUCK_PENDING, status="ignored").open
