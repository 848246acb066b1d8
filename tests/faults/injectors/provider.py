"""Faults of the PSP: late, away, silent, throttling, or talking nonsense."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from service.sandbox.psp_server import Faults
from tests.faults.plan import Fault, Kind
from tests.faults.stage import PSP_SECONDS, Stage


async def refuse(stage: Stage, fault: Fault) -> None:
    """No connection."""
    await stage.psp.stop()
    try:
        await asyncio.sleep(fault.seconds)
    finally:
        await stage.psp.start()


async def be_out(stage: Stage, fault: Fault) -> None:
    """Every call is a 503."""
    stage.psp.outage = True
    try:
        await asyncio.sleep(fault.seconds)
    finally:
        stage.psp.outage = False


async def misbehave(faults: Faults, stage: Stage, fault: Fault) -> None:
    """As `faults` say."""
    stage.psp.faults = faults
    try:
        await asyncio.sleep(fault.seconds)
    finally:
        stage.psp.faults = stage.usual


PROVIDER: Mapping[Kind, Callable[[Stage, Fault], Awaitable[None]]] = {
    Kind.PSP_REFUSES: refuse,
    Kind.PSP_OUTAGE: be_out,
    # Just below the time-out of a question, so that faults of others fall into many a job.
    Kind.PSP_SLOW: partial(misbehave, Faults(latency_seconds=0.4)),
    Kind.PSP_SILENT: partial(misbehave, Faults(timeout_share=0.7)),
    Kind.PSP_NONSENSE: partial(
        misbehave, Faults(latency_seconds=PSP_SECONDS, nonsense_share=0.6, error_share=0.2)
    ),
    Kind.PSP_THROTTLES: partial(misbehave, Faults(throttle_share=0.7)),
}
