"""What the parts of this process say of themselves, put on the board: this sampler asks nobody."""

import asyncio
import time
from collections.abc import Callable
from math import inf
from typing import Final

from service.lifecycle import wait_for_stop
from service.web.checks import Status
from service.web.snapshot import Check, HealthBoard

SAMPLE_SECONDS: Final = 1.0

Report = Callable[[], list[Check]]


class PartsSampler:
    """Publishes what each part's report says, once a second.

    A key that a part no longer reports (the lag of a partition given back) leaves the board.
    """

    def __init__(self, board: HealthBoard) -> None:
        self._board = board
        self._reports: list[Report] = []

    def add(self, report: Report) -> None:
        """Ask `report` at every round."""
        self._reports.append(report)

    async def run(self, stop: asyncio.Event) -> None:
        """Publish until `stop`."""
        reported: set[str] = set()
        while True:
            checks = [check for report in self._reports for check in report()]
            keys = {check.key for check in checks}
            for gone in reported - keys:
                self._board.withdraw(gone)
            self._board.publish(*checks)
            reported = keys
            if await wait_for_stop(stop, SAMPLE_SECONDS):
                return


def age_check(
    component: str,
    measurement: str,
    at: float | None,
    *,
    warn_seconds: float,
    fail_seconds: float = inf,
) -> Check:
    """How long ago something last went well; `at` is on the monotonic clock, None for never."""
    if at is None:
        return Check(component, measurement, Status.PASS, output="not yet")
    age = time.monotonic() - at
    status = Status.WARN if age > warn_seconds else Status.PASS
    if age > fail_seconds:
        status = Status.FAIL
    return Check(component, measurement, status, round(age, 2), "s")
