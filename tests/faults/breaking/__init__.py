"""What must not be in a history: each breach of a promise, and the claims that have to find it."""

from tests.faults.breaking import jobs, outgoing, payments, records
from tests.faults.breaking.breach import BREACHES, Breach

__all__ = ["BREACHES", "Breach", "jobs", "outgoing", "payments", "records"]
