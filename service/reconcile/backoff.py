"""How long to wait before the next try: doubling, bounded, and jittered over its whole length."""

import random

BACKOFF_MAX_SECONDS = 300.0
_DOUBLINGS_MAX = 16


def backoff_seconds(tries: int, *, longest_seconds: float = BACKOFF_MAX_SECONDS) -> float:
    """Between 0 and `min(longest, 2^tries)` seconds: full jitter, so that replicas spread out."""
    ceiling = min(longest_seconds, 2.0 ** min(tries, _DOUBLINGS_MAX))
    return random.uniform(0, ceiling)  # noqa: S311 - jitter, not a secret


def around(seconds: float) -> float:
    """Between half and the whole of `seconds`: rounds of several processes drift apart."""
    return random.uniform(seconds / 2, seconds)  # noqa: S311 - jitter, not a secret
