"""Who gives a command: the name in the audit trail."""

import getpass
import platform
from typing import Annotated

import typer

By = Annotated[
    str, typer.Option("--by", help="Your name for the audit trail.", show_default="user@host")
]
Note = Annotated[str, typer.Option("--note", help="Why; kept in the audit trail.")]


def actor(by: str) -> str:
    """The name given, else the account and the host that the command runs under."""
    return by.strip() or f"{_account()}@{platform.node()}"


def _account() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # A container's user that has no name.
        return "nobody"
