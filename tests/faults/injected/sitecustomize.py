"""Put on a child's PYTHONPATH by the fault tests: SIGUSR1 blocks its main thread.

For how many seconds stands in the file that STORM_BLOCK_FILE names, read at the signal.
"""

import os
import select
import signal
from pathlib import Path
from types import FrameType


def _block(_signum: int, _frame: FrameType | None) -> None:
    seconds = float(Path(os.environ["STORM_BLOCK_FILE"]).read_text(encoding="ascii"))
    # Not time.sleep: under libfaketime that fails on Python 3.11.
    select.select([], [], [], seconds)


if "STORM_BLOCK_FILE" in os.environ:
    signal.signal(signal.SIGUSR1, _block)
