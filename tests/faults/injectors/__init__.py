"""The faults themselves: each begins, lasts and ends by itself, whatever else goes wrong."""

from tests.faults.injectors.broker import BROKER
from tests.faults.injectors.database import DATABASE
from tests.faults.injectors.network import NETWORK
from tests.faults.injectors.processes import PROCESSES
from tests.faults.injectors.provider import PROVIDER

INJECTORS = {**PROCESSES, **DATABASE, **NETWORK, **BROKER, **PROVIDER}
"""Kind -> `await inject(stage, fault)`: returns when the fault is over and undone."""

__all__ = ["INJECTORS"]
