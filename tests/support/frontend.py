"""The messages that a PostgreSQL client sends, told apart in its stream of bytes."""

from collections.abc import Iterator

_LENGTH_BYTES = 4
_STARTUP_BYTES = 8
_WITHOUT_TYPE = frozenset({80877102, 80877103, 80877104})  # cancel, TLS and GSS requests


class Frontend:
    """One connection's client side: whole messages out of pieces, the bytes unchanged."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._started = False

    def messages(self, piece: bytes) -> Iterator[bytes]:
        """The messages that `piece` completes, each with its type byte and its length."""
        self._kept += piece
        while (size := self._next_size()) is not None and len(self._kept) >= size:
            message = bytes(self._kept[:size])
            del self._kept[:size]
            if not self._started:
                code = int.from_bytes(message[_LENGTH_BYTES:_STARTUP_BYTES])
                self._started = code not in _WITHOUT_TYPE
            yield message

    def _next_size(self) -> int | None:
        """A first message has no type byte; None while too little of the next one is here."""
        start = 1 if self._started else 0
        if len(self._kept) < start + _LENGTH_BYTES:
            return None
        return start + int.from_bytes(self._kept[start : start + _LENGTH_BYTES])


def is_commit(message: bytes) -> bool:
    """Whether a message, or a piece that begins with one, is the simple query COMMIT."""
    return message[:1] == b"Q" and message[5:11].upper() == b"COMMIT"
