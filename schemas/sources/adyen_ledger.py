"""Adyen's facts added up: how each PSP payment of one payment stands.

Pure functions of the set of facts: no order, no delivery twice, and no batching changes the result.
The version of the result is the number of distinct facts of the PSP payment, so each new fact gives
a higher one; it counts right as long as all facts are kept, and added up under one lock a payment.

A fact belongs to the payment that its references lead to: its original reference, and on from
there; without one, its own. Modifications that name no original (chargebacks sometimes do) follow
another fact with their reference, and wait until one is there.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import Any, Final

from schemas.cloudevent import Event
from schemas.currency import ISO_4217
from schemas.refusal import Reason, Refused
from schemas.sources.adyen import RECAPTURE
from schemas.sources.fact import Fact
from schemas.sources.telling import Told, event_of

_CANCELS: Final = frozenset({"CANCELLATION", "TECHNICAL_CANCEL"})
_STARTS: Final = frozenset({"AUTHORISATION", "OFFER_CLOSED", "EXPIRE"})
_REFUND_ENDS: Final = frozenset({"REFUND_FAILED", "REFUNDED_REVERSED", "VOID_PENDING_REFUND"})

# All facts of a dispute have its reference; the highest stage that came tells who has the money.
_DISPUTE_STAGES: Final = {
    "NOTIFICATION_OF_CHARGEBACK": 0,
    "CHARGEBACK": 1,
    "CHARGEBACK_REVERSED": 2,
    "SECOND_CHARGEBACK": 3,
    "PREARBITRATION_LOST": 3,
    "PREARBITRATION_WON": 4,
}
_MONEY_TAKEN: Final = (1, 3)


def distinct(facts: Iterable[Fact]) -> list[Fact]:
    """Each fact once, in one order; of two with one key and different content the smaller."""
    by_key: dict[tuple[Any, ...], Fact] = {}
    for fact in sorted(facts):
        by_key.setdefault(fact.key, fact)
    return sorted(by_key.values())


def ledger_events(facts: Iterable[Fact], *, automatic_capture: bool) -> list[Event]:
    """One event for each PSP payment that the facts of one payment at one account are about.

    `automatic_capture`: the account captures with the authorisation and sends no CAPTURE.
    A payment whose authorisation is not there yet gives a patch without its amount.
    Raises Refused bad_amount where facts of one PSP payment are in two currencies.
    """
    events = []
    for psp_reference, own in sorted(payments_of(distinct(facts)).items()):
        fields = totals(own, psp_reference=psp_reference, automatic_capture=automatic_capture)
        newest = max(own, key=lambda fact: fact.event_date)
        told = Told(
            kind="psp",
            payment_id=newest.payment_id,
            event_id=f"{psp_reference}:{len(own)}",
            source=f"/adyen/{newest.psp}",
            time=newest.event_date,
            epoch=0,
            version=len(own),
            changekind="snapshot" if "amount" in fields else "patch",
            data={"psp": newest.psp, "psp_reference": psp_reference, **fields},
        )
        events.append(event_of(told))
    return events


def payments_of(facts: Collection[Fact]) -> dict[str, list[Fact]]:
    """PSP reference of the payment -> its facts; those that lead to no payment yet are left out."""
    originals: dict[str, str] = {}
    for fact in sorted(facts, reverse=True):
        if fact.original_reference and fact.event_code != "AUTHORISATION":
            originals[fact.psp_reference] = fact.original_reference
    payments: dict[str, list[Fact]] = defaultdict(list)
    for fact in sorted(facts):
        payments[_root(fact, originals)].append(fact)
    return {
        reference: own
        for reference, own in payments.items()
        if any(_leads(fact, reference) for fact in own)
    }


def totals(
    facts: Collection[Fact], *, psp_reference: str, automatic_capture: bool
) -> dict[str, Any]:
    """The contract's fields of one PSP payment: status, sums, and the amount if it is known.

    Raises Refused bad_amount for two currencies.
    """
    currencies = sorted({fact.currency for fact in facts})
    if len(currencies) > 1:
        remedy = f"facts of one payment are in {' and '.join(currencies)}; correct the sender"
        raise Refused(Reason.BAD_AMOUNT, "amount.currency", remedy, value=currencies[1])
    done = [fact for fact in facts if fact.success]
    authorised = _authorised_minor(done)
    released = _is_released(done)
    automatic = automatic_capture and authorised is not None and not released
    captured = _captured_minor(done, psp_reference, authorised if automatic else None)
    fields: dict[str, Any] = {
        "status": _status(facts, captured, automatic=automatic),
        "captured_minor": captured,
        "refunded_minor": _refunded_minor(done, psp_reference, captured_any=captured > 0),
        "disputed_minor": _disputed_minor(done),
        "failure_code": None,
    }
    if fields["status"] == "failed":
        fields["failure_code"] = _refusal_reason(facts)
    first = [fact for fact in facts if fact.event_code in _STARTS]
    amount = authorised if authorised is not None else max((f.minor for f in first), default=None)
    if amount is not None:
        currency = currencies[0]
        exponent = ISO_4217.get(currency)
        fields["amount"] = {"minor": amount, "currency": currency, "exponent": exponent}
    return fields


def _root(fact: Fact, originals: dict[str, str]) -> str:
    if fact.event_code == "AUTHORISATION":
        return fact.psp_reference
    reference = fact.original_reference or fact.psp_reference
    seen = {fact.psp_reference} if fact.original_reference else set()
    while reference in originals and reference not in seen:
        seen.add(reference)
        reference = originals[reference]
    return reference


def _leads(fact: Fact, reference: str) -> bool:
    """Whether a fact shows that `reference` is a payment's, and not a dispute's or refund's own."""
    if fact.event_code in _DISPUTE_STAGES:
        return fact.original_reference == reference
    return fact.event_code not in _REFUND_ENDS


def _authorised_minor(done: Collection[Fact]) -> int | None:
    """What the last adjustment made of the authorisation, None if there is no authorisation."""
    authorisations = [fact.minor for fact in done if fact.event_code == "AUTHORISATION"]
    if not authorisations:
        return None
    adjustments = [fact for fact in done if fact.event_code == "AUTHORISATION_ADJUSTMENT"]
    if not adjustments:
        return max(authorisations)
    return max(adjustments, key=lambda fact: (fact.event_date, fact.psp_reference)).minor


def _captured_minor(done: Collection[Fact], psp_reference: str, automatic: int | None) -> int:
    """Captures that did not fail. A failure without a capture of its reference counts against the
    automatic capture, or against all if it has the payment's own reference.
    """
    captures = _by_reference(done, {"CAPTURE", RECAPTURE})
    again = _by_reference(done, {RECAPTURE})
    failures = _by_reference(done, {"CAPTURE_FAILED"})
    if not captures and automatic is not None:
        return max(0, automatic - sum(failures.values()))
    kept = {ref: minor for ref, minor in captures.items() if ref not in failures or ref in again}
    against = failures.get(psp_reference, 0) if psp_reference not in captures else 0
    return max(0, sum(kept.values()) - against)


def _refunded_minor(done: Collection[Fact], psp_reference: str, *, captured_any: bool) -> int:
    """Refunds that did not fail, were not reversed and not voided."""
    refunds = _by_reference(done, {"REFUND"})
    for fact in done:
        if fact.event_code == "CANCEL_OR_REFUND" and _is_refund(fact, captured_any=captured_any):
            refunds[fact.psp_reference] = fact.minor
    ends = [fact for fact in done if fact.event_code in _REFUND_ENDS]
    ended = {ref for fact in ends for ref in (fact.psp_reference, fact.original_reference)}
    kept = sum(minor for ref, minor in refunds.items() if ref not in ended)
    unnamed = [fact.minor for fact in ends if fact.psp_reference == psp_reference]
    against = max(unnamed, default=0)
    return max(0, kept - against)


def _is_refund(fact: Fact, *, captured_any: bool) -> bool:
    """CANCEL_OR_REFUND says which it became; where it does not, money that was taken decides."""
    return fact.action == "refund" or (fact.action != "cancel" and captured_any)


def _disputed_minor(done: Collection[Fact]) -> int:
    disputes: dict[str, list[Fact]] = defaultdict(list)
    for fact in done:
        if fact.event_code in _DISPUTE_STAGES:
            disputes[fact.psp_reference].append(fact)
    latest = [max(own, key=_stage_and_amount) for own in disputes.values()]
    return sum(fact.minor for fact in latest if _DISPUTE_STAGES[fact.event_code] in _MONEY_TAKEN)


def _stage_and_amount(fact: Fact) -> tuple[int, int]:
    return _DISPUTE_STAGES[fact.event_code], fact.minor


def _is_released(done: Collection[Fact]) -> bool:
    """Whether the authorisation was let go, so that no automatic capture follows."""
    return _is_cancelled(done) or any(fact.event_code == "EXPIRE" for fact in done)


def _is_cancelled(done: Collection[Fact]) -> bool:
    return any(
        fact.event_code in _CANCELS
        or (fact.event_code == "CANCEL_OR_REFUND" and fact.action == "cancel")
        for fact in done
    )


def _status(facts: Collection[Fact], captured: int, *, automatic: bool) -> str:
    """The first that holds; a capture that failed leaves the authorisation, if there is one."""
    done = {fact.event_code for fact in facts if fact.success}
    if captured > 0:
        return "succeeded"
    if _is_cancelled([fact for fact in facts if fact.success]):
        return "cancelled"
    if "EXPIRE" in done:
        return "expired"
    if "CAPTURE_FAILED" in done and (automatic or "AUTHORISATION" not in done):
        return "failed"
    if "AUTHORISATION" in done:
        return "authorised"
    if "OFFER_CLOSED" in done:
        return "expired"
    return "failed" if any(fact.event_code == "AUTHORISATION" for fact in facts) else "pending"


def _refusal_reason(facts: Collection[Fact]) -> str | None:
    reasons = [
        fact.reason
        for fact in facts
        if fact.reason and (fact.event_code == "CAPTURE_FAILED" or not fact.success)
    ]
    return min(reasons, default=None)


def _by_reference(done: Collection[Fact], codes: Collection[str]) -> dict[str, int]:
    """Reference -> amount of the facts with one of `codes`; the larger, if there are two."""
    amounts: dict[str, int] = {}
    for fact in done:
        if fact.event_code in codes:
            amounts[fact.psp_reference] = max(fact.minor, amounts.get(fact.psp_reference, 0))
    return amounts
