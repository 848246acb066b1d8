"""`reconciler dead-letters` on the command line: names, options and help texts."""

import asyncio
from typing import Annotated, Literal

import typer

from service.commands.operator import By, Note, actor
from service.settings_loading import load

_ID_MAX = (1 << 63) - 1

Status = Literal["parked", "replayed", "discarded"]
Replayable = Literal["parked", "discarded"]
Letter = Annotated[
    int, typer.Argument(metavar="ID", min=1, max=_ID_MAX, help="The dead letter's id.")
]
Letters = Annotated[
    list[int] | None,
    typer.Argument(metavar="[ID]...", min=1, max=_ID_MAX, help="The dead letters' ids."),
]
Named = Annotated[
    list[int] | None,
    typer.Option("--id", min=1, max=_ID_MAX, help="The same as ID; may be repeated."),
]
Reason = Annotated[str | None, typer.Option(help="Only of this reason code.")]
Topic = Annotated[str | None, typer.Option(help="Only from this topic.")]
Payment = Annotated[str | None, typer.Option(help="Only of this payment id.")]
Since = Annotated[
    str | None,
    typer.Option(help="Only parked at or after: RFC 3339 with offset, or a time ago (2h, 7d)."),
]
Until = Annotated[str | None, typer.Option(help="Only parked before; as --since.")]
Limit = Annotated[int | None, typer.Option(min=1, help="At most so many.")]
Everything = Annotated[bool, typer.Option("--all", help="All that have the status.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Change nothing; say what would be.")]


def add_dead_letters(line: typer.Typer) -> None:
    """Add the group to the application."""
    group = typer.Typer(
        help="Records that could not become events: look at them, replay or discard them.",
        no_args_is_help=True,
    )
    line.add_typer(group, name="dead-letters")
    _add_list(group)
    _add_show(group)
    _add_replay(group)
    _add_discard(group)


def _add_list(group: typer.Typer) -> None:
    @group.command("list")
    def list_(
        reason: Reason = None,
        topic: Topic = None,
        payment: Payment = None,
        status: Annotated[Status, typer.Option(help="Only of this status.")] = "parked",
        since: Since = None,
        until: Until = None,
        limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 100,
        *,
        as_json: Annotated[
            bool, typer.Option("--json", help="One JSON object a line, and no sum.")
        ] = False,
    ) -> None:
        """List dead letters, the newest first; their number by reason goes to stderr."""
        from service.commands import dead_letters as command  # noqa: PLC0415 - as the others
        from service.commands.dead_letter_choice import Choice  # noqa: PLC0415 - as the others

        choice = Choice(
            status=status,
            reason=reason,
            topic=topic,
            payment=payment,
            since=since,
            until=until,
            limit=limit,
        )
        _leave(asyncio.run(command.list_letters(load(), choice, as_json=as_json)))


def _add_show(group: typer.Typer) -> None:
    @group.command()
    def show(
        dead_letter_id: Letter,
        *,
        raw: Annotated[
            bool,
            typer.Option("--raw", help="Write the value's bytes as they are, and nothing else."),
        ] = False,
    ) -> None:
        """Print all of one dead letter; card numbers and passwords are masked."""
        from service.commands import dead_letters as command  # noqa: PLC0415 - as the others

        _leave(asyncio.run(command.show(load(), dead_letter_id, raw=raw)))


def _add_replay(group: typer.Typer) -> None:
    @group.command()
    def replay(  # noqa: PLR0913 - a parameter an option
        ids: Letters = None,
        *,
        named: Named = None,
        reason: Reason = None,
        topic: Topic = None,
        payment: Payment = None,
        status: Annotated[
            Replayable, typer.Option(help="Take back discarded ones, too: say it explicitly.")
        ] = "parked",
        since: Since = None,
        until: Until = None,
        limit: Limit = None,
        everything: Everything = False,
        dry_run: DryRun = False,
        note: Note = "",
        by: By = "",
    ) -> None:
        """Apply dead letters as if their records had just come, with the settings of today.

        Each in a transaction of its own, in the order of its topic; one that is replayed already
        stays as it is, so it may be said again. One that is still refused stays parked and is
        told: exit 1. One that was discarded is only replayed with --status discarded.
        """
        from service.commands import dead_letter_changes as command  # noqa: PLC0415 - as the others
        from service.commands.dead_letter_choice import Choice  # noqa: PLC0415 - as the others
        from service.ingest.letter_replay import By as Operator  # noqa: PLC0415 - as the others

        choice = Choice(
            ids=(*(ids or ()), *(named or ())),
            status=status,
            reason=reason,
            topic=topic,
            payment=payment,
            since=since,
            until=until,
            limit=limit,
            everything=everything,
        )
        operator = Operator(actor=actor(by), note=note.strip() or None)
        _leave(asyncio.run(command.replay_letters(load(), choice, by=operator, dry_run=dry_run)))


def _add_discard(group: typer.Typer) -> None:
    @group.command()
    def discard(  # noqa: PLR0913 - a parameter an option
        ids: Letters = None,
        *,
        named: Named = None,
        reason: Reason = None,
        topic: Topic = None,
        payment: Payment = None,
        since: Since = None,
        until: Until = None,
        limit: Limit = None,
        everything: Everything = False,
        dry_run: DryRun = False,
        note: Note = "",
        by: By = "",
    ) -> None:
        """Mark parked dead letters as never to be applied. Their bytes are kept."""
        from service.commands import dead_letter_changes as command  # noqa: PLC0415 - as the others
        from service.commands.dead_letter_choice import Choice  # noqa: PLC0415 - as the others
        from service.ingest.letter_replay import By as Operator  # noqa: PLC0415 - as the others

        choice = Choice(
            ids=(*(ids or ()), *(named or ())),
            reason=reason,
            topic=topic,
            payment=payment,
            since=since,
            until=until,
            limit=limit,
            everything=everything,
        )
        operator = Operator(actor=actor(by), note=note.strip() or None)
        _leave(asyncio.run(command.discard_letters(load(), choice, by=operator, dry_run=dry_run)))


def _leave(code: int) -> None:
    raise typer.Exit(code)
