"""Fixtures: authorities, and the servers that are reached over TLS."""

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.certificates import Authority
from tests.support.kafka import MissingTool
from tests.support.kafka.secure import SecureKafka
from tests.support.secure_postgres import SecurePostgres, tls_bin_dir


@pytest.fixture(scope="session")
def directory() -> Iterator[Path]:
    """Certificates lie where a server that runs as somebody else can read them."""
    made = Path(tempfile.mkdtemp(prefix="payment-reconciler-tls-"))
    made.chmod(0o755)
    try:
        yield made
    finally:
        shutil.rmtree(made)


@pytest.fixture(scope="session")
def authority(directory: Path) -> Authority:
    """Signs what PostgreSQL and its clients show."""
    return Authority(directory / "postgres-authority")


@pytest.fixture(scope="session")
def stranger(directory: Path) -> Authority:
    """An authority that no server and no client of ours believes in."""
    return Authority(directory / "stranger")


@pytest.fixture(scope="session")
def tls_bin() -> Path:
    """PostgreSQL's binaries, built with OpenSSL."""
    bin_dir = tls_bin_dir()
    if bin_dir is None:
        pytest.skip("there is no PostgreSQL with OpenSSL on this machine: the wheel has none")
    return bin_dir


@pytest.fixture(scope="session")
def tls_postgres(authority: Authority, tls_bin: Path) -> Iterator[SecurePostgres]:
    """PostgreSQL as it should be."""
    server = SecurePostgres(authority, authority.issue("127.0.0.1"), bin_dir=tls_bin)
    try:
        asyncio.run(server.start())
        yield server
    finally:
        asyncio.run(server.close())


@pytest.fixture(scope="session")
def tls_kafka(directory: Path) -> Iterator[SecureKafka]:
    """Apache Kafka with a listener for every way in."""
    secure = SecureKafka(directory)
    try:
        asyncio.run(secure.kafka.start())
    except MissingTool as missing:
        pytest.skip(str(missing))
    try:
        yield secure
    finally:
        asyncio.run(secure.kafka.close())
