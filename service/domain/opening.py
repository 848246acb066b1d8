"""Discrepancies that somebody learns of: they open and close in a step of their own."""

from collections.abc import Mapping, Set
from dataclasses import dataclass
from datetime import datetime

from service.domain.discrepancies import LEARNED, ended, learned
from service.domain.events import LogEntry, Outcome
from service.domain.findings import Finding
from service.domain.fold import Folded, commit
from service.domain.payment import Kind, Payment
from service.domain.schedule import Rules
from service.domain.status import deciding


@dataclass(frozen=True, slots=True, kw_only=True)
class Occasion:
    """When, by which rules, and in whose name a step is taken. `now` is the database's time."""

    now: datetime
    rules: Rules
    actor: str


def open_now(
    folded: Folded, kinds: frozenset[Kind], *, now: datetime, rules: Rules, actor: str
) -> None:
    """Open the `kinds` that the facts allow and that are not held yet, in a step of their own.

    The kinds are those of LEARNED, of which the caller has just learned.
    """
    findings = _allowed(folded.payment, kinds)
    if findings:
        _step(folded, findings, Occasion(now=now, rules=rules, actor=actor))


def open_duplicate_of_order(
    folded: Folded, others: frozenset[str], *, now: datetime, rules: Rules, actor: str
) -> None:
    """Open DUPLICATE_CAPTURE where `others`, payments of the same order, keep money too.

    Nothing happens where this payment keeps none, or a duplicate is held already.
    """
    payment = folded.payment
    chosen, order_id = deciding(payment), payment.erp.fields.get("order_id")
    if chosen is None or chosen.facts.kept_minor <= 0 or Kind.DUPLICATE_CAPTURE in payment.cases:
        return
    currency = chosen.facts.amount.currency if chosen.facts.amount else None
    details = {"order_id": order_id, "payments": sorted(others | {payment.payment_id})}
    finding = Finding(chosen.facts.kept_minor, currency, details)
    occasion = Occasion(now=now, rules=rules, actor=actor)
    _step(folded, {Kind.DUPLICATE_CAPTURE: finding}, occasion)


def close_duplicate_of_order(folded: Folded, *, now: datetime, rules: Rules, actor: str) -> None:
    """Close DUPLICATE_CAPTURE that a sweep opened, for no other payment of the order keeps money.

    A duplicate within the payment itself is another finding, and stays.
    """
    case = folded.payment.cases.get(Kind.DUPLICATE_CAPTURE)
    if case is None or "order_id" not in case.details:
        return
    changed, schedule = folded.payment.copy(), folded.payment.schedule
    changed.cases = {kind: each for kind, each in changed.cases.items() if each is not case}
    occasion = Occasion(now=now, rules=rules, actor=actor)
    commit(folded, changed, new_entry(changed, occasion), now=now, rules=rules)
    folded.payment.schedule = schedule
    folded.closed.append(ended(case))


def settle(folded: Folded, kinds: Set[Kind], occasion: Occasion) -> None:
    """Open what an answer told of, and close what it ended."""
    payment = folded.payment
    findings = _allowed(payment, kinds)
    over = any(kind in LEARNED and not LEARNED[kind](payment) for kind in payment.cases)
    if findings or over:
        _step(folded, findings, occasion)


def new_entry(payment: Payment, occasion: Occasion) -> LogEntry:
    """A log row of a step that no source's event made."""
    return LogEntry(
        payment_id=payment.payment_id,
        kind="heal",
        actor=occasion.actor,
        outcome=Outcome.APPLIED,
        row_version=payment.row_version,
        occurred_at=occasion.now,
    )


def _allowed(payment: Payment, kinds: Set[Kind]) -> dict[Kind, Finding]:
    findings = {kind: learned(kind, payment) for kind in sorted(kinds - payment.cases.keys())}
    return {kind: finding for kind, finding in findings.items() if finding is not None}


def _step(folded: Folded, findings: Mapping[Kind, Finding], occasion: Occasion) -> None:
    """A step that changes cases alone; the poll bookkeeping stays."""
    changed, schedule = folded.payment.copy(), folded.payment.schedule
    entry = new_entry(changed, occasion)
    commit(
        folded,
        changed,
        entry,
        now=occasion.now,
        rules=occasion.rules,
        learned_now=findings,
    )
    folded.payment.schedule = schedule
