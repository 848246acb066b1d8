"""The bearer token, read anew from its file so that a rotated secret needs no restart."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

_TOKEN_BYTES_MAX = 16 * 1024
_FRESH_SECONDS = 1.0


class TokenError(Exception):
    """The token file is missing, unreadable, empty or not a header value. Tells no content."""


class TokenFile:
    """A file that holds nothing but the token; white space around it is dropped.

    It is read in a thread, for a mounted secret may lie on a file system that hangs, and at most
    once a second, for a thread a request would halve the requests a process can make. Whoever
    rotates a token leaves the old one valid for longer than that.
    """

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._authorization: str | None = None
        self._fresh_until = 0.0

    async def authorization(self) -> str:
        """Return the value of the `Authorization` header; raises TokenError."""
        now = self._clock()
        if self._authorization is None or now >= self._fresh_until:
            self._fresh_until = now + _FRESH_SECONDS  # the others go on with what there is
            try:
                self._authorization = f"Bearer {await self._token()}"
            except TokenError:
                self._authorization = None  # a token that was taken away is not used on
                raise
        return self._authorization

    async def _token(self) -> str:
        try:
            raw = await asyncio.to_thread(self._read)
            token = raw.decode("ascii").strip()
        except OSError as error:
            raise TokenError(f"token file: {error.strerror}") from None
        except UnicodeDecodeError:
            raise TokenError("token file: not ASCII") from None
        if not token or len(raw) > _TOKEN_BYTES_MAX or not token.isprintable() or " " in token:
            raise TokenError("token file: does not hold exactly one token")
        return token

    def _read(self) -> bytes:
        with self._path.open("rb") as file:
            return file.read(_TOKEN_BYTES_MAX + 1)
