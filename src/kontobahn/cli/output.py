"""Results of commands: for people or as JSON, printed or written to a file (`--output FILE`), whole or not at all."""

from __future__ import annotations

import errno
import inspect
import os
import tempfile
from collections.abc import Callable, Iterator
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
