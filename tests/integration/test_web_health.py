import asyncio
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from service import __version__
from service.errors import ConfigurationError
from service.observe.metrics import Metrics
from service.web.checks import Status
from service.web.health import health_app
from service.web.server import serve
from service.web.snapshot import Check, HealthBoard, Phase

ADDRESSES = ["/livez", "/readyz", "/startupz", "/health"]


@dataclass
class Site:
    board: HealthBoard
    client: aiohttp.ClientSession

    async def codes(self) -> dict[str, int]:
        codes = {}
        for address in ADDRESSES:
            async with self.client.get(address) as answer:
                codes[address] = answer.status
        return codes


@asynccontextmanager
async def serving(app: Starlette, stop: asyncio.Event) -> AsyncIterator[int]:
    """The app on a free port; ends with the block."""
    bound: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        group.create_task(
            serve(app, host="127.0.0.1", port=0, stop=stop, on_listening=bound.set_result)
        )
        try:
            yield await bound
        finally:
            stop.set()


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    board = HealthBoard()
    async with (
        serving(health_app(board, Metrics("1.0")), asyncio.Event()) as port,
        aiohttp.ClientSession(f"http://127.0.0.1:{port}") as client,
    ):
        yield Site(board, client)


def codes(livez: int, readyz: int, startupz: int, health: int) -> dict[str, int]:
    return dict(zip(ADDRESSES, (livez, readyz, startupz, health), strict=True))


async def test_a_process_answers_through_its_whole_life(site: Site) -> None:
    assert await site.codes() == codes(200, 503, 503, 200)
    site.board.enter(Phase.RUNNING)
    assert await site.codes() == codes(200, 200, 200, 200)
    site.board.enter(Phase.DRAINING)
    assert await site.codes() == codes(200, 503, 200, 200)


async def test_a_dead_database_fails_readiness_and_never_liveness(site: Site) -> None:
    site.board.enter(Phase.RUNNING)
    site.board.publish(Check("postgres", "responseTime", Status.FAIL, output="no answer"))

    assert await site.codes() == codes(200, 503, 200, 503)


async def test_a_dead_broker_only_warns(site: Site) -> None:
    """Reported as smallrye 866, ml-api-adapter 655, millpond 43."""
    site.board.enter(Phase.RUNNING)
    site.board.publish(Check("kafka", "connection", Status.FAIL))

    assert await site.codes() == codes(200, 200, 200, 200)
    async with site.client.get("/readyz") as answer:
        assert (await answer.json(content_type=None))["status"] == "warn"


async def test_a_dead_coroutine_fails_liveness(site: Site) -> None:
    site.board.enter(Phase.RUNNING)
    site.board.publish(Check("runtime", "tasks", Status.FAIL, "dead", part="watcher"))

    assert await site.codes() == codes(503, 200, 200, 503)


async def test_the_body_is_for_people(site: Site) -> None:
    site.board.enter(Phase.RUNNING)
    site.board.publish(Check("kafka", "lag", Status.WARN, 12, "records", part="erp.payments/0"))
    async with site.client.get("/health") as answer:
        assert answer.content_type == "application/health+json"
        assert answer.headers["Cache-Control"] == "no-store"
        assert "Server" not in answer.headers
        body = await answer.json(content_type=None)

    (row,) = body["checks"].pop("kafka:lag")
    assert row.pop("time").endswith("Z")
    assert body == {"status": "warn", "version": __version__, "checks": {}}
    assert row == {
        "componentId": "erp.payments/0",
        "observedValue": 12,
        "observedUnit": "records",
        "status": "warn",
    }


async def test_metrics_are_exposed_in_both_formats(site: Site) -> None:
    async with site.client.get("/metrics", headers={"Accept": "text/plain"}) as answer:
        assert answer.status == 200
        assert answer.content_type == "text/plain"
        assert "reconciler_ready 0.0" in await answer.text()
    site.board.enter(Phase.RUNNING)
    accept = "application/openmetrics-text; version=1.0.0"
    async with site.client.get("/metrics", headers={"Accept": accept}) as answer:
        assert answer.content_type == "application/openmetrics-text"
        text = await answer.text()
    assert "reconciler_ready 1.0" in text
    assert text.endswith("# EOF\n")


@pytest.mark.parametrize("address", [*ADDRESSES, "/metrics"])
async def test_methods_other_than_get_and_head_are_refused(site: Site, address: str) -> None:
    async with site.client.head(address) as answer:
        assert answer.status in (200, 503)
        assert await answer.read() == b""
    for method in ("POST", "PUT", "DELETE"):
        async with site.client.request(method, address) as answer:
            assert answer.status == 405


@pytest.mark.parametrize("address", ["/", "/healthz", "/livez/deeper", "/metrics/"])
async def test_unknown_addresses_are_not_found(site: Site, address: str) -> None:
    async with site.client.get(address, allow_redirects=False) as answer:
        assert answer.status == 404


async def test_a_port_in_use_is_named_by_its_setting() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f"RECONCILER_HEALTH__PORT is {port}"):
            await serve(Starlette(), host="127.0.0.1", port=port, stop=asyncio.Event())


async def test_a_foreign_address_is_named_by_its_setting() -> None:
    with pytest.raises(ConfigurationError, match=r"RECONCILER_HEALTH__HOST is 192\.0\.2\.1"):
        await serve(Starlette(), host="192.0.2.1", port=0, stop=asyncio.Event())


async def test_the_server_leaves_signals_alone() -> None:
    before = [signal.getsignal(signum) for signum in (signal.SIGTERM, signal.SIGINT)]
    async with (
        serving(Starlette(), asyncio.Event()) as port,
        aiohttp.ClientSession() as client,
        client.get(f"http://127.0.0.1:{port}/"),
    ):
        during = [signal.getsignal(signum) for signum in (signal.SIGTERM, signal.SIGINT)]

    assert during == before


async def test_closing_is_bounded_though_a_handler_hangs() -> None:
    entered, released = asyncio.Event(), asyncio.Event()

    async def hang(_request: Request) -> Response:
        entered.set()
        await released.wait()
        return PlainTextResponse("late")

    app, stop = Starlette(routes=[Route("/", hang)]), asyncio.Event()
    async with serving(app, stop) as port, asyncio.timeout(10):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        await entered.wait()
        stop.set()

    writer.close()
    assert not released.is_set()


async def test_the_port_is_free_again_after_a_cancelled_server() -> None:
    bound: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    first = asyncio.create_task(
        serve(
            Starlette(),
            host="127.0.0.1",
            port=0,
            stop=asyncio.Event(),
            on_listening=bound.set_result,
        )
    )
    port = await bound
    async with aiohttp.ClientSession() as client:
        async with client.get(f"http://127.0.0.1:{port}/") as answer:
            assert answer.status == 404
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        with pytest.raises(aiohttp.ClientConnectionError):
            await client.get(f"http://127.0.0.1:{port}/")
