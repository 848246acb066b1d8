"""One try of one question over HTTP: bounded, and every failure turned into its reason."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from urllib.parse import quote

import aiohttp
from yarl import URL

from service.psp.body import Nonsense
from service.psp.port import Answer, Unavailable
from service.psp.reply import BODY_BYTES_MAX, read_body, request_id, without_answer
from service.psp.token_file import TokenError, TokenFile

_ACCEPTED = {"Accept": "application/json", "Accept-Encoding": "identity"}


@dataclass(frozen=True, slots=True)
class Reply:
    """A 200 or a 404, whose body decides."""

    status: int
    body: bytes
    request_id: str | None


Get = Callable[[URL], Awaitable[Reply | Unavailable]]


class Exchange:
    """How one provider account is reached over a session that the caller owns.

    `timeout_seconds` bounds a whole try: reading the token, connecting, heads and bodies. `headers`
    go with every request.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        *,
        timeout_seconds: float,
        token: TokenFile | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._session = session
        self._timeout_seconds = timeout_seconds
        self._token = token
        self._headers = {**_ACCEPTED, **(headers or {})}

    async def one_try(self, talk: Callable[[Get], Awaitable[Answer]]) -> Answer:
        """Talk to the provider within the time of one try.

        Raises nothing for what the far end does; cancellation passes through.
        """
        heard: list[str | None] = [None]
        try:
            async with asyncio.timeout(self._timeout_seconds):
                return await talk(lambda url: self._get(url, heard))
        except TimeoutError:
            silence = Unavailable("timeout", None, f"no answer within {self._timeout_seconds:g} s")
        except TokenError as error:
            silence = Unavailable("refused", None, str(error))
        except Nonsense as error:
            silence = Unavailable("nonsense", None, str(error), heard[-1])
        except aiohttp.ClientResponseError:
            silence = Unavailable("nonsense", None, "the reply is not HTTP")
        except (aiohttp.ClientError, OSError) as error:
            silence = Unavailable("connection", None, type(error).__name__)
        return silence

    async def _get(self, url: URL, heard: list[str | None]) -> Reply | Unavailable:
        headers = dict(self._headers)
        if self._token is not None:
            headers["Authorization"] = await self._token.authorization()
        async with self._session.get(url, headers=headers, allow_redirects=False) as response:
            heard.append(request_id(response.headers))
            unavailable = without_answer(response.status, response.headers)
            if unavailable is not None:
                return unavailable
            body = await read_body(response)
        if body is None:
            raise Nonsense(f"body over {BODY_BYTES_MAX} bytes")
        return Reply(response.status, body, heard[-1])


def checked_base_url(base_url: str) -> str:
    """The URL without a trailing slash; raises ValueError for one that is not plain http(s)."""
    url = URL(base_url)
    plain = url.scheme in {"http", "https"} and url.host and not (url.query or url.fragment)
    if not plain or url.user is not None or url.password is not None:
        raise ValueError("the PSP's base_url must be http(s)://host[:port][/path] and nothing more")
    return base_url.rstrip("/")


def path_segment(text: str) -> str:
    """`text` as one step of a path, whatever characters it has."""
    segment = quote(text, safe="")
    # "." and ".." are steps in a path, whatever they are here.
    return segment.replace(".", "%2E") if set(segment) == {"."} else segment
