"""A payment computed anew from its log: invariant is that it equals the row.

Versions, views, sums and status follow from the log alone. Poll bookkeeping does not, nor do the
cases that somebody had to learn of or closed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from service.domain.events import Outcome, SourceEvent
from service.domain.facts import PspFacts
from service.domain.fold import fold
from service.domain.observing import observe, settle_doubt
from service.domain.payment import Payment, PspPayment
from service.domain.schedule import Rules
from service.domain.status import deciding, derive
from service.domain.versions import Version

_RULES = Rules()


@dataclass(frozen=True, slots=True)
class LoggedAnswer:
    """A PSP's answer that changed what is observed. `versioned`: it only ended a doubt, and its
    facts stand in the log as an event before it.
    """

    psp: str
    psp_reference: str
    facts: PspFacts
    versioned: bool


@dataclass(frozen=True, slots=True)
class LoggedStep:
    """A row of the log that is applied or in conflict. Neither `event` nor `answer`: it opened or
    closed a case, or a person did something.
    """

    log_id: int
    outcome: str
    row_version: int
    at: datetime
    event: SourceEvent | None = None
    answer: LoggedAnswer | None = None


@dataclass(frozen=True, slots=True)
class Departure:
    """Where the log does not follow from itself: what it says and what would have to be."""

    what: str
    logged: object
    computed: object


def replay(payment_id: str, steps: Iterable[LoggedStep]) -> tuple[Payment, list[Departure]]:
    """The payment that the log makes, and where the log contradicts itself."""
    payment = Payment(payment_id)
    departures: list[Departure] = []
    seen: dict[tuple[tuple[str, str], Version], bytes] = {}
    for step in steps:
        before = payment
        if step.event is not None:
            payment, outcome = _with_event(payment, step.event, seen, step.at)
            if outcome != step.outcome:
                departures.append(
                    Departure(f"log {step.log_id} outcome", step.outcome, str(outcome))
                )
            if step.outcome == Outcome.APPLIED:
                seen.setdefault((step.event.stream, step.event.version), step.event.digest)
        elif step.answer is not None:
            payment = _with_answer(payment, step.answer, step.at)
        departures.extend(_row_version_departs(step, before))
        payment = payment.copy()
        payment.row_version = step.row_version
    chosen = deciding(payment)
    payment.status = derive(payment.erp, chosen.facts if chosen is not None else None)
    return payment, departures


def _with_event(
    payment: Payment,
    event: SourceEvent,
    seen: Mapping[tuple[tuple[str, str], Version], bytes],
    now: datetime,
) -> tuple[Payment, Outcome]:
    step = fold(payment, [event], seen=seen, now=now, rules=_RULES)
    [(_, outcome)] = step.counts
    return step.payment, outcome


def _with_answer(payment: Payment, answer: LoggedAnswer, now: datetime) -> Payment:
    key = (answer.psp, answer.psp_reference)
    known = payment.psp_payments.get(key, PspPayment(*key))
    if answer.versioned:
        observed = settle_doubt(known, answer.facts)
    else:
        observed = observe(known, answer.facts, now=now)
    changed = payment.copy()
    changed.psp_payments = {**payment.psp_payments, key: observed}
    return changed


def _row_version_departs(step: LoggedStep, before: Payment) -> list[Departure]:
    """Each applied row raises the row version by one; a conflict that was known already does not:
    anything else is a row that the log has lost.
    """
    expected = before.row_version + 1
    repeated = step.outcome == Outcome.CONFLICT and step.row_version == before.row_version
    if step.row_version == expected or repeated:
        return []
    return [Departure(f"log {step.log_id} row_version", step.row_version, expected)]
