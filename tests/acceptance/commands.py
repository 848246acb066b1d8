"""The command line as an operator meets it: its own process, exit code and two streams."""

import asyncio
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from tests.support.processes import clean_environment

COMMAND_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Ended:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        """Both streams: what a person at the terminal has seen."""
        return self.out + self.err


async def reconciler(*arguments: str, settings: Mapping[str, str] | None = None) -> Ended:
    """Run one command to its end; raises TimeoutError for one that does not end."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "service",
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**clean_environment(), "NO_COLOR": "1", **(settings or {})},
        cwd="/",
    )
    try:
        async with asyncio.timeout(COMMAND_SECONDS):
            out, err = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        raise
    return Ended(process.returncode or 0, out.decode(), err.decode())
