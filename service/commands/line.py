"""The command line: names, options, help texts and exit codes."""

import asyncio
from typing import Annotated, Literal

import typer

from service import __version__
from service.commands.line_dead_letters import add_dead_letters
from service.commands.line_offsets import add_offsets, add_replay
from service.commands.operator import By, actor
from service.errors import ConfigurationError
from service.lifecycle import StopSignals
from service.settings_loading import load

ROLES = ("ingest", "reconcile", "watch")
ALL_ROLES = ",".join(ROLES)

Roles = Annotated[str, typer.Option(help="What this process does, separated by commas.")]
Mode = Annotated[Literal["shadow", "enforce"], typer.Argument(metavar="shadow|enforce")]
PaymentId = Annotated[str, typer.Argument(help="The payment's id.", show_default=False)]


def build(signals: StopSignals) -> typer.Typer:
    """The application with all its commands."""
    line = typer.Typer(
        name="reconciler",
        help="Keeps one true row a payment between a PSP and an ERP, and heals lost successes.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    line.callback()(_version)
    _add_service(line, signals)
    _add_inspection(line)
    _add_control(line)
    add_dead_letters(line)
    add_offsets(line)
    add_replay(line)
    _add_demo(line)
    return line


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


def _version(
    *,
    version: Annotated[
        bool,
        # Eager: answered before a missing command is complained of.
        typer.Option(
            "--version", is_eager=True, callback=_print_version, help="Print the version."
        ),
    ] = False,
) -> None:
    pass


def _add_service(line: typer.Typer, signals: StopSignals) -> None:
    @line.command()
    def run(roles: Roles = ALL_ROLES) -> None:
        """Run the service until SIGTERM or SIGINT; a second signal ends it at once."""
        from service.app import serve  # noqa: PLC0415 - imports every part

        chosen = parse_roles(roles)
        settings = load()
        _leave(asyncio.run(serve(settings, chosen, signals)))

    @line.command()
    def migrate(
        *,
        sql: Annotated[bool, typer.Option("--sql", help="Print the SQL, change nothing.")] = False,
        check: Annotated[
            bool, typer.Option("--check", help="Change nothing; exit 3 if it is behind.")
        ] = False,
    ) -> None:
        """Bring the database to this release's schema."""
        from service.commands import migrate as command  # noqa: PLC0415 - imports SQLAlchemy

        if sql:
            _leave(command.print_sql())
        settings = load()
        chosen = command.check if check else command.upgrade
        _leave(asyncio.run(chosen(settings)))


def _add_inspection(line: typer.Typer) -> None:
    @line.command()
    def doctor() -> None:
        """Print the effective settings, secrets masked, and try each dependency."""
        from service.commands import doctor as command  # noqa: PLC0415 - imports every client

        settings = load()
        _leave(asyncio.run(command.examine(settings)))

    @line.command()
    def explain(
        payment_id: PaymentId,
        *,
        check_now: Annotated[
            bool, typer.Option("--check-now", help="Ask the PSP too; nothing is changed.")
        ] = False,
    ) -> None:
        """Show both views of a payment, why it has its status, and when it is checked next."""
        from service.commands import explain as command  # noqa: PLC0415 - imports every client

        settings = load()
        _leave(asyncio.run(command.explain(settings, payment_id, check_now=check_now)))

    @line.command()
    def verify() -> None:
        """Compute every payment anew from its log; list what differs, exit 1 if anything does."""
        from service.commands import verify as command  # noqa: PLC0415 - imports every client

        _leave(asyncio.run(command.verify(load())))


def _add_control(line: typer.Typer) -> None:
    control = typer.Typer(
        help="Show and change what steers the healing of all processes.", no_args_is_help=True
    )
    line.add_typer(control, name="control")

    @control.command()
    def show() -> None:
        """Print whether healing is paused, its mode, and the heals left in this minute."""
        from service.commands import control as command  # noqa: PLC0415 - as above

        _leave(asyncio.run(command.show(load())))

    @control.command()
    def pause(by: By = "") -> None:
        """Stop healing in all processes; events are still taken in."""
        _change_controls(by, healing_paused=True)

    @control.command()
    def resume(by: By = "") -> None:
        """Go on healing in all processes."""
        _change_controls(by, healing_paused=False)

    @control.command()
    def mode(chosen: Mode, by: By = "") -> None:
        """Set shadow (only log what would be healed) or enforce, for all processes."""
        _change_controls(by, mode=chosen)


def _change_controls(
    by: str, *, healing_paused: bool | None = None, mode: str | None = None
) -> None:
    from service.commands import control as command  # noqa: PLC0415 - as above

    wanted = command.Wanted(healing_paused=healing_paused, mode=mode)
    _leave(asyncio.run(command.change(load(), wanted, actor=actor(by))))


def _add_demo(line: typer.Typer) -> None:
    @line.command()
    def demo(
        payments: Annotated[int, typer.Option(min=100, help="Payments in the story.")] = 2_000,
        seed: Annotated[int, typer.Option(help="The same seed tells the same story.")] = 7,
        kafka: Annotated[str, typer.Option(help="HOST:PORT of a broker; else embedded.")] = "",
        database: Annotated[str, typer.Option(help="URL of a PostgreSQL; else embedded.")] = "",
        *,
        serve: Annotated[bool, typer.Option("--serve", help="Keep it running afterwards.")] = False,
    ) -> None:
        """Tell a story of lost, late and doubled events on real parts, and check every payment."""
        from service.sandbox.demo import DemoOptions, run_demo  # noqa: PLC0415 - an extra

        options = DemoOptions(
            payments=payments,
            seed=seed,
            kafka=kafka or None,
            database=database or None,
            serve=serve,
        )
        _leave(asyncio.run(run_demo(options)))


def parse_roles(text: str) -> frozenset[str]:
    """The roles named in `text`. Raises ConfigurationError for one that there is not."""
    chosen = frozenset(role.strip() for role in text.split(",") if role.strip())
    unknown = sorted(chosen - set(ROLES))
    if unknown or not chosen:
        raise ConfigurationError(
            f"--roles is {text!r}; allowed: {', '.join(ROLES)}, separated by commas;"
            f" remedy: {'take out ' + ', '.join(unknown) if unknown else 'name at least one'}"
        )
    return chosen


def _leave(code: int) -> None:
    raise typer.Exit(code)
