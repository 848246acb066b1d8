"""One job, from its claim to its end: read, ask the PSP with nothing open, hand in the answer."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import structlog

from service.domain.healing import superseded
from service.domain.payment import Payment
from service.observe.events import Event
from service.observe.redaction import mask_text
from service.psp.port import Answer, PspPort, Unavailable
from service.reconcile.activity import Activity
from service.reconcile.backoff import backoff_seconds
from service.reconcile.database import borrowed, is_outage
from service.reconcile.lease import HeldJob
from service.reconcile.proposal import Proposal
from service.reconcile.questions import question_of
from service.reconcile.settle import Settlement
from service.reconcile.verdict import Verdict
from service.store import book
from service.store.jobs import PutBack

_ERROR_CHARACTERS_MAX = 500
_MINUTE_SECONDS = 60.0

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class AskTerms:
    """How often and how long the PSP is asked for one job.

    `ask_seconds_max` only guards against a port that breaks its own promise to be bounded.
    """

    asks_max: int = 3
    ask_seconds_max: float = 60.0
    backoff_max_seconds: float = 300.0
    read_seconds: float = 10.0


class JobRunner:
    """Runs jobs one by one; knows nothing of claims and slots.

    `on_silence(seconds)` hears that the PSP gave no answer, and for how long it wants to be left
    alone.
    """

    def __init__(
        self,
        pool: Any,
        psp: PspPort,
        settlement: Settlement,
        *,
        terms: AskTerms,
        activity: Activity,
        actor: str,
        on_silence: Callable[[Unavailable], None],
    ) -> None:
        self._pool = pool
        self._psp = psp
        self._settlement = settlement
        self._terms = terms
        self._activity = activity
        self._actor = actor
        self._on_silence = on_silence

    async def run(self, held: HeldJob, payment: Payment | None) -> None:
        """Work on a claimed job, whose payment was read after the claim.

        A failure that nobody foresaw ends the attempt as `failed` and counts.
        """
        try:
            await self._ask_until_settled(held, payment)
        except Exception as error:  # noqa: BLE001 - recorded, and bounded by the job's attempts
            if is_outage(error):
                await self._give_back(held, "released", _text_of(error), tries=1)
                return
            _log.exception(Event.JOB_FAILED, **_names(held))
            await self._give_back(held, "failed", _text_of(error), tries=held.job.attempts)

    async def _ask_until_settled(self, held: HeldJob, payment: Payment | None) -> None:
        for asked in range(self._terms.asks_max):
            if asked:
                _log.info(Event.ANSWER_OUTDATED, **_names(held))
                payment = await self._read(held.job.payment_id)
            verdict = await self._ask_once(held, payment)
            if verdict is Verdict.NO_HEAL_LEFT:
                self._activity.heals_deferred += 1
                await self._give_back(
                    held, "released", "no heals left", tries=0, least_seconds=_MINUTE_SECONDS
                )
            if verdict is not Verdict.ASK_AGAIN:
                return
        await self._give_back(
            held, "released", "the payment kept changing while the PSP was asked", tries=1
        )

    async def _ask_once(self, held: HeldJob, payment: Payment | None) -> Verdict:
        if payment is None or superseded(payment):
            return await self._settlement.settle(Proposal(held, payment, None, self._actor))
        answer = await self._ask(payment)
        if isinstance(answer, Unavailable):
            heard = {"reason": answer.reason, "request_id": answer.request_id}
            _log.info(Event.PSP_NO_ANSWER, **heard, **_names(held))
            self._on_silence(answer)
            return await self._give_back(
                held,
                "released",
                f"{answer.reason}: {answer.detail}",
                tries=held.job.releases + 1,
                least_seconds=answer.retry_after_seconds or 0.0,
            )
        return await self._settlement.settle(Proposal(held, payment, answer, self._actor))

    async def _ask(self, payment: Payment) -> Answer:
        try:
            async with asyncio.timeout(self._terms.ask_seconds_max):
                return await self._psp.ask(question_of(payment))
        except TimeoutError:
            return Unavailable("budget", None, "the port did not answer in its own time")

    async def _read(self, payment_id: str) -> Payment | None:
        async with borrowed(self._pool, seconds=self._terms.read_seconds) as connection:
            return await book.read(connection, payment_id)

    async def _give_back(
        self, held: HeldJob, outcome: Any, error: str, *, tries: int, least_seconds: float = 0.0
    ) -> Verdict:
        """Make the job pending again; due after `least_seconds` and a jittered backoff."""
        longest = self._terms.backoff_max_seconds
        delay = least_seconds + backoff_seconds(tries, longest_seconds=longest)
        back = PutBack(held.job.lease, outcome, delay, error[:_ERROR_CHARACTERS_MAX])
        verdict = await self._settlement.put_back(held, back)
        _log.info(Event.JOB_RELEASED, outcome=outcome, verdict=verdict, **_names(held))
        return verdict


def _names(held: HeldJob) -> dict[str, Any]:
    job = held.job
    return {
        "job_id": job.lease.job_id,
        "lease_epoch": job.lease.epoch,
        "payment_id": job.payment_id,
    }


def _text_of(error: Exception) -> str:
    """The error in words that the database can store and anybody may read."""
    text = f"{type(error).__name__}: {mask_text(str(error))}"
    return text.replace("\0", "").encode("utf-8", "replace").decode("utf-8")
