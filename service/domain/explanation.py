"""Why a payment has its status, in a sentence for a person."""

from service.domain.payment import PspFacts, Status
from service.domain.status import derive
from service.domain.views import SourceView


def why(erp: SourceView, facts: PspFacts | None) -> str:
    """Name the rule that gave the status, with the sums that it looked at."""
    status = derive(erp, facts)
    if facts is None:
        said = "the ERP cancelled it" if status is Status.CANCELLED else "no PSP has told of it yet"
        return f"{said}; no money is known to have moved"
    sentences = {
        Status.DISPUTED: f"{facts.disputed_minor} of it is disputed at the PSP",
        Status.REFUNDED: f"all {facts.captured_minor} captured are refunded",
        Status.PARTIALLY_REFUNDED: (
            f"{facts.refunded_minor} of {facts.captured_minor} captured are refunded"
        ),
        Status.SUCCEEDED: _succeeded(erp, facts),
    }
    if status in sentences:
        return sentences[status]
    if status is Status.PENDING and facts.paid:
        return f"the PSP captured {_captured(facts)}, the ERP expects {_expected(erp)}: a mismatch"
    if status is Status.CANCELLED and facts.status != "cancelled":
        return f"the ERP cancelled it, and the PSP says {facts.status}"
    return f"the PSP says {facts.status or 'nothing of its status'}"


def _succeeded(erp: SourceView, facts: PspFacts) -> str:
    if erp.fields.get("amount") is None:
        return f"the PSP captured {_captured(facts)}; the ERP has named no amount yet"
    return f"the PSP captured {_captured(facts)}, exactly what the ERP expects"


def _captured(facts: PspFacts) -> str:
    currency = facts.amount.currency if facts.amount else "of an unknown currency"
    return f"{facts.captured_minor} {currency}"


def _expected(erp: SourceView) -> str:
    amount = erp.fields.get("amount")
    return f"{amount.minor} {amount.currency}" if amount else "nothing"
