"""Proof on a live database that every payment is what its log makes of it.

Chunk by chunk in key order, each in one snapshot: nothing is locked, and what changes meanwhile
changes row and log together.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from schemas.currency import Exponents
from service.domain.discrepancies import LEARNED
from service.domain.findings import Finding, evident, is_of_order
from service.domain.payment import Case, Kind, Payment
from service.domain.replay import replay
from service.store import discrepancies, psp_payments
from service.store.logged import UnreadableLog, step_of
from service.store.rows import payment_row, psp_payment_row
from service.store.statements import sql

_BEFORE_BOOKKEEPING, _AFTER_BOOKKEEPING = slice(2, 15), slice(20, 28)
_PSP_COLUMNS = psp_payments.COLUMNS[4:]
_AGREE = "the facts agree"
_EVIDENT = (
    Kind.AMOUNT_MISMATCH,
    Kind.CURRENCY_MISMATCH,
    Kind.PAID_AFTER_CANCEL,
    Kind.DUPLICATE_CAPTURE,
    Kind.VERSION_CONFLICT,
)
_ENDED_BY_VIEWS = (
    Kind.MISSING_AT_ERP,
    Kind.ERP_NOT_SETTLED,
    Kind.ERP_PAID_PSP_NOT,
    Kind.REFUND_MISSING,
)


class Difference(NamedTuple):
    """What stands in a row, and what the log makes of it."""

    payment_id: str
    field: str
    stored: object
    recomputed: object


@dataclass(frozen=True, slots=True)
class Verified:
    """One chunk: its last payment id (None: there was none left), its size, what differs."""

    last_payment_id: str | None
    payments: int
    differences: Sequence[Difference]


@dataclass(slots=True)
class _Stored:
    """What the tables hold of one payment; `row` is None where there is only a log."""

    row: Any = None
    parts: list[Any] = field(default_factory=list)
    cases: dict[Kind, Case] = field(default_factory=dict)
    log: list[Any] = field(default_factory=list)


async def about_total(connection: Any) -> int | None:
    """About how many payments there are; None if nobody knows."""
    number: int = await connection.fetchval(sql("verify_total"))
    return number if number >= 0 else None


async def verify_chunk(
    connection: Any, *, after: str, limit: int, exponents: Exponents
) -> Verified:
    """Verify the next payments after an id, in the caller's snapshot."""
    payment_ids = [row[0] for row in await connection.fetch(sql("verify_ids"), after, limit)]
    if not payment_ids:
        return Verified(None, 0, [])
    stored = await _read(connection, payment_ids)
    differences = [
        Difference(payment_id, *said)
        for payment_id, of_payment in stored.items()
        for said in _verify(payment_id, of_payment, exponents)
    ]
    return Verified(payment_ids[-1], len(payment_ids), differences)


async def _read(connection: Any, payment_ids: Sequence[str]) -> dict[str, _Stored]:
    stored = {payment_id: _Stored() for payment_id in payment_ids}
    for row in await connection.fetch(sql("verify_payments"), payment_ids):
        stored[row[0]].row = row
    for row in await connection.fetch(sql("psp_payment_read"), payment_ids):
        stored[row[0]].parts.append(row)
    for payment_id, case in await discrepancies.read(connection, payment_ids):
        stored[payment_id].cases[case.kind] = case
    for row in await connection.fetch(sql("verify_log"), payment_ids):
        stored[row[0]].log.append(row)
    return stored


_Said = tuple[str, object, object]
"""A field, what is stored, what was recomputed."""


def _verify(payment_id: str, stored: _Stored, exponents: Exponents) -> Iterator[_Said]:
    if stored.row is None:
        yield "payments", "no row", f"{len(stored.log)} rows of the log"
        return
    try:
        steps = [step_of(row, exponents=exponents) for row in stored.log]
    except UnreadableLog as unreadable:
        yield f"log {unreadable.log_id} data", str(unreadable), "an event that can be read"
        return
    payment, departures = replay(payment_id, steps)
    for departure in departures:
        yield departure.what, departure.logged, departure.computed
    yield from _row_differences(stored.row, payment)
    yield from _psp_differences(stored.parts, payment)
    yield from _case_differences(stored.cases, payment)


def _row_differences(row: Any, payment: Payment) -> Iterator[_Said]:
    """The columns of `payments` apart from its poll bookkeeping."""
    whole = payment_row(payment, payment)
    recomputed = (*whole[_BEFORE_BOOKKEEPING], *whole[_AFTER_BOOKKEEPING])
    names = list(row.keys())[1:]
    yield from _unequal(names, row[1:], recomputed)


def _psp_differences(parts: Iterable[Any], payment: Payment) -> Iterator[_Said]:
    stored = {(part["psp"], part["psp_reference"]): part for part in parts}
    for key in sorted(stored.keys() | payment.psp_payments.keys()):
        name = f"psp_payments {key[0]} {key[1]}"
        if key not in payment.psp_payments:
            yield name, "a row", "no event or answer"
        elif key not in stored:
            yield name, "no row", payment.psp_payments[key].facts.status
        else:
            recomputed = psp_payment_row(payment.payment_id, payment.psp_payments[key])
            names = [f"{name} {column}" for column in _PSP_COLUMNS]
            yield from _unequal(names, stored[key][4:], recomputed[4:])


def _case_differences(held: Mapping[Kind, Case], payment: Payment) -> Iterator[_Said]:
    """The discrepancies that the facts alone show, and those whose facts ended."""
    findings = evident(payment)
    for kind in _EVIDENT:
        case, finding = held.get(kind), findings.get(kind)
        if case is None and finding is not None:
            yield f"discrepancy {kind}", _AGREE, _at_risk(finding)
        elif case is not None and finding is None and not _found_by_sweep(case, payment):
            yield f"discrepancy {kind}", _at_risk(case), _AGREE
        elif case is not None and finding is not None and case.open:
            yield from _unequal([f"discrepancy {kind}"], [_at_risk(case)], [_at_risk(finding)])
    for kind in _ENDED_BY_VIEWS:
        if kind in held and not LEARNED[kind](payment):
            yield f"discrepancy {kind}", _at_risk(held[kind]), _AGREE


def _found_by_sweep(case: Case, payment: Payment) -> bool:
    return is_of_order(case, payment.erp.fields.get("order_id"))


def _at_risk(about: Case | Finding) -> str:
    return f"{about.amount_at_risk_minor} {about.currency}"


def _unequal(
    names: Iterable[str], stored: Iterable[Any], recomputed: Iterable[Any]
) -> Iterator[_Said]:
    for name, was, should in zip(names, stored, recomputed, strict=True):
        plain = _plain(should)
        if was != plain:
            yield name, was, plain


def _plain(value: Any) -> Any:
    """As the database gives it back: versions of patched fields are arrays in JSON."""
    if isinstance(value, dict):
        return {name: list(version) for name, version in value.items()}
    return value
