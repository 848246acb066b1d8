"""A group of jobs ends in one transaction: business effect, log and job end commit together.

What is decided is decided before it, from the payments as they were read, with nothing locked.
The transaction then only proves that the payments and the leases are still those, and writes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from service.domain.events import Seen, SourceEvent
from service.domain.fold import lookups
from service.domain.healing import Found, JobOutcome, Reply
from service.domain.schedule import Rules
from service.reconcile.proposal import Proposal, decision_on, in_shadow
from service.reconcile.verdict import Verdict
from service.store import book, controls, jobs
from service.store.jobs import Ending


@dataclass(frozen=True, slots=True, kw_only=True)
class SettleTerms:
    """How jobs end. `heals_per_minute` is the allowance of all processes together; in `shadow`
    payments stay as they are and the log says what would have been done. With two `writers` one
    group is decided while the other waits for its commit.
    """

    outcome_topic: str
    rules: Rules
    mode: Literal["enforce", "shadow"] = "enforce"
    heals_per_minute: int = 60_000
    group_max: int = 50
    writers: int = 2
    transaction_seconds: float = 10.0


Judged = tuple[Proposal, Verdict]


async def decide_group(
    connection: Any, group: Sequence[Proposal], *, terms: SettleTerms
) -> list[Judged]:
    """Decide those that are not decided yet, outside any transaction.

    Heals are taken from the minute's allowance; returns the proposals for which none was left.
    """
    steering = await controls.read(connection)
    now = await book.database_now(connection)
    shadow = "shadow" in {terms.mode, steering.mode}
    replies = [(each, each.reply(now)) for each in group if each.decision is None]
    seen = await _seen(connection, replies)
    healing = []
    for proposal, reply in replies:
        _decide(proposal, reply, seen=seen, now=now, rules=terms.rules, shadow=shadow)
        if proposal.outcome is JobOutcome.HEALED:
            healing.append(proposal)
    granted = 0
    if healing and not steering.healing_paused:
        granted = await controls.take_heals(
            connection, wanted=len(healing), per_minute=terms.heals_per_minute
        )
    return [(proposal, Verdict.NO_HEAL_LEFT) for proposal in healing[granted:]]


async def write_group(
    connection: Any, group: Sequence[Proposal], *, owner: str, outcome_topic: str
) -> list[Judged]:
    """Write a decided group inside the caller's transaction.

    Raises LeaseLost or StaleWrite if it must roll back whole.
    """
    versions = await jobs.lock_payments(connection, {each.payment_id for each in group})
    ours = await jobs.fence(connection, owner=owner, leases={each.lease for each in group})
    judged: list[Judged] = []
    written: list[Proposal] = []
    for proposal in group:
        if proposal.lease not in ours:
            judged.append((proposal, Verdict.LOST))
        elif proposal.moved(versions.get(proposal.payment_id)):
            judged.append((proposal, Verdict.ASK_AGAIN))
        else:
            judged.append((proposal, Verdict.FINISHED))
            written.append(proposal)
    folded = [each.decision.folded for each in written if each.decision is not None]
    if folded:
        await book.write(connection, folded, outcome_topic=outcome_topic)
    if written:
        endings = [Ending(each.lease, each.outcome) for each in written]
        await jobs.finish(connection, owner=owner, endings=endings)
    return judged


def _decide(
    proposal: Proposal,
    reply: Reply | None,
    *,
    seen: Mapping[str, Seen],
    now: datetime,
    rules: Rules,
    shadow: bool,
) -> None:
    if proposal.read is None:
        return
    decision = decision_on(
        proposal.read,
        reply,
        seen=seen.get(proposal.payment_id, {}),
        now=now,
        rules=rules,
        actor=proposal.actor,
    )
    if shadow and reply is not None:
        decision = in_shadow(decision, now=now, rules=rules)
    proposal.decision = decision


async def _seen(
    connection: Any, replies: Sequence[tuple[Proposal, Reply | None]]
) -> Mapping[str, Seen]:
    """What the log has under the versions that the replies carry."""
    asked: list[SourceEvent] = []
    for proposal, reply in replies:
        event = reply.event if isinstance(reply, Found) else None
        if event is not None and proposal.read is not None and lookups(proposal.read, event):
            asked.append(event)
    return await book.seen(connection, asked) if asked else {}
