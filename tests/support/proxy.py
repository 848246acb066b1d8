"""A TCP proxy that delays, falls silent, refuses, cuts, and loses the answer to a COMMIT."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from enum import StrEnum
from urllib.parse import urlsplit, urlunsplit

from tests.support.frontend import Frontend, is_commit

_CHUNK_BYTES = 65_536
_CLOSE_SECONDS = 1.0


class Cut(StrEnum):
    """Whether the connection is cut before a message reaches the server, or after."""

    BEFORE = "before"  # the server never sees it
    AFTER = "after"  # the server does it, and its answer is lost


class _Lost(Exception):  # noqa: N818 - named after what happened
    """This connection is over at once."""


class TcpProxy:
    """Forwards to one address. Everything but `port` may be changed at any moment.

    `upstream` is where new connections lead; open ones stay where they are. `latency_seconds`
    delays each piece, in each direction. `refuse` closes new connections at once. `cuts` counts
    the connections that a message's fate has ended. `on_message` is asked about each message of a
    PostgreSQL client (only where the proxy was opened to read them).
    """

    def __init__(self, host: str, port: int, *, reads_messages: bool) -> None:
        self.port = 0
        self.latency_seconds: float = 0
        self.refuse = False
        self.cuts = 0
        self.on_message: Callable[[bytes], Cut | None] | None = None
        self.upstream = (host, port)
        self._reads_messages = reads_messages
        self._commit: Cut | None = None
        self._talking = asyncio.Event()
        self._talking.set()
        self._open: dict[asyncio.Task[None], set[asyncio.StreamWriter]] = {}

    @property
    def black_hole(self) -> bool:
        """While true connections stay open and nothing is forwarded; what is held goes on later."""
        return not self._talking.is_set()

    @black_hole.setter
    def black_hole(self, silent: bool) -> None:
        if silent:
            self._talking.clear()
        else:
            self._talking.set()

    @property
    def connections(self) -> int:
        """How many connections are open now."""
        return len(self._open)

    def cut(self) -> None:
        """Abort all connections now; what was held of them is lost."""
        for task, writers in self._open.items():
            for writer in writers:
                writer.transport.abort()
            task.cancel()

    def lose_commit_answer(self) -> None:
        """The next COMMIT reaches the server, and the client never hears of it."""
        self.cut_commit(Cut.AFTER)

    def cut_commit(self, cut: Cut) -> None:
        """Cut the connection that carries the next COMMIT."""
        self._commit = cut

    def url(self, url: str) -> str:
        """The same database's URL, through this proxy."""
        parts = urlsplit(url)
        credentials = parts.netloc.rpartition("@")[0]
        address = f"127.0.0.1:{self.port}"
        return urlunsplit(
            parts._replace(netloc=f"{credentials}@{address}" if credentials else address)
        )

    async def serve(self, client: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
        """One connection, until either side ends it."""
        task = asyncio.current_task()
        if self.refuse or task is None:
            answers.transport.abort()
            return
        self._open[task] = {answers}
        try:
            await self._talking.wait()
            server, requests = await asyncio.open_connection(*self.upstream)
            self._open[task].add(requests)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._requests(client, requests, answers))
                group.create_task(self._pump(server, answers))
        except* (OSError, _Lost):
            pass
        except* asyncio.CancelledError:
            pass  # cut: nobody waits for this connection's end but `close`
        finally:
            try:
                await _close(self._open[task])
            finally:
                del self._open[task]

    async def close(self) -> None:
        """End every connection and wait for its end."""
        self._talking.set()
        tasks = set(self._open)
        self.cut()
        if tasks:
            await asyncio.wait(tasks)

    async def _requests(
        self,
        client: asyncio.StreamReader,
        requests: asyncio.StreamWriter,
        answers: asyncio.StreamWriter,
    ) -> None:
        """Forward the client's messages, or pieces of them, until one of them is its last."""
        frontend = Frontend() if self._reads_messages else None
        while piece := await client.read(_CHUNK_BYTES):
            await self._pass()
            for message in frontend.messages(piece) if frontend else (piece,):
                if cut := self._fate(message):
                    self._lose(answers, cut)
                    # No answer is read any more, but the server does it before it hangs up.
                    requests.write(message)
                    requests.write_eof()
                    return
                await self._talking.wait()
                await _write(requests, message)
        requests.close()

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while piece := await source.read(_CHUNK_BYTES):
            await self._pass()
            await _write(sink, piece)
        sink.close()

    def _lose(self, answers: asyncio.StreamWriter, cut: Cut) -> None:
        self.cuts += 1
        answers.transport.abort()
        if cut is Cut.BEFORE:
            raise _Lost

    async def _pass(self) -> None:
        if self.latency_seconds:
            await asyncio.sleep(self.latency_seconds)
        await self._talking.wait()

    def _fate(self, message: bytes) -> Cut | None:
        if self._commit is not None and is_commit(message):
            cut, self._commit = self._commit, None
            return cut
        return self.on_message(message) if self.on_message else None


@asynccontextmanager
async def tcp_proxy(
    host: str, port: int, listen_port: int | None = None, *, reads_messages: bool = False
) -> AsyncIterator[TcpProxy]:
    """Open a proxy before an address, which need not answer yet; its `port` is on 127.0.0.1.

    Without `listen_port` a free port is taken. `reads_messages` is for PostgreSQL without TLS.
    """
    proxy = TcpProxy(host, port, reads_messages=reads_messages)
    listening = await asyncio.start_server(proxy.serve, "127.0.0.1", listen_port or 0)
    proxy.port = listening.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        listening.close()
        await asyncio.sleep(0)  # what was accepted just now begins, and is closed like the others
        await proxy.close()


@asynccontextmanager
async def database_proxy(url: str) -> AsyncIterator[TcpProxy]:
    """Open a proxy before the database behind `url`; it reads the client's messages."""
    parts = urlsplit(url)
    upstream = parts.hostname or "127.0.0.1", parts.port or 5432
    async with tcp_proxy(*upstream, reads_messages=True) as proxy:
        yield proxy


async def _write(sink: asyncio.StreamWriter, piece: bytes) -> None:
    """Write to a side that may be gone: what the other side still says is read all the same."""
    with suppress(ConnectionError):
        if not sink.is_closing():
            sink.write(piece)
            await sink.drain()


async def _close(writers: set[asyncio.StreamWriter]) -> None:
    """Close with what is left to send; a peer that takes nothing is cut off."""
    for writer in writers:
        writer.close()
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(_CLOSE_SECONDS):
            for writer in writers:
                await writer.wait_closed()
    for writer in writers:
        writer.transport.abort()
