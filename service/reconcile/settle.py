"""Ends jobs, several in one transaction, each fenced by its own lease.

Groups form by themselves: whatever was handed in while the last one was written is the next one.
If one member spoils the transaction, all of it rolls back and each is tried alone. A commit whose
answer was lost is looked up before anything is tried again.
"""

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import structlog

from service.errors import LeaseLost, StaleWrite
from service.reconcile.activity import Activity
from service.reconcile.database import borrowed, wait_after
from service.reconcile.group import Judged, SettleTerms, decide_group, write_group
from service.reconcile.lease import HeldJob, HeldJobs
from service.reconcile.proposal import Proposal
from service.reconcile.verdict import Verdict
from service.store import jobs
from service.store.faults import Reaction, reaction
from service.store.jobs import PutBack
from service.store.transactions import transaction

_log = structlog.get_logger(__name__)


@dataclass(slots=True, eq=False)
class Return:
    """A job that is given back."""

    held: HeldJob
    back: PutBack
    verdict: "asyncio.Future[Verdict]" = field(init=False)

    def __post_init__(self) -> None:
        self.verdict = asyncio.get_running_loop().create_future()

    def tell(self, verdict: Verdict) -> None:
        """Tell the worker, if it still waits."""
        if not self.verdict.done():
            self.verdict.set_result(verdict)


Item = TypeVar("Item", Proposal, Return)


class Settlement:
    """Takes ends of jobs from the workers and writes them in groups."""

    def __init__(
        self, pool: Any, held: HeldJobs, *, terms: SettleTerms, activity: Activity
    ) -> None:
        self._pool = pool
        self._held = held
        self._owner = held.terms.owner
        self._terms = terms
        self._activity = activity
        self._queue: asyncio.Queue[Proposal | Return] = asyncio.Queue()

    async def settle(self, proposal: Proposal) -> Verdict:
        """End a job by the PSP's answer. Raises what the database has against its content."""
        return await self._hand_in(proposal)

    async def put_back(self, held: HeldJob, back: PutBack) -> Verdict:
        """Give a job back."""
        return await self._hand_in(Return(held, back))

    async def run(self) -> None:
        """Write groups until cancelled: it has to outlive the last job."""
        async with asyncio.TaskGroup() as writers:
            for _ in range(self._terms.writers):
                writers.create_task(self._write_groups())

    async def _write_groups(self) -> None:
        while True:
            group = [await self._queue.get()]
            while len(group) < self._terms.group_max and not self._queue.empty():
                group.append(self._queue.get_nowait())
            if returns := [each for each in group if isinstance(each, Return)]:
                await self._return(returns)
            if proposals := [each for each in group if isinstance(each, Proposal)]:
                await self._end(proposals)

    async def _hand_in(self, item: Proposal | Return) -> Verdict:
        item.held.ending = True
        self._queue.put_nowait(item)
        try:
            return await item.verdict
        finally:
            item.held.ending = False

    async def _end(self, group: Sequence[Proposal]) -> None:
        """Write a group, again and again while the database is away and the leases are trusted."""
        tries, unknown = 0, False
        while group := self._worth_trying(group):
            tries += 1
            try:
                async with asyncio.timeout(self._terms.transaction_seconds):
                    if unknown:
                        group, unknown = await self._without_settled(group), False
                    judged = await self._write(group)
            except (LeaseLost, StaleWrite) as error:
                await self._each_alone(group, error)
                return
            except Exception as error:  # noqa: BLE001 - told to the job's worker, or tried again
                if _hopeless(error):
                    await self._each_alone(group, error)
                    return
                unknown = (
                    await wait_after(error, pool=self._pool, tries=tries) is not Reaction.RETRY
                )
            else:
                self._announce(judged)
                return

    async def _write(self, group: Sequence[Proposal]) -> list[Judged]:
        if not group:
            return []
        async with self._borrowed() as connection:
            capped = await decide_group(connection, group, terms=self._terms)
        refused = {proposal for proposal, _ in capped}
        granted = [proposal for proposal in group if proposal not in refused]
        if not granted:
            return capped
        async with transaction(self._pool) as connection:
            written = await write_group(
                connection, granted, owner=self._owner, outcome_topic=self._terms.outcome_topic
            )
        return [*capped, *written]

    async def _without_settled(self, group: Sequence[Proposal]) -> Sequence[Proposal]:
        """Drop those whose end was committed although the answer was lost."""
        async with self._borrowed() as connection:
            settled = await jobs.settled(connection, {each.lease for each in group})
        for proposal in group:
            if (outcome := settled.get(proposal.lease)) is not None:
                self._activity.count(outcome)
                proposal.tell(Verdict.FINISHED)
        return [each for each in group if each.lease not in settled]

    async def _each_alone(self, group: Sequence[Proposal], error: Exception) -> None:
        """Find out who spoils the transaction; the last one is told itself."""
        if len(group) > 1:
            for proposal in group:
                await self._end([proposal])
        elif isinstance(error, LeaseLost):
            group[0].tell(Verdict.LOST)
        elif isinstance(error, StaleWrite):
            group[0].tell(Verdict.ASK_AGAIN)
        elif not group[0].verdict.done():
            group[0].verdict.set_exception(error)

    async def _return(self, returns: Sequence[Return]) -> None:
        tries = 0
        while returns := self._worth_trying(returns):
            tries += 1
            try:
                done = await self._put_back(returns)
            except Exception as error:  # noqa: BLE001 - `wait_after` raises what it cannot cure
                await wait_after(error, pool=self._pool, tries=tries)
                continue
            for item in returns:
                gone = item.back.lease not in done
                item.tell(Verdict.LOST if gone else Verdict.RETURNED)
                self._activity.count("lost" if gone else item.back.outcome)
            return

    async def _put_back(self, returns: Sequence[Return]) -> set[jobs.Lease]:
        async with self._borrowed() as connection:
            backs = [item.back for item in returns]
            return await jobs.put_back(connection, owner=self._owner, backs=backs)

    def _worth_trying(self, group: Sequence[Item]) -> list[Item]:
        """Those that somebody waits for and whose leases are trusted; the others are lost."""
        wanted = []
        for item in group:
            if item.verdict.done():
                continue
            if self._held.trusts(item.held):
                wanted.append(item)
            else:
                self._activity.count("lost")
                item.tell(Verdict.LOST)
        return wanted

    def _announce(self, judged: Sequence[Judged]) -> None:
        for proposal, verdict in judged:
            if verdict is Verdict.FINISHED:
                self._activity.count(proposal.outcome)
                self._activity.heals += proposal.outcome == "healed"
            elif verdict is Verdict.LOST:
                self._activity.count("lost")
            proposal.tell(verdict)

    def _borrowed(self) -> AbstractAsyncContextManager[Any]:
        return borrowed(self._pool, seconds=self._terms.transaction_seconds)


def _hopeless(error: Exception) -> bool:
    """Whether trying the same again cannot help: content that is refused, or our own mistake."""
    return reaction(error) not in {Reaction.RETRY, Reaction.RECONNECT}
