"""An opened account against a real HTTP server: retries, budget, limits, breaker, token."""

import asyncio
import gc
import gzip
import json
import time
from collections.abc import Callable
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from service.psp.account import PspAccount, open_psp
from service.psp.breaker import BreakerState, CircuitBreaker
from service.psp.port import Answered, NotFound, PspPort, Question, Unavailable
from tests.integration.test_psp_conformance import GENERIC, QUESTION
from tests.support.far_end import FarEnd, Reply, hangs, says

PAID = says(200, GENERIC.paid)
GZIP = {"Content_Encoding": "gzip"}
UNKNOWN = says(404, GENERIC.unknown)


def account(far_end: FarEnd, **changes: Any) -> PspAccount:
    usual: dict[str, Any] = {"base_url": far_end.url, "timeout_seconds": 2.0, "budget_seconds": 5.0}
    return PspAccount(**(usual | changes))


def breaker(failures_max: int = 100, clock: Callable[[], float] = time.monotonic) -> CircuitBreaker:
    return CircuitBreaker(failures_max, 30.0, clock=clock)


def state(observed: CircuitBreaker) -> BreakerState:
    return observed.state


async def unavailable(psp: PspPort) -> Unavailable:
    answer = await psp.ask(QUESTION)
    assert isinstance(answer, Unavailable)
    return answer


async def test_short_outage_is_ridden_out_within_one_question() -> None:
    heard: list[str] = []
    far_end = FarEnd(says(500), says(502), PAID)
    async with (
        far_end.server,
        open_psp(
            account(far_end),
            breaker=breaker(),
            observe=lambda result, _: heard.append(result),
        ) as psp,
    ):
        assert isinstance(await psp.ask(QUESTION), Answered)
    assert heard == ["server_error", "server_error", "answered"]


@pytest.mark.parametrize("reply", [UNKNOWN, says(404, b"<html>"), says(401), says(204)])
async def test_what_another_try_cannot_mend_is_asked_once(reply: Reply) -> None:
    far_end = FarEnd(reply)
    async with far_end.server, open_psp(account(far_end), breaker=breaker()) as psp:
        assert not isinstance(await psp.ask(QUESTION), Answered)
    assert len(far_end.paths) == 1


async def test_retry_after_that_fits_the_budget_is_waited_out() -> None:
    far_end = FarEnd(says(429, Retry_After="1"), PAID)
    async with far_end.server, open_psp(account(far_end), breaker=breaker()) as psp:
        started = time.monotonic()
        assert isinstance(await psp.ask(QUESTION), Answered)
        assert time.monotonic() - started >= 1


@pytest.mark.parametrize("as_date", [False, True])
async def test_retry_after_beyond_the_budget_is_handed_on_at_once(as_date: bool) -> None:
    later = formatdate(time.time() + 60, usegmt=True) if as_date else "60"
    far_end = FarEnd(says(429, Retry_After=later))
    async with far_end.server, open_psp(account(far_end), breaker=breaker()) as psp:
        started = time.monotonic()
        answer = await unavailable(psp)
        assert time.monotonic() - started < 1
    assert answer.reason == "throttled"
    assert answer.retry_after_seconds == pytest.approx(60, abs=2)
    assert len(far_end.paths) == 1


async def test_one_throttled_job_keeps_all_others_of_the_account_quiet() -> None:
    far_end = FarEnd(says(429, Retry_After="60"), PAID)
    async with far_end.server, open_psp(account(far_end), breaker=breaker()) as psp:
        await unavailable(psp)
        answers = await asyncio.gather(*(unavailable(psp) for _ in range(20)))
    assert {answer.reason for answer in answers} == {"throttled"}
    assert all((answer.retry_after_seconds or 0) > 50 for answer in answers)
    assert len(far_end.paths) == 1


async def test_budget_bounds_all_tries_and_the_last_reason_is_told() -> None:
    far_end = FarEnd(says(503))
    async with (
        far_end.server,
        open_psp(account(far_end, budget_seconds=0.6), breaker=breaker()) as psp,
    ):
        started = time.monotonic()
        answer = await unavailable(psp)
        assert time.monotonic() - started < 1
    assert answer.reason == "server_error"
    assert len(far_end.paths) >= 1


async def test_budget_bounds_the_wait_for_a_rate_token_too() -> None:
    far_end = FarEnd(says(503))
    slow = {"rate_per_second": 1, "burst": 1, "budget_seconds": 0.8}
    async with far_end.server, open_psp(account(far_end, **slow), breaker=breaker()) as psp:
        started = time.monotonic()
        assert (await unavailable(psp)).reason == "budget"
        assert 0.7 < time.monotonic() - started < 1
    assert len(far_end.paths) == 1


async def test_far_end_that_hangs_is_a_timeout_to_the_breaker_whatever_the_settings() -> None:
    far_end = FarEnd(hangs)
    guard = breaker(failures_max=1)
    async with (
        far_end.server,
        open_psp(account(far_end, timeout_seconds=9.0, budget_seconds=0.3), breaker=guard) as psp,
    ):
        assert (await unavailable(psp)).reason == "timeout"
        assert state(guard) == "open"


async def test_question_that_finds_no_rate_token_in_time_gives_up_without_asking() -> None:
    far_end = FarEnd(PAID)
    async with (
        far_end.server,
        open_psp(account(far_end, rate_per_second=0.01, burst=1), breaker=breaker()) as psp,
    ):
        assert isinstance(await psp.ask(QUESTION), Answered)
        answer = await unavailable(psp)
    assert answer.reason == "budget"
    assert answer.retry_after_seconds == pytest.approx(100, abs=2)
    assert len(far_end.paths) == 1


async def test_open_breaker_answers_without_asking_and_one_probe_closes_it() -> None:
    now = 0.0
    guard = breaker(failures_max=1, clock=lambda: now)
    far_end = FarEnd(says(401), PAID)
    async with far_end.server, open_psp(account(far_end), breaker=guard) as psp:
        assert (await unavailable(psp)).reason == "refused"
        answer = await unavailable(psp)
        assert (answer.reason, answer.retry_after_seconds) == ("breaker_open", 30.0)
        assert len(far_end.paths) == 1
        now = 30.0
        assert state(guard) == "half_open"
        assert isinstance(await psp.ask(QUESTION), Answered)
        assert state(guard) == "closed"


async def test_open_breaker_lets_nobody_wait_for_a_rate_token() -> None:
    far_end = FarEnd(says(401))
    slow = {"rate_per_second": 0.01, "burst": 1}
    async with (
        far_end.server,
        open_psp(account(far_end, **slow), breaker=breaker(failures_max=1)) as psp,
    ):
        await unavailable(psp)
        assert (await unavailable(psp)).reason == "breaker_open"


async def test_throttled_probe_closes_the_breaker_for_who_says_429_is_alive() -> None:
    now = 0.0
    guard = breaker(failures_max=1, clock=lambda: now)
    far_end = FarEnd(says(401), says(429, Retry_After="60"))
    async with far_end.server, open_psp(account(far_end), breaker=guard) as psp:
        await unavailable(psp)
        now = 30.0
        assert (await unavailable(psp)).reason == "throttled"
        assert state(guard) == "closed"


async def test_nonsense_about_some_payments_cuts_off_no_others() -> None:
    guard = breaker(failures_max=2)
    far_end = FarEnd(says(200, b"{}"))
    async with far_end.server, open_psp(account(far_end), breaker=guard) as psp:
        for _ in range(5):
            assert (await unavailable(psp)).reason == "nonsense"
    assert state(guard) == "closed"


async def test_cancelled_probe_lets_the_next_one_through() -> None:
    now = 0.0
    guard = breaker(failures_max=1, clock=lambda: now)
    far_end = FarEnd(says(401), hangs, PAID)
    async with far_end.server, open_psp(account(far_end), breaker=guard) as psp:
        await unavailable(psp)
        now = 30.0
        probe = asyncio.create_task(psp.ask(QUESTION))
        await far_end.asked(2)
        assert (await unavailable(psp)).reason == "breaker_open"
        probe.cancel()
        with pytest.raises(asyncio.CancelledError):
            await probe
        assert isinstance(await psp.ask(QUESTION), Answered)


async def test_compressed_body_that_nobody_asked_for_is_not_inflated() -> None:
    far_end = FarEnd(says(200, gzip.compress(json.dumps(GENERIC.paid).encode()), **GZIP))
    async with far_end.server, open_psp(account(far_end), breaker=breaker()) as psp:
        assert (await unavailable(psp)).reason == "nonsense"


async def test_exponents_of_the_account_hold_for_its_answers() -> None:
    amount = {"minor": 5, "currency": "ISK", "exponent": 2}
    far_end = FarEnd(says(200, GENERIC.paid_but(amount=amount)))
    exceptions = {"acme-eu": {"ISK": 2}}
    async with (
        far_end.server,
        open_psp(account(far_end, exponents=exceptions), breaker=breaker()) as psp,
    ):
        answer = await psp.ask(QUESTION)
    assert isinstance(answer, Answered)
    assert (answer.amount_minor, answer.captured_minor) == (None, 5)


async def test_rotated_token_is_sent_without_a_restart(tmp_path: Path) -> None:
    token_file = tmp_path / "token"
    token_file.write_text("first-token\n")
    far_end = FarEnd(PAID)
    paced = {"rate_per_second": 20, "burst": 1, "token_file": token_file}
    async with far_end.server, open_psp(account(far_end, **paced), breaker=breaker()) as psp:
        await psp.ask(QUESTION)
        assert far_end.authorizations == ["Bearer first-token"]
        replacement = tmp_path / "next"
        replacement.write_text("other-token")
        replacement.replace(token_file)
        async with asyncio.timeout(5):
            while far_end.authorizations[-1] != "Bearer other-token":
                await psp.ask(QUESTION)


async def test_no_token_file_sends_no_token() -> None:
    far_end = FarEnd(PAID)
    async with far_end.server, open_psp(account(far_end), breaker=breaker()) as psp:
        await psp.ask(QUESTION)
    assert far_end.authorizations == [None]


async def test_unusable_token_is_refused_without_asking(tmp_path: Path) -> None:
    far_end = FarEnd(PAID)
    async with (
        far_end.server,
        open_psp(account(far_end, token_file=tmp_path / "none"), breaker=breaker()) as psp,
    ):
        answer = await unavailable(psp)
    assert (answer.reason, answer.detail) == ("refused", "token file: No such file or directory")
    assert far_end.paths == []


@pytest.mark.parametrize(
    ("question", "path"),
    [
        (Question("pay-1", None, "ref/1?x=#y z"), "/payments/ref%2F1%3Fx%3D%23y%20z"),
        (Question("a/../b%2F", None, None), "/payments/a%2F..%2Fb%252F"),
        (Question("..", None, None), "/payments/%2E%2E"),
        (Question("ödeme", None, None), "/payments/%C3%B6deme"),
    ],
)
async def test_no_payment_id_reaches_another_path(question: Question, path: str) -> None:
    far_end = FarEnd(UNKNOWN)
    async with far_end.server, open_psp(account(far_end), breaker=breaker()) as psp:
        assert isinstance(await psp.ask(question), NotFound)
    assert far_end.paths == [path]


@pytest.mark.parametrize(
    "base_url",
    ["", "psp.example.com", "ftp://psp.example.com", "http://a:b@psp.example.com", "http://x/?k=v"],
)
async def test_base_url_that_is_none_stops_the_start(base_url: str) -> None:
    with pytest.raises(ValueError, match="base_url"):
        async with open_psp(PspAccount(base_url=base_url), breaker=breaker()):
            pass


async def test_fifty_cancelled_questions_leave_nothing_behind() -> None:
    before = asyncio.all_tasks()
    far_end = FarEnd(hangs)
    async with (
        far_end.server,
        open_psp(account(far_end, concurrency_max=10), breaker=breaker()) as psp,
    ):
        asking = [asyncio.create_task(psp.ask(QUESTION)) for _ in range(50)]
        await far_end.asked(10)
        for question in asking:
            question.cancel()
        ended = await asyncio.gather(*asking, return_exceptions=True)
        assert all(isinstance(end, asyncio.CancelledError) for end in ended)
        far_end.replies = [PAID]
        assert isinstance(await psp.ask(QUESTION), Answered)
    assert asyncio.all_tasks() == before
    gc.collect()  # an unclosed session or connection warns here, and warnings are errors
