"""Plans by account and method, and that no payment is ever given up in silence."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant

from service.domain.healing import decide
from service.domain.payment import Payment, Status
from service.domain.schedule import Rules, needs_check
from service.reconcile.proposal import in_shadow
from tests.unit.domain_events import ACCOUNT, MISSING, NOW, RULES, after, asked, erp, found, psp
from tests.unit.test_healing_histories import HISTORIES, Histories

PLANS = Rules(
    poll_plan_seconds=(60, 300),
    poll_plans={ACCOUNT: (10, 20, 30), f"{ACCOUNT}/card": (1,), "other": (7,)},
)


@pytest.mark.parametrize(
    ("psp_account", "method", "plan"),
    [
        (ACCOUNT, "card", (1,)),
        (ACCOUNT, "sepa_debit", (10, 20, 30)),
        (ACCOUNT, None, (10, 20, 30)),
        ("third", "card", (60, 300)),
        (None, None, (60, 300)),
        (None, "card", (60, 300)),
    ],
)
def test_plan_of_the_method_comes_before_that_of_the_account_before_that_of_all(
    psp_account: str | None, method: str | None, plan: tuple[float, ...]
) -> None:
    assert PLANS.poll_plan(psp_account, method) == plan


def _next_seconds(payment: Payment, reply: Any) -> float:
    decision = decide(payment, reply, seen={}, now=NOW, rules=PLANS, actor="worker")
    next_check_at = decision.folded.payment.schedule.next_check_at
    assert next_check_at is not None
    return (next_check_at - NOW).total_seconds()


def test_answer_chooses_the_plan_by_its_account_and_method() -> None:
    answer = found("pending")
    by_card = type(answer)(
        answer.psp, answer.psp_reference, answer.facts, answer.data, method="card"
    )
    assert _next_seconds(after(erp(1)), answer) == 10
    assert _next_seconds(after(erp(1)), by_card) == 1


def test_not_found_goes_by_the_account_that_the_payment_is_expected_at() -> None:
    grace = RULES.not_found_grace_seconds
    known = asked(after(psp(1, "pending")), MISSING).folded.payment
    assert _next_seconds(known, MISSING) == grace
    named = asked(after(erp(1, psp_reference="ch_9")), MISSING, MISSING).folded.payment
    later = NOW + timedelta(hours=1)
    decision = decide(named, MISSING, seen={}, now=later, rules=PLANS, actor="worker")
    assert decision.folded.payment.schedule.next_check_at == later + timedelta(seconds=30)


def test_short_plan_of_an_account_ends_as_stuck_and_goes_on_daily() -> None:
    answer = found("pending")
    by_card = type(answer)(
        answer.psp, answer.psp_reference, answer.facts, answer.data, method="card"
    )
    once = decide(after(erp(1)), by_card, seen={}, now=NOW, rules=PLANS, actor="worker")
    twice = decide(once.folded.payment, by_card, seen={}, now=NOW, rules=PLANS, actor="worker")
    payment = twice.folded.payment
    assert payment.open_kinds == ["STUCK_PENDING"]
    assert payment.schedule.next_check_at == NOW + timedelta(days=1)


def test_shadow_goes_by_the_same_plan() -> None:
    decision = decide(
        after(erp(1)), found("authorised"), seen={}, now=NOW, rules=PLANS, actor="worker"
    )
    payment = in_shadow(decision, now=NOW, rules=PLANS).folded.payment
    assert payment.status is Status.PENDING
    assert payment.schedule.next_check_at == NOW + timedelta(seconds=10)


@given(
    gaps=st.lists(st.integers(0, 3_000), min_size=1, max_size=12),
    status=st.sampled_from(["pending", "paid", "refunded"]),
)
def test_however_often_it_is_not_found_the_status_stays_and_two_proofs_make_a_case(
    gaps: list[int], status: str
) -> None:
    """Reported as killbill-stripe, woocommerce-payments PR 3118: nothing is cancelled or expired
    that no source has called so.
    """
    payment, now, first = after(erp(1, status)), NOW, None
    for gap in gaps:
        now += timedelta(seconds=gap)
        first = first or now
        payment = asked(payment, MISSING, now=now).folded.payment
        assert payment.status is Status.PENDING
        believed = (now - first).total_seconds() >= RULES.not_found_grace_seconds
        assert ("MISSING_AT_PSP" in payment.open_kinds) == believed
        assert payment.schedule.next_check_at is not None
        assert payment.schedule.next_check_at > now


class NeverAbandoned(Histories):
    """Any history: while the PSP's answer could change the payment, the next question is set."""

    @invariant()
    def next_check_is_set_while_it_is_needed(self) -> None:
        payment = getattr(self, "payment", None)
        if payment is None or payment.row_version == 0:
            return
        due = payment.schedule.next_check_at
        assert (due is not None) == needs_check(payment)


TestNeverAbandoned = NeverAbandoned.TestCase
TestNeverAbandoned.settings = settings(
    max_examples=HISTORIES // 2,
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
