"""Collects the commands and runs one."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from enum import StrEnum
from functools import cache
from importlib import import_module
from typing import Annotated, Any, NamedTuple, NoReturn

import typer
from typer.completion import get_completion_script  # type: ignore[attr-defined] # imported there, not exported

from kontobahn import __version__
from kontobahn.cli.common import JsonOption, say
from kontobahn.cli.failures import ExitCode, ending
from kontobahn.cli.output import add_output_option

NAME = "kontobahn"


class Member(NamedTuple):
    """A command, or a family of them, and where it lives below `kontobahn.cli`."""

    name: str
    module: str
    attribute: str


COMMANDS = (
    Member("serve", "serve", "serve"),
    Member("jobs", "serve", "jobs"),
    Member("migrate", "serve", "migrate"),
    Member("demo", "serve", "demo"),
    Member("listen", "listen", "listen"),
    Member("doctor", "doctor", "doctor"),
    Member("backup", "backup", "backup"),
    Member("restore", "backup", "restore"),
    Member("reconcile", "reconcile", "reconcile"),
)
FAMILIES = (
    Member("organizations", "organizations", "app"),
    Member("users", "users", "app"),
    Member("webhooks", "webhooks", "app"),
    Member("keys", "keys", "app"),
    Member("credits", "credits", "app"),
    Member("books", "books", "app"),
    Member("banks", "banks", "app"),
    Member("sandbox", "sandbox", "app"),
    Member("seller", "mobility", "sellers"),
    Member("customers", "mobility", "buyers"),
    Member("invoices", "mobility", "invoices"),
    Member("import", "files", "imports"),
    Member("export", "files", "exports"),
)


@cache
def command_line(only: str | None = None) -> typer.Typer:
    """All commands, or one alone: each imports what it needs, and the whole takes a second."""
    app = typer.Typer(
        name=NAME,
        help="Ledger, banking and mobility invoicing behind one JSON API.",
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"]},
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        epilog="The data directory is ./data, or KONTOBAHN_DATA, or --data DIR after any command.",
    )
    app.callback()(root)
    for member in COMMANDS:
        if only in (None, member.name):
            app.command(member.name)(_found(member))
    for member in FAMILIES:
        if only in (None, member.name):
            app.add_typer(_found(member), name=member.name)
    app.command("version")(version)
    app.command("completion")(completion)
    add_output_option(app)
    return app


def _found(member: Member) -> Any:
    return getattr(import_module(f"kontobahn.cli.{member.module}"), member.attribute)


def _only(arguments: Sequence[str]) -> str | None:
    """The one command that is wanted, if that is plain."""
    first = arguments[0] if arguments else ""
    return first if any(first == member.name for member in (*COMMANDS, *FAMILIES)) else None


class Shell(StrEnum):
    bash = "bash"
    zsh = "zsh"
    fish = "fish"


def _show_version(wanted: bool) -> None:
    if wanted:
        version()
        raise typer.Exit


def root(
    show_version: Annotated[
        bool, typer.Option("--version", "-V", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def version(as_json: JsonOption = False) -> None:
    """Print the version."""
    say({"version": __version__}, f"{NAME} {__version__}", as_json=as_json)


def completion(shell: Annotated[Shell, typer.Argument(help="Your shell.")]) -> None:
    """Print the completion script for a shell; docs/operating.md says where to put it.

    Example: kontobahn completion bash > ~/.local/share/bash-completion/completions/kontobahn
    """
    print(get_completion_script(prog_name=NAME, complete_var=f"_{NAME.upper()}_COMPLETE", shell=shell.value))


def main() -> NoReturn:
    raise SystemExit(run())


def run(arguments: Sequence[str] | None = None) -> int:
    """Runs one command line, and returns its exit code. Nothing is raised, and no traceback is shown."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a terminal that is not UTF-8 shows the code of a letter
    try:
        arguments = sys.argv[1:] if arguments is None else arguments
        command = command_line(_only(arguments))
        _collect_garbage_again()
        code = command(arguments, prog_name=NAME, standalone_mode=False) or ExitCode.DONE
        sys.stdout.flush()
        sentence = "Interrupted." if code == ExitCode.INTERRUPTED else ""
    except BaseException as error:
        sentence, code = ending(error)
        _give_up_output()
    if sentence:
        try:
            print(f"{NAME}: {sentence}", file=sys.stderr, flush=True)
        except (OSError, ValueError):
            pass  # nobody can be told; the code says it
    return int(code)


def _collect_garbage_again() -> None:
    """Garbage is not collected while the program is imported (`__main__`); what it then consists of is never looked at again."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()


def _give_up_output() -> None:
    """Keeps Python from failing once more, and aloud, when it flushes standard output at its end."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        own = sys.__stdout__
        if own is not None and sys.stdout is own:
            os.dup2(os.open(os.devnull, os.O_WRONLY), own.fileno())
