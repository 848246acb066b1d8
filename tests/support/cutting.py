"""A TCP proxy before the database that loses answers, refuses requests, or falls silent."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import StrEnum
from urllib.parse import urlsplit, urlunsplit

_CHUNK_BYTES = 65_536


class Cut(StrEnum):
    """When the connection that carries the next COMMIT is cut."""

    BEFORE = "before"  # the server never sees it
    AFTER = "after"  # the server does it, and its answer is lost


class CuttingProxy:
    """Forwards to the database behind `url`; falls silent while `talking` is not set."""

    def __init__(self) -> None:
        self.url = ""
        self.cut: Cut | None = None
        self.cuts = 0
        self.talking = asyncio.Event()
        self.talking.set()
        self._writers: set[asyncio.StreamWriter] = set()

    async def forward(
        self, host: str, port: int, client: asyncio.StreamReader, answers: asyncio.StreamWriter
    ) -> None:
        """Serve one connection until either side ends it."""
        server, requests = await asyncio.open_connection(host, port)
        self._writers |= {answers, requests}
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(client, requests, server, answers))
                group.create_task(self._pump(server, answers, None, None))
        except* (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self.hang_up({answers, requests})

    def hang_up(self, writers: set[asyncio.StreamWriter] | None = None) -> None:
        """Close some connections, or all."""
        for writer in writers or set(self._writers):
            writer.close()
            self._writers.discard(writer)

    async def _pump(
        self,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
        replies: asyncio.StreamReader | None,
        answers: asyncio.StreamWriter | None,
    ) -> None:
        while chunk := await source.read(_CHUNK_BYTES):
            await self.talking.wait()
            if replies is not None and answers is not None and self.cut and b"COMMIT" in chunk:
                cut, self.cut = self.cut, None
                self.cuts += 1
                answers.transport.abort()
                if cut is Cut.AFTER:
                    sink.write(chunk)
                    await sink.drain()
                raise ConnectionResetError
            sink.write(chunk)
            await sink.drain()
        sink.close()


@asynccontextmanager
async def cutting_proxy(url: str) -> AsyncIterator[CuttingProxy]:
    """Open the proxy; its `url` leads to the same database."""
    parts = urlsplit(url)
    host, port = parts.hostname or "127.0.0.1", parts.port or 5432
    proxy = CuttingProxy()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await proxy.forward(host, port, reader, writer)

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    own_port = listening.sockets[0].getsockname()[1]
    user = f"{parts.username}@" if parts.username else ""
    proxy.url = urlunsplit(parts._replace(netloc=f"{user}127.0.0.1:{own_port}"))
    try:
        yield proxy
    finally:
        proxy.talking.set()
        proxy.hang_up()
        listening.close()
