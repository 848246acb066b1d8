"""One seed from its plan to its verdict."""

import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.faults.plan import Plan, draw
from tests.faults.stage import ProxiedKafka
from tests.faults.storm import Storm
from tests.faults.workload import Workload

PAYMENTS = 200
VIOLATIONS_MAX = 40
_TAIL_LINES = 8


@dataclass(slots=True, kw_only=True)
class Outcome:
    """How a seed went. `counts` are of the database's rows; `violations` empty if all is right."""

    plan: Plan
    seconds: float
    struck: list[str]
    sent: int
    counts: dict[str, int]
    violations: list[str]
    directory: Path

    @property
    def line(self) -> str:
        """One line of progress."""
        verdict = "FAILED" if self.violations else "ok"
        counts = ", ".join(f"{number} {name}" for name, number in self.counts.items())
        return (
            f"seed {self.plan.seed:>3}  {verdict:<6} {self.seconds:5.1f} s  "
            f"{self.sent} events sent, {counts}, {len(self.struck)} faults"
        )

    def report(self) -> str:
        """All that helps to find out why, and the command that repeats it."""
        parts = [f"  process {n}: {part}" for n, part in enumerate(self.plan.parts, start=1)]
        more = len(self.violations) - VIOLATIONS_MAX
        lines = [
            "plan as it was carried out:",
            *parts,
            *(f"  {each}" for each in self.struck),
            "violations:",
            *(f"  {each}" for each in self.violations[:VIOLATIONS_MAX]),
            *([f"  and {more} more"] if more > 0 else []),
            *self._logs(),
            f"repeat it with: make faults SEED={self.plan.seed}",
        ]
        return "\n".join(lines)

    def _logs(self) -> list[str]:
        lines = []
        for log in sorted(self.directory.glob("*.log")):
            lines.append(f"{log}, its last lines:")
            text = log.read_text(encoding="utf-8", errors="replace").splitlines()
            lines += [f"  {line[:400]}" for line in text[-_TAIL_LINES:]]
        return lines


async def run_seed(kafka: ProxiedKafka, seed: int) -> Outcome:
    """Run the storm of a seed. The logs of one that went well are thrown away."""
    began = time.monotonic()
    plan = draw(seed)
    directory = Path(tempfile.mkdtemp(prefix=f"storm-{seed}-"))
    workloads = iter([Workload(seed, PAYMENTS)])
    async with Storm.open(kafka, plan=plan, workloads=workloads, directory=directory) as storm:
        violations: list[str] = []
        try:
            await storm.run()
            await storm.quiet()
        except* (AssertionError, TimeoutError) as group:
            violations += _said(group)
        await storm.stop()
        counts = await storm.counts() | {"looks for leases": storm.lease_looks}
        violations += await storm.check()
    if not violations:
        shutil.rmtree(directory)
    return Outcome(
        plan=plan,
        seconds=time.monotonic() - began,
        struck=[str(each) for each in storm.struck],
        sent=storm.sent,
        counts=counts,
        violations=violations,
        directory=directory,
    )


def _said(error: BaseException) -> list[str]:
    """What went wrong, each cause in a line."""
    if isinstance(error, BaseExceptionGroup):
        return [text for each in error.exceptions for text in _said(each)]
    return [f"{type(error).__name__}: {error}"]
