"""Collects the commands and runs one."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, NoReturn

import typer
from typer.completion import get_completion_script  # type: ignore[attr-defined] # imported there, not exported

from kontobahn import __version__
from kontobahn.cli import (
    backup,
    books,
    credits,
    doctor,
    files,
    keys,
    listen,
    mobility,
    organizations,
    sandbox,
    serve,
    users,
    webhooks,
)
from kontobahn.cli.common import JsonOption, say
from kontobahn.cli.failures import ExitCode, ending
from kontobahn.cli.output import add_output_option

NAME = "kontobahn"
app = typer.Typer(
    name=NAME,
    help="Ledger, banking and mobility invoicing behind one JSON API.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    epilog="The data directory is ./data, or KONTOBAHN_DATA, or --data DIR after any command.",
)
app.command("serve")(serve.serve)
app.command("jobs")(serve.jobs)
app.command("migrate")(serve.migrate)
app.command("demo")(serve.demo)
app.command("listen")(listen.listen)
app.command("doctor")(doctor.doctor)
app.command("backup")(backup.backup)
app.command("restore")(backup.restore)
app.add_typer(organizations.app, name="organizations")
app.add_typer(users.app, name="users")
app.add_typer(webhooks.app, name="webhooks")
app.add_typer(keys.app, name="keys")
app.add_typer(credits.app, name="credits")
app.add_typer(books.app, name="books")
app.add_typer(sandbox.app, name="sandbox")
app.add_typer(mobility.sellers, name="seller")
app.add_typer(mobility.buyers, name="customers")
app.add_typer(mobility.invoices, name="invoices")
files.imports.command("tickets")(mobility.import_tickets)
app.add_typer(files.imports, name="import")
app.add_typer(files.exports, name="export")


class Shell(StrEnum):
    bash = "bash"
    zsh = "zsh"
    fish = "fish"


def _show_version(wanted: bool) -> None:
    if wanted:
        version()
        raise typer.Exit


@app.callback()
def root(
    show_version: Annotated[
        bool, typer.Option("--version", "-V", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command("version")
def version(as_json: JsonOption = False) -> None:
    """Print the version."""
    say({"version": __version__}, f"{NAME} {__version__}", as_json=as_json)


@app.command("completion")
def completion(shell: Annotated[Shell, typer.Argument(help="Your shell.")]) -> None:
    """Print what makes a shell complete commands and options; docs/operating.md says where to put it.

    Example: kontobahn completion bash > ~/.local/share/bash-completion/completions/kontobahn
    """
    print(get_completion_script(prog_name=NAME, complete_var=f"_{NAME.upper()}_COMPLETE", shell=shell.value))


add_output_option(app)


def main() -> NoReturn:
    raise SystemExit(run())


def run(arguments: Sequence[str] | None = None) -> int:
    """Runs one command line, and returns its exit code. Nothing is raised, and no traceback is shown."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a terminal that is not UTF-8 shows the code of a letter
    try:
        code = app(arguments, prog_name=NAME, standalone_mode=False) or ExitCode.DONE
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


def _give_up_output() -> None:
    """Keeps Python from failing once more, and aloud, when it flushes standard output at its end."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        own = sys.__stdout__
        if own is not None and sys.stdout is own:
            os.dup2(os.open(os.devnull, os.O_WRONLY), own.fileno())
