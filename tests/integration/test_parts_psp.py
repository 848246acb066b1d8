"""The PSP that demo and tests ask: its truth, its faults, and that our own adapter reads both."""

import asyncio
import secrets
from collections import Counter
from dataclasses import replace
from typing import Any

import aiohttp
import pytest

from service.psp.generic import GenericPsp
from service.psp.port import Answer, Answered, NotFound, Question, Unavailable
from service.sandbox.psp_server import Faults, PspServer
from tests.support.events import psp_answer
from tests.support.waiting import eventually

QUESTION = Question(payment_id="pay-1", psp="acme-eu", psp_reference=None)


async def _get(server: PspServer, asked_id: str, **headers: str) -> tuple[int, Any]:
    timeout = aiohttp.ClientTimeout(total=10)
    async with (
        aiohttp.ClientSession(timeout=timeout) as session,
        session.get(f"{server.url}/payments/{asked_id}", headers=headers) as response,
    ):
        return response.status, await response.json(content_type=None)


async def _ask(server: PspServer, *, timeout_seconds: float = 5.0) -> Answer:
    async with aiohttp.ClientSession() as session:
        return await GenericPsp(session, server.url, timeout_seconds=timeout_seconds).ask(QUESTION)


async def test_truth_is_told_by_payment_id_and_by_reference() -> None:
    answer = psp_answer("pay-1", entityversion="7")
    async with PspServer() as server:
        server.put("pay-1", answer)

        assert await _get(server, "pay-1") == (200, answer)
        assert await _get(server, "ref-pay-1") == (200, answer)
        assert server.calls == Counter({"pay-1": 1, "ref-pay-1": 1})


async def test_earlier_reference_keeps_its_own_answer() -> None:
    first = psp_answer("pay-1", psp_reference="ref-1", status="failed")
    second = psp_answer("pay-1", psp_reference="ref-2")
    async with PspServer() as server:
        server.put("pay-1", first)
        server.put("pay-1", second)

        assert await _get(server, "ref-1") == (200, first)
        assert await _get(server, "pay-1") == (200, second)


async def test_unknown_payment_is_not_found_in_the_provider_s_own_words() -> None:
    async with PspServer() as server:
        server.put("pay-1", psp_answer("pay-1"))
        server.forget("pay-1")

        assert await _get(server, "pay-1") == (404, {"error": "not_found"})
        assert await _get(server, "ref-pay-1") == (404, {"error": "not_found"})


async def test_our_adapter_reads_answer_and_not_found() -> None:
    async with PspServer() as server:
        assert isinstance(await _ask(server), NotFound)

        server.put("pay-1", psp_answer("pay-1", minor=500, entityversion="7"))

        answer = await _ask(server)
        assert isinstance(answer, Answered)
        assert (answer.captured_minor, answer.entityversion) == (500, 7)


@pytest.mark.parametrize(
    ("faults", "reason"),
    [
        (Faults(error_share=1), "server_error"),
        (Faults(timeout_share=1), "timeout"),
        (Faults(throttle_share=1, retry_after_seconds=9), "throttled"),
        *[(Faults(nonsense_share=1, seed=seed), "nonsense") for seed in range(12)],
    ],
)
async def test_fault_is_no_answer(faults: Faults, reason: str) -> None:
    async with PspServer(faults=faults) as server:
        server.put("pay-1", psp_answer("pay-1"))

        answer = await _ask(server, timeout_seconds=0.3 if reason == "timeout" else 5.0)

        assert isinstance(answer, Unavailable)
        assert answer.reason == reason
        assert answer.retry_after_seconds == (9.0 if reason == "throttled" else None)


async def test_outage_ends_when_it_is_switched_off() -> None:
    async with PspServer() as server:
        server.put("pay-1", psp_answer("pay-1"))
        server.outage = True
        assert (await _get(server, "pay-1"))[0] == 503

        server.outage = False

        assert (await _get(server, "pay-1"))[0] == 200


async def test_stopped_server_refuses_and_comes_back_on_its_port() -> None:
    async with PspServer() as server:
        server.put("pay-1", psp_answer("pay-1"))
        await server.stop()
        with pytest.raises(aiohttp.ClientConnectionError):
            await _get(server, "pay-1")

        await server.start()

        assert (await _get(server, "pay-1"))[0] == 200


async def test_stop_does_not_wait_for_calls_that_hang() -> None:
    async with PspServer(faults=Faults(timeout_share=1)) as server:
        hanging = asyncio.create_task(_get(server, "pay-1"))
        await eventually(lambda: server.calls["pay-1"] == 1)

        async with asyncio.timeout(5):
            await server.stop()

        await asyncio.wait([hanging])
        assert hanging.exception() is not None or hanging.result()[0] == 503


async def test_wrong_token_is_refused() -> None:
    token = secrets.token_hex(8)
    async with PspServer(token=token) as server:
        server.put("pay-1", psp_answer("pay-1"))

        assert (await _get(server, "pay-1"))[0] == 401
        assert (await _get(server, "pay-1", Authorization="Bearer other"))[0] == 401
        assert (await _get(server, "pay-1", Authorization=f"Bearer {token}"))[0] == 200


def test_plan_depends_on_seed_id_and_call_alone() -> None:
    faults = Faults(error_share=0.2, timeout_share=0.1, throttle_share=0.1, nonsense_share=0.1)
    calls = [(f"pay-{number}", call) for number in range(500) for call in (1, 2)]

    forward = {one: faults.of_call(*one) for one in calls}
    backward = {one: faults.of_call(*one) for one in reversed(calls)}

    assert forward == backward
    counts = Counter(forward.values())
    assert 150 < counts["error"] < 250
    assert 450 < counts[None] < 550
    reseeded = replace(faults, seed=1)
    assert any(reseeded.of_call(*one) != forward[one] for one in calls)


def test_shares_over_one_are_refused() -> None:
    with pytest.raises(ValueError, match="together at most 1"):
        Faults(error_share=0.6, timeout_share=0.5)
