"""Loopback ports for servers that must come back on the same one after a restart."""

import secrets
import socket

LOOPBACK = "127.0.0.1"
# Below the ephemeral ranges of Linux and macOS: while the server is down no outgoing connection
# can take its port, nor can a client that keeps trying be connected to itself.
_FIRST, _LAST = 20_000, 29_999
_TRIES_MAX = 100


def free_port() -> int:
    """Return a port on loopback that nobody listens on now; raises OSError where none is found."""
    for _ in range(_TRIES_MAX):
        port = _FIRST + secrets.randbelow(_LAST - _FIRST + 1)
        with socket.socket() as candidate:
            candidate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                candidate.bind((LOOPBACK, port))
            except OSError:
                continue
            return port
    raise OSError(f"no free port between {_FIRST} and {_LAST} after {_TRIES_MAX} tries")
