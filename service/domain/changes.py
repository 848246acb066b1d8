"""Field by field, what a step changed: the audit trail's [old, new] pairs, under the tables'
column names.
"""

from collections.abc import Mapping
from typing import Any

from service.domain.payment import Payment, PspPayment
from service.domain.views import SourceView

Changes = dict[str, list[Any]]

_ERP_COLUMNS = (
    "erp_epoch",
    "erp_version",
    "order_id",
    "erp_status",
    "erp_amount_minor",
    "erp_currency",
    "erp_psp",
    "erp_psp_reference",
)
_PSP_COLUMNS = (
    "psp_epoch",
    "psp_version",
    "psp_status",
    "psp_amount_minor",
    "psp_currency",
    "captured_minor",
    "refunded_minor",
    "disputed_minor",
    "failure_code",
)
_NO_PSP_PAYMENT = PspPayment("", "")


def changes_between(before: Payment, after: Payment) -> Changes:
    """What a reader of the tables would see change, as field -> [old, new].

    The PSP fields are those of the PSP payment that the step touched; the log row names it.
    """
    changes: Changes = {}
    if before.status is not after.status:
        changes["status"] = [before.status, after.status]
    if before.erp is not after.erp:
        _compare(changes, _ERP_COLUMNS, _erp_values(before.erp), _erp_values(after.erp))
    if before.psp_payments is not after.psp_payments:
        _compare_psp_payments(changes, before.psp_payments, after.psp_payments)
    if before.cases is not after.cases:
        old, new = before.open_kinds, after.open_kinds
        if old != new:
            changes["open_discrepancies"] = [old, new]
    return changes


def _compare_psp_payments(
    changes: Changes,
    before: Mapping[tuple[str, str], PspPayment],
    after: Mapping[tuple[str, str], PspPayment],
) -> None:
    for key, psp_payment in after.items():
        known = before.get(key, _NO_PSP_PAYMENT)
        if known is not psp_payment:
            _compare(changes, _PSP_COLUMNS, _psp_values(known), _psp_values(psp_payment))


def _compare(
    changes: Changes, names: tuple[str, ...], old: tuple[Any, ...], new: tuple[Any, ...]
) -> None:
    for name, was, is_now in zip(names, old, new, strict=True):
        if was != is_now:
            changes[name] = [was, is_now]


def _erp_values(view: SourceView) -> tuple[Any, ...]:
    get = view.fields.get
    amount = get("amount")
    return (
        *view.newest,
        get("order_id"),
        get("status"),
        amount.minor if amount else None,
        amount.currency if amount else None,
        get("psp"),
        get("psp_reference"),
    )


def _psp_values(psp_payment: PspPayment) -> tuple[Any, ...]:
    view, facts = psp_payment.view, psp_payment.facts
    amount = facts.amount
    return (
        *view.newest,
        facts.status,
        amount.minor if amount else None,
        amount.currency if amount else None,
        facts.captured_minor,
        facts.refunded_minor,
        facts.disputed_minor,
        view.fields.get("failure_code"),
    )
