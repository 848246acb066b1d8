"""Discrepancies: functions of the current facts, opened when the facts disagree and closed when
they agree.

Some kinds are plain from the facts and open with the event that shows them. The others need
something that no event tells (the PSP's answer, a grace that ran out, another payment of the same
order): whoever learns it opens them. All close by the facts.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from service.domain.findings import Finding, evident, finding_of
from service.domain.payment import Case, Kind, Payment, Status
from service.domain.status import NEGATIVE, answer_awaited, deciding, refund_awaited

_NOTHING_LEARNED: Mapping[Kind, Finding] = {}


def learned(kind: Kind, payment: Payment) -> Finding | None:
    """The finding of a kind of LEARNED; None when the facts speak against it."""
    if not LEARNED[kind](payment):
        return None
    return finding_of(payment, deciding(payment))


def settle_cases(
    payment: Payment, *, learned_now: Mapping[Kind, Finding] = _NOTHING_LEARNED
) -> tuple[Mapping[Kind, Case], list[Case]]:
    """The cases that the payment's facts hold, and those that closed.

    `learned_now` is what the caller has just learned of. A case that a person closed stays closed
    while the facts are no worse than what the person saw; when more money is at risk it opens
    anew.
    """
    held = payment.cases
    wanted = evident(payment)
    if not wanted and not held and not learned_now:
        return held, []
    wanted.update(learned_now)
    for kind in held:
        if kind in LEARNED and kind not in wanted:
            finding = learned(kind, payment)
            if finding is not None:
                wanted[kind] = finding
    cases, closed = {}, []
    for kind, finding in wanted.items():
        case = held.get(kind)
        if case is not None and not case.open:
            if not _worse(case, finding):
                cases[kind] = case
                continue
            closed.append(replace(case, holds=False))
            case = None
        cases[kind] = _opened(case or Case(kind), finding)
    closed.extend(ended(case) for kind, case in held.items() if kind not in wanted)
    return cases, closed


def _opened(case: Case, finding: Finding) -> Case:
    return replace(
        case,
        amount_at_risk_minor=finding.amount_at_risk_minor,
        currency=finding.currency,
        details=finding.details,
    )


def ended(case: Case) -> Case:
    """The case when its facts agree again; one that a person closed stays as it was closed."""
    return replace(case, holds=False, status="resolved" if case.open else case.status)


def _worse(case: Case, finding: Finding) -> bool:
    if finding.currency != case.currency:
        return True
    return (finding.amount_at_risk_minor or 0) > (case.amount_at_risk_minor or 0)


def _missing_at_psp(payment: Payment) -> bool:
    """A cancelled order, or a payment that failed, need not be known to the PSP any more."""
    if payment.erp.fields.get("status") == "cancelled" or payment.status in NEGATIVE:
        return False
    return payment.schedule.not_found_since is not None


def _erp_paid_psp_not(payment: Payment) -> bool:
    chosen = deciding(payment)
    is_paid = chosen is not None and chosen.facts.paid
    return payment.erp.fields.get("status") == "paid" and not is_paid


def _erp_not_settled(payment: Payment) -> bool:
    erp_status = payment.erp.fields.get("status")
    return erp_status == "pending" and payment.status is Status.SUCCEEDED


LEARNED: Mapping[Kind, Callable[[Payment], bool]] = {
    Kind.MISSING_AT_PSP: _missing_at_psp,
    Kind.MISSING_AT_ERP: lambda payment: not payment.erp.seen,
    Kind.STUCK_PENDING: answer_awaited,
    Kind.ERP_PAID_PSP_NOT: _erp_paid_psp_not,
    Kind.REFUND_MISSING: refund_awaited,
    Kind.ERP_NOT_SETTLED: _erp_not_settled,
}
"""The kinds that need an answer or a grace before they open, and how long they then hold."""
