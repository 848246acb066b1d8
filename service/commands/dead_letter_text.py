"""Bytes of unknown origin as an operator may see them: harmless to a terminal, secrets masked."""

import re
from typing import Final

from service.observe.redaction import mask_text

# Masking looks at every place of a text from every other: pieces keep that short. None is cut
# within a number, which would hide it from the mask.
_PIECE = re.compile(r".{1,2000}(?<![\d -])|.{1,2000}", re.DOTALL)
_HEX_LINE_BYTES: Final = 32


def masked(text: str) -> str:
    """Text of any length with passwords and card numbers masked."""
    return "".join(mask_text(piece) for piece in _PIECE.findall(text))


def one_line(text: str) -> str:
    """Text without anything that moves a cursor or changes a colour: escaped instead."""
    return _escaped(text, kept="")


def many_lines(text: str) -> str:
    """As `one_line`, but with its line ends and tabs."""
    return _escaped(text, kept="\n\t")


def shown(raw: bytes) -> str:
    """Text as text, anything else in hexadecimal, both masked."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        text = "\x00"
    if "\x00" not in text:
        return many_lines(masked(text))
    # One character a byte: a card number among other bytes is found, too.
    covered = masked(raw.decode("latin-1")).encode("latin-1")
    lines = range(0, len(covered), _HEX_LINE_BYTES)
    return "\n".join(covered[start : start + _HEX_LINE_BYTES].hex(" ") for start in lines)


def _escaped(text: str, *, kept: str) -> str:
    if text.isprintable():
        return text
    return "".join(
        sign if sign in kept or sign.isprintable() else sign.encode("unicode_escape").decode()
        for sign in text
    )
