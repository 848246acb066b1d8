"""One Apache Kafka process: broker and KRaft controller in one, on loopback."""

import asyncio
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP, SIGTERM
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError

from service.sandbox.child import ChildProcess, Command
from service.sandbox.ports import LOOPBACK
from service.sandbox.running import Running
from tests.support.kafka.jars import jars, java
from tests.support.kafka.listeners import Listener, Security, listener_settings

# aiokafka has no types.
_admin: Any = AIOKafkaAdminClient
_new_topic: Any = NewTopic

_CLUSTER_ID = "mGZ0s1dUQ7i0cQhJk0PVbA"
_FORMAT_SECONDS = 60.0
_START_SECONDS = 90.0
_STOP_SECONDS = 15.0
_POLL_SECONDS = 0.05
_REQUEST_MS = 10_000

# A JVM that starts fast rather than runs fast, and one node that is enough for everything.
_JVM = ("-Xmx512m", "-Xms256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
_SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "auto.create.topics.enable": "false",
    "default.replication.factor": "1",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "num.network.threads": "2",
    "num.io.threads": "2",
    "log.retention.check.interval.ms": "1000",
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "3000",  # a killed broker is let back in only after it
}


class ApacheKafka(Running):
    """Runs Apache Kafka while the block runs; address and data stay the same over restarts.

    With `proxied_port` a second listener, on `behind_proxy_port`, sends its clients to that port of
    loopback: a proxy there that forwards to it carries all their traffic, not the first
    connection's alone.

    All methods may be called under any event loop. Raises MissingTool without Java or Maven,
    RuntimeError where Kafka does not start.
    """

    def __init__(self, proxied_port: int | None = None, secure: Security | None = None) -> None:
        self._plain = Listener(name="PLAINTEXT")
        self._controller = Listener(name="CONTROLLER")
        self._proxied = Listener(name="PROXIED", advertised=f"{LOOPBACK}:{proxied_port}")
        self._secure = secure or Security(())
        self._listeners = [
            self._plain,
            *([self._proxied] if proxied_port is not None else []),
            *self._secure.listeners,
        ]
        self._directory: Path | None = None
        self._child: ChildProcess | None = None
        self._java = ""
        self._classpath = ""

    @property
    def bootstrap_servers(self) -> str:
        return self._plain.address

    @property
    def behind_proxy_port(self) -> int:
        """Where the proxy on `proxied_port` forwards to; nobody listens there without one."""
        return self._proxied.port

    @property
    def running(self) -> bool:
        """Whether the process is there; a paused one is."""
        return self._child is not None and self._child.running

    async def start(self) -> None:
        """Start, the second time on the same data, and wait until it answers."""
        if self.running:
            raise RuntimeError("this Kafka is running already")
        directory = await asyncio.to_thread(self._prepare)
        self._child = ChildProcess(
            Command(
                argv=[*self._java_command(), "kafka.Kafka", str(directory / "server.properties")],
                env={"PATH": os.environ["PATH"]},
                log=directory / "kafka.log",
                scratch=directory,
            )
        )
        await self._answering(self._child)

    async def stop(self) -> None:
        """Shut down cleanly, or kill after fifteen seconds."""
        if self._child is not None:
            await self._child.stop(SIGTERM, within_seconds=_STOP_SECONDS)

    async def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        if self._child is not None:
            self._child.signal(SIGKILL)
            await self._child.wait(_STOP_SECONDS)

    async def restart(self) -> None:
        """Stop cleanly and start again."""
        await self.stop()
        await self.start()

    def pause(self) -> None:
        """Freeze the process: connections stay open and nobody answers."""
        if self._child is not None:
            self._child.signal(SIGSTOP)

    def resume(self) -> None:
        """Let a paused Kafka go on."""
        if self._child is not None:
            self._child.signal(SIGCONT)

    async def close(self) -> None:
        """End it and remove its data; what is thrown away need not be shut down cleanly."""
        await self.kill()
        if self._directory is not None:
            await asyncio.to_thread(shutil.rmtree, self._directory, ignore_errors=True)
            self._directory = None

    async def create_topic(self, name: str, partitions: int = 4, **configs: str) -> None:
        """Create a topic; `configs` are Kafka's names with `_` for `.`, as `retention_ms`."""
        await self.create_topics({name: partitions}, **configs)

    async def create_topics(self, partitions: dict[str, int], **configs: str) -> None:
        """Create several topics, each with its number of partitions."""
        settings = {name.replace("_", "."): value for name, value in configs.items()}
        new = [_new_topic(name, count, 1, None, settings) for name, count in partitions.items()]
        await self._administer("create_topics", new)

    async def delete_topic(self, name: str) -> None:
        """Delete a topic and all its records."""
        await self._administer("delete_topics", [name])

    async def _administer(self, call: str, argument: Any) -> None:
        admin = _admin(bootstrap_servers=self.bootstrap_servers, request_timeout_ms=_REQUEST_MS)
        await admin.start()
        try:
            response = await getattr(admin, call)(argument)
            _raise_errors(response)
        finally:
            await admin.close()

    async def _answering(self, child: ChildProcess) -> None:
        try:
            async with asyncio.timeout(_START_SECONDS):
                while not await self._answers():
                    if not child.running:
                        raise RuntimeError(f"Apache Kafka did not start:\n{child.log_tail()}")
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            raise RuntimeError(f"Apache Kafka is not ready:\n{child.log_tail()}") from None

    async def _answers(self) -> bool:
        """The listener opens only after the broker has been let into its own cluster."""
        try:
            _, writer = await asyncio.open_connection(LOOPBACK, self._plain.port)
        except OSError:
            return False
        writer.close()
        await writer.wait_closed()
        return True

    def _prepare(self) -> Path:
        if self._directory is not None:
            return self._directory
        self._java, self._classpath = java(), f"{jars()}/*"
        self._directory = Path(tempfile.mkdtemp(prefix="payment-reconciler-kafka-"))
        properties = self._directory / "server.properties"
        properties.write_text(self._properties(self._directory), encoding="utf-8")
        formatting = ["format", "--cluster-id", _CLUSTER_ID, "--config", str(properties)]
        for user, password in self._secure.scram_users:
            formatting += ["--add-scram", f"SCRAM-SHA-512=[name={user},password={password}]"]
        formatted = subprocess.run(
            [*self._java_command(), "kafka.tools.StorageTool", *formatting],
            capture_output=True,
            text=True,
            timeout=_FORMAT_SECONDS,
            check=False,
        )
        if formatted.returncode != 0:
            raise RuntimeError(f"Kafka's storage tool failed:\n{formatted.stdout[-2000:]}")
        return self._directory

    def _properties(self, directory: Path) -> str:
        settings = {
            **_SETTINGS,
            **listener_settings(self._listeners, self._controller),
            "log.dirs": str(directory / "data"),
        }
        return "".join(f"{name}={value}\n" for name, value in settings.items())

    def _java_command(self) -> list[str]:
        logging = Path(__file__).with_name("log4j2.properties")
        return [
            self._java,
            *_JVM,
            f"-Dlog4j2.configurationFile={logging}",
            "-cp",
            self._classpath,
        ]


def _raise_errors(response: Any) -> None:
    """aiokafka hands back what failed as numbers inside the response."""
    failed = {
        topic: code
        for topic, code, *_ in getattr(response, "topic_errors", None) or response.topic_error_codes
        if code != 0
    }
    if failed:
        raise KafkaError(f"topics failed with these error codes: {failed}")
