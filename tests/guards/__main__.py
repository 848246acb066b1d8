"""`python -m tests.guards`: takes each guard out in a copy and shows which tests fail without it.

Ends with 0 if every guard is missed by at least one test, with 1 if one is not.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.guards.breaking import Run, run_claims, run_without
from tests.guards.catalogue import CHECKOUT, GUARDS, Guard


def main() -> int:
    """Run those chosen, tell each as it ends, then print the table."""
    console = Console(width=None if Console().is_terminal else 160, highlight=False)
    chosen = [guard for guard in GUARDS if _options().only.lower() in guard.name.lower()]
    if not chosen:
        console.print("no guard has that in its name")
        return 2
    claims = sorted({claim for guard in chosen for claim in guard.claims})
    whole = run_claims(CHECKOUT, claims)
    if not whole.passed:
        console.print(f"with every guard in place {whole.failed} fail:\n{whole.tail}", markup=False)
        return 1
    runs = [(guard, _told(guard, console)) for guard in chosen]
    console.print(_table(runs))
    return 0 if all(run.noticed for _, run in runs) else 1


def _told(guard: Guard, console: Console) -> Run:
    with tempfile.TemporaryDirectory(prefix="payment-reconciler-guards-") as directory:
        # PostgreSQL runs as nobody where this runs as root, and has to reach the copy.
        Path(directory).chmod(0o755)
        run = run_without(guard, Path(directory))
    verdict = f"{len(run.failed)} tests fail" if run.noticed else "NOBODY NOTICES"
    console.print(f"without {guard.name}: {verdict}", markup=False)
    if not run.noticed:
        console.print(run.tail, markup=False)
    return run


def _table(runs: list[tuple[Guard, Run]]) -> Table:
    table = Table("guard taken out", "tests that fail without it")
    for guard, run in runs:
        table.add_row(guard.name, "\n".join(run.failed) or "none")
    return table


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.guards", description=__doc__)
    parser.add_argument("--only", default="", help="guards with this in their name")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
