"""Short hand for the unit tests of the payment rules: events, answers, and folding them."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from schemas.fields import digest_of
from schemas.money import Money
from service.domain.events import Outcome, Seen, SourceEvent
from service.domain.facts import event_facts
from service.domain.fold import Folded, fold
from service.domain.healing import Decision, Found, Missing, Reply, decide
from service.domain.payment import Payment
from service.domain.schedule import Rules
from service.domain.versions import Version
from service.domain.views import SourceView

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
RULES = Rules()
EUR_10 = Money(1000, "EUR")
ACCOUNT = "acme"


def erp(
    version: int,
    status: str = "pending",
    *,
    amount: Money = EUR_10,
    epoch: int = 0,
    psp_reference: str | None = None,
    time: datetime = NOW,
) -> SourceEvent:
    fields = {
        "order_id": "SO-1",
        "status": status,
        "amount": amount,
        "psp": ACCOUNT if psp_reference else None,
        "psp_reference": psp_reference,
    }
    return _event("erp", Version(epoch, version), fields, time=time)


def erp_patch(version: int, *, epoch: int = 0, **fields: Any) -> SourceEvent:
    return _event("erp", Version(epoch, version), fields, patch=True)


def psp(
    version: int,
    status: str,
    *,
    reference: str = "ch_1",
    epoch: int = 0,
    time: datetime = NOW,
    **fields: Any,
) -> SourceEvent:
    return _event("psp", Version(epoch, version), _book(status, fields), reference, time=time)


def psp_patch(
    version: int, *, reference: str = "ch_1", epoch: int = 0, **fields: Any
) -> SourceEvent:
    return _event("psp", Version(epoch, version), fields, reference, patch=True)


def found(
    status: str, *, version: int | None = None, reference: str = "ch_1", epoch: int = 0, **book: Any
) -> Found:
    """A PSP's answer; with a `version` it is an event."""
    fields = _book(status, book)
    event = None
    if version is not None:
        event = _event("heal", Version(epoch, version), fields, reference)
    return Found(ACCOUNT, reference, event_facts(SourceView(fields=fields)), {}, event)


MISSING = Missing()


def folded(
    *events: SourceEvent,
    payment: Payment | None = None,
    now: datetime = NOW,
    seen: Seen | None = None,
) -> Folded:
    return fold(payment or Payment("pay-1"), events, seen=seen or {}, now=now, rules=RULES)


def after(*events: SourceEvent, payment: Payment | None = None, now: datetime = NOW) -> Payment:
    return folded(*events, payment=payment, now=now).payment


def asked(
    payment: Payment,
    *replies: Reply,
    now: datetime = NOW,
    minutes: int = 20,
    seen: Seen | None = None,
) -> Decision:
    """Take `replies` in turn, `minutes` apart; the last decision."""
    decision = None
    for reply in replies:
        decision = decide(payment, reply, seen=seen or {}, now=now, rules=RULES, actor="worker")
        payment, now = decision.folded.payment, now + timedelta(minutes=minutes)
    assert decision is not None
    return decision


def digests(events: Iterable[SourceEvent]) -> dict[tuple[tuple[str, str], Version], bytes]:
    """What the log has after `events` were applied."""
    return {(event.stream, event.version): event.digest for event in events}


def outcomes(step: Folded) -> list[Outcome]:
    return [entry.outcome for entry in step.entries]


def _book(status: str, fields: dict[str, Any]) -> dict[str, Any]:
    return {
        "status": status,
        "amount": EUR_10,
        "captured_minor": None,
        "refunded_minor": 0,
        "disputed_minor": 0,
        "failure_code": None,
        **fields,
    }


def _event(
    kind: Any,
    version: Version,
    fields: dict[str, Any],
    reference: str = "",
    *,
    patch: bool = False,
    time: datetime = NOW,
) -> SourceEvent:
    return SourceEvent(
        payment_id="pay-1",
        kind=kind,
        event_id=f"{kind}:{reference}:{version.epoch}.{version.version}",
        version=version,
        fields=fields,
        data={name: str(value) for name, value in fields.items()},
        time=time,
        digest=digest_of(fields, "patch" if patch else "snapshot"),
        patch=patch,
        psp=ACCOUNT if reference else "",
        psp_reference=reference,
        actor=kind,
    )
