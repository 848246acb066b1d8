"""What an event is against what is stored: versions decide, never arrival."""

from collections.abc import Mapping

from service.domain.events import Outcome, SourceEvent
from service.domain.payment import Payment
from service.domain.versions import Version
from service.domain.views import SourceView

_NOTHING_SEEN = SourceView()


def classify(
    view: SourceView, event: SourceEvent, digests: Mapping[tuple[tuple[str, str], Version], bytes]
) -> Outcome:
    """Tell what an event is against what is stored; nothing is changed.

    A snapshot is a patch that sets every field: an event is applied if any field advances. What
    the log has under the very version tells a duplicate from a conflict.
    """
    newest = view.newest
    if event.version > newest:
        return Outcome.APPLIED if event.fields else Outcome.STALE
    if view.patched is None and event.version < newest:
        return Outcome.STALE
    digest = digests.get((event.stream, event.version))
    if digest is not None:
        return Outcome.DUPLICATE if digest == event.digest else Outcome.CONFLICT
    return Outcome.APPLIED if view.advancing(event.version, event.fields) else Outcome.STALE


def lookups(payment: Payment, event: SourceEvent) -> bool:
    """Whether the log must be asked what was seen under the event's version before it is
    classified.
    """
    view = view_of(payment, event)
    newest = view.newest
    return event.version == newest or (view.patched is not None and event.version < newest)


def view_of(payment: Payment, event: SourceEvent) -> SourceView:
    """The view that the event's version is compared with."""
    if event.kind == "erp":
        return payment.erp
    psp_payment = payment.psp_payments.get(event.stream)
    return psp_payment.view if psp_payment is not None else _NOTHING_SEEN
