"""Stripe: `GET {base_url}/v1/payment_intents/{pi_…}`, or the search where no reference is known.

The charge comes expanded; an intent whose charge was disputed costs a second request, for a charge
stays `disputed` after the dispute is won. The search finds intents whose metadata carry the
`payment_id`; its index lags by up to a minute, in an outage by more, so an empty result is no more
than one proof. Stripe counts no versions.
"""

from collections.abc import Mapping
from typing import Final

import aiohttp
from yarl import URL

from schemas.currency import Exponents
from schemas.sources.stripe_objects import STRIPE_EXPONENTS
from service.psp.body import Nonsense
from service.psp.exchange import Exchange, Get, Reply, checked_base_url, path_segment
from service.psp.port import Answer, NotFound, Question, Unavailable
from service.psp.stripe_answer import answered
from service.psp.stripe_objects import (
    Dispute,
    Intent,
    NoSuchIntent,
    disputes_of,
    intent_of,
    intents_of,
    refusal_of,
)
from service.psp.token_file import TokenFile

API_VERSION: Final = "2025-03-31.basil"
"""Pinned: before it, what a partial capture leaves behind came as a refund."""

_REFERENCE_PREFIX = "pi_"
_PAGE_MAX = "100"


def with_own_exponents(exponents: Exponents, account: str) -> Exponents:
    """The exceptions with Stripe's own for `account`; what is set there goes first."""
    return {**exponents, account: {**STRIPE_EXPONENTS, **exponents.get(account, {})}}


class StripePsp:
    """One try a question over a session that the caller owns; a try may be two requests.

    `account` is the name of the account in events. `timeout_seconds` bounds the whole try.
    `exponents` are complete: Stripe's own are not added. Raises ValueError for a `base_url` that is
    not plain http or https.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        base_url: str,
        *,
        account: str,
        timeout_seconds: float,
        token: TokenFile | None = None,
        exponents: Mapping[str, int] = STRIPE_EXPONENTS,
    ) -> None:
        self._api = URL(checked_base_url(base_url) + "/v1/", encoded=True)
        self._account = account
        self._exponents = exponents
        self._exchange = Exchange(
            session,
            timeout_seconds=timeout_seconds,
            token=token,
            headers={"Stripe-Version": API_VERSION},
        )

    async def ask(self, question: Question) -> Answer:
        """Ask once. Raises nothing for what the far end does; cancellation passes through."""
        return await self._exchange.one_try(lambda get: self._ask(get, question))

    async def _ask(self, get: Get, question: Question) -> Answer:
        if question.psp not in {None, self._account}:
            raise Nonsense("psp: not the account that is asked here")
        url = self._url_of(question)
        reply = await get(url)
        if isinstance(reply, Unavailable):
            return reply
        intent = _found_in(reply, question)
        if not isinstance(intent, Intent):
            return intent
        disputes: tuple[Dispute, ...] = ()
        if intent.latest_charge is not None and intent.latest_charge.disputed:
            told = await self._disputes(get, intent.id)
            if isinstance(told, Unavailable):
                return told
            disputes = told
        return answered(
            intent,
            disputes,
            account=self._account,
            exponents=self._exponents,
            request_id=reply.request_id,
        )

    def _url_of(self, question: Question) -> URL:
        reference = question.psp_reference
        if reference is None:
            query = f"metadata['payment_id']:'{_quoted(question.payment_id)}'"
            search = {"query": query, "expand[]": "data.latest_charge", "limit": _PAGE_MAX}
            return self._url("payment_intents/search", search)
        if not reference.startswith(_REFERENCE_PREFIX):
            raise Nonsense(f"psp_reference: no PaymentIntent ({_REFERENCE_PREFIX}…)")
        path = f"payment_intents/{path_segment(reference)}"
        return self._url(path, {"expand[]": "latest_charge"})

    async def _disputes(self, get: Get, intent_id: str) -> tuple[Dispute, ...] | Unavailable:
        reply = await get(self._url("disputes", {"payment_intent": intent_id, "limit": _PAGE_MAX}))
        return reply if isinstance(reply, Unavailable) else disputes_of(reply.body)

    def _url(self, path: str, query: Mapping[str, str]) -> URL:
        return URL(f"{self._api}{path}", encoded=True).with_query(query)


def _found_in(reply: Reply, question: Question) -> Intent | NotFound | Unavailable:
    """The one intent that the reply tells of the payment."""
    if question.psp_reference is None:
        if reply.status != 200:
            raise Nonsense("404 for a search")
        found = [
            intent
            for intent in intents_of(reply.body)
            # The search tells no upper case from lower case.
            if intent.metadata.get("payment_id") == question.payment_id
        ]
        return max(found, key=Intent.telling) if found else NotFound(reply.request_id)
    if reply.status == 200:
        return _about(intent_of(reply.body), question)
    if refusal_of(reply.body) is NoSuchIntent.OTHER_MODE:
        detail = "the key is for the other mode, test or live, than the payment"
        return Unavailable("refused", None, detail, reply.request_id)
    return NotFound(reply.request_id)


def _about(intent: Intent, question: Question) -> Intent:
    if intent.id != question.psp_reference:
        raise Nonsense("psp_reference: not the one that was asked about")
    if intent.metadata.get("payment_id", question.payment_id) != question.payment_id:
        raise Nonsense("metadata.payment_id: another payment than the one asked about")
    return intent


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")
