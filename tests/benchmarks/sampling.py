"""What a process measures of itself: event-loop lag, peak memory, where its CPU time goes."""

import asyncio
import resource
import signal
import sys
import time
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType

TICK_SECONDS = 0.01
PROFILE_TICK_SECONDS = 0.002
_PROFILE_LINES = 60


class LoopLag:
    """How late the event loop wakes a sleeper of ten milliseconds, tick by tick, in seconds."""

    def __init__(self) -> None:
        self._late = array("d")

    async def until(self, condition: Callable[[], bool]) -> None:
        """Sample until the condition holds; the caller has a deadline."""
        while not condition():
            due = time.perf_counter() + TICK_SECONDS
            await asyncio.sleep(TICK_SECONDS)
            self._late.append(max(0.0, time.perf_counter() - due))

    def percentile(self, share: float) -> float:
        """The lag that `share` of the ticks stayed within; 1.0 gives the worst."""
        ordered = sorted(self._late)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def peak_memory_bytes() -> int:
    """The most memory that this process held at a time, in RAM.

    Linux counts getrusage's maximum on from the parent's size at the fork, so there the memory
    map's own high-water mark is read.
    """
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


@contextmanager
def sampled_profile(file: Path | None) -> Iterator[None]:
    """Look every two milliseconds of CPU time at what is running, and write what was seen.

    A function's own share is where the time was spent, its whole share includes what it called.
    Unlike a tracing profiler this hardly slows anything, so the shares are true.
    """
    if file is None:
        yield
        return
    own: Counter[CodeType] = Counter()
    whole: Counter[CodeType] = Counter()

    def look(_signum: int, frame: FrameType | None) -> None:
        if frame is not None:
            own[frame.f_code] += 1
        seen = set()
        while frame is not None:
            seen.add(frame.f_code)
            frame = frame.f_back
        whole.update(seen)

    signal.signal(signal.SIGPROF, look)
    signal.setitimer(signal.ITIMER_PROF, PROFILE_TICK_SECONDS, PROFILE_TICK_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    file.write_text(f"own\n{_shares(own, own.total())}\nwhole\n{_shares(whole, own.total())}")


def _shares(counts: Counter[CodeType], total: int) -> str:
    return "".join(
        f"{count / total:7.1%}  {code.co_qualname}"
        f"  {'/'.join(Path(code.co_filename).parts[-3:])}:{code.co_firstlineno}\n"
        for code, count in counts.most_common(_PROFILE_LINES)
    )
