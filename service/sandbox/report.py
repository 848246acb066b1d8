"""What the demo shows: live figures on a terminal, plain lines elsewhere, one table at the end."""

import time
from collections.abc import Sequence
from typing import Self

from rich import box
from rich.console import Console
from rich.live import Live
from rich.table import Table

PLAIN_INTERVAL_SECONDS = 3.0
DIFFERENCES_SHOWN_MAX = 50

Figures = Sequence[tuple[str, str]]


class Report:
    """Tells phases, figures and the end on `console`.

    A terminal sees the figures change in place; elsewhere one line without control characters
    comes for each phase, and one for the figures every few seconds.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False)
        self._began = time.monotonic()
        self._told_at = self._began
        self._live: Live | None = None

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live = Live(console=self._console, transient=True, refresh_per_second=8)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop_live()

    def phase(self, text: str) -> None:
        """A new phase begins, or something worth a line has happened."""
        self._say(f"{time.monotonic() - self._began:6.1f} s  {text}")

    def figures(self, figures: Figures) -> None:
        """Where things stand."""
        if self._live is not None:
            self._live.update(_table(figures, plain=False))
            return
        if time.monotonic() - self._told_at >= PLAIN_INTERVAL_SECONDS:
            self._told_at = time.monotonic()
            self.phase("  ".join(f"{name} {value}" for name, value in figures))

    def end(self, figures: Figures) -> None:
        """The table of the whole story."""
        self._stop_live()
        plain = not self._console.is_terminal
        self._console.print()
        self._console.print(_table(figures, plain=plain), soft_wrap=plain)

    def failures(self, failures: Sequence[str]) -> None:
        """One line for each thing that is not as it must be, the first fifty."""
        for failure in failures[:DIFFERENCES_SHOWN_MAX]:
            self._say(failure)
        if len(failures) > DIFFERENCES_SHOWN_MAX:
            self._say(f"… and {len(failures) - DIFFERENCES_SHOWN_MAX:,} more")

    def line(self, text: str) -> None:
        """One line as it stands."""
        self._say(text)

    def _stop_live(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _say(self, text: str) -> None:
        self._console.print(text, markup=False, soft_wrap=True)


def _table(figures: Figures, *, plain: bool) -> Table:
    table = Table(box=None if plain else box.SIMPLE, show_header=False, pad_edge=False)
    table.add_column(style=None if plain else "cyan")
    table.add_column(justify="right")
    for name, value in figures:
        table.add_row(name, value)
    return table
