"""The plain HTTP contract: `GET {base_url}/payments/{psp_reference or payment_id}`.

200 carries the fields of a `psp` event's data plus, where the provider counts, `entityversion` and
`versionepoch`; 404 with `{"error": "not_found"}` is the provider's word that it knows no such
payment. A 404 without it is some proxy's and says nothing.
"""

import aiohttp
from yarl import URL

from schemas.currency import Exponents
from schemas.fields import NO_EXCEPTIONS
from service.psp.body import Nonsense, is_not_found, read_answered
from service.psp.exchange import Exchange, Get, checked_base_url, path_segment
from service.psp.port import Answer, NotFound, Question, Unavailable
from service.psp.token_file import TokenFile


class GenericPsp:
    """One try a question over a session that the caller owns.

    `timeout_seconds` bounds the whole try: reading the token, connecting, head and body.
    `exponents` are the accounts' exceptions to ISO 4217. Raises ValueError for a `base_url` that is
    not plain http or https.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        base_url: str,
        *,
        timeout_seconds: float,
        token: TokenFile | None = None,
        exponents: Exponents = NO_EXCEPTIONS,
    ) -> None:
        self._payments_url = checked_base_url(base_url) + "/payments/"
        self._exchange = Exchange(session, timeout_seconds=timeout_seconds, token=token)
        self._exponents = exponents

    async def ask(self, question: Question) -> Answer:
        """Ask once. Raises nothing for what the far end does; cancellation passes through."""
        return await self._exchange.one_try(lambda get: self._ask(get, question))

    async def _ask(self, get: Get, question: Question) -> Answer:
        asked_id = path_segment(question.psp_reference or question.payment_id)
        reply = await get(URL(self._payments_url + asked_id, encoded=True))
        if isinstance(reply, Unavailable):
            return reply
        if reply.status == 200:
            return read_answered(
                reply.body, question, exponents=self._exponents, request_id=reply.request_id
            )
        if not is_not_found(reply.body):
            raise Nonsense("404 without the provider's own word for it")
        return NotFound(reply.request_id)
