"""A story of payments, told by a seed: which events come, in which order, and which never do.

The same seed, number of payments and shares give the same records in the same order, byte for
byte, so a run that went wrong can be told again.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from service.sandbox.envelope import Record, record_of
from service.sandbox.plots import Cast, Said, plots_for
from service.sandbox.spoiling import SPOILERS, spoiled
from service.sandbox.truth import Truth, captured_minor, truth_of

ACCOUNTS = {"acme-eu": True, "nordpay": False}
"""Provider account -> whether its answers carry a version."""
CURRENCIES = ("EUR", "EUR", "EUR", "USD", "JPY", "KWD")
DELAYED_SHARE, DOUBLED_SHARE = 0.08, 0.10


@dataclass(frozen=True, slots=True)
class Holding:
    """One payment in the PSP's books: the data of its last event, and its version where the
    account counts them.
    """

    payment_id: str
    data: Mapping[str, Any]
    version: int | None

    def answer(self) -> dict[str, Any]:
        """What the PSP says when asked."""
        version = {} if self.version is None else {"entityversion": str(self.version)}
        return {**self.data, **version}


@dataclass(frozen=True, slots=True)
class Story:
    """What is sent, what the PSP holds, and what must stand here in the end."""

    seed: int
    records: tuple[Record, ...]
    holdings: tuple[Holding, ...]
    truth: Mapping[str, Truth]
    plots: Mapping[str, int]
    lost: frozenset[str]
    """Payments whose success at the PSP no event will ever tell."""
    broken: Mapping[str, int]
    """Reason of refusal -> records that are refused for it."""

    def in_words(self) -> str:
        """One line."""
        return (
            f"{len(self.truth):,} payments, {len(self.records):,} records,"
            f" {len(self.lost):,} successes lost, {sum(self.broken.values())} records broken"
        )


def tell(payments: int, seed: int, *, lost_share: float = 0.05) -> Story:
    """Tell the story of `payments` payments, `lost_share` of the PSP's successes lost."""
    rng = Random(seed)  # noqa: S311 - a story to repeat, not a secret
    casts = _casts(payments, rng)
    lost = _lose(casts, lost_share, rng)
    records = _arranged(casts, rng)
    return Story(
        seed=seed,
        records=tuple(_with_broken(records, rng)),
        holdings=tuple(holding for cast in casts for holding in _holdings(cast)),
        truth={cast.payment_id: truth_of(cast.erp, list(cast.held.values())) for cast in casts},
        plots=Counter(cast.plot for cast in casts),
        lost=frozenset(lost),
        broken=dict.fromkeys(SPOILERS, 1),
    )


def _casts(payments: int, rng: Random) -> list[Cast]:
    plots = plots_for(payments)
    rng.shuffle(plots)
    casts = []
    for number, plot in enumerate(plots, start=1):
        psp = rng.choice(list(ACCOUNTS))
        cast = Cast(
            payment_id=f"pay-{number:06d}",
            order_id=f"SO-{100_000 + number}",
            psp=psp,
            reference=f"ch_{rng.getrandbits(40):010x}",
            amount={"minor": rng.randrange(100, 100_000), "currency": rng.choice(CURRENCIES)},
            counts_versions=ACCOUNTS[psp],
            plot=plot.__name__,
        )
        plot(cast)
        casts.append(cast)
    return casts


def _lose(casts: Sequence[Cast], lost_share: float, rng: Random) -> set[str]:
    """Mark `lost_share` of all success events as lost, chosen where nothing later repeats them."""
    successes = sum(_is_success(said) for cast in casts for said in cast.said)
    losable = [
        (cast, place) for cast in casts for place, said in enumerate(cast.said) if said.losable
    ]
    chosen = rng.sample(losable, min(len(losable), round(successes * lost_share)))
    for cast, place in chosen:
        cast.said[place] = replace(cast.said[place], lost=True)
    return {cast.payment_id for cast, _ in chosen}


def _is_success(said: Said) -> bool:
    return said.source == "psp" and said.data.get("status") == "succeeded"


def _arranged(casts: Sequence[Cast], rng: Random) -> list[Record]:
    """The records in the order of sending: payments overlap, neighbours swap, some come much later
    and some twice.
    """
    placed: list[tuple[float, int, Record]] = []
    for start, cast in enumerate(casts):
        for step, said in enumerate(cast.said):
            if said.lost:
                continue
            record = record_of(cast.payment_id, said, step, structured=rng.random() < 0.5)
            place = start + 5 * step + rng.uniform(0, 15)
            if rng.random() < DELAYED_SHARE:
                place += rng.uniform(0.1, 0.4) * len(casts)
            placed.append((place, len(placed), record))
            if rng.random() < DOUBLED_SHARE:
                again = place + rng.uniform(0, 0.3) * len(casts)
                placed.append((again, len(placed), record))
    return [record for _, _, record in sorted(placed, key=lambda entry: entry[:2])]


def _with_broken(records: Sequence[Record], rng: Random) -> Iterator[Record]:
    """The records with one broken copy for each reason put in, far apart from each other."""
    gap = len(records) // (len(SPOILERS) + 1)
    after = {gap * (place + 1): reason for place, reason in enumerate(SPOILERS)}
    for place, record in enumerate(records):
        yield record
        if place in after:
            structured = [one for one in records[place - gap : place] if one.structured]
            yield spoiled(rng.choice(structured), after[place])


def _holdings(cast: Cast) -> Iterator[Holding]:
    """What the PSP holds of one payment; the one it answers with when asked by payment id last."""
    for reference, data in sorted(cast.held.items(), key=lambda one: captured_minor(one[1])):
        version = cast.versions[reference] if cast.counts_versions else None
        yield Holding(cast.payment_id, data, version)
