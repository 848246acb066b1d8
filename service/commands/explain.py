"""`reconciler explain PAYMENT_ID`: both views, why this status, the next check, what is open."""

from typing import Any

from rich.console import Console
from rich.table import Table

from service.commands.reachable import reaching
from service.connections import never_open, pool_options, psp_account
from service.domain.explanation import why
from service.domain.payment import Payment
from service.domain.status import deciding
from service.errors import ReconcilerError
from service.psp.account import open_psp
from service.psp.port import Answer, Answered, NotFound
from service.reconcile.questions import question_of
from service.settings import Settings
from service.store import book, jobs
from service.store.jobs import JobRow
from service.store.pool import connect

_JOBS_SHOWN = 5
_CLOSE_SECONDS = 5


async def explain(settings: Settings, payment_id: str, *, check_now: bool) -> int:
    """Print what is known; 1 if there is no such payment. `check_now` asks the PSP, read only."""
    payment, last_jobs = await _read(settings, payment_id)
    if payment is None:
        raise ReconcilerError(
            f"no payment {payment_id!r}: no event of either source has named it;"
            " look for it in dead_letters, or check the id"
        )
    console = Console(width=None if Console().is_terminal else 110, highlight=False)
    _print_views(console, payment)
    _print_reasons(console, payment)
    _print_jobs(console, last_jobs)
    if check_now:
        console.print(f"PSP, asked now: {_said(await _ask(settings, payment))}", soft_wrap=True)
    return 0


async def _read(settings: Settings, payment_id: str) -> tuple[Payment | None, list[JobRow]]:
    options = pool_options(settings.database, application_name="reconciler-explain")
    async with reaching("RECONCILER_DATABASE__URL"):
        connection = await connect(options)
        try:
            async with connection.transaction(isolation="repeatable_read", readonly=True):
                payment = await book.read(connection, payment_id)
                last_jobs = await jobs.of_payment(connection, payment_id, limit=_JOBS_SHOWN)
        finally:
            await connection.close(timeout=_CLOSE_SECONDS)
    return payment, last_jobs


def _print_views(console: Console, payment: Payment) -> None:
    table = Table("source", "version", "status", "amount", "captured", "refunded", "disputed")
    erp = payment.erp
    table.add_row("erp", _version(erp.newest), _text(erp.fields.get("status")), _money(erp.fields))
    for psp_payment in payment.psp_payments.values():
        facts = psp_payment.facts
        observed = " (observed)" if psp_payment.observation else ""
        table.add_row(
            f"{psp_payment.psp} {psp_payment.psp_reference}{observed}",
            _version(psp_payment.view.newest),
            _text(facts.status),
            _money({"amount": facts.amount}),
            *(
                str(sum_)
                for sum_ in (facts.captured_minor, facts.refunded_minor, facts.disputed_minor)
            ),
        )
    console.print(table)


def _print_reasons(console: Console, payment: Payment) -> None:
    chosen = deciding(payment)
    facts = chosen.facts if chosen else None
    console.print(f"payment {payment.payment_id}, row version {payment.row_version}")
    console.print(f"status  {payment.status.value}: {why(payment.erp, facts)}", soft_wrap=True)
    schedule = payment.schedule
    due = schedule.next_check_at.isoformat() if schedule.next_check_at else "none is due"
    console.print(f"next check  {due} (answers so far: {schedule.checks})")
    for case in payment.cases.values():
        risk = f"{case.amount_at_risk_minor} {case.currency} minor units at risk"
        console.print(f"{case.kind} {case.status}: {risk}, {dict(case.details)}", soft_wrap=True)


def _print_jobs(console: Console, last_jobs: list[JobRow]) -> None:
    for job in last_jobs:
        console.print(
            f"job {job.job_id}  {job.status}  outcome {_text(job.outcome)}"
            f"  attempts {job.attempts}  releases {job.releases}  {_text(job.last_error)}",
            soft_wrap=True,
        )


async def _ask(settings: Settings, payment: Payment) -> Answer:
    async with open_psp(psp_account(settings), breaker=never_open()) as psp:
        return await psp.ask(question_of(payment))


def _said(answer: Answer) -> str:
    if isinstance(answer, Answered):
        return (
            f"{answer.status}, captured {answer.captured_minor}, refunded {answer.refunded_minor},"
            f" disputed {answer.disputed_minor} of {answer.amount_minor} {answer.currency}"
        )
    if isinstance(answer, NotFound):
        return "not found"
    return f"no answer ({answer.reason}): {answer.detail}"


def _version(version: Any) -> str:
    return f"{version.epoch}/{version.version}" if version.version >= 0 else "not seen"


def _money(fields: Any) -> str:
    amount = fields.get("amount")
    return f"{amount.minor} {amount.currency}" if amount else "-"


def _text(value: Any) -> str:
    return "-" if value is None else str(value)
