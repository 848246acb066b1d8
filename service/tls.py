"""TLS of a client: certificates from files that may be renewed while the process runs."""

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from service.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """PEM files and the settings that name them; without `ca_file` the system's authorities.

    A private key that is encrypted needs `key_password`.
    """

    ca_setting: str
    own_setting: str
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    key_password: str | None = field(default=None, repr=False)

    @property
    def given(self) -> tuple[Path, ...]:
        """The files that are named."""
        files = (self.ca_file, self.cert_file, self.key_file)
        return tuple(Path(file) for file in files if file)


def client_context(files: TlsFiles, *, check_hostname: bool = True) -> ssl.SSLContext:
    """A context that demands a valid server certificate, made out to the host where asked for.

    Files that change are read again at the next connection. Raises ConfigurationError for files
    that cannot be used.
    """
    context = _RenewedContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = check_hostname
    if files.ca_file is None:
        context.load_default_certs()
    context.follow(files)
    return context


class _RenewedContext(ssl.SSLContext):
    """Looks before each handshake whether its files are still those it has read.

    A renewed authority joins those that were trusted before; only a new process forgets them.
    """

    _files: TlsFiles
    _read: tuple[tuple[int, int], ...]

    def follow(self, files: TlsFiles) -> None:
        """Read the files and remember which they were."""
        self._files = files
        self._read = ()
        self._renew()

    def wrap_bio(self, *args: Any, **named: Any) -> ssl.SSLObject:
        """Begin a handshake as asyncio does. Raises OSError for files that cannot be used."""
        try:
            self._renew()
        except ConfigurationError as error:
            # Half a renewal: whoever connects waits and tries again, as for a server that is away.
            raise ConnectionError(str(error)) from error
        return super().wrap_bio(*args, **named)

    def _renew(self) -> None:
        files = self._files
        seen = _states(files)
        if seen and seen == self._read:
            return
        if files.ca_file:
            try:
                self.load_verify_locations(files.ca_file)
            except OSError as error:
                raise _unusable(files.ca_setting, error) from error
        if files.cert_file:
            try:
                # Without a password OpenSSL would ask for one at the terminal.
                self.load_cert_chain(files.cert_file, files.key_file, files.key_password or "")
            except OSError as error:
                raise _unusable(files.own_setting, error) from error
        self._read = seen


def _states(files: TlsFiles) -> tuple[tuple[int, int], ...]:
    """What tells a renewed file from the old one; nothing while one is missing."""
    try:
        return tuple((stat.st_ino, stat.st_mtime_ns) for stat in (f.stat() for f in files.given))
    except OSError:
        return ()


def _unusable(setting: str, error: OSError) -> ConfigurationError:
    return ConfigurationError(
        f"{setting} cannot be used ({type(error).__name__}: {error.strerror or 'unreadable'});"
        " give PEM files that this user can read and that belong together"
    )
