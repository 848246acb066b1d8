"""The measured process: the service's own parts, wired from its own settings and defaults.

It runs alone, so that neither the producer nor the driver shares its event loop, its memory or its
interpreter. An order comes in through standard input, the figures go out through standard output.
"""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from service import __version__, assembly
from service.connections import pool_options
from service.ingest.consumer import Ingest
from service.observe.logs import configure_logs
from service.observe.metrics import Metrics
from service.psp.port import Answer, Answered, Question
from service.reconcile.activity import Activity
from service.reconcile.lease import new_owner
from service.reconcile.watcher import Watcher
from service.reconcile.worker import Worker
from service.settings import Settings
from service.settings_database import DatabaseSettings
from service.settings_healing import LeaseSettings
from service.settings_kafka import KafkaSettings
from service.store.pool import connect, open_pool
from tests.benchmarks.feeding import MemoryFed
from tests.benchmarks.order import Measured, Order
from tests.benchmarks.sampling import LoopLag, peak_memory_bytes, sampled_profile

DEADLINE_SECONDS = 300.0

Section = Callable[[LoopLag], Awaitable[float]]
"""Does the work under the sampler of lag, and returns the seconds that count."""

Run = Callable[[asyncio.Event], Coroutine[Any, Any, None]]


class InstantPsp:
    """The far end of the PSP port: has every payment's money, and answers at once."""

    async def ask(self, question: Question) -> Answer:
        """Answer without a version, as most providers do."""
        data = {"psp": "acme", "psp_reference": f"ch-{question.payment_id}", "status": "succeeded"}
        return Answered(
            amount_minor=1_000,
            currency="EUR",
            captured_minor=1_000,
            refunded_minor=0,
            disputed_minor=0,
            entityversion=None,
            versionepoch=0,
            failure_code=None,
            data=data,
            **data,
        )


async def measure(order: Order) -> Measured:
    """Carry out an order."""
    settings = _settings(order)
    metrics = Metrics(__version__)
    pool = await open_pool(pool_options(settings.database, application_name="benchmark"))
    try:
        return await _measured(order, _section(order, settings, pool, metrics), metrics)
    finally:
        await pool.close()


def _section(order: Order, settings: Settings, pool: Any, metrics: Metrics) -> Section:
    if order.kind == "jobs":
        activity = Activity()
        runs = _healing(settings, pool, activity)
        return partial(_work_off, runs, activity, order.payments)
    options = assembly.ingest_options(settings)
    if order.kind == "memory":
        fed = MemoryFed(pool, order.workload, options=options, metrics=metrics.ingest)
        return partial(_feed, fed)
    kafka = assembly.kafka_options(settings)
    ingest = Ingest(pool, kafka=kafka, options=options, metrics=metrics.ingest)
    return partial(_consume, ingest, order.workload.events)


async def _measured(order: Order, section: Section, metrics: Metrics) -> Measured:
    lag = LoopLag()
    profile = Path(order.profile) if order.profile else None
    async with asyncio.timeout(DEADLINE_SECONDS):
        cpu_began = time.process_time()
        with sampled_profile(profile):
            seconds = await section(lag)
        cpu_seconds = time.process_time() - cpu_began
    batches = metrics.registry.get_sample_value("reconciler_batch_seconds_count")
    return Measured(
        done=order.payments if order.kind == "jobs" else order.workload.events,
        seconds=seconds,
        cpu_seconds=cpu_seconds,
        transactions=int(batches or 0),
        peak_memory_bytes=peak_memory_bytes(),
        lag_p99_seconds=lag.percentile(0.99),
        lag_max_seconds=lag.percentile(1.0),
    )


async def _consume(ingest: Ingest, events: int, lag: LoopLag) -> float:
    """From the assignment of the partitions until the last offset is committed with its batch."""
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(ingest.run(stop))
        await LoopLag().until(lambda: bool(ingest.status().partitions))
        began = time.perf_counter()
        await lag.until(lambda: _stored(ingest) == events)
        seconds = time.perf_counter() - began
        stop.set()
    return seconds


def _stored(ingest: Ingest) -> int:
    return sum(each.next_offset or 0 for each in ingest.status().partitions)


async def _feed(fed: MemoryFed, lag: LoopLag) -> float:
    """From the reading of the positions until the last batch is committed."""
    async with asyncio.TaskGroup() as tasks:
        began = time.perf_counter()
        feeding = tasks.create_task(fed.run())
        await lag.until(feeding.done)
        return time.perf_counter() - began


async def _work_off(runs: Sequence[Run], activity: Activity, number: int, lag: LoopLag) -> float:
    """From the first claim until the last job's end is committed."""
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        began = time.perf_counter()
        for run in runs:
            tasks.create_task(run(stop))
        await lag.until(lambda: activity.ended.total() >= number)
        seconds = time.perf_counter() - began
        stop.set()
    return seconds


def _healing(settings: Settings, pool: Any, activity: Activity) -> Sequence[Run]:
    """The parts of a process that heals; what is due lies there already, so nothing schedules."""
    owner = new_owner()
    worker = Worker(
        pool,
        partial(connect, pool_options(settings.database, application_name="heartbeat")),
        InstantPsp(),
        terms=assembly.worker_terms(settings, owner),
        activity=activity,
    )
    watcher = Watcher(pool, terms=assembly.watcher_terms(settings, owner), activity=activity)
    return (worker.run, watcher.run)


def _settings(order: Order) -> Settings:
    """The defaults, but for where things are and how many jobs run at once."""
    return Settings(
        database=DatabaseSettings(url=SecretStr(order.database_url)),
        kafka=KafkaSettings(
            bootstrap_servers=order.bootstrap_servers or None,
            group_id=order.group,
            erp_topic=order.topics[0],
            psp_topic=order.topics[1],
        ),
        lease=LeaseSettings(concurrency=order.concurrency),
    )


def main() -> None:
    """Read the order, carry it out, tell the figures."""
    # The whole service is loaded, as in operation: its modules are part of its memory.
    import_module("service.app").freeze_garbage()
    order = Order.from_line(sys.stdin.readline())
    configure_logs("INFO", "json")
    sys.stdout.write(asyncio.run(measure(order)).to_line())


if __name__ == "__main__":
    main()
