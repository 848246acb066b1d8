"""A Kafka broker for the demo: librdkafka's mock cluster, in a process of its own.

It keeps about 5 MB a partition and nothing over a restart, and a group has one member. Topics
appear on first use with 4 partitions. Run as a module it prints its address and waits for a signal.
"""

import asyncio
import os
import shutil
import signal
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from service.sandbox import SandboxError
from service.sandbox.child import ChildProcess, Command
from service.sandbox.running import Running

_ADDRESS = "bootstrap_servers="
_START_SECONDS = 30.0
_STOP_SECONDS = 5.0
_POLL_SECONDS = 0.01
_METADATA_SECONDS = 10.0
_ROOT = Path(__file__).resolve().parents[2]


class EmbeddedBroker(Running):
    """Runs the broker while the block runs; raises SandboxError where the wheel is missing."""

    def __init__(self) -> None:
        self._directory: Path | None = None
        self._child: ChildProcess | None = None
        self._address: str | None = None

    @property
    def bootstrap_servers(self) -> str:
        """The address, once started."""
        if self._address is None:
            raise SandboxError("this broker has not been started")
        return self._address

    async def close(self) -> None:
        """End the broker, whether or not it started; all it held is lost."""
        if self._child is not None:
            await self._child.stop(signal.SIGTERM, within_seconds=_STOP_SECONDS)
        if self._directory is not None:
            await asyncio.to_thread(shutil.rmtree, self._directory, ignore_errors=True)
            self._directory = None

    async def start(self) -> None:
        """Start the broker and learn its address."""
        _require_wheel()
        self._directory = Path(tempfile.mkdtemp(prefix="payment-reconciler-"))
        command = Command(
            argv=[sys.executable, "-m", "service.sandbox.broker"],
            env={"PATH": os.defpath, "PYTHONUNBUFFERED": "1"},
            log=self._directory / "broker.log",
            cwd=_ROOT,
            scratch=self._directory,
        )
        self._child = ChildProcess(command)
        try:
            async with asyncio.timeout(_START_SECONDS):
                self._address = await self._announced(self._child)
        except TimeoutError:
            raise SandboxError(f"the broker is not ready:\n{self._child.log_tail()}") from None

    async def _announced(self, child: ChildProcess) -> str:
        while True:
            log = child.log_tail()
            for line in log.splitlines():
                if line.startswith(_ADDRESS):
                    return line.removeprefix(_ADDRESS)
            if not child.running:
                raise SandboxError(f"the broker did not start:\n{log}")
            await asyncio.sleep(_POLL_SECONDS)


def _require_wheel() -> None:
    if find_spec("confluent_kafka") is None:
        raise SandboxError(
            "the wheel confluent-kafka is missing: "
            'pip install "payment-reconciler[demo]", or name a broker by its address'
        )


def serve() -> None:
    """Run the mock cluster in this process until SIGTERM or SIGINT."""
    from confluent_kafka import Producer  # noqa: PLC0415 - an extra, needed in this process only

    ending = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, ending)  # librdkafka's threads inherit it
    owner = Producer({"test.mock.num.brokers": 1})
    brokers = owner.list_topics(timeout=_METADATA_SECONDS).brokers.values()
    address = ",".join(f"{broker.host}:{broker.port}" for broker in brokers)
    sys.stdout.write(f"{_ADDRESS}{address}\n")
    sys.stdout.flush()
    signal.sigwait(ending)


if __name__ == "__main__":
    serve()
