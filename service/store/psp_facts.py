"""The table `psp_facts`: what happened at a PSP that sends neither a state nor a version."""

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from schemas.sources.fact import Fact
from service.domain.events import Origin
from service.store.rows import columns
from service.store.statements import sql

Account = tuple[str, str]
"""(psp, payment id): the facts of one payment at one account are added up together."""


class KeptFact(NamedTuple):
    """A fact, and the record that told it first."""

    fact: Fact
    origin: Origin


async def read(connection: Any, wanted: Collection[Account]) -> dict[Account, list[Fact]]:
    """All facts of each payment at each account; the caller holds the payments' locks."""
    facts: dict[Account, list[Fact]] = {}
    for row in await connection.fetch(sql("psp_fact_read"), *columns(sorted(wanted))):
        fact = Fact(*row)
        facts.setdefault((fact.psp, fact.payment_id), []).append(fact)
    return facts


async def insert(connection: Any, added: Sequence[KeptFact]) -> None:
    """Keep facts; one that is kept already stays as it is."""
    rows = [
        (
            fact.payment_id,
            fact.psp,
            fact.psp_reference,
            fact.original_reference,
            fact.event_code,
            fact.success,
            fact.currency,
            fact.minor,
            fact.event_date,
            fact.reason,
            fact.action,
            *origin,
        )
        for fact, origin in added
    ]
    await connection.execute(sql("psp_fact_insert"), *columns(rows, whole=frozenset({7, 12, 13})))
