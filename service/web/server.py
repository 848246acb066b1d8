"""An HTTP server inside the service's own event loop, which neither takes signals nor outstays."""

import asyncio
import contextlib
import errno
import socket
from collections.abc import Callable, Iterator

import uvicorn
from starlette.applications import Starlette

from service.errors import ConfigurationError, Problem

_BACKLOG = 128
_CONNECTIONS_MAX = 100
_KEEP_ALIVE_SECONDS = 5
_GRACE_SECONDS = 2
_CLOSE_SECONDS = 5.0


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers: one place in the process decides about stopping."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve(
    app: Starlette,
    *,
    host: str,
    port: int,
    stop: asyncio.Event,
    on_listening: Callable[[int], None] | None = None,
) -> None:
    """Answer on `host`:`port` until `stop` is set, then close within seconds.

    `on_listening` gets the port that is bound, which for port 0 the system chooses. Where probes
    shall be answered during a drain, `stop` is the event that ends it. Names the health port's
    settings in its errors.

    Raises:
        ConfigurationError: the address cannot be bound.
    """
    listener = await listen(host, port)
    server = _Server(_config(app))
    try:
        if on_listening is not None:
            on_listening(listener.getsockname()[1])
        await _until_stopped(server, listener, stop)
    finally:
        listener.close()


async def listen(host: str, port: int) -> socket.socket:
    """Bind and listen; raises ConfigurationError that names the setting at fault."""
    try:
        infos = await asyncio.get_running_loop().getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, _, _, _, address = infos[0]
        both = family == socket.AF_INET6 and host == "::" and socket.has_dualstack_ipv6()
        return socket.create_server(address, family=family, backlog=_BACKLOG, dualstack_ipv6=both)
    except OSError as error:
        raise ConfigurationError(_unbindable(host, port, error)) from error


async def _until_stopped(server: _Server, listener: socket.socket, stop: asyncio.Event) -> None:
    serving = asyncio.create_task(server.serve(sockets=[listener]), name="http server")
    stopping = asyncio.create_task(stop.wait(), name="http server's stop")
    try:
        await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        server.should_exit = True
        async with asyncio.timeout(_CLOSE_SECONDS):
            await serving
    finally:
        await _end(serving, stopping)
        _close(server)


def _close(server: _Server) -> None:
    """Close what a cancelled server leaves behind; a no-op after an orderly end."""
    for endpoint in server.servers if server.started else ():
        endpoint.close()
    for connection in list(server.server_state.connections):
        connection.shutdown()


async def _end(*tasks: asyncio.Task[None] | asyncio.Task[bool]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks, timeout=_CLOSE_SECONDS)


def _config(app: Starlette) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=_CONNECTIONS_MAX,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )


def _unbindable(host: str, port: int, error: OSError) -> Problem:
    if error.errno == errno.EADDRINUSE:
        return Problem(
            "RECONCILER_HEALTH__PORT", str(port), "a free port", "another process has it; choose"
        )
    if error.errno in (errno.EACCES, errno.EPERM):
        return Problem(
            "RECONCILER_HEALTH__PORT",
            str(port),
            "a port this user may bind",
            "choose one above 1023",
        )
    return Problem(
        "RECONCILER_HEALTH__HOST",
        host,
        "an address of this machine",
        "choose 0.0.0.0, :: or 127.0.0.1",
    )
