"""A PostgreSQL that lets the service's roles in over TLS alone; the superuser comes without."""

import os
import pwd
import secrets
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg

from service.sandbox.ports import LOOPBACK
from service.sandbox.postgres import EmbeddedPostgres
from service.sandbox.running import Running
from tests.support.certificates import Authority, Certificate
from tests.support.postgres import OPTIONS, chosen_bin_dir

ROLE = "reconciler"
"""Comes with a password."""
CARD_HOLDER = "card-holder"
"""Comes with a client certificate made out to this name."""
DATABASE = "payments"

_HBA = f"""
hostssl all {ROLE} {LOOPBACK}/32 scram-sha-256
hostssl all "{CARD_HOLDER}" {LOOPBACK}/32 cert
hostnossl all postgres {LOOPBACK}/32 trust
"""
_CONNECT_SECONDS = 10.0


class SecurePostgres(Running):
    """A server that shows `certificate` and believes in the clients of `authority`, with an empty
    database that belongs to both roles. Runs while the block runs.
    """

    def __init__(self, authority: Authority, certificate: Certificate, *, bin_dir: Path) -> None:
        hba = certificate.chain.with_name("pg_hba.conf")
        hba.write_text(_HBA, encoding="utf-8")
        _hand_over(certificate.key)
        options = {
            **OPTIONS,
            "hba_file": str(hba),
            "ssl": "on",
            "ssl_ca_file": str(authority.ca_file),
            "ssl_cert_file": str(certificate.chain),
            "ssl_key_file": str(certificate.key),
        }
        self.password = secrets.token_urlsafe(24)
        self._server = EmbeddedPostgres(bin_dir=bin_dir, options=options)

    async def start(self) -> None:
        """Start it and make the roles and the database."""
        await self._server.start()
        async with self._connected("postgres") as connection:
            await connection.execute(f"CREATE ROLE {ROLE} LOGIN PASSWORD '{self.password}'")
            await connection.execute(f'CREATE ROLE "{CARD_HOLDER}" LOGIN IN ROLE {ROLE}')
            await connection.execute(f"CREATE DATABASE {DATABASE} OWNER {ROLE}")

    async def close(self) -> None:
        """End it and remove its data."""
        await self._server.close()

    def url(self, *, role: str = ROLE, password: str | None = None, host: str = LOOPBACK) -> str:
        """The URL of the database, with a password where one is given."""
        user = role if password is None else f"{role}:{password}"
        return f"postgresql://{user}@{host}:{self._server.port}/{DATABASE}"

    async def change_password(self, password: str) -> None:
        """Give ROLE another password and end all its sessions."""
        async with self.administrator() as connection:
            await connection.execute(f"ALTER ROLE {ROLE} PASSWORD '{password}'")
            await connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1", ROLE
            )
        self.password = password

    @asynccontextmanager
    async def administrator(self) -> AsyncIterator[Any]:
        """The superuser's connection to the database."""
        async with self._connected(DATABASE) as connection:
            yield connection

    @asynccontextmanager
    async def _connected(self, database: str) -> AsyncIterator[Any]:
        connection: Any = await asyncpg.connect(
            self._server.url_of(database), timeout=_CONNECT_SECONDS, ssl="disable"
        )
        try:
            yield connection
        finally:
            await connection.close()


def tls_bin_dir() -> Path | None:
    """The binaries of a PostgreSQL that was built with OpenSSL, or None: the wheel's was not."""
    chosen, found = chosen_bin_dir(), shutil.which("pg_config")
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    candidates = [
        *([chosen] if chosen else []),
        *installed,
        *([Path(found).resolve().parent] if found else []),
    ]
    return next((bin_dir for bin_dir in candidates if _speaks_tls(bin_dir)), None)


def _speaks_tls(bin_dir: Path) -> bool:
    program = bin_dir / "pg_config"
    if not (bin_dir / "postgres").exists() or not program.exists():
        return False
    asked = [str(program), "--configure"]
    said = subprocess.run(asked, check=False, capture_output=True, text=True, timeout=30).stdout
    return "openssl" in said


def _hand_over(key: Path) -> None:
    """Started by root the server runs as nobody, and takes no key that others can read."""
    if os.geteuid() == 0:
        os.chown(key, pwd.getpwnam("nobody").pw_uid, -1)
