"""The one way in which payments are read and written, by events and by healing alike.

The caller owns the transaction: lock, decide in pure code, write, commit. Every write names the
version that was read, so even a caller who forgot to lock loses nobody's change: it gets
StaleWrite and rolls back. One order of locks for everyone: payments, PSP payments, jobs (by id),
discrepancies, consumer offsets.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from service.domain.events import Seen, SourceEvent
from service.domain.fold import Folded
from service.domain.payment import Case, Payment, PspPayment
from service.store import discrepancies, events, outbox, payments, psp_payments
from service.store.statements import sql


async def ensure(connection: Any, payment_ids: Iterable[str]) -> None:
    """Give each payment a row, in key order; rows that exist are left as they are."""
    await payments.ensure(connection, sorted(set(payment_ids)))


async def lock(connection: Any, payment_ids: Iterable[str]) -> dict[str, Payment]:
    """Lock payments in key order until the transaction ends, and read them whole.

    Payments without a row are absent from the result.
    """
    return await _whole(connection, await payments.lock(connection, sorted(set(payment_ids))))


async def read(connection: Any, payment_id: str) -> Payment | None:
    """Read one payment whole, without a lock, in one snapshot if the caller's transaction has
    one. None: no such payment.
    """
    whole = await _whole(connection, await payments.read(connection, [payment_id]))
    return whole.get(payment_id)


async def read_many(connection: Any, payment_ids: Collection[str]) -> dict[str, Payment]:
    """Read payments whole, without a lock; those without a row are absent.

    The parts may come from several snapshots: whoever writes compares the row version under lock.
    """
    if not payment_ids:
        return {}
    return await _whole(connection, await payments.read(connection, sorted(set(payment_ids))))


async def seen(connection: Any, asked: Collection[SourceEvent]) -> dict[str, Seen]:
    """For the events that `fold.lookups` names: payment id -> the digest applied under each
    stream and version.
    """
    return dict(await events.seen(connection, list(asked)))


async def write(connection: Any, folded: Sequence[Folded], *, outcome_topic: str) -> None:
    """Write what was decided: payments, PSP payments, log, discrepancies, outgoing events.

    Raises StaleWrite if anything has changed since it was read; the transaction is then lost.
    """
    ordered = sorted(folded, key=lambda each: each.before.payment_id)
    await _write_payments(connection, ordered)
    await _write_psp_payments(connection, ordered)
    await _write_discrepancies(connection, ordered)
    entries = [entry for each in ordered for entry in each.entries]
    if entries:
        await events.append(connection, entries)
    announcements = [each for one in ordered for each in one.announcements]
    if announcements:
        await outbox.insert(connection, announcements, topic=outcome_topic)


async def database_now(connection: Any) -> datetime:
    """The time at which the database began this transaction."""
    now: datetime = await connection.fetchval(sql("database_now"))
    return now


async def _whole(connection: Any, rows: Sequence[Payment]) -> dict[str, Payment]:
    """Join PSP payments and cases to their payments; one at row version 0 cannot have any."""
    joined = {payment.payment_id: payment for payment in rows}
    known = [payment.payment_id for payment in rows if payment.row_version > 0]
    if not known:
        return joined
    psp_parts: dict[str, dict[tuple[str, str], PspPayment]] = {}
    for payment_id, psp_payment in await psp_payments.read(connection, known):
        psp_parts.setdefault(payment_id, {})[psp_payment.key] = psp_payment
    cases: dict[str, dict[Any, Case]] = {}
    for payment_id, case in await discrepancies.read(connection, known):
        cases.setdefault(payment_id, {})[case.kind] = case
    for payment_id in psp_parts.keys() | cases.keys():
        joined[payment_id] = replace(
            joined[payment_id],
            psp_payments=psp_parts.get(payment_id, {}),
            cases=cases.get(payment_id, {}),
        )
    return joined


async def _write_payments(connection: Any, folded: Sequence[Folded]) -> None:
    changed = [(each.before, each.payment) for each in folded if each.payment is not each.before]
    if changed:
        await payments.update(connection, changed)


async def _write_psp_payments(connection: Any, folded: Sequence[Folded]) -> None:
    added, changed = [], []
    for each in folded:
        known = each.before.psp_payments
        for key, psp_payment in each.payment.psp_payments.items():
            if key not in known:
                added.append((each.before.payment_id, psp_payment))
            elif psp_payment is not known[key]:
                changed.append((each.before.payment_id, psp_payment))
    if added:
        await psp_payments.insert(connection, added)
    if changed:
        await psp_payments.update(connection, changed)


async def _write_discrepancies(connection: Any, folded: Sequence[Folded]) -> None:
    """Close before opening: one payment holds one discrepancy of a kind."""
    added, changed = [], []
    for each in folded:
        payment_id, held = each.before.payment_id, each.before.cases
        for case in (*each.closed, *each.payment.cases.values()):
            if case.discrepancy_id is None:
                added.append((payment_id, case))
            elif case != held.get(case.kind):
                changed.append((payment_id, case))
    if changed:
        await discrepancies.update(connection, changed)
    if added:
        await discrepancies.insert(connection, added)
