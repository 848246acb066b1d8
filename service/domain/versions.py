"""Source versions: the pair that orders a source's events of one payment."""

from typing import NamedTuple


class Version(NamedTuple):
    """A source's (epoch, version); pairs compare epoch first.

    The source raises `epoch` when its counter restarts (restore, migration).
    """

    epoch: int
    version: int


UNSEEN = Version(0, -1)
"""Lower than every version that a source can send: nothing seen."""
