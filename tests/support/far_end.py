"""The far end of a PSP adapter: a real HTTP server on loopback that says what it is told to."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

Reply = Callable[[web.Request], Awaitable[web.StreamResponse]]


class FarEnd:
    """A provider that gives the scripted replies in turn and repeats the last one."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)
        self.paths: list[str] = []
        self.headers: list[Mapping[str, str]] = []
        self.authorizations: list[str | None] = []
        self._asked = asyncio.Condition()
        app = web.Application()
        app.router.add_get("/{path:.*}", self._answer)
        self.server = TestServer(app)

    @property
    def url(self) -> str:
        """The base URL."""
        return str(self.server.make_url("/")).rstrip("/")

    async def asked(self, times: int) -> None:
        """Wait until that many requests have come."""
        async with asyncio.timeout(5), self._asked:
            await self._asked.wait_for(lambda: len(self.paths) >= times)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.paths.append(request.raw_path)
        self.headers.append(request.headers)
        self.authorizations.append(request.headers.get("Authorization"))
        async with self._asked:
            self._asked.notify_all()
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        return await reply(request)


def says(status: int, body: Any = b"", **headers: str) -> Reply:
    """A whole reply; `_` in a header's name stands for `-`."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}

    async def reply(_: web.Request) -> web.StreamResponse:
        return web.Response(status=status, body=raw, headers=named)

    return reply


async def hangs(_: web.Request) -> web.StreamResponse:
    """No reply at all."""
    await asyncio.Event().wait()
    raise AssertionError("unreachable")


async def drips(request: web.Request) -> web.StreamResponse:
    """The beginning of a body, and no more."""
    response = web.StreamResponse()
    await response.prepare(request)
    await response.write(b'{"status":')
    return await hangs(request)


async def cuts_off(request: web.Request) -> web.StreamResponse:
    """A connection that ends within the body."""
    response = web.StreamResponse(headers={"Content-Length": "500"})
    await response.prepare(request)
    await response.write(b'{"status":')
    assert request.transport is not None
    request.transport.close()
    return response
