"""From rows of the log back to the events and answers that they were made of."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from schemas.currency import Exponents
from schemas.events import ErpData, ErpPatch, PaymentData, PspData, PspPatch
from schemas.fields import accepted_fields, digest_of, known_fields
from schemas.refusal import Refused
from schemas.validation import object_of, validated
from service.domain.events import SourceEvent
from service.domain.facts import event_facts
from service.domain.replay import LoggedAnswer, LoggedStep
from service.domain.versions import Version
from service.domain.views import SourceView

_MODELS: Final[Mapping[tuple[str, str], type[PaymentData]]] = {
    ("erp", "snapshot"): ErpData,
    ("erp", "patch"): ErpPatch,
    ("psp", "snapshot"): PspData,
    ("psp", "patch"): PspPatch,
}
_IDENTITY = frozenset({"psp", "psp_reference"})
_ANSWERED = ("status", "amount", "captured_minor", "refunded_minor", "disputed_minor")
_UNSAID: Final[Mapping[str, None]] = dict.fromkeys((*_ANSWERED, "failure_code"))


class UnreadableLog(Exception):  # noqa: N818 - named after what was found
    """A row of the log whose data is not what was taken in."""

    def __init__(self, log_id: int, reason: str) -> None:
        self.log_id = log_id
        super().__init__(reason)


def step_of(row: Mapping[str, Any], *, exponents: Exponents) -> LoggedStep:
    """A row of `verify_log.sql` as the payment rules take it. Raises UnreadableLog.

    `exponents` are the accounts' exceptions to ISO 4217 that hold now.
    """
    event = _event(row, exponents) if row["version"] is not None else None
    answered = event is None and row["kind"] == "heal" and row["data"] is not None
    return LoggedStep(
        log_id=row["log_id"],
        outcome=row["outcome"],
        row_version=row["row_version"],
        at=row["occurred_at"],
        event=event,
        answer=_answer(row) if answered else None,
    )


def _event(row: Mapping[str, Any], exponents: Exponents) -> SourceEvent:
    fields = _event_fields(row, exponents)
    if row["kind"] != "erp":
        fields = {name: value for name, value in fields.items() if name not in _IDENTITY}
    return SourceEvent(
        payment_id=row["payment_id"],
        kind=row["kind"],
        event_id=row["event_id"],
        version=Version(row["epoch"], row["version"]),
        fields=fields,
        data=row["data"],
        time=row["occurred_at"],
        digest=row["digest"],
        patch=row["changekind"] == "patch",
        psp=row["psp"],
        psp_reference=row["psp_reference"],
        actor=row["actor"],
    )


def _answer(row: Mapping[str, Any]) -> LoggedAnswer:
    return LoggedAnswer(
        psp=row["psp"],
        psp_reference=row["psp_reference"],
        facts=event_facts(SourceView(fields=_answered(row))),
        versioned=row["data"].get("entityversion") is not None,
    )


def _event_fields(row: Mapping[str, Any], exponents: Exponents) -> dict[str, Any]:
    """The fields that give the digest that was stored: the exceptions of then may not be those of
    now.
    """
    for read in _readings(row, exponents):
        try:
            fields = read()
        except Refused:
            continue
        if digest_of(fields, row["changekind"]) == row["digest"]:
            return fields
    raise UnreadableLog(row["log_id"], "its data does not give its digest")


def _readings(
    row: Mapping[str, Any], exponents: Exponents
) -> tuple[Callable[[], dict[str, Any]], ...]:
    if row["kind"] == "heal":
        return (lambda: _answered(row),)
    data = _validated(row, _MODELS[row["kind"], row["changekind"]], row["data"])
    return (lambda: known_fields(data, exponents=exponents), lambda: accepted_fields(data))


def _answered(row: Mapping[str, Any]) -> dict[str, Any]:
    """What an answer said, in ISO 4217's units: null stands for what it left out."""
    said = {name: value for name, value in row["data"].items() if value is not None}
    return {**_UNSAID, **accepted_fields(_validated(row, PspPatch, said))}


def _validated(row: Mapping[str, Any], model: type[PaymentData], data: Any) -> PaymentData:
    try:
        return validated(model, object_of(data, "data"))
    except Refused as refused:
        raise UnreadableLog(row["log_id"], f"{refused.reason}: {refused.field}") from None
