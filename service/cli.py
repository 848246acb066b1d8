"""The entry point `reconciler`: takes the stop signals over first, then imports the command."""

import sys

from service.errors import ReconcilerError
from service.lifecycle import StopSignals


def main() -> None:
    """Run one command and leave with its exit code.

    For `run` the signal handlers stand before the slow imports: a SIGTERM that arrives meanwhile is
    remembered and drains the service, instead of being lost by a process that runs as PID 1.
    """
    signals = StopSignals()
    if sys.argv[1:2] == ["run"]:
        signals.stand_by()
    from service.commands.line import build  # noqa: PLC0415 - after the signal handlers

    try:
        build(signals)()
    except ReconcilerError as error:
        sys.stderr.write(f"reconciler: {error}\n")
        sys.exit(error.exit_code)
