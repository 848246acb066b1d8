"""Certificates made while the tests run: authorities, and what they sign."""

import itertools
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import trustme
from cryptography.hazmat.primitives import serialization

YESTERDAY = timedelta(days=-1)
NEXT_WEEK = timedelta(days=7)


@dataclass(frozen=True)
class Certificate:
    """PEM files: the chain, its key, and both in one file (the key as PKCS#8, as Java wants it)."""

    chain: Path
    key: Path
    keystore: Path


class Authority:
    """A certificate authority of its own; a second one knows nothing of the first."""

    def __init__(self, directory: Path) -> None:
        self._authority = trustme.CA()
        self._directory = directory
        self._numbers = itertools.count(1)
        directory.mkdir()
        self.ca_file = directory / "ca.pem"
        self._authority.cert_pem.write_to_path(self.ca_file)

    def issue(
        self, *hosts: str, common_name: str | None = None, valid_for: timedelta = NEXT_WEEK
    ) -> Certificate:
        """Sign a certificate for these names or addresses; with YESTERDAY it has expired."""
        leaf = self._authority.issue_cert(
            *hosts, common_name=common_name, not_after=datetime.now(UTC) + valid_for
        )
        directory = self._directory / str(next(self._numbers))
        directory.mkdir()
        chain, key, keystore = (directory / f"{name}.pem" for name in ("chain", "key", "keystore"))
        pem = b"".join(part.bytes() for part in leaf.cert_chain_pems)
        chain.write_bytes(pem)
        key.write_bytes(leaf.private_key_pem.bytes())
        key.chmod(0o600)
        keystore.write_bytes(_pkcs8(leaf.private_key_pem.bytes()) + pem)
        return Certificate(chain, key, keystore)


def _pkcs8(pem: bytes) -> bytes:
    return serialization.load_pem_private_key(pem, password=None).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
