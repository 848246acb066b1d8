"""From a payment to the question that the PSP is asked, and from its answer to what it says."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from schemas.fields import digest_of
from schemas.money import Money
from service.domain.events import SourceEvent
from service.domain.facts import FINAL, finality
from service.domain.healing import Found, Missing, Reply
from service.domain.payment import Payment, PspFacts, PspPayment
from service.domain.status import deciding
from service.domain.versions import Version
from service.psp.port import Answered, NotFound, Question


def question_of(payment: Payment) -> Question:
    """Ask by the reference that the ERP names and no PSP event has told of: that one is missing
    here. Else by the references of the PSP payment that decides and, in turn from check to check,
    of the others that are still open: any of them may be the lost success. Else by the payment's
    id.
    """
    named = payment.erp.fields.get("psp_reference")
    known = {psp_payment.psp_reference for psp_payment in payment.psp_payments.values()}
    if named and named not in known:
        return Question(payment.payment_id, payment.erp.fields.get("psp"), named)
    asked_about = _in_turn(payment)
    if asked_about is not None:
        return Question(payment.payment_id, asked_about.psp, asked_about.psp_reference)
    return Question(payment.payment_id)


def _in_turn(payment: Payment) -> PspPayment | None:
    chosen = deciding(payment)
    if chosen is None:
        return None
    still_open = sorted(
        (
            each
            for each in payment.psp_payments.values()
            if each is not chosen and finality(each.facts) < FINAL
        ),
        key=lambda each: each.key,
    )
    candidates = [chosen, *still_open]
    return candidates[payment.schedule.checks % len(candidates)]


def reply_of(answer: Answered | NotFound, *, payment_id: str, now: datetime, actor: str) -> Reply:
    """What an answer says. One that carries a version is an event of the PSP: `now` stands for the
    source's time, which an answer does not have.

    Its data goes to the log: whatever the provider's own words were, it holds the contract's too,
    so that the payment can be computed anew from the log.
    """
    if isinstance(answer, NotFound):
        return Missing()
    data = {**answer.data, **_in_words_of_the_contract(answer)}
    return Found(
        psp=answer.psp,
        psp_reference=answer.psp_reference,
        facts=PspFacts(
            status=answer.status,
            amount=_amount(answer),
            captured_minor=answer.captured_minor,
            refunded_minor=answer.refunded_minor,
            disputed_minor=answer.disputed_minor,
        ),
        data=data,
        method=answer.method,
        event=_event(answer, data, payment_id=payment_id, now=now, actor=actor),
    )


def _event(
    answer: Answered, data: Mapping[str, Any], *, payment_id: str, now: datetime, actor: str
) -> SourceEvent | None:
    if answer.entityversion is None:
        return None
    version = Version(answer.versionepoch, answer.entityversion)
    fields = {
        "status": answer.status,
        "amount": _amount(answer),
        "captured_minor": _captured_as_told(answer),
        "refunded_minor": answer.refunded_minor,
        "disputed_minor": answer.disputed_minor,
        "failure_code": answer.failure_code,
    }
    identity = {"psp": answer.psp, "psp_reference": answer.psp_reference}
    return SourceEvent(
        payment_id=payment_id,
        kind="heal",
        event_id=f"answer:{answer.psp_reference}:{version.epoch}.{version.version}",
        version=version,
        fields=fields,
        data=data,
        time=now,
        digest=digest_of({**fields, **identity}, "snapshot"),
        psp=answer.psp,
        psp_reference=answer.psp_reference,
        actor=actor,
    )


def _amount(answer: Answered) -> Money | None:
    if answer.amount_minor is None or answer.currency is None:
        return None
    return Money(answer.amount_minor, answer.currency)


def _in_words_of_the_contract(answer: Answered) -> dict[str, Any]:
    """A PSP event's data in ISO 4217's units: `captured_minor` is null where the PSP left it out,
    `amount` where those units cannot say it.
    """
    amount = _amount(answer)
    words: dict[str, Any] = {
        "psp": answer.psp,
        "psp_reference": answer.psp_reference,
        "status": answer.status,
        "amount": {"minor": amount.minor, "currency": amount.currency} if amount else None,
        "captured_minor": _captured_as_told(answer),
        "refunded_minor": answer.refunded_minor,
        "disputed_minor": answer.disputed_minor,
        "failure_code": answer.failure_code,
    }
    if answer.entityversion is not None:
        words["entityversion"] = str(answer.entityversion)
        words["versionepoch"] = str(answer.versionepoch)
    return words


def _captured_as_told(answer: Answered) -> int | None:
    """None where the PSP left it out, as in an event: it follows a later patch of the status."""
    by_default = answer.amount_minor if answer.status == "succeeded" else 0
    told = answer.data.get("captured_minor") is not None
    return answer.captured_minor if told or answer.captured_minor != by_default else None
