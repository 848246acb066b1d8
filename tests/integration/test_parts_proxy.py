"""The proxy that faults are made with: it does what it says, and lets go of everything."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.support.proxy import Cut, TcpProxy, database_proxy, tcp_proxy
from tests.support.waiting import eventually

ENDED = (b"", ConnectionResetError)


class Echo:
    """A server that answers each piece with itself, and keeps what it has heard."""

    def __init__(self) -> None:
        self.heard = b""

    @asynccontextmanager
    async def listening(self, port: int = 0) -> AsyncIterator[int]:
        writers: list[asyncio.StreamWriter] = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writers.append(writer)
            while piece := await reader.read(100):
                self.heard += piece
                writer.write(piece)
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", port)
        yield int(server.sockets[0].getsockname()[1])
        server.close()
        for writer in writers:
            writer.close()


class Client:
    """One connection through the proxy."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    async def says(self, piece: bytes) -> None:
        self.writer.write(piece)
        await self.writer.drain()

    async def hears(self) -> bytes | type[Exception]:
        """The next answer, b"" or the error's class at the end."""
        async with asyncio.timeout(5):
            try:
                return await self._reader.read(100)
            except ConnectionError as error:
                return type(error)


@asynccontextmanager
async def client_of(proxy: TcpProxy) -> AsyncIterator[Client]:
    client = Client(*await asyncio.open_connection("127.0.0.1", proxy.port))
    yield client
    client.writer.close()


async def test_proxy_forwards_after_its_latency() -> None:
    async with (
        Echo().listening() as port,
        tcp_proxy("127.0.0.1", port) as proxy,
        client_of(proxy) as client,
    ):
        proxy.latency_seconds = 0.1
        asked = time.monotonic()
        await client.says(b"one")
        assert await client.hears() == b"one"
        assert time.monotonic() - asked >= 0.2


async def test_black_hole_holds_everything_until_it_ends() -> None:
    echo = Echo()
    async with (
        echo.listening() as port,
        tcp_proxy("127.0.0.1", port) as proxy,
        client_of(proxy) as client,
    ):
        await client.says(b"one")
        assert await client.hears() == b"one"
        proxy.black_hole = True
        await client.says(b"two")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await client.hears()
        assert echo.heard == b"one"
        proxy.black_hole = False
        assert await client.hears() == b"two"


async def test_cut_and_refusal_end_connections_and_later_ones_work() -> None:
    async with Echo().listening() as port, tcp_proxy("127.0.0.1", port) as proxy:
        async with client_of(proxy) as client:
            await client.says(b"one")
            assert await client.hears() == b"one"
            proxy.refuse = True
            proxy.cut()
            assert await client.hears() in ENDED
        async with client_of(proxy) as client:
            assert await client.hears() in ENDED
        proxy.refuse = False
        async with client_of(proxy) as client:
            await client.says(b"two")
            assert await client.hears() == b"two"
    assert proxy.connections == 0


async def test_proxy_outlives_its_server_and_keeps_its_own_port() -> None:
    async with Echo().listening() as port:
        pass
    async with tcp_proxy("127.0.0.1", port) as proxy:
        async with client_of(proxy) as client:
            assert await client.hears() in ENDED
        async with Echo().listening(port), client_of(proxy) as client:
            await client.says(b"one")
            assert await client.hears() == b"one"
    async with Echo().listening() as other, tcp_proxy("127.0.0.1", other, proxy.port) as again:
        assert again.port == proxy.port


async def test_answer_of_a_commit_is_lost_once_and_the_server_has_heard_it() -> None:
    commit = b"Q\x00\x00\x00\x0cCOMMIT;\x00"
    echo = Echo()
    async with echo.listening() as port, tcp_proxy("127.0.0.1", port) as proxy:
        proxy.lose_commit_answer()
        async with client_of(proxy) as client:
            await client.says(b"Qxxxxother")
            assert await client.hears() == b"Qxxxxother"
            await client.says(commit)
            assert await client.hears() in ENDED
        await eventually(lambda: echo.heard.endswith(commit))
        async with client_of(proxy) as client:
            await client.says(commit)
            assert await client.hears() == commit
    assert proxy.cuts == 1


async def test_messages_are_told_apart_however_they_arrive() -> None:
    startup = b"\x00\x00\x00\x08\x04\xd2\x16\x2f" + b"\x00\x00\x00\x09\x00\x03\x00\x00\x00"
    messages = [b"P\x00\x00\x00\x06ab", b"S\x00\x00\x00\x04", b"Q\x00\x00\x00\x05c"]
    seen: list[bytes] = []

    def look(message: bytes) -> Cut | None:
        seen.append(message)
        return Cut.BEFORE if message == messages[-1] else None

    echo = Echo()
    async with (
        echo.listening() as port,
        database_proxy(f"postgresql://127.0.0.1:{port}/x") as proxy,
    ):
        proxy.on_message = look
        async with client_of(proxy) as client:
            for byte in startup + b"".join(messages):
                await client.says(bytes([byte]))
            await eventually(lambda: proxy.cuts)
    assert seen == [startup[:8], startup[8:], *messages]
    assert echo.heard == startup + b"".join(messages[:-1])
