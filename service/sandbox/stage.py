"""The stage: database, broker, PSP and the service, set up in order and ended in reverse."""

import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Self

from migrations import runner
from service.sandbox import SandboxError
from service.sandbox.broker import EmbeddedBroker
from service.sandbox.ledger import Ledger
from service.sandbox.postgres import EmbeddedPostgres
from service.sandbox.processes import Places, ServiceProcess
from service.sandbox.psp_server import Faults, PspServer
from service.sandbox.sending import create_topics, delete_topics, touch_topics
from service.sandbox.story import Story

ALL_ROLES = "ingest,reconcile,watch"
WORKER_ROLES = "reconcile,watch"

FAULTS = Faults(
    latency_seconds=0.02,
    error_share=0.04,
    timeout_share=0.02,
    throttle_share=0.03,
    nonsense_share=0.01,
)
SLOW = Faults(latency_seconds=0.4)


class Stage:
    """Everything that runs. Whatever way the `async with` ends, nothing of it goes on."""

    ledger: Ledger
    places: Places
    service: ServiceProcess
    worker: ServiceProcess
    _psp: PspServer

    def __init__(
        self,
        story: Story,
        *,
        kafka: str | None,
        database: str | None,
        tell: Callable[[str], None],
    ) -> None:
        self._story = story
        self._kafka = kafka
        self._database = database
        self._tell = tell
        self._stack = AsyncExitStack()
        self._workers = 0

    async def __aenter__(self) -> Self:
        """Set everything up. Raises SandboxError, with the remedy, for what does not start."""
        try:
            await self._set_up()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        """End the processes, the servers, and remove what was temporary."""
        await self._stack.aclose()

    async def launch_worker(self) -> ServiceProcess:
        """Another process that only works on jobs, not ready yet."""
        self._workers += 1
        return await self._launch(WORKER_ROLES, f"worker-{self._workers}")

    @contextmanager
    def slow_psp(self) -> Iterator[None]:
        """Make each answer of the PSP take long, though not longer than a client waits."""
        quick, self._psp.faults = self._psp.faults, SLOW
        try:
            yield
        finally:
            self._psp.faults = quick

    async def _set_up(self) -> None:
        self._logs = Path(tempfile.mkdtemp(prefix="payment-reconciler-demo-"))
        self._stack.callback(shutil.rmtree, self._logs, ignore_errors=True)
        database_url = self._database or await self._embedded_postgres()
        bootstrap_servers = self._kafka or await self._embedded_broker()
        self._psp = await self._stack.enter_async_context(PspServer(faults=FAULTS))
        for holding in self._story.holdings:
            self._psp.put(holding.payment_id, holding.answer())
        self.places = Places(
            database_url=database_url,
            bootstrap_servers=bootstrap_servers,
            psp_url=self._psp.url,
            run=f"demo-{secrets.token_hex(4)}",
        )
        await self._prepare_database()
        await self._prepare_topics()
        self.service = await self._launch(ALL_ROLES, "service")
        self.worker = await self.launch_worker()
        await self.service.ready()
        self._tell(f"the service runs as process {self.service.pid}: {self.service.health_url}")

    async def _embedded_postgres(self) -> str:
        server = await self._stack.enter_async_context(EmbeddedPostgres())
        self._tell(f"embedded PostgreSQL on port {server.port}")
        return server.url

    async def _embedded_broker(self) -> str:
        broker = await self._stack.enter_async_context(EmbeddedBroker())
        self._tell(f"embedded broker at {broker.bootstrap_servers}")
        return broker.bootstrap_servers

    async def _prepare_database(self) -> None:
        """Migrate it, and refuse one that holds payments: each of them would be checked."""
        try:
            await runner.upgrade(self.places.database_url)
            self.ledger = await Ledger.open(self.places.database_url, self.places.group_id)
        except Exception as error:
            raise SandboxError(f"the database cannot be used: {error}") from error
        self._stack.push_async_callback(self.ledger.close)
        held = (await self.ledger.progress()).payments
        if held:
            raise SandboxError(f"the database holds {held:,} payments already: give an empty one")

    async def _prepare_topics(self) -> None:
        """They are there before the service is, so that it need not look for them again."""
        topics = list(self.places.topics.values())
        if self._kafka is None:
            await touch_topics(self.places.bootstrap_servers, topics)
            return
        await create_topics(self._kafka, topics)
        self._stack.push_async_callback(delete_topics, self._kafka, topics)

    async def _launch(self, roles: str, name: str) -> ServiceProcess:
        process = ServiceProcess(self.places, roles, log=self._logs / f"{name}.log")
        return await self._stack.enter_async_context(process)
