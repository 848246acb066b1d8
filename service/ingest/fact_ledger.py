"""Facts of a PSP become events: kept, and added up under their payments' locks.

Record by record, so that any batching gives the same events, and so that a record whose facts do
not add up is the one that is refused.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from schemas.refusal import Reason, Refused
from schemas.sources.adyen_ledger import distinct, ledger_events, payments_of
from schemas.sources.fact import Fact
from service.domain.events import Origin, Outcome, SourceEvent
from service.ingest.batch import Bundle, Item, Record, Refusal
from service.ingest.decode import source_event
from service.store import psp_facts
from service.store.psp_facts import Account, KeptFact

KEY_BYTES_MAX = 2_000
"""PostgreSQL indexes no more than about 2,700 bytes a row; real references have some 20."""


@dataclass(slots=True)
class AddedUp:
    """The items with events in place of facts, and how many facts were known already."""

    items: Sequence[Item]
    counts: Mapping[tuple[str, Outcome], int] = field(default_factory=dict)


async def added_up(connection: Any, items: Sequence[Item]) -> AddedUp:
    """Keep the new facts of `items` and give the events that they make.

    The caller has locked the payments: nobody else adds facts to them meanwhile.
    """
    wanted = {
        (fact.psp, fact.payment_id)
        for item in items
        if isinstance(item.content, Bundle)
        for fact in item.content.facts
    }
    if not wanted:
        return AddedUp(items)
    ledger = _Ledger(await psp_facts.read(connection, wanted))
    told = [ledger.take(item) for item in items]
    if ledger.added:
        await psp_facts.insert(connection, ledger.added)
    known = {("psp", Outcome.DUPLICATE): ledger.known} if ledger.known else {}
    return AddedUp(told, known)


class _Ledger:
    """The facts of some payments, growing record by record."""

    def __init__(self, facts: dict[Account, list[Fact]]) -> None:
        self._facts = facts
        self.added: list[KeptFact] = []
        self.known = 0

    def take(self, item: Item) -> Item:
        """The item with the events that its new facts make; refused as a whole if they cannot."""
        bundle = item.content
        if not isinstance(bundle, Bundle) or not bundle.facts:
            return item
        grown: dict[Account, list[Fact]] = {}
        for fact in bundle.facts:
            account = (fact.psp, fact.payment_id)
            grown.setdefault(account, list(self._facts.get(account, ()))).append(fact)
        events: list[SourceEvent] = []
        for account, facts in grown.items():
            grown[account] = distinct_in_order(facts)
            try:
                events += self._risen(account, grown[account], bundle, _origin(item.record))
            except Refused as refused:
                return Item(item.record, Refusal(refused.reason, refused.detail, account[1]))
        self._keep(grown, bundle, _origin(item.record))
        return Item(item.record, replace(bundle, events=(*bundle.events, *events), facts=()))

    def _risen(
        self, account: Account, facts: Sequence[Fact], bundle: Bundle, origin: Origin
    ) -> list[SourceEvent]:
        """The events of the PSP payments that have more facts than before. Raises Refused."""
        before = self._facts.get(account, [])
        if len(facts) == len(before):
            return []
        _refuse_long_keys(facts[len(before) :])
        versions = {reference: len(own) for reference, own in payments_of(distinct(before)).items()}
        events = [
            source_event(event, origin)
            for event in ledger_events(facts, automatic_capture=bundle.automatic_capture)
        ]
        return [
            event
            for event in events
            if event.version.version > versions.get(event.psp_reference, 0)
        ]

    def _keep(self, grown: Mapping[Account, list[Fact]], bundle: Bundle, origin: Origin) -> None:
        new = 0
        for account, facts in grown.items():
            added = facts[len(self._facts.get(account, ())) :]
            self.added += [KeptFact(fact, origin) for fact in added]
            new += len(added)
            self._facts[account] = facts
        self.known += len(bundle.facts) - new


def distinct_in_order(facts: Sequence[Fact]) -> list[Fact]:
    """Each fact once, the first of two with one key: as the table keeps them."""
    by_key: dict[Any, Fact] = {}
    for fact in facts:
        by_key.setdefault(fact.key, fact)
    return list(by_key.values())


def _refuse_long_keys(facts: Sequence[Fact]) -> None:
    for fact in facts:
        if sum(len(str(part).encode()) for part in fact.key) > KEY_BYTES_MAX:
            remedy = f"its references take more than {KEY_BYTES_MAX} bytes; they cannot be real"
            raise Refused(Reason.UNKNOWN_VALUE, "pspReference", remedy)


def _origin(record: Record) -> Origin:
    return Origin(record.topic, record.partition, record.offset)
