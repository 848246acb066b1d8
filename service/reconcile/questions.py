"""From a payment to the question that the PSP is asked, and from its answer to what it says."""

from datetime import datetime

from schemas.fields import digest_of
from schemas.money import Money
from service.domain.events import SourceEvent
from service.domain.healing import Found, Missing, Reply
from service.domain.payment import Payment, PspFacts
from service.domain.status import deciding
from service.domain.versions import Version
from service.psp.port import Answered, NotFound, Question


def question_of(payment: Payment) -> Question:
    """Ask by the reference that the ERP names and no PSP event has told of: that one is missing
    here. Else by the reference of the PSP payment that decides, else by the payment's id.
    """
    named = payment.erp.fields.get("psp_reference")
    known = {psp_payment.psp_reference for psp_payment in payment.psp_payments.values()}
    if named and named not in known:
        return Question(payment.payment_id, payment.erp.fields.get("psp"), named)
    chosen = deciding(payment)
    if chosen is not None:
        return Question(payment.payment_id, chosen.psp, chosen.psp_reference)
    return Question(payment.payment_id)


def reply_of(answer: Answered | NotFound, *, payment_id: str, now: datetime, actor: str) -> Reply:
    """What an answer says. One that carries a version is an event of the PSP: `now` stands for the
    source's time, which an answer does not have.
    """
    if isinstance(answer, NotFound):
        return Missing()
    return Found(
        psp=answer.psp,
        psp_reference=answer.psp_reference,
        facts=PspFacts(
            status=answer.status,
            amount=Money(answer.amount_minor, answer.currency),
            captured_minor=answer.captured_minor,
            refunded_minor=answer.refunded_minor,
            disputed_minor=answer.disputed_minor,
        ),
        data=answer.data,
        event=_event(answer, payment_id=payment_id, now=now, actor=actor),
    )


def _event(answer: Answered, *, payment_id: str, now: datetime, actor: str) -> SourceEvent | None:
    if answer.entityversion is None:
        return None
    version = Version(answer.versionepoch, answer.entityversion)
    fields = {
        "status": answer.status,
        "amount": Money(answer.amount_minor, answer.currency),
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
        data=answer.data,
        time=now,
        digest=digest_of({**fields, **identity}, "snapshot"),
        psp=answer.psp,
        psp_reference=answer.psp_reference,
        actor=actor,
    )


def _captured_as_told(answer: Answered) -> int | None:
    """None where the PSP left it out, as in an event: it follows a later patch of the status."""
    by_default = answer.amount_minor if answer.status == "succeeded" else 0
    told = answer.data.get("captured_minor") is not None
    return answer.captured_minor if told or answer.captured_minor != by_default else None
