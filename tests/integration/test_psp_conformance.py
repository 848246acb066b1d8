"""What every adapter owes the port, whatever its provider's dialect; one row an adapter.

The far end is a real HTTP server on loopback. An adapter joins by adding its `Dialect`.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from service.psp.generic import GenericPsp
from service.psp.port import Answered, NotFound, PspPort, Question, Unavailable
from service.psp.stripe import StripePsp
from tests.support.far_end import FarEnd, Reply, cuts_off, drips, hangs, says

QUESTION = Question(payment_id="pay-1", psp="acme-eu", psp_reference="ref-1")


@dataclass(frozen=True)
class Dialect:
    """How one provider says what all providers can say."""

    name: str
    open: Callable[[aiohttp.ClientSession, str, float], PspPort]
    paid: dict[str, Any]
    unknown: dict[str, Any]
    question: Question = QUESTION
    version: tuple[int | None, int] = (7, 0)

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


STRIPE = Dialect(
    name="stripe",
    open=lambda session, url, timeout: StripePsp(
        session, url, account="acme-eu", timeout_seconds=timeout
    ),
    paid={
        "id": "pi_1",
        "object": "payment_intent",
        "status": "succeeded",
        "amount": 1999,
        "amount_received": 1999,
        "currency": "eur",
        "created": 1_767_225_600,
        "metadata": {"payment_id": "pay-1"},
        "latest_charge": {
            "id": "ch_1",
            "amount_captured": 1999,
            "amount_refunded": 0,
            "disputed": False,
        },
    },
    unknown={
        "error": {
            "type": "invalid_request_error",
            "code": "resource_missing",
            "message": "No such payment_intent: 'pi_1'",
            "param": "intent",
        }
    },
    question=replace(QUESTION, psp_reference="pi_1"),
    version=(None, 0),
)


@pytest.fixture(params=[GENERIC, STRIPE], ids=lambda dialect: dialect.name)
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
        *replies: Reply, question: Question | None = None, timeout_seconds: float = 5.0
    ) -> Any:
        far_end = FarEnd(*replies)
        async with far_end.server:
            port = dialect.open(session, far_end.url, timeout_seconds)
            return await port.ask(question or dialect.question)

    return ask_once


async def test_paid_payment_is_answered_with_exact_amounts(dialect: Dialect, ask: Ask) -> None:
    answer = await ask(says(200, dialect.paid, X_Request_Id="req-9"))
    assert isinstance(answer, Answered)
    assert (answer.status, answer.amount_minor, answer.currency) == ("succeeded", 1999, "EUR")
    assert (answer.captured_minor, answer.refunded_minor, answer.disputed_minor) == (1999, 0, 0)
    assert (answer.psp, answer.psp_reference) == ("acme-eu", dialect.question.psp_reference)
    assert (answer.entityversion, answer.versionepoch) == dialect.version
    assert answer.data["status"] == dialect.paid["status"]
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


@pytest.mark.parametrize("reply", [says(503, Request_Id="req-9"), says(200, Request_Id="req-9")])
async def test_silence_too_names_the_request_for_the_providers_support(
    ask: Ask, reply: Reply
) -> None:
    answer = await ask(reply)
    assert isinstance(answer, Unavailable)
    assert answer.request_id == "req-9"


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
        answer = await dialect.open(session, url, 5.0).ask(dialect.question)
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
        answer = await dialect.open(session, url, 5.0).ask(dialect.question)
    assert isinstance(answer, Unavailable)
    assert answer.reason == "nonsense"


async def test_answer_about_another_payment_is_nonsense(dialect: Dialect, ask: Ask) -> None:
    other = replace(dialect.question, psp_reference=f"{dialect.question.psp_reference}2")
    answer = await ask(says(200, dialect.paid), question=other)
    assert isinstance(answer, Unavailable)
    assert (answer.reason, "psp_reference" in answer.detail) == ("nonsense", True)


async def test_answer_from_another_account_is_nonsense(dialect: Dialect, ask: Ask) -> None:
    other = replace(dialect.question, psp="acme-us")
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
        asking = asyncio.create_task(dialect.open(session, far_end.url, 60.0).ask(dialect.question))
        await far_end.asked(1)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
