"""`reconciler dead-letters list` and `show`: what was parked, and why. Nothing is changed."""

import json
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from service.commands.dead_letter_choice import Choice
from service.commands.dead_letter_text import masked, one_line, shown
from service.commands.reachable import reaching
from service.connections import pool_options
from service.errors import ReconcilerError
from service.observe.redaction import redact
from service.settings import Settings
from service.store import dead_letters
from service.store.dead_letters import VALUE_BYTES_MAX, Counted, Done, Kept, Summary
from service.store.pool import connect

LIST_MAX: Final = 100
SHOWN_BYTES_MAX: Final = 64 * 1024
SHORT_BYTES_MAX: Final = 1_000
_CLOSE_SECONDS = 5


async def list_letters(settings: Settings, choice: Choice, *, as_json: bool) -> int:
    """Print the newest that match, and how many there are by reason; always 0.

    The rows go to stdout, the sum to stderr, so that a pipe gets rows only.
    """

    async def read(connection: Any) -> tuple[list[Counted], list[Summary]]:
        wanted = await choice.wanted(connection)
        counts = await dead_letters.counted(connection, wanted)
        limit = choice.limit or LIST_MAX
        return counts, await dead_letters.newest(connection, wanted, limit=limit)

    counts, letters = await _reading(settings, read)
    if as_json:
        for each in letters:
            sys.stdout.write(json.dumps(_json_of(each)) + "\n")
        return 0
    _print_rows(letters)
    _print_sum(counts, shown_letters=len(letters))
    return 0


async def show(settings: Settings, dead_letter_id: int, *, raw: bool) -> int:
    """Print one dead letter, masked; `raw`: its value's bytes and nothing else.

    Raises ReconcilerError if there is none of this id.
    """

    async def read(connection: Any) -> tuple[Kept | None, list[Done]]:
        kept = await dead_letters.read(connection, dead_letter_id)
        return kept, await dead_letters.history(connection, dead_letter_id)

    kept, done = await _reading(settings, read)
    if kept is None:
        raise ReconcilerError(
            f"no dead letter {dead_letter_id}; `reconciler dead-letters list` shows those there are"
        )
    if raw:
        sys.stdout.flush()
        sys.stdout.buffer.write(kept.letter.value or b"")
        sys.stdout.buffer.flush()
        return 0
    for line in _lines_of(kept, done):
        sys.stdout.write(line + "\n")
    return 0


async def _reading(settings: Settings, read: Callable[[Any], Awaitable[Any]]) -> Any:
    """What `read` gives in one snapshot."""
    options = pool_options(settings.database, application_name="reconciler-dead-letters")
    async with reaching("RECONCILER_DATABASE__URL"):
        connection = await connect(options)
        try:
            async with connection.transaction(isolation="repeatable_read", readonly=True):
                return await read(connection)
        finally:
            await connection.close(timeout=_CLOSE_SECONDS)


_COLUMNS = ("id", "received", "status", "reason", "place", "payment", "bytes", "error")


def _print_rows(letters: Sequence[Summary]) -> None:
    """A table for people; elsewhere a line each, its columns separated by tabs."""
    out = Console(highlight=False, markup=False, emoji=False)
    if not out.is_terminal:
        for each in letters:
            sys.stdout.write("\t".join(_cells(each)) + "\n")
        return
    table = Table(*_COLUMNS)
    for each in letters:
        table.add_row(*_cells(each))
    out.print(table)


def _cells(each: Summary) -> tuple[str, ...]:
    cells = (
        str(each.dead_letter_id),
        each.received_at.isoformat(timespec="seconds"),
        each.status,
        each.reason,
        f"{each.origin.topic}/{each.origin.partition}/{each.origin.offset}",
        each.payment_id or "-",
        "null" if each.value_bytes is None else str(each.value_bytes),
        masked(each.error),
    )
    return tuple(one_line(cell) for cell in cells)


def _print_sum(counts: Sequence[Counted], *, shown_letters: int) -> None:
    told = Console(stderr=True, highlight=False, markup=False, emoji=False)
    total = sum(each.letters for each in counts)
    by_reason = ", ".join(f"{each.reason} {each.letters}" for each in counts)
    seen = f"{total} dead letters" if total != 1 else "1 dead letter"
    rest = f" (the newest {shown_letters} shown: --limit)" if shown_letters < total else ""
    told.print(f"{seen}{rest}{': ' if by_reason else ''}{by_reason}", soft_wrap=True)


def _json_of(each: Summary) -> dict[str, Any]:
    topic, partition, offset = each.origin
    return {
        "dead_letter_id": each.dead_letter_id,
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "reason": each.reason,
        "error": masked(each.error),
        "payment_id": each.payment_id,
        "status": each.status,
        "received_at": each.received_at.isoformat(),
        "value_bytes": each.value_bytes,
    }


def _lines_of(kept: Kept, done: Sequence[Done]) -> list[str]:
    letter = kept.letter
    topic, partition, offset = letter.origin
    key = "none" if letter.key is None else _short(letter.key)
    lines = [
        f"dead letter  {kept.dead_letter_id}, {kept.status}",
        f"reason       {letter.reason}: {one_line(masked(letter.error))}",
        f"place        {one_line(topic)}, partition {partition}, offset {offset}",
        f"received     {kept.received_at.isoformat()}",
        f"payment      {one_line(letter.payment_id or '-')}",
        f"key          {key}",
    ]
    lines += [f"header       {_header(*header)}" for header in letter.headers]
    lines += [f"history      {_done(each)}" for each in done]
    return [*lines, *_value_lines(letter.value)]


def _header(name: str, value: bytes | None) -> str:
    text = "null" if value is None else str(redact(name, _short(value)))
    return f"{one_line(name[:SHORT_BYTES_MAX])}: {text}"


def _short(raw: bytes) -> str:
    """The beginning of a key or a header's value, in one line."""
    text = one_line(shown(_beginning(raw, SHORT_BYTES_MAX)))
    return text if len(raw) <= SHORT_BYTES_MAX else f"{text}… ({len(raw)} bytes)"


def _done(each: Done) -> str:
    outcomes = each.after.get("outcomes", {})
    became = ", ".join(f"{outcome} {number}" for outcome, number in outcomes.items())
    note = f": {each.note}" if each.note else ""
    what = f"{each.after.get('status', each.action)}{f' ({became})' if became else ''}"
    return one_line(f"{each.at.isoformat()} {what} by {each.actor}{note}")


def _value_lines(value: bytes | None) -> list[str]:
    if value is None:
        return ["value        null"]
    cut = f", the first of a value that was larger: {VALUE_BYTES_MAX} are kept"
    size = f"{len(value)} bytes{cut if len(value) >= VALUE_BYTES_MAX else ''}"
    lines = [f"value        {size}", shown(_beginning(value, SHOWN_BYTES_MAX))]
    if len(value) > SHOWN_BYTES_MAX:
        lines.append(f"… cut after {SHOWN_BYTES_MAX} bytes: --raw writes them all")
    return lines


def _beginning(raw: bytes, bytes_max: int) -> bytes:
    """At most so many bytes, not cut within a number, which would hide it from the mask, nor
    within a character.
    """
    if len(raw) <= bytes_max:
        return raw
    kept = raw[:bytes_max].rstrip(b"0123456789 -")
    for left_out in range(4):
        part = kept[: len(kept) - left_out]
        try:
            part.decode()
        except UnicodeDecodeError:
            continue
        return part
    return kept
