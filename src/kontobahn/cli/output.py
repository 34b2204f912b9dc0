"""Results of commands: for people or as JSON, printed or written to a file (`--output FILE`), whole or not at all."""

from __future__ import annotations

import errno
import inspect
import os
import shutil
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, TextIO

import msgspec
import typer

from kontobahn.errors import BadRequest
from kontobahn.json_text import plain

JsonOption = Annotated[bool, typer.Option("--json", help="Output for scripts.")]
# It prints for as long as it runs; a shell's redirection is made for that.
_ENDLESS = ("listen",)
# A directory that is there and takes no files; some of the system's own say that the new file does not exist.
_REFUSING = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTSUP)
OutputOption = Annotated[
    Path | None,
    typer.Option(
        "--output", "-O", metavar="FILE", help="Write what would be printed to this file, whole or not at all."
    ),
]


def say(facts: Any, text: str, *, as_json: bool) -> None:
    print(msgspec.json.encode(facts, enc_hook=plain).decode() if as_json else text)


def add_output_option(app: typer.Typer) -> None:
    """Gives `--output` to every command that has `--json`, here and below."""
    for group in app.registered_groups:
        if group.typer_instance is not None:
            add_output_option(group.typer_instance)
    for command in app.registered_commands:
        if command.callback is None or command.name in _ENDLESS:
            continue
        parameters = inspect.signature(command.callback).parameters
        if "as_json" in parameters and "output" not in parameters:
            command.callback = _written(command.callback)


def _written(callback: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(callback)
    def run(*arguments: Any, output: Path | None = None, **options: Any) -> Any:
        if output is None:
            return callback(*arguments, **options)
        with whole_file(output) as file, redirect_stdout(file):
            try:
                return callback(*arguments, **options)
            except typer.Exit as done:
                # Findings were printed; the exit code says what they mean.
                code = done.exit_code
        raise typer.Exit(code)

    # Typer reads the signature, which is the command's own and one more.
    signature = inspect.signature(callback, eval_str=True)
    added = inspect.Parameter("output", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=OutputOption)
    parameters = [*signature.parameters.values(), added]
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {item.name: item.annotation for item in parameters}
    return run


def cannot_make(path: Path, error: OSError) -> Exception:
    """Returns what to raise if a file could not be made beside `path`, under a name that nobody has heard of."""
    if error.errno in _REFUSING and path.parent.is_dir():
        return BadRequest(f"No file can be made in {path.parent} ({(error.strerror or '').lower()}).")
    return OSError(error.errno, error.strerror, str(path))


@contextmanager
def whole_file(path: Path) -> Iterator[TextIO]:
    """Yields a file that takes the place of `path` if all goes well. What cannot be written is found before any work is done."""
    if path.exists() and not path.is_file():  # a pipe, a terminal, /dev/null: there is nothing to replace
        with path.open("w", encoding="utf-8") as stream:
            yield stream
        return
    path = path.resolve()
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise cannot_make(path, error) from None
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


# Tables for people. A word (an id, a date, an address) is never broken over two lines, however narrow the terminal is.


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
