"""Copies of the project with one guard taken out, and what the tests say of them."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.guards.catalogue import CHECKOUT, Guard
from tests.support.processes import clean_environment

RUN_SECONDS = 900
_PASSED, _FAILED = 0, 1
_LEFT_OUT = shutil.ignore_patterns(
    ".git",
    ".venv",
    ".cache",
    ".*_cache",
    ".hypothesis",
    "__pycache__",
    "build",
    "dist",
    "*.egg-info",
)


@dataclass(frozen=True, slots=True)
class Run:
    """How a run of tests ended: the names of those that failed, and the end of its output."""

    code: int
    failed: tuple[str, ...]
    tail: str

    @property
    def passed(self) -> bool:
        """Whether every test passed."""
        return self.code == _PASSED

    @property
    def noticed(self) -> bool:
        """Whether tests ran and some of them failed: a broken start is no proof."""
        return self.code == _FAILED and bool(self.failed)


def copy_of(directory: Path) -> Path:
    """A copy of the project as it lies here, without its history and what was fetched for it."""
    copy = directory / "copy"
    shutil.copytree(CHECKOUT, copy, ignore=_LEFT_OUT, symlinks=True)
    return copy


def run_claims(checkout: Path, claims: Iterable[str]) -> Run:
    """Run test files in a copy, against the copy's own code."""
    command = [sys.executable, "-P", "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider"]
    ended = subprocess.run(
        [*command, "-m", "not kafka", *claims],
        cwd=checkout,
        env=_environment(checkout),
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    failed = re.findall(r"^(?:FAILED|ERROR) \S+?::([^\s\[]+)", ended.stdout, flags=re.MULTILINE)
    return Run(ended.returncode, tuple(dict.fromkeys(failed)), ended.stdout[-3_000:])


def run_without(guard: Guard, directory: Path) -> Run:
    """Take the guard out of a fresh copy and run its claims there."""
    checkout = copy_of(directory)
    for cut in guard.cuts:
        cut.apply(checkout)
    return run_claims(checkout, guard.claims)


def _environment(checkout: Path) -> dict[str, str]:
    # The installed project is the checkout itself; the copy has to come before it.
    return {**clean_environment(), "PYTHONPATH": str(checkout), "PYTHONDONTWRITEBYTECODE": "1"}
