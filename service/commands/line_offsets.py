"""The command lines of `reconciler offsets` and `reconciler replay`."""

import asyncio
from typing import Annotated

import typer

from service.commands.operator import By, Note, actor
from service.lifecycle import StopSignals
from service.settings_loading import load

Topic = Annotated[str, typer.Option("--topic", help="A source topic.", show_default=False)]
Number = Annotated[int, typer.Option("--partition", min=0, show_default=False)]


def add_offsets(line: typer.Typer) -> None:
    """`offsets show` and `offsets set`."""
    offsets = typer.Typer(
        help="Show and move where the group reads its topics.", no_args_is_help=True
    )
    line.add_typer(offsets, name="offsets")

    @offsets.command()
    def show(
        *, as_json: Annotated[bool, typer.Option("--json", help="One JSON array.")] = False
    ) -> None:
        """Print where the group stands in every partition, and what the log holds there."""
        from service.commands import offsets as command  # noqa: PLC0415 - imports every client

        raise typer.Exit(asyncio.run(command.show(load(), as_json=as_json)))

    offsets.command("set")(_set)


def add_replay(line: typer.Typer) -> None:
    """`replay`."""
    line.command("replay")(_replay)


def _set(
    topic: Topic,
    partition: Number,
    *,
    to: Annotated[
        str, typer.Option("--to", "--offset", metavar="OFFSET|earliest|latest", help="Where to.")
    ] = "",
    to_time: Annotated[str, typer.Option(metavar="RFC3339", help="The first since then.")] = "",
    skip: Annotated[
        bool, typer.Option("--skip", help="Agree that records are never read.")
    ] = False,
    recreated: Annotated[
        bool, typer.Option("--recreated", help="The topic was made anew under its old name.")
    ] = False,
    by: By = "",
    note: Note = "",
) -> None:
    """Move one partition's position; the service may run, and reads on from there."""
    from service.commands import offset_set as command  # noqa: PLC0415 - imports every client

    wanted = command.Wanted(
        topic=topic,
        partition=partition,
        to=command.target(to, to_time),
        skip=skip,
        recreated=recreated,
        actor=actor(by),
        note=note or None,
    )
    raise typer.Exit(asyncio.run(command.put(load(), wanted)))


def _replay(
    topic: Topic,
    *,
    from_time: Annotated[str, typer.Option(metavar="RFC3339", help="Records since then.")] = "",
    from_offset: Annotated[int | None, typer.Option(min=0, help="Records from there on.")] = None,
    partition: Annotated[
        list[int] | None, typer.Option(min=0, help="Only these; may be repeated.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Apply each batch and take it back.")
    ] = False,
    by: By = "",
    note: Note = "",
) -> None:
    """Apply part of a topic again, up to where the group stands; moves no position."""
    from service.commands import replay as command  # noqa: PLC0415 - imports every client

    wanted = command.Wanted(
        topic=topic,
        since=command.since(from_time, from_offset),
        partitions=tuple(sorted(set(partition or ()))),
        dry_run=dry_run,
        actor=actor(by),
        note=note or None,
    )
    signals = StopSignals()
    signals.stand_by()
    raise typer.Exit(asyncio.run(command.replay(load(), wanted, signals)))
