"""Between rows and the domain's values: what a column holds and what it means."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from schemas.money import Money
from service.domain.payment import (
    Case,
    Kind,
    Observation,
    Payment,
    PspFacts,
    PspPayment,
    Schedule,
    Status,
)
from service.domain.status import deciding, event_facts
from service.domain.versions import UNSEEN, Version
from service.domain.views import SourceView

Row = Sequence[Any]
_NO_FACTS = PspFacts(None, None, 0, 0, 0)


def columns(rows: Sequence[Row], *, whole: frozenset[int] = frozenset()) -> list[list[Any]]:
    """Turn rows into the arrays that `unnest` takes; `whole` as in `require_whole`."""
    require_whole(rows, whole)
    return [list(column) for column in zip(*rows, strict=True)]


def require_whole(rows: Sequence[Row], places: Iterable[int]) -> None:
    """Refuse, with TypeError, anything but integers and None at these places of the rows.

    The driver would silently make 1 of 1.5 and of True.
    """
    for place in places:
        if not {type(row[place]) for row in rows} <= _WHOLE:
            raise TypeError(f"column {place} holds something else than whole numbers")


_WHOLE = {int, type(None)}


def payment_of(row: Row) -> Payment:
    """A payment without its PSP payments and cases, from the columns of `payment_lock.sql`."""
    (payment_id, status, row_version, *erp) = row[:14]
    pending_since, checks, next_check_at, not_found_since, final_answer_at = row[14:19]
    created_at, status_since, check_wanted = row[19:]
    return Payment(
        payment_id=payment_id,
        row_version=row_version,
        status=_STATUSES[status],
        erp=_erp_view(*erp),
        schedule=Schedule(
            pending_since=pending_since,
            checks=checks,
            next_check_at=next_check_at,
            not_found_since=not_found_since,
            final_answer_at=final_answer_at,
            check_wanted=check_wanted,
        ),
        created_at=created_at,
        status_since=status_since,
    )


_STATUSES = {status.value: status for status in Status}


def payment_row(before: Payment, payment: Payment) -> Row:
    """The parameters of `payment_update.sql`: the version read, then what the row becomes."""
    chosen = deciding(payment)
    facts = chosen.facts if chosen else _NO_FACTS
    schedule = payment.schedule
    return (
        payment.payment_id,
        before.row_version,
        payment.status,
        payment.row_version,
        *_erp_columns(payment.erp),
        schedule.pending_since,
        schedule.checks,
        schedule.next_check_at,
        schedule.not_found_since,
        schedule.final_answer_at,
        chosen.psp if chosen else None,
        chosen.psp_reference if chosen else None,
        facts.status,
        *_money(facts.amount),
        facts.captured_minor,
        facts.refunded_minor,
        facts.disputed_minor,
        payment.status_since,
        schedule.check_wanted,
    )


PAYMENT_WHOLE = frozenset({1, 3, 5, 6, 9, 16, 23, 25, 26, 27})


def psp_payment_of(row: Row) -> tuple[str, PspPayment]:
    """(payment id, PSP payment) from the columns of `psp_payment_read.sql`."""
    payment_id, psp, psp_reference, row_version = row[:4]
    psp_payment = PspPayment(
        psp=psp,
        psp_reference=psp_reference,
        row_version=row_version,
        view=_psp_view(row[4:17]),
        observation=_observation(row[17:]),
    )
    return payment_id, psp_payment


def psp_payment_row(payment_id: str, psp_payment: PspPayment) -> Row:
    """The columns of `psp_payments` as `psp_payment_update.sql` takes them."""
    view = psp_payment.view
    facts = event_facts(view)
    return (
        payment_id,
        psp_payment.psp,
        psp_payment.psp_reference,
        psp_payment.row_version,
        *view.snapshot,
        view.patched,
        facts.status,
        *_money(facts.amount),
        facts.captured_minor,
        view.fields.get("captured_minor") is not None,
        facts.refunded_minor,
        facts.disputed_minor,
        view.fields.get("failure_code"),
        view.time,
        view.conflict,
        *_observation_columns(psp_payment.observation),
    )


PSP_PAYMENT_WHOLE = frozenset({3, 4, 5, 8, 10, 12, 13, 18, 20, 21, 22})


def case_of(row: Row) -> tuple[str, Case]:
    """(payment id, discrepancy) from the columns of `discrepancy_read.sql`."""
    payment_id, discrepancy_id, kind, status, version, at_risk_minor, currency, details = row
    case = Case(
        kind=Kind(kind),
        discrepancy_id=discrepancy_id,
        status=status,
        version=version,
        amount_at_risk_minor=at_risk_minor,
        currency=currency,
        details=details,
    )
    return payment_id, case


def _erp_view(*row: Any) -> SourceView:
    (
        order_id,
        epoch,
        version,
        patched,
        status,
        minor,
        currency,
        psp,
        psp_reference,
        time,
        conflict,
    ) = row
    view = SourceView(
        snapshot=Version(epoch, version),
        patched=_patched_of(patched),
        time=time,
        conflict=conflict,
        fields={
            "order_id": order_id,
            "status": status,
            "amount": _money_of(minor, currency),
            "psp": psp,
            "psp_reference": psp_reference,
        },
    )
    return view if view.seen else SourceView()


def _erp_columns(view: SourceView) -> Row:
    fields = view.fields
    return (
        fields.get("order_id"),
        *view.snapshot,
        view.patched,
        fields.get("status"),
        *_money(fields.get("amount")),
        fields.get("psp"),
        fields.get("psp_reference"),
        view.time,
        view.conflict,
    )


def _psp_view(row: Row) -> SourceView:
    (epoch, version, patched, status, minor, currency, captured, captured_given) = row[:8]
    refunded, disputed, failure_code, time, conflict = row[8:]
    if version == UNSEEN.version and patched is None:
        return SourceView()
    return SourceView(
        snapshot=Version(epoch, version),
        patched=_patched_of(patched),
        time=time,
        conflict=conflict,
        fields={
            "status": status,
            "amount": _money_of(minor, currency),
            "captured_minor": captured if captured_given else None,
            "refunded_minor": refunded,
            "disputed_minor": disputed,
            "failure_code": failure_code,
        },
    )


def _observation(row: Row) -> Observation | None:
    status, minor, currency, captured, refunded, disputed, at, doubted = row
    if at is None:
        return None
    facts = PspFacts(status, _money_of(minor, currency), captured, refunded, disputed)
    return Observation(facts=facts, at=at, doubted=doubted)


def _observation_columns(observation: Observation | None) -> Row:
    if observation is None:
        return (None, None, None, None, None, None, None, False)
    facts = observation.facts
    return (
        facts.status,
        *_money(facts.amount),
        facts.captured_minor,
        facts.refunded_minor,
        facts.disputed_minor,
        observation.at,
        observation.doubted,
    )


def _money(amount: Money | None) -> tuple[int | None, str | None]:
    return (amount.minor, amount.currency) if amount else (None, None)


def _money_of(minor: int | None, currency: str | None) -> Money | None:
    return None if minor is None or currency is None else Money(minor, currency)


def _patched_of(patched: Mapping[str, Sequence[int]] | None) -> dict[str, Version] | None:
    if not patched:
        return None
    return {name: Version(*version) for name, version in patched.items()}
