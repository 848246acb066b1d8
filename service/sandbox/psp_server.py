"""A PSP over HTTP on loopback that tells a given truth, with faults by a seeded plan."""

import asyncio
import hashlib
import hmac
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from aiohttp import web

from service.sandbox import SandboxError
from service.sandbox.ports import LOOPBACK, free_port
from service.sandbox.running import Running

_JSON = "application/json"
_SHUTDOWN_SECONDS = 1.0

Fault = Literal["error", "timeout", "throttle", "nonsense"]

# What a PSP in trouble has been seen to send with status 200; none of it is an answer.
_NONSENSE = (
    b"<html><body>Bad gateway</body></html>",
    b"",
    b'{"status": "succ',
    b'{"status": "succeeded"}',
    b'{"psp": "acme", "psp_reference": "r", "status": "succeeded", "amount": {"minor": 19.99}}',
    b'{"psp": "acme", "psp_reference": "r", "status": "SUCCEEDED", "amount": null}',
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """How the PSP misbehaves. Shares of all calls, 0 to 1, together at most 1.

    The plan is drawn by seed, id and how often that id was asked before, so that it is the same in
    whatever order the calls come. A time-out holds the call until the client gives up.
    """

    latency_seconds: float = 0.0
    error_share: float = 0.0
    timeout_share: float = 0.0
    throttle_share: float = 0.0
    nonsense_share: float = 0.0
    retry_after_seconds: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        shares = [share for _, share in self._shares()]
        if min(shares) < 0 or sum(shares) > 1:
            raise ValueError("the shares of faults must be at least 0 and together at most 1")

    def of_call(self, asked_id: str, call: int) -> Fault | None:
        """Return what goes wrong with the given call for this id, counted from 1."""
        place = _fraction(self.seed, asked_id, call)
        for fault, share in self._shares():
            if place < share:
                return fault
            place -= share
        return None

    def nonsense(self, asked_id: str, call: int) -> bytes:
        """Return a body that is no answer."""
        place = _fraction(self.seed, asked_id, call, "nonsense")
        return _NONSENSE[int(place * len(_NONSENSE))]

    def _shares(self) -> tuple[tuple[Fault, float], ...]:
        return (
            ("error", self.error_share),
            ("timeout", self.timeout_share),
            ("throttle", self.throttle_share),
            ("nonsense", self.nonsense_share),
        )


class PspServer(Running):
    """Serves `GET /payments/{id}`, where id is a PSP reference or a payment id.

    200 with the fields of a `psp` event's data, or 404 `{"error": "not_found"}`. With a `token`
    anything but `Authorization: Bearer …` is 401. `faults` and `outage` (every call is 503) may be
    set at any time; for a PSP that refuses connections `stop` it: `start` takes the same port.
    `calls` counts the calls by the id that was asked, faulty ones included.
    """

    def __init__(self, *, faults: Faults | None = None, token: str | None = None) -> None:
        self.faults = faults or Faults()
        self.outage = False
        self.calls: Counter[str] = Counter()
        self.port = free_port()
        self._token = token
        self._answers: dict[str, dict[str, Any]] = {}
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        """The base URL: what `{base_url}/payments/{id}` begins with."""
        return f"http://{LOOPBACK}:{self.port}"

    def put(self, payment_id: str, answer: Mapping[str, Any]) -> None:
        """Make `answer` the truth of a payment, and of the PSP payment whose reference it names.

        Other references that were put for the payment keep their own answers.
        """
        told = dict(answer)
        self._answers[payment_id] = told
        self._answers[str(told["psp_reference"])] = told

    def forget(self, payment_id: str) -> None:
        """Answer 404 for the payment and its last reference from now on."""
        told = self._answers.pop(payment_id, None)
        if told is not None:
            self._answers.pop(str(told["psp_reference"]), None)

    async def start(self) -> None:
        """Listen, the second time on the same port."""
        if self._runner is not None:
            raise SandboxError("this PSP is running already")
        app = web.Application()
        app.router.add_get("/payments/{id}", self._answer)
        self._runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True, shutdown_timeout=_SHUTDOWN_SECONDS
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, LOOPBACK, self.port).start()

    async def stop(self) -> None:
        """Drop all calls and refuse connections."""
        if self._runner is not None:
            runner, self._runner = self._runner, None
            await runner.cleanup()

    async def close(self) -> None:
        """Stop serving; it keeps nothing outside this process."""
        await self.stop()

    async def _answer(self, request: web.Request) -> web.Response:
        asked_id = request.match_info["id"]
        self.calls[asked_id] += 1
        call = self.calls[asked_id]
        faults = self.faults
        if faults.latency_seconds:
            await asyncio.sleep(faults.latency_seconds)
        if not self._may_ask(request):
            return _json({"error": "unauthorised"}, status=401)
        fault = "error" if self.outage else faults.of_call(asked_id, call)
        if fault is None:
            return self._truth_of(asked_id)
        return await self._misbehave(fault, asked_id, call)

    def _may_ask(self, request: web.Request) -> bool:
        if self._token is None:
            return True
        given = request.headers.get("Authorization", "")
        return hmac.compare_digest(given.encode(), f"Bearer {self._token}".encode())

    def _truth_of(self, asked_id: str) -> web.Response:
        answer = self._answers.get(asked_id)
        if answer is None:
            return _json({"error": "not_found"}, status=404)
        return _json(answer, status=200)

    async def _misbehave(self, fault: Fault, asked_id: str, call: int) -> web.Response:
        match fault:
            case "throttle":
                retry_after = {"Retry-After": str(self.faults.retry_after_seconds)}
                return web.Response(status=429, headers=retry_after)
            case "nonsense":
                body = self.faults.nonsense(asked_id, call)
                return web.Response(status=200, body=body, content_type=_JSON)
            case "timeout":
                await asyncio.Event().wait()  # cancelled when the client leaves, or we stop
        return _json({"error": "unavailable"}, status=503)


def _json(body: Mapping[str, Any], *, status: int) -> web.Response:
    return web.Response(status=status, body=json.dumps(body).encode(), content_type=_JSON)


def _fraction(*parts: object) -> float:
    drawn = hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()
    return int.from_bytes(drawn) / 2**64
