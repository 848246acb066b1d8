"""What every adapter owes the port, whatever its provider's dialect; one row an adapter.

The far end is a real HTTP server on loopback. An adapter joins by adding its `Dialect`.
"""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from service.psp.generic import GenericPsp
from service.psp.port import Answered, NotFound, PspPort, Question, Unavailable

Reply = Callable[[web.Request], Awaitable[web.StreamResponse]]

QUESTION = Question(payment_id="pay-1", psp="acme-eu", psp_reference="ref-1")


class FarEnd:
    """A provider that gives the scripted replies in turn and repeats the last one."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)
        self.paths: list[str] = []
        self.authorizations: list[str | None] = []
        self._asked = asyncio.Condition()
        app = web.Application()
        app.router.add_get("/{path:.*}", self._answer)
        self.server = TestServer(app)

    @property
    def url(self) -> str:
        return str(self.server.make_url("/")).rstrip("/")

    async def asked(self, times: int) -> None:
        async with asyncio.timeout(5), self._asked:
            await self._asked.wait_for(lambda: len(self.paths) >= times)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.paths.append(request.raw_path)
        self.authorizations.append(request.headers.get("Authorization"))
        async with self._asked:
            self._asked.notify_all()
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        return await reply(request)


def says(status: int, body: Any = b"", **headers: str) -> Reply:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}

    async def reply(_: web.Request) -> web.StreamResponse:
        return web.Response(status=status, body=raw, headers=named)

    return reply


async def hangs(_: web.Request) -> web.StreamResponse:
    await asyncio.Event().wait()
    raise AssertionError("unreachable")


async def drips(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    await response.write(b'{"status":')
    return await hangs(request)


async def cuts_off(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Length": "500"})
    await response.prepare(request)
    await response.write(b'{"status":')
    assert request.transport is not None
    request.transport.close()
    return response


@dataclass(frozen=True)
class Dialect:
    """How one provider says what all providers can say."""

    name: str
    open: Callable[[aiohttp.ClientSession, str, float], PspPort]
    paid: dict[str, Any]
    unknown: dict[str, Any]

    def paid_but(self, **changes: Any) -> dict[str, Any]:
        return {**self.paid, **changes}


GENERIC = Dialect(
    name="generic",
    open=lambda session, url, timeout: GenericPsp(session, url, timeout_seconds=timeout),
    paid={
        "psp": "acme-eu",
        "psp_reference": "ref-1",
        "status": "succeeded",
        "amount": {"minor": 1999, "currency": "EUR"},
        "refunded_minor": 0,
        "entityversion": "7",
    },
    unknown={"error": "not_found"},
)


@pytest.fixture(params=[GENERIC], ids=lambda dialect: dialect.name)
def dialect(request: pytest.FixtureRequest) -> Dialect:
    chosen: Dialect = request.param
    return chosen


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(auto_decompress=False) as opened:
        yield opened


Ask = Callable[..., Awaitable[Any]]


@pytest.fixture
def ask(dialect: Dialect, session: aiohttp.ClientSession) -> Ask:
    async def ask_once(
        *replies: Reply, question: Question = QUESTION, timeout_seconds: float = 5.0
    ) -> Any:
        far_end = FarEnd(*replies)
        async with far_end.server:
            return await dialect.open(session, far_end.url, timeout_seconds).ask(question)

    return ask_once


async def test_paid_payment_is_answered_with_exact_amounts(dialect: Dialect, ask: Ask) -> None:
    answer = await ask(says(200, dialect.paid, X_Request_Id="req-9"))
    assert isinstance(answer, Answered)
    assert (answer.status, answer.amount_minor, answer.currency) == ("succeeded", 1999, "EUR")
    assert (answer.captured_minor, answer.refunded_minor, answer.disputed_minor) == (1999, 0, 0)
    assert (answer.psp, answer.psp_reference) == ("acme-eu", "ref-1")
    assert (answer.entityversion, answer.versionepoch) == (7, 0)
    assert answer.data == dialect.paid
    assert answer.request_id == "req-9"


async def test_only_the_providers_own_word_is_not_found(dialect: Dialect, ask: Ask) -> None:
    answer = await ask(says(404, dialect.unknown, X_Request_Id="req-9"))
    assert answer == NotFound(request_id="req-9")


@pytest.mark.parametrize(
    "body",
    [
        b"<html><body>404 Not Found</body></html>",
        b"",
        b"{}",
        b"[]",
        b'"not_found"',
        b'{"error": "route_not_found"}',
        b'{"error": "not_found"',
        b'{"error": "x", "error": "not_found"}',
    ],
)
async def test_any_other_404_is_nonsense(ask: Ask, body: bytes) -> None:
    answer = await ask(says(404, body))
    assert isinstance(answer, Unavailable)
    assert answer.reason == "nonsense"


@pytest.mark.parametrize(
    ("reply", "reason", "retry_after_seconds"),
    [
        (says(429, Retry_After="17"), "throttled", 17.0),
        (says(429), "throttled", None),
        (says(500), "server_error", None),
        (says(503, Retry_After="3"), "server_error", 3.0),
        (says(401, {"error": "not_found"}), "refused", None),
        (says(403), "refused", None),
        (says(204), "nonsense", None),
        (says(400, {"error": "not_found"}), "nonsense", None),
        (cuts_off, "connection", None),
    ],
)
async def test_everything_that_is_no_answer_is_unavailable_with_its_reason(
    ask: Ask, reply: Reply, reason: str, retry_after_seconds: float | None
) -> None:
    answer = await ask(reply)
    assert isinstance(answer, Unavailable)
    assert (answer.reason, answer.retry_after_seconds) == (reason, retry_after_seconds)


async def test_redirect_is_not_followed(dialect: Dialect, ask: Ask) -> None:
    answer = await ask(says(302, Location="/elsewhere"), says(200, dialect.paid))
    assert isinstance(answer, Unavailable)
    assert answer.reason == "nonsense"


@pytest.mark.parametrize("reply", [hangs, drips])
async def test_far_end_that_hangs_costs_one_timeout(ask: Ask, reply: Reply) -> None:
    answer = await ask(reply, timeout_seconds=0.1)
    assert isinstance(answer, Unavailable)
    assert answer.reason == "timeout"


async def test_nobody_listening_is_connection(
    dialect: Dialect, session: aiohttp.ClientSession
) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        answer = await dialect.open(session, url, 5.0).ask(QUESTION)
    assert isinstance(answer, Unavailable)
    assert answer.reason == "connection"


async def test_far_end_that_speaks_no_http_is_nonsense(
    dialect: Dialect, session: aiohttp.ClientSession
) -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"220 mail.example.com ESMTP\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        answer = await dialect.open(session, url, 5.0).ask(QUESTION)
    assert isinstance(answer, Unavailable)
    assert answer.reason == "nonsense"


async def test_answer_about_another_payment_is_nonsense(dialect: Dialect, ask: Ask) -> None:
    other = Question(payment_id="pay-1", psp="acme-eu", psp_reference="ref-2")
    answer = await ask(says(200, dialect.paid), question=other)
    assert isinstance(answer, Unavailable)
    assert (answer.reason, "psp_reference" in answer.detail) == ("nonsense", True)


async def test_answer_from_another_account_is_nonsense(dialect: Dialect, ask: Ask) -> None:
    other = Question(payment_id="pay-1", psp="acme-us", psp_reference="ref-1")
    answer = await ask(says(200, dialect.paid), question=other)
    assert isinstance(answer, Unavailable)
    assert (answer.reason, "psp" in answer.detail) == ("nonsense", True)


async def test_body_over_the_limit_is_nonsense_and_is_not_read_whole(ask: Ask) -> None:
    written = 0

    async def endless(request: web.Request) -> web.StreamResponse:
        nonlocal written
        response = web.StreamResponse()
        await response.prepare(request)
        while written < 64 * 1024 * 1024:
            await response.write(b" " * 65536)
            written += 65536
        return response

    answer = await ask(endless)
    assert isinstance(answer, Unavailable)
    assert answer.reason == "nonsense"
    assert written < 32 * 1024 * 1024


async def test_compressed_body_that_nobody_asked_for_is_nonsense(ask: Ask) -> None:
    answer = await ask(says(200, b"\x1f\x8b\x08\x00", Content_Encoding="gzip"))
    assert isinstance(answer, Unavailable)
    assert answer.reason == "nonsense"


async def test_cancellation_passes_through(
    dialect: Dialect, session: aiohttp.ClientSession
) -> None:
    far_end = FarEnd(hangs)
    async with far_end.server:
        asking = asyncio.create_task(dialect.open(session, far_end.url, 60.0).ask(QUESTION))
        await far_end.asked(1)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
