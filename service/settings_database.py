"""Settings of the PostgreSQL connection."""

from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr

from service.errors import ConfigurationError
from service.settings_fields import Group, Path, Seconds, missing

SslMode = Literal["disable", "allow", "prefer", "require", "verify-ca", "verify-full"]
URL_ALLOWED = "postgresql://user:password@host:5432/database"


def _postgresql(url: SecretStr) -> SecretStr:
    try:
        parts = urlsplit(url.get_secret_value())
    except ValueError:
        # The library's text repeats the URL, password included.
        raise ValueError(URL_ALLOWED) from None
    if "+" in parts.scheme:
        raise ValueError(f"{URL_ALLOWED}, without a driver name in the scheme")
    if parts.scheme not in ("postgresql", "postgres"):
        raise ValueError(URL_ALLOWED)
    return url


class DatabaseSettings(Group):
    """PostgreSQL 15 or newer; one pool a process."""

    # Password included, or in `password_file`. Needed by every command that touches payments.
    url: Annotated[SecretStr, AfterValidator(_postgresql)] | None = None
    # Read at each new connection, so that a rotated password needs no restart.
    password_file: Path | None = None
    pool_min: int = Field(default=1, ge=0, le=500)
    pool_max: int = Field(default=10, ge=1, le=500)
    connect_timeout_seconds: Seconds = 5.0
    # Set on every session: no statement, lock or idle transaction waits for ever.
    statement_timeout_seconds: Seconds = 15.0
    lock_timeout_seconds: Seconds = 5.0
    idle_in_transaction_timeout_seconds: Seconds = 30.0
    # Not set: what the URL says in `sslmode`, else prefer. With any of the files below the server's
    # certificate is verified, and its host too unless the mode is verify-ca. Without a root
    # certificate the verify modes trust the system's authorities. Files that change are read again.
    ssl_mode: SslMode | None = None
    ssl_root_cert_file: Path | None = None
    ssl_cert_file: Path | None = None
    ssl_key_file: Path | None = None
    # Off behind PgBouncer in transaction mode: prepared statements would meet foreign sessions. The
    # limits above have to be set on the role then, for no session begins with them there.
    statement_cache: bool = True

    def required_url(self) -> str:
        """The URL with its password; raises ConfigurationError where it is not set."""
        if self.url is None:
            raise ConfigurationError(missing("database.url", URL_ALLOWED))
        return self.url.get_secret_value()
