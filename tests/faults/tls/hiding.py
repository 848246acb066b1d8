"""Where a secret could be read by somebody who should not: it is in none of these places."""

from pathlib import Path

from tests.acceptance.commands import Ended
from tests.support.processes import ServiceProcess


def assert_command_hides(ended: Ended, *secrets: str) -> None:
    """Neither stream holds one of them, nor what a library left behind when it gave up."""
    for secret in secrets:
        assert secret not in ended.text
    assert "Traceback" not in ended.text


async def assert_service_hides(process: ServiceProcess, *secrets: str) -> None:
    """Log, command line, health bodies and metrics of a running process hold none of them."""
    places = {
        "log": "\n".join(process.log_lines()),
        "command line": _command_line(process.pid),
    }
    for path in ("/health", "/readyz", "/livez", "/metrics"):
        _, body = await process.health(path)
        places[path] = str(body)
    for place, text in places.items():
        assert text, place
        for secret in secrets:
            assert secret not in text, place


def _command_line(pid: int) -> str:
    """What everybody on the machine sees in the list of processes."""
    return Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8")
