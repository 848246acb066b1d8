"""The body of a generic answer, read by the same strict rules as a `psp` event."""

from typing import Any

from schemas import strict_json
from schemas.attributes import VersionNumber
from schemas.currency import Exponents
from schemas.events import PspData, PspStatus
from schemas.fields import known_fields
from schemas.money import Money
from schemas.refusal import Refused
from schemas.validation import object_of, validated
from service.psp.port import Answered, Question


class Nonsense(Exception):  # noqa: N818 - the port's word: an answer is nonsense, not in error
    """A reply that breaks the contract; its text names the culprit and never shows a value."""


class PspAnswer(PspData):
    """A `psp` event's data plus the version, from providers that count one."""

    entityversion: VersionNumber | None = None
    versionepoch: VersionNumber | None = None


def read_answered(
    body: bytes, question: Question, *, exponents: Exponents, request_id: str | None
) -> Answered:
    """Read the body of a 200 as the answer to `question`.

    `exponents` are the accounts' exceptions to ISO 4217. Raises Nonsense where a field is missing
    or wrong, and where the answer is about another PSP payment or account than was asked about.
    """
    try:
        data = object_of(strict_json.parse(body), "body")
        answer = validated(PspAnswer, data)
        fields = known_fields(answer, exponents=exponents)
    except Refused as refusal:
        raise Nonsense(f"{refusal.reason}: {refusal.field}") from None
    _refuse_another("psp", answer.psp, question.psp)
    _refuse_another("psp_reference", answer.psp_reference, question.psp_reference)
    return _answered(fields, data, request_id)


def is_not_found(body: bytes) -> bool:
    """Whether the body of a 404 is the provider's own word, and not that of some proxy."""
    try:
        said = strict_json.parse(body)
    except Refused:
        return False
    return isinstance(said, dict) and said.get("error") == "not_found"


def _answered(fields: dict[str, Any], data: dict[str, Any], request_id: str | None) -> Answered:
    amount: Money | None = fields["amount"]
    status: PspStatus = fields["status"]
    captured_minor = fields["captured_minor"]
    if captured_minor is None:
        captured_minor = amount.minor if amount and status is PspStatus.SUCCEEDED else 0
    return Answered(
        status=status.value,
        amount_minor=amount.minor if amount else None,
        currency=amount.currency if amount else None,
        captured_minor=captured_minor,
        refunded_minor=fields["refunded_minor"],
        disputed_minor=fields["disputed_minor"],
        psp=fields["psp"],
        psp_reference=fields["psp_reference"],
        entityversion=fields["entityversion"],
        versionepoch=fields["versionepoch"] or 0,
        failure_code=fields["failure_code"],
        data=data,
        request_id=request_id,
        method=_method(data),
    )


def _method(data: dict[str, Any]) -> str | None:
    """No field of the contract: where a provider names it, poll plans may go by it."""
    method = data.get("method")
    return method if isinstance(method, str) else None


def _refuse_another(field: str, answered: str, asked: str | None) -> None:
    if asked is not None and answered != asked:
        raise Nonsense(f"{field}: not the one that was asked about")
