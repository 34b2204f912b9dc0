"""Tables for people. A word (an id, a date, an address) is never broken over two lines, however narrow the terminal is."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import Any

GAP = 2


def text_of(cell: Any) -> str:
    """A cell as one line; what could control a terminal is shown, not sent."""
    if cell is None:
        return ""
    if isinstance(cell, (list, tuple)):
        return ", ".join(map(text_of, cell))
    words = str(cell).replace("\n", " ").replace("\r", " ").replace("\t", " ")
    return words if words.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in words)


def render_table(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], width: int | None, *, bold: bool = False
) -> str:
    """Returns the table for a terminal of this width, with wrapped sentences, or as one block a row where it does not fit.

    Without a width (a pipe has none) nothing is wrapped.
    """
    cells = [[text_of(cell) for cell in row] for row in rows]
    widths = _widths([list(columns), *cells], width)
    if widths is None:
        return _blocks(columns, cells)
    lines = []
    for number, row in enumerate([list(columns), *cells]):
        wrapped = [
            textwrap.wrap(cell, size, break_long_words=False, break_on_hyphens=False) or [""]
            if _length(cell) > size
            else [cell]
            for cell, size in zip(row, widths, strict=True)
        ]
        for level in range(max(map(len, wrapped))):
            parts = [part[level] if level < len(part) else "" for part in wrapped]
            line = (" " * GAP).join(
                part + " " * (size - _length(part)) for part, size in zip(parts, widths, strict=True)
            )
            lines.append(f"\x1b[1m{line.rstrip()}\x1b[0m" if bold and not number else line.rstrip())
    return "\n".join(lines)


def _widths(rows: list[list[str]], width: int | None) -> list[int] | None:
    """Returns how wide each column may be, or None if the words alone are too wide."""
    columns = list(zip(*rows, strict=True))
    widths = [max(map(_length, column)) for column in columns]
    least = [max(_length(word) for cell in column for word in (cell.split() or [""])) for column in columns]
    if width is None:
        return widths
    room = width - GAP * (len(columns) - 1)
    if sum(least) > room:
        return None
    while sum(widths) > room:
        widest = max((i for i in range(len(widths)) if widths[i] > least[i]), key=lambda i: widths[i])
        widths[widest] -= 1
    return widths


def _blocks(columns: Sequence[str], cells: list[list[str]]) -> str:
    size = max(map(_length, columns))
    return "\n\n".join(
        "\n".join(f"{name.ljust(size)}  {cell}".rstrip() for name, cell in zip(columns, row, strict=True))
        for row in cells
    )


def _length(text: str) -> int:
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    is_terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if is_terminal else None
    plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    print(render_table(columns, rows, width, bold=is_terminal and not plain))
