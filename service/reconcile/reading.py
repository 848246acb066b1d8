"""Payments read whole for a batch of jobs, without a lock and without a transaction."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from service.domain.payment import Case, Kind, Payment, PspPayment
from service.store import discrepancies, payments, psp_payments


async def read_payments(connection: Any, payment_ids: Sequence[str]) -> dict[str, Payment]:
    """Read what a batch of jobs is about; absent payments are left out.

    The parts come from three snapshots: whoever writes compares the row version under lock.
    """
    if not payment_ids:
        return {}
    rows = await payments.read(connection, payment_ids)
    parts: dict[str, dict[tuple[str, str], PspPayment]] = {}
    cases: dict[str, dict[Kind, Case]] = {}
    for payment_id, psp_payment in await psp_payments.read(connection, payment_ids):
        parts.setdefault(payment_id, {})[psp_payment.key] = psp_payment
    for payment_id, case in await discrepancies.read(connection, payment_ids):
        cases.setdefault(payment_id, {})[case.kind] = case
    return {
        payment.payment_id: replace(
            payment,
            psp_payments=parts.get(payment.payment_id, {}),
            cases=cases.get(payment.payment_id, {}),
        )
        for payment in rows
    }
