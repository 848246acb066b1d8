"""The composition root: settings become parts, all on one event loop, all owned by one TaskGroup.

Start: health port, then the database (waited for without limit), its schema, then the parts.
Stop: readiness falls and no new work is taken; ingest finishes or gives up its batch and leaves the
group; workers drain with heartbeats alive and give back what is left; connections close; the health
port answers to the end. All of it is bounded, also with the database gone. A part that is dead
stops the others the same way: liveness says so meanwhile, and the exit code is its error's.
"""

import asyncio
import gc
import os
import threading
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import structlog

from migrations import runner
from service import __version__, assembly
from service.connections import pool_options
from service.diagnosis.database import database_trouble
from service.errors import ReconcilerError, SchemaError
from service.lifecycle import Condition, StopSignals, Supervised, supervise, wait_for_stop
from service.observe.events import Event
from service.observe.logs import configure_logs
from service.observe.metrics import Metrics
from service.parts import Parts, Run
from service.reconcile.lease import new_owner
from service.settings import Settings
from service.store.pool import PoolOptions, connect, open_pool
from service.web.checks import Status as HealthStatus
from service.web.dependencies import DatabaseSampler
from service.web.health import health_app
from service.web.parts import PartsSampler
from service.web.samplers import SupervisedParts, sample_loop_lag
from service.web.server import serve as serve_http
from service.web.snapshot import Check, HealthBoard, Phase

RETRY_SECONDS = 2.0
CLOSE_SECONDS = 5.0
PARTS_GRACE_SECONDS = 9.0
"""What parts may take beyond the workers' drain; the statements of those that take longer are cut
off, which rolls them back: a server that went silent would keep them for as long as it likes."""
STOP_GRACE_SECONDS = 15.0
"""What parts and closing may take beyond the workers' drain before the process is ended."""

EXIT_STUCK = 75
"""The exit code of a process that could not stop in time."""

_log = structlog.get_logger(__name__)


async def serve(settings: Settings, roles: frozenset[str], signals: StopSignals) -> int:
    """Run the service in `roles` until a signal; returns the exit code.

    Raises ReconcilerError for what no waiting can cure.
    """
    configure_logs(settings.log.level, settings.log.format)
    require(settings, roles)
    stop = signals.attach(asyncio.get_running_loop())
    _log.info(Event.STARTING, version=__version__, roles=sorted(roles))
    freeze_garbage()
    try:
        await Service(settings, roles, stop).run()
    except* ReconcilerError as group:
        error = _first(group)
        _log.error(Event.FAILED, error=str(error))
        raise error from None
    _log.info(Event.STOPPED)
    return 0


def freeze_garbage() -> None:
    """Take what the imports made out of the garbage collector's walks.

    They last as long as the process, and each full collection over them held the event loop up
    for 100 ms under load.
    """
    gc.collect()
    gc.freeze()


def require(settings: Settings, roles: frozenset[str]) -> None:
    """Raise ConfigurationError, all at once, for what `roles` need and nobody has set."""
    settings.require(
        "database.url",
        *(("kafka.bootstrap_servers",) if "ingest" in roles else ()),
        *(("psp.base_url",) if "reconcile" in roles else ()),
    )


class Service:
    """One process: its health board, its pool, its parts."""

    def __init__(self, settings: Settings, roles: frozenset[str], stop: asyncio.Event) -> None:
        self._settings = settings
        self._roles = roles
        self._stop = stop
        self._closed = asyncio.Event()
        self._metrics = Metrics(__version__)
        self._board = HealthBoard(expected={"postgres:responseTime", "runtime:eventLoopLag"})
        self._supervised = SupervisedParts(self._board, self._metrics)
        self._owner = new_owner()
        self._pool: Any = None
        self._last_bound: threading.Timer | None = None
        self._fatal: Exception | None = None

    async def run(self) -> None:
        """Start, work, stop. Raises an ExceptionGroup around what ended it before its time."""
        health = self._settings.health
        async with asyncio.TaskGroup() as group:
            group.create_task(
                serve_http(
                    health_app(self._board, self._metrics),
                    host=health.host,
                    port=health.port,
                    stop=self._closed,
                    on_listening=lambda port: _log.info(Event.LISTENING, port=port),
                )
            )
            group.create_task(sample_loop_lag(self._board, self._metrics, stop=self._closed))
            sampler = DatabaseSampler(self._board, self._metrics, lambda: self._pool)
            group.create_task(sampler.run(self._closed))
            group.create_task(self._drain())
            group.create_task(self._work())

    async def _work(self) -> None:
        self._board.enter(Phase.RUNNING)
        try:
            if await self._open_database():
                await self._run_parts()
        finally:
            self._board.enter(Phase.DRAINING)
            await self._close_database()
            self._closed.set()
            if self._last_bound is not None:
                self._last_bound.cancel()

    async def _open_database(self) -> bool:
        """Wait for the database and check its schema; False if `stop` came first."""
        options = self._options()
        while not self._stop.is_set():
            try:
                state = await runner.state(partial(connect, options))
                self._pool = await open_pool(options)
            except ReconcilerError:
                raise
            except Exception as error:  # noqa: BLE001 - a database that is away is waited for; health says so
                _log.warning(Event.DATABASE_LOST, error=database_trouble(error))
                await wait_for_stop(self._stop, RETRY_SECONDS)
                continue
            _require_schema(state)
            self._board.publish(Check("postgres", "schema", HealthStatus.PASS, state))
            _log.info(Event.DATABASE_CONNECTED, schema=state)
            return True
        return False

    async def _run_parts(self) -> None:
        """Run every part of the roles until all have ended after `stop`.

        Raises what made a part dead, once the others have drained.
        """
        sampler = PartsSampler(self._board)
        async with AsyncExitStack() as stack:
            parts = Parts(self._settings, self._owner, self._pool, self._metrics, sampler.add)
            runs = await parts.of(self._roles, stack) | {"samplers": sampler.run}
            async with asyncio.TaskGroup() as group:
                running = {
                    group.create_task(self._supervise(name, run), name=name)
                    for name, run in runs.items()
                }
                _log.info(Event.STARTED, owner=self._owner)
                await self._stop.wait()
                await self._end(running)
        if self._fatal is not None:
            raise self._fatal

    async def _end(self, running: set[asyncio.Task[None]]) -> None:
        """Wait for the parts' own end, as long as a drain may take; cut off what is left."""
        seconds = self._settings.lease.drain_seconds + PARTS_GRACE_SECONDS
        _, late = await asyncio.wait(running, timeout=seconds)
        if late:
            _log.warning(Event.DRAIN_TIMED_OUT, parts=sorted(part.get_name() for part in late))
        for part in late:
            part.cancel("the parts' deadline")

    async def _supervise(self, name: str, run: Run) -> None:
        """Run a part; once it is dead the others drain as for a signal and give back their jobs."""
        try:
            await supervise(name, partial(run, self._stop), stop=self._stop, on_state=self._note)
        except Exception as error:  # noqa: BLE001 - raised again when the others have drained
            self._fatal = self._fatal or error
            self._stop.set()

    async def _drain(self) -> None:
        """On the first signal, or with a part that is dead: stop looking ready; set a bound that no
        blocked loop holds up.
        """
        await self._stop.wait()
        self._board.enter(Phase.DRAINING)
        _log.info(Event.STOP_REQUESTED)
        seconds = self._settings.lease.drain_seconds + STOP_GRACE_SECONDS
        self._last_bound = threading.Timer(seconds, os._exit, (EXIT_STUCK,))
        self._last_bound.daemon = True
        self._last_bound.start()

    async def _close_database(self) -> None:
        if self._pool is None:
            return
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._pool.close()
        except Exception as error:  # noqa: BLE001 - the server ends what this process leaves behind
            _log.warning(Event.DATABASE_LOST, error=type(error).__name__)
            self._pool.terminate()

    def _options(self) -> PoolOptions:
        name = assembly.application_name(self._owner)
        return pool_options(self._settings.database, application_name=name)

    def _note(self, state: Supervised) -> None:
        self._supervised.note(state)
        if state.condition in {Condition.RESTARTING, Condition.DEAD}:
            event = (
                Event.COROUTINE_DEAD
                if state.condition is Condition.DEAD
                else Event.COROUTINE_CRASHED
            )
            _log.error(event, name=state.name, restarts=state.restarts, exc_info=state.error)


def _require_schema(state: runner.SchemaState) -> None:
    if state in {runner.SchemaState.EMPTY, runner.SchemaState.BEHIND}:
        raise SchemaError(f"the database's schema is {state}: run `reconciler migrate` first")


def _first(group: ExceptionGroup[Any]) -> ReconcilerError:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if not isinstance(error, ReconcilerError):
        raise TypeError("split by class before") from error
    return error
