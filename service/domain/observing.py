"""What an answer without a version may change: it overlays a view that is less final, no more.

A paid payment is protected from it, for nothing tells whether the answer or the event is newer.
"""

from dataclasses import replace
from datetime import datetime

from service.domain.facts import PspFacts, event_facts, finality
from service.domain.payment import Observation, PspPayment


def observe(known: PspPayment, facts: PspFacts, *, now: datetime) -> PspPayment:
    """The PSP payment after an answer without a version; the same object if nothing changes.

    A more final answer than the events is taken, unless an earlier one was more final still.
    """
    old = known.observation
    if finality(facts) <= finality(event_facts(known.view)):
        return settle_doubt(known, facts)
    if old is None or finality(facts) > finality(old.facts):
        return replace(known, observation=Observation(facts, at=now))
    if finality(facts) < finality(old.facts) or (facts == old.facts and not old.doubted):
        return known
    return replace(known, observation=Observation(facts, at=now))


def settle_doubt(known: PspPayment, facts: PspFacts) -> PspPayment:
    """The PSP payment after an answer that says `facts` where a lesser event had met an
    observation: an answer that agrees with the events ends the observation.
    """
    old = known.observation
    if old is None or not old.doubted:
        return known
    if finality(facts) != finality(event_facts(known.view)):
        return known
    return replace(known, observation=None)
