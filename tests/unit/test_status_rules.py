"""The status rules in their order, the money they compare, and the PSP payment that decides."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.events import PspStatus
from schemas.money import Money
from service.domain.events import SourceEvent
from service.domain.facts import PspFacts, finality
from service.domain.payment import Payment, Status
from service.domain.status import deciding, derive
from service.domain.views import SourceView
from tests.support.histories import ERP_STATUSES, amounts, sums
from tests.unit.domain_events import after, erp, erp_patch, psp

PAID = psp(2, "succeeded")


def _decider(payment: Payment) -> str | None:
    chosen = deciding(payment)
    return chosen.psp_reference if chosen else None


@pytest.mark.parametrize(
    ("event", "status"),
    [
        (psp(1, "succeeded", disputed_minor=1, refunded_minor=1000), Status.DISPUTED),
        (psp(1, "succeeded", refunded_minor=1000), Status.REFUNDED),
        (psp(1, "succeeded", refunded_minor=1001), Status.REFUNDED),
        (psp(1, "succeeded", refunded_minor=999), Status.PARTIALLY_REFUNDED),
        (psp(1, "succeeded"), Status.SUCCEEDED),
        (psp(1, "authorised", captured_minor=1000), Status.SUCCEEDED),
        (psp(1, "authorised"), Status.AUTHORISED),
        (psp(1, "failed"), Status.FAILED),
        (psp(1, "cancelled"), Status.CANCELLED),
        (psp(1, "expired"), Status.EXPIRED),
        (psp(1, "pending"), Status.PENDING),
        (psp(1, "failed", refunded_minor=5), Status.FAILED),
    ],
)
def test_psp_decides_the_status(event: SourceEvent, status: Status) -> None:
    assert after(erp(1), event).status is status


@pytest.mark.parametrize("erp_status", ["paid", "refunded"])
def test_erp_alone_moves_nothing(erp_status: str) -> None:
    assert after(erp(1, erp_status)).status is Status.PENDING
    assert after(psp(1, "authorised"), erp(1, erp_status)).status is Status.AUTHORISED


def test_erp_cancels_what_is_not_paid() -> None:
    assert after(erp(1, "cancelled")).status is Status.CANCELLED
    assert after(erp(1, "cancelled"), psp(1, "authorised")).status is Status.CANCELLED
    assert after(erp(1, "cancelled"), psp(1, "expired")).status is Status.CANCELLED


@pytest.mark.parametrize(
    ("amount", "captured_minor", "status", "kinds"),
    [
        (Money(1000, "EUR"), 999, Status.PENDING, ["AMOUNT_MISMATCH"]),
        (Money(1000, "EUR"), 1001, Status.PENDING, ["AMOUNT_MISMATCH"]),
        (Money(1000, "USD"), 1000, Status.PENDING, ["CURRENCY_MISMATCH"]),
        (Money(1000, "USD"), 999, Status.PENDING, ["CURRENCY_MISMATCH"]),
        (Money(2000, "EUR"), 1000, Status.SUCCEEDED, []),
    ],
)
def test_captured_money_must_be_the_expected_to_the_unit(
    amount: Money, captured_minor: int, status: Status, kinds: list[str]
) -> None:
    """Reported as nopCommerce 1780, hyperswitch-prism PR 2294."""
    payment = after(erp(1), psp(1, "succeeded", amount=amount, captured_minor=captured_minor))
    assert (payment.status, payment.open_kinds) == (status, kinds)


def test_money_is_compared_in_the_minor_units_that_came() -> None:
    """Reported as Paymenter 1258: JPY times 100 does not cancel out."""
    yen = after(erp(1, amount=Money(500, "JPY")), psp(1, "succeeded", amount=Money(50000, "JPY")))
    assert yen.open_kinds == ["AMOUNT_MISMATCH"]


def test_captured_zero_that_is_given_means_zero() -> None:
    """Reported as hyperswitch 8953."""
    assert after(erp(1), psp(1, "authorised", captured_minor=0)).status is Status.AUTHORISED
    claimed = after(erp(1), psp(1, "succeeded", captured_minor=0))
    assert (claimed.status, claimed.open_kinds) == (Status.PENDING, ["AMOUNT_MISMATCH"])


def test_absent_captured_is_the_amount_of_a_success_alone() -> None:
    assert after(psp(1, "succeeded")).psp_payments["acme", "ch_1"].facts.captured_minor == 1000
    assert after(psp(1, "authorised")).psp_payments["acme", "ch_1"].facts.captured_minor == 0


def test_success_counts_before_the_erp_is_seen_and_is_checked_after() -> None:
    unseen = after(psp(1, "succeeded"))
    assert unseen.status is Status.SUCCEEDED
    other = after(erp(1, amount=Money(5, "EUR")), payment=unseen)
    assert (other.status, other.open_kinds) == (Status.PENDING, ["AMOUNT_MISMATCH"])
    mended = after(erp_patch(2, amount=Money(1000, "EUR")), payment=other)
    assert (mended.status, mended.open_kinds) == (Status.SUCCEEDED, [])


def test_late_failure_of_the_first_attempt_leaves_the_paid_second() -> None:
    """Reported as woocommerce-gateway-stripe PR 905, adyen-shopware6 311."""
    payment = after(erp(1), psp(1, "succeeded", reference="ch_2"), psp(9, "failed"))
    assert (payment.status, _decider(payment)) == (Status.SUCCEEDED, "ch_2")


@pytest.mark.parametrize(
    ("event", "status"),
    [
        (psp(4, "failed"), Status.FAILED),
        (psp(4, "succeeded"), Status.SUCCEEDED),
        (psp(4, "succeeded", refunded_minor=1), Status.PARTIALLY_REFUNDED),
    ],
)
def test_higher_version_of_the_deciding_payment_may_lower_it(
    event: SourceEvent, status: Status
) -> None:
    """Reported as adyen-magento2 1234 (capture failed), gumroad PR 6833 (dispute won)."""
    disputed = after(erp(1), PAID, psp(3, "succeeded", disputed_minor=1000))
    assert disputed.status is Status.DISPUTED
    assert after(event, payment=disputed).status is status


def test_refund_is_known_by_sum_in_whatever_event_it_comes() -> None:
    """Reported as Hi.Events 1067."""
    first = after(erp(1), PAID, psp(3, "succeeded", refunded_minor=400))
    assert first.status is Status.PARTIALLY_REFUNDED
    whole = psp(4, "cancelled", captured_minor=1000, refunded_minor=1000)
    assert after(whole, payment=first).status is Status.REFUNDED


ORDERED_BY_WEIGHT = [
    psp(1, "failed", reference="a", captured_minor=2000),
    psp(1, "succeeded", reference="z", disputed_minor=1),
    psp(1, "succeeded", reference="y", refunded_minor=1),
    psp(1, "succeeded", reference="x"),
    psp(1, "succeeded", reference="w", captured_minor=0, disputed_minor=1),
    psp(1, "failed", reference="v", captured_minor=0, refunded_minor=1),
    psp(1, "succeeded", reference="u", captured_minor=0),
    psp(1, "authorised", reference="t"),
    psp(1, "pending", reference="s"),
    psp(1, "expired", reference="m"),
    psp(1, "cancelled", reference="n"),
    psp(1, "failed", reference="o"),
]


def test_deciding_payment_is_the_weightiest_then_the_smallest_reference() -> None:
    for place, event in enumerate(ORDERED_BY_WEIGHT):
        assert _decider(after(*reversed(ORDERED_BY_WEIGHT[place:]))) == event.psp_reference


@given(
    st.sampled_from([None, *ERP_STATUSES]),
    st.none() | amounts,
    st.none()
    | st.builds(
        PspFacts,
        st.none() | st.sampled_from(list(PspStatus)),
        st.none() | amounts,
        sums,
        sums,
        sums,
    ),
)
def test_every_combination_has_a_status(
    erp_status: str | None, amount: Money | None, facts: PspFacts | None
) -> None:
    view = SourceView(fields={"status": erp_status, "amount": amount})
    status = derive(view, facts)
    assert status in Status
    if facts is None or (not facts.paid and not facts.disputed_minor):
        assert status not in {Status.SUCCEEDED, Status.REFUNDED, Status.DISPUTED}
    if facts is not None:
        assert 0 <= finality(facts) <= 6
