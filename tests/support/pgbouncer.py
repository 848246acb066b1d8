"""A PgBouncer in transaction mode: after each transaction a client may meet another session."""

import asyncio
import os
import pwd
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from signal import SIGTERM
from urllib.parse import urlsplit

from service.sandbox.child import Account, ChildProcess, Command
from service.sandbox.ports import LOOPBACK, free_port

_START_SECONDS = 20.0
_STOP_SECONDS = 10.0
_POLL_SECONDS = 0.02


def pgbouncer_program() -> str | None:
    """The path of PgBouncer, or None where it is not installed."""
    return shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")


@asynccontextmanager
async def pgbouncer(program: str, url: str, *, ignored: str, sessions: int) -> AsyncIterator[str]:
    """Run it before the server of `url`; gives the URL of the same database through it.

    `ignored` are the start-up parameters that it lets pass, `sessions` those it shares out.
    """
    directory = Path(tempfile.mkdtemp(prefix="payment-reconciler-pgbouncer-"))
    try:
        port = free_port()
        settings = directory / "pgbouncer.ini"
        settings.write_text(_settings(url, port, ignored, sessions), encoding="utf-8")
        account = _hand_over(directory)
        child = ChildProcess(
            Command(
                argv=[program, str(settings)],
                env={"PATH": os.defpath},
                log=directory / "pgbouncer.log",
                account=account,
                scratch=directory,
            )
        )
        try:
            await _listening(child, port)
            yield url.replace(f":{urlsplit(url).port}/", f":{port}/")
        finally:
            await child.stop(SIGTERM, within_seconds=_STOP_SECONDS)
    finally:
        await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)


def _settings(url: str, port: int, ignored: str, sessions: int) -> str:
    server = urlsplit(url)
    return f"""
[databases]
* = host={server.hostname} port={server.port} user={server.username}
[pgbouncer]
listen_addr = {LOOPBACK}
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {sessions}
max_client_conn = 200
server_round_robin = 1
ignore_startup_parameters = {ignored}
"""


async def _listening(child: ChildProcess, port: int) -> None:
    async with asyncio.timeout(_START_SECONDS):
        while True:
            if not child.running:
                raise RuntimeError(f"PgBouncer did not start:\n{child.log_tail()}")
            try:
                _, writer = await asyncio.open_connection(LOOPBACK, port)
            except OSError:
                await asyncio.sleep(_POLL_SECONDS)
                continue
            writer.close()
            await writer.wait_closed()
            return


def _hand_over(directory: Path) -> Account | None:
    """It refuses to run as root, as the server does."""
    if os.geteuid() != 0:
        return None
    nobody = pwd.getpwnam("nobody")
    os.chown(directory, nobody.pw_uid, nobody.pw_gid)
    return Account(nobody.pw_uid, nobody.pw_gid)
