"""An answer without a version, and the less final events that come after it."""

from datetime import timedelta

import pytest

from service.domain.healing import superseded
from service.domain.payment import Observation, Payment, Status
from service.domain.schedule import needs_check
from tests.unit.domain_events import NOW, after, asked, erp, found, psp

PENDING = after(erp(1), psp(1, "pending"))
OBSERVED = asked(PENDING, found("succeeded")).folded.payment
LATER = NOW + timedelta(hours=1)


def _observation(payment: Payment) -> Observation | None:
    return payment.psp_payments["acme", "ch_1"].observation


@pytest.mark.parametrize("status", ["pending", "authorised", "failed"])
def test_lesser_event_leaves_the_observation_and_has_it_checked_now(status: str) -> None:
    assert OBSERVED.schedule.next_check_at is None
    payment = after(psp(2, status), payment=OBSERVED, now=LATER)
    assert payment.status is Status.SUCCEEDED
    assert payment.schedule.next_check_at == LATER
    assert not superseded(payment)


def test_event_that_is_as_final_ends_the_observation() -> None:
    payment = after(psp(2, "succeeded", captured_minor=900), payment=OBSERVED)
    assert _observation(payment) is None
    assert (payment.status, payment.open_kinds) == (Status.PENDING, ["AMOUNT_MISMATCH"])


def test_stale_event_leaves_the_observation_alone() -> None:
    assert after(psp(0, "failed"), payment=OBSERVED) is OBSERVED


def test_answer_that_repeats_the_observation_ends_the_doubt() -> None:
    doubted = after(psp(2, "authorised"), payment=OBSERVED)
    payment = asked(doubted, found("succeeded")).folded.payment
    assert payment.status is Status.SUCCEEDED
    assert not needs_check(payment)


@pytest.mark.parametrize("version", [None, 2])
def test_answer_that_agrees_with_the_event_ends_the_observation(version: int | None) -> None:
    doubted = after(psp(2, "failed"), payment=OBSERVED)
    payment = asked(doubted, found("failed", version=version)).folded.payment
    assert _observation(payment) is None
    assert payment.status is Status.FAILED
    assert superseded(payment)


def test_answer_alone_does_not_lower_what_was_observed() -> None:
    payment = asked(OBSERVED, found("failed")).folded.payment
    assert payment.status is Status.SUCCEEDED
    assert _observation(payment) == _observation(OBSERVED)


def test_answer_between_event_and_observation_leaves_the_doubt() -> None:
    doubted = after(psp(2, "authorised"), payment=OBSERVED)
    payment = asked(doubted, found("failed")).folded.payment
    assert payment.status is Status.SUCCEEDED
    assert needs_check(payment)


def test_conflict_neither_doubts_nor_ends_an_observation() -> None:
    payment = after(psp(1, "failed"), payment=OBSERVED, now=LATER)
    assert payment.status is Status.SUCCEEDED


def test_newer_answer_replaces_one_that_is_as_final() -> None:
    refunding = after(erp(2, "refunded"), payment=OBSERVED)
    payment = asked(refunding, found("succeeded", captured_minor=1000, disputed_minor=5))
    assert payment.folded.payment.status is Status.DISPUTED
