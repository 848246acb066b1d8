"""The plain HTTP contract: `GET {base_url}/payments/{psp_reference or payment_id}`.

200 carries the fields of a `psp` event's data plus, where the provider counts, `entityversion` and
`versionepoch`; 404 with `{"error": "not_found"}` is the provider's word that it knows no such
payment. A 404 without it is some proxy's and says nothing.
"""

import asyncio
from urllib.parse import quote

import aiohttp
from yarl import URL

from schemas.currency import Exponents
from schemas.fields import NO_EXCEPTIONS
from service.psp.body import Nonsense, is_not_found, read_answered
from service.psp.port import Answer, NotFound, Question, Unavailable
from service.psp.reply import BODY_BYTES_MAX, read_body, request_id, without_answer
from service.psp.token_file import TokenError, TokenFile


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
        self._session = session
        self._payments_url = _checked(base_url) + "/payments/"
        self._token = token
        self._exponents = exponents
        self._timeout_seconds = timeout_seconds

    async def ask(self, question: Question) -> Answer:
        """Ask once. Raises nothing for what the far end does; cancellation passes through."""
        try:
            async with asyncio.timeout(self._timeout_seconds):
                return await self._ask(question)
        except TimeoutError:
            return Unavailable("timeout", None, f"no answer within {self._timeout_seconds:g} s")
        except TokenError as error:
            return Unavailable("refused", None, str(error))
        except Nonsense as error:
            return Unavailable("nonsense", None, str(error))
        except aiohttp.ClientResponseError:
            return Unavailable("nonsense", None, "the reply is not HTTP")
        except (aiohttp.ClientError, OSError) as error:
            return Unavailable("connection", None, type(error).__name__)

    async def _ask(self, question: Question) -> Answer:
        url = URL(self._payments_url + _path_segment(question), encoded=True)
        headers = await self._headers()
        async with self._session.get(url, headers=headers, allow_redirects=False) as response:
            unavailable = without_answer(response.status, response.headers)
            if unavailable is not None:
                return unavailable
            body = await read_body(response)
        if body is None:
            raise Nonsense(f"body over {BODY_BYTES_MAX} bytes")
        if response.status == 200:
            return read_answered(
                body,
                question,
                exponents=self._exponents,
                request_id=request_id(response.headers),
            )
        if not is_not_found(body):
            raise Nonsense("404 without the provider's own word for it")
        return NotFound(request_id(response.headers))

    async def _headers(self) -> dict[str, str]:
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        if self._token is not None:
            headers["Authorization"] = await self._token.authorization()
        return headers


def _path_segment(question: Question) -> str:
    segment = quote(question.psp_reference or question.payment_id, safe="")
    # "." and ".." are steps in a path, whatever they are here.
    return segment.replace(".", "%2E") if set(segment) == {"."} else segment


def _checked(base_url: str) -> str:
    url = URL(base_url)
    plain = url.scheme in {"http", "https"} and url.host and not (url.query or url.fragment)
    if not plain or url.user is not None or url.password is not None:
        raise ValueError("the PSP's base_url must be http(s)://host[:port][/path] and nothing more")
    return base_url.rstrip("/")
