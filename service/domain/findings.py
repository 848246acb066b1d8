"""What the facts alone show to be wrong between the two views."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from service.domain.payment import Case, Kind, Payment, PspPayment
from service.domain.status import deciding


@dataclass(slots=True)
class Finding:
    """What a discrepancy is about: the money at risk and what a person needs to act."""

    amount_at_risk_minor: int | None = None
    currency: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


Findings = dict[Kind, Finding]


def evident(payment: Payment) -> Findings:
    """The kinds that the facts alone show."""
    findings: Findings = {}
    chosen = deciding(payment)
    if chosen is not None and chosen.facts.paid:
        _add_money_mismatch(findings, payment, chosen)
        _add_paid_after_cancel(findings, payment, chosen)
        _add_duplicate_capture(findings, payment, chosen)
    if payment.in_conflict:
        _add_version_conflict(findings, payment)
    return findings


def finding_of(payment: Payment, chosen: PspPayment | None = None) -> Finding:
    """A finding about the payment as a whole: what the PSP keeps is at risk, or else what the ERP
    expects.
    """
    erp = payment.erp.fields
    facts = chosen.facts if chosen else None
    details: dict[str, Any] = {
        "order_id": erp.get("order_id"),
        "erp_status": erp.get("status"),
        "psp_status": facts.status if facts else None,
    }
    if chosen is not None:
        details |= _reference(chosen)
    if facts is not None and facts.amount is not None and facts.paid:
        return Finding(facts.kept_minor, facts.amount.currency, details)
    expected = erp.get("amount")
    if expected is not None:
        return Finding(expected.minor, expected.currency, details)
    return Finding(details=details)


def _add_money_mismatch(findings: Findings, payment: Payment, chosen: PspPayment) -> None:
    expected = payment.erp.fields.get("amount")
    if expected is None:
        return
    captured_minor, currency = chosen.facts.captured_minor, _currency(chosen)
    if currency == expected.currency and captured_minor == expected.minor:
        return
    details = {
        **_reference(chosen),
        "erp_amount_minor": expected.minor,
        "erp_currency": expected.currency,
        "captured_minor": captured_minor,
        "captured_currency": currency,
    }
    if currency is None:  # told in no whole number of the currency's minor units, or not at all
        findings[Kind.AMOUNT_MISMATCH] = Finding(expected.minor, expected.currency, details)
    elif currency != expected.currency:
        findings[Kind.CURRENCY_MISMATCH] = Finding(captured_minor, currency, details)
    else:
        difference = abs(captured_minor - expected.minor)
        findings[Kind.AMOUNT_MISMATCH] = Finding(difference, currency, details)


def _add_paid_after_cancel(findings: Findings, payment: Payment, chosen: PspPayment) -> None:
    kept_minor = chosen.facts.kept_minor
    if payment.erp.fields.get("status") == "cancelled" and kept_minor > 0:
        details = {
            **_reference(chosen),
            "captured_minor": chosen.facts.captured_minor,
            "erp_status": "cancelled",
        }
        findings[Kind.PAID_AFTER_CANCEL] = Finding(kept_minor, _currency(chosen), details)


def _add_duplicate_capture(findings: Findings, payment: Payment, chosen: PspPayment) -> None:
    """Two PSP payments keep money for one payment; or a sweep found another payment of the order,
    which holds until a sweep ends it, or this one keeps no money or is of another order.
    """
    if len(payment.psp_payments) > 1:
        keeping = [each for each in payment.psp_payments.values() if each.facts.kept_minor > 0]
        if len(keeping) > 1:
            findings[Kind.DUPLICATE_CAPTURE] = _duplicate(keeping)
            return
    case = payment.cases.get(Kind.DUPLICATE_CAPTURE)
    order_id = payment.erp.fields.get("order_id")
    if case is not None and is_of_order(case, order_id) and chosen.facts.kept_minor > 0:
        findings[Kind.DUPLICATE_CAPTURE] = Finding(
            case.amount_at_risk_minor, case.currency, case.details
        )


def is_of_order(case: Case, order_id: str | None) -> bool:
    """Whether a sweep found that DUPLICATE_CAPTURE, among the payments of that order."""
    return order_id is not None and case.details.get("order_id") == order_id


def _duplicate(keeping: list[PspPayment]) -> Finding:
    """All but the largest are at risk."""
    keeping.sort(key=lambda each: (-each.facts.kept_minor, each.key))
    at_risk_minor = sum(each.facts.kept_minor for each in keeping[1:])
    captures = [{**_reference(each), "kept_minor": each.facts.kept_minor} for each in keeping]
    return Finding(at_risk_minor, _currency(keeping[1]), {"captures": captures})


def _add_version_conflict(findings: Findings, payment: Payment) -> None:
    conflicts: list[dict[str, Any]] = []
    if payment.erp.conflict:
        epoch, version = payment.erp.newest
        conflicts.append({"source": "erp", "epoch": epoch, "version": version})
    for _, each in sorted(payment.psp_payments.items()):
        if each.view.conflict:
            epoch, version = each.view.newest
            where = {"source": "psp", "epoch": epoch, "version": version}
            conflicts.append({**where, **_reference(each)})
    whole = finding_of(payment)
    findings[Kind.VERSION_CONFLICT] = Finding(
        whole.amount_at_risk_minor, whole.currency, {"conflicts": conflicts}
    )


def _currency(psp_payment: PspPayment) -> str | None:
    amount = psp_payment.facts.amount
    return amount.currency if amount else None


def _reference(psp_payment: PspPayment) -> dict[str, str]:
    return {"psp": psp_payment.psp, "psp_reference": psp_payment.psp_reference}
