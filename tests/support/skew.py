"""A process whose wall clock is wrong, by libfaketime; its monotonic clock stays what it is."""

from pathlib import Path

_PATTERNS = (
    "usr/lib/*/faketime/libfaketimeMT.so.1",
    "usr/lib*/faketime/libfaketimeMT.so.1",
    "usr/local/lib/faketime/libfaketimeMT.so.1",
)


def faketime_library() -> Path | None:
    """The library for processes of several threads; None where it is not installed."""
    found = (path for pattern in _PATTERNS for path in sorted(Path("/").glob(pattern)))
    return next(found, None)


def skewed(seconds: float) -> dict[str, str]:
    """Environment variables that shift the wall clock of a child by `seconds`.

    The event loop and threads wait as long as they should; `time.sleep` of Python 3.11 fails under
    it, which nothing in the service calls. Raises FileNotFoundError where there is no libfaketime.
    """
    library = faketime_library()
    if library is None:
        raise FileNotFoundError("libfaketime is not installed (Debian: libfaketime)")
    return {
        "LD_PRELOAD": str(library),
        "FAKETIME": f"{seconds:+.3f}",
        # The loop's timers and the local trust in leases count on it.
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "NO_FAKE_STAT": "1",
    }
