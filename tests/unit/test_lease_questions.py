"""What a job asks the PSP, and how the answer becomes an event like any other."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from schemas.events import PspData
from schemas.fields import digest_of, known_fields
from schemas.money import Money
from service.domain.healing import Found, Missing
from service.domain.payment import Payment, PspPayment
from service.domain.versions import Version
from service.domain.views import SourceView
from service.psp.port import Answered, NotFound, Question
from service.reconcile.questions import question_of, reply_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
BODIES: list[dict[str, Any]] = [
    {"status": "succeeded"},
    {"status": "succeeded", "captured_minor": 1000},
    {"status": "succeeded", "captured_minor": 0},
    {"status": "pending"},
    {"status": "pending", "captured_minor": 0, "refunded_minor": 0},
    {"status": "succeeded", "captured_minor": 900, "refunded_minor": 100, "disputed_minor": 5},
    {"status": "failed", "failure_code": "card_declined"},
]


def _payment(*known: str, named: str | None = None) -> Payment:
    fields = {"psp": "acme" if named else None, "psp_reference": named}
    psp_payments = {("acme", each): PspPayment("acme", each) for each in known}
    return Payment("pay-1", erp=SourceView(Version(0, 1), fields=fields), psp_payments=psp_payments)


def _answered(body: dict[str, Any], version: int | None) -> Answered:
    data: dict[str, Any] = {
        "psp": "acme",
        "psp_reference": "r-1",
        "amount": {"minor": 1000, "currency": "EUR"},
    }
    data |= body
    return Answered(
        status=data["status"],
        amount_minor=1000,
        currency="EUR",
        captured_minor=data.get("captured_minor", 1000 if data["status"] == "succeeded" else 0),
        refunded_minor=data.get("refunded_minor", 0),
        disputed_minor=data.get("disputed_minor", 0),
        psp="acme",
        psp_reference="r-1",
        entityversion=version,
        versionepoch=2,
        failure_code=data.get("failure_code"),
        data=data,
    )


def test_attempts_that_are_still_open_are_asked_about_in_turn() -> None:
    payment = _payment("r-1", "r-2")
    asked = []
    for checks in range(3):
        payment.schedule = replace(payment.schedule, checks=checks)
        asked.append(question_of(payment).psp_reference)
    assert asked == ["r-1", "r-2", "r-1"]


def test_reference_that_the_erp_names_and_no_psp_event_has_told_of_is_asked_about() -> None:
    assert question_of(_payment("r-1", named="r-2")) == Question("pay-1", "acme", "r-2")


def test_else_the_deciding_psp_payment_is_asked_about() -> None:
    assert question_of(_payment("r-1", "r-2", named="r-2")) == Question("pay-1", "acme", "r-1")


def test_else_the_payment_id_is_asked_about() -> None:
    assert question_of(_payment()) == Question("pay-1", None, None)


@pytest.mark.parametrize("body", BODIES)
def test_answer_with_a_version_is_the_event_that_the_psp_would_have_sent(
    body: dict[str, Any],
) -> None:
    answer = _answered(body, version=7)
    reply = reply_of(answer, payment_id="pay-1", now=NOW, actor="me")
    assert isinstance(reply, Found)
    assert reply.event is not None
    expected = known_fields(PspData.model_validate(answer.data))
    assert reply.event.digest == digest_of(expected, "snapshot")
    assert dict(reply.event.fields) | {"psp": "acme", "psp_reference": "r-1"} == expected
    assert reply.event.version == Version(2, 7)
    assert (reply.event.kind, reply.event.actor) == ("heal", "me")


def test_answer_without_a_version_is_no_event() -> None:
    reply = reply_of(_answered({"status": "succeeded"}, None), payment_id="p", now=NOW, actor="me")
    assert isinstance(reply, Found)
    assert reply.event is None
    assert reply.facts.amount == Money(1000, "EUR")
    assert reply.facts.captured_minor == 1000


def test_not_found_is_the_psps_own_word() -> None:
    assert reply_of(NotFound(), payment_id="p", now=NOW, actor="me") == Missing()
