"""Collects the commands and runs one."""

from __future__ import annotations

import ast
import difflib
import errno
import gc
import getpass
import inspect
import os
import re
import sys
from collections.abc import Sequence
from enum import IntEnum, StrEnum
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NamedTuple, NoReturn, TypeGuard

import typer
from typer.completion import get_completion_script  # type: ignore[attr-defined] # imported there, not exported
from typer.exceptions import TyperException

from kontobahn import __version__, log
from kontobahn.cli.output import JsonOption, add_output_option, say
from kontobahn.errors import KontobahnError, Unavailable

# Whatever ends a command becomes one sentence and an exit code here, and nowhere else. Nobody sees a traceback.
#
# The codes are explained in docs/operating.md; a test holds the two together.


_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NOT_ALLOWED = (errno.EACCES, errno.EPERM, errno.EROFS)
_WRONG_KIND = (errno.ENOTDIR, errno.EEXIST)
_PASSING = (errno.EIO, errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.EBUSY, errno.ENOMEM, errno.ETXTBSY)
_DATABASES = ("sqlite3", "psycopg")
_NO_COMMAND = re.compile(r"No such command '(.*?)'\.", re.DOTALL)


class ExitCode(IntEnum):
    DONE = 0
    REFUSED = 1
    USAGE = 2
    UNAVAILABLE = 3
    BUG = 4
    INTERRUPTED = 130
    READER_GONE = 141


class Ending(NamedTuple):
    # Empty if there is nothing to say.
    sentence: str
    code: int


def ending(error: BaseException) -> Ending:
    """Returns what to say about whatever ended a command, and the exit code."""
    match error:
        case SystemExit():
            # Typer leaves with 1 for a pipe that nobody reads.
            if isinstance(error.__context__, BrokenPipeError):
                return Ending("", ExitCode.READER_GONE)
            return Ending("", error.code if isinstance(error.code, int) else ExitCode.DONE)
        case TyperException():
            return Ending(_usage(error), error.exit_code)
        case typer.Abort() | KeyboardInterrupt() | EOFError():
            return Ending("Interrupted.", ExitCode.INTERRUPTED)
        case Unavailable():
            return Ending(f"{error} {log.redact(error.operator or '')}".strip(), ExitCode.UNAVAILABLE)
        case KontobahnError():
            return Ending(str(error), ExitCode.REFUSED)
        case BrokenPipeError():
            # `kontobahn … | head` has seen enough; programs say nothing then.
            return Ending("", ExitCode.READER_GONE)
        case OSError():
            return _of_system(error)
        case MemoryError():
            return Ending("There is not enough memory for this.", ExitCode.UNAVAILABLE)
        case OverflowError():
            return Ending(f"A number is too large ({error}).", ExitCode.REFUSED)
        case UnicodeError():
            return Ending(f"A text is not UTF-8 ({error}).", ExitCode.REFUSED)
    return _of_program(error)


def is_help(error: BaseException) -> TypeGuard[TyperException]:
    """Tells whether nothing is wrong but that nothing was asked for: then the help is what there is to say."""
    return type(error).__name__ == "NoArgsIsHelpError"


def _usage(error: TyperException) -> str:
    if is_help(error):
        return ""
    context = getattr(error, "ctx", None)
    hint = f" See `{context.command_path} --help`." if context is not None else ""
    said = error.format_message()
    if type(error).__name__ == "NoSuchOption":
        said = f"There is no option {error.option_name}.{_meant(error.possibilities or ())}"  # type: ignore[attr-defined]
    elif context is not None and (unknown := _NO_COMMAND.match(said)):
        known = context.command.list_commands(context)
        said = f"There is no command “{unknown[1]}”.{_meant(difflib.get_close_matches(unknown[1], known, 2))}"
    return " ".join(f"{said if said.endswith('?') else said.rstrip('.') + '.'}{hint}".split())


def _meant(near: Sequence[str]) -> str:
    return f" Did you mean {' or '.join(near)}?" if near else ""


def _of_system(error: OSError) -> Ending:
    path = error.filename2 or error.filename
    name = os.fsdecode(path) if isinstance(path, (str, bytes, os.PathLike)) else ""
    reason = error.strerror or str(error) or type(error).__name__
    if error.errno in _NO_ROOM:
        return Ending(f"There is no room left on the disk{_at(name)}.", ExitCode.UNAVAILABLE)
    if error.errno in _NOT_ALLOWED and name:
        return Ending(f"The user {_user()} may not use {name} ({reason.lower()}).", ExitCode.REFUSED)
    if error.errno in _WRONG_KIND and name and (file := _file_on_the_way(name)):
        return Ending(f"{file} is a file, not a directory.", ExitCode.REFUSED)
    if error.errno == errno.EISDIR and name:
        return Ending(f"{name} is a directory, not a file.", ExitCode.REFUSED)
    if error.errno == errno.ENOENT and name:
        parent = Path(name).absolute().parent
        missing = f"There is no directory {parent}." if not parent.exists() else f"{name} does not exist."
        return Ending(missing, ExitCode.REFUSED)
    passing = isinstance(error, (ConnectionError, TimeoutError)) or error.errno in _PASSING
    return Ending(f"{name}: {reason}." if name else f"{reason}.", ExitCode.UNAVAILABLE if passing else ExitCode.REFUSED)


def _of_program(error: BaseException) -> Ending:
    text = log.redact(" ".join(f"{type(error).__name__}: {error}".split()))[:500]
    if type(error).__module__.partition(".")[0] in _DATABASES:
        return Ending(f"The database refused: {text}. `kontobahn doctor` says more.", ExitCode.REFUSED)
    log.debug_exception("command_crashed", error)
    return Ending(
        f"This is a bug in Kontobahn: {text}. KONTOBAHN_LOG_LEVEL=debug shows where; please report it.", ExitCode.BUG
    )


def _at(name: str) -> str:
    return f" of {name}" if name else ""


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def _file_on_the_way(name: str) -> Path | None:
    """Returns the part of the path that is a file where a directory is needed."""
    path = Path(name).absolute()
    return next((part for part in (path, *path.parents) if os.path.isfile(part)), None)


NAME = "kontobahn"
LISTED = ""
# Rows of a large file stay for a while and hold no circles: at Python's own pace, looking through them would be a tenth of an import.
_GARBAGE_AFTER = (50_000, 20, 100)


class Member(NamedTuple):
    """A command, or a family of them, and where it lives below `kontobahn.cli`."""

    name: str
    module: str
    attribute: str
    # Of a family; a command says it itself.
    help: str = ""

    def load(self) -> Any:
        return getattr(import_module(f"kontobahn.cli.{self.module}"), self.attribute)

    def described(self) -> str:
        """Returns its help without importing it: for all of them that would take a second."""
        if self.help:
            return self.help
        module = ast.parse(Path(__file__).with_name(f"{self.module}.py").read_text("utf-8"))
        functions = {item.name: item for item in module.body if isinstance(item, ast.FunctionDef)}
        return ast.get_docstring(functions[self.attribute]) or ""


COMMANDS = (
    Member("serve", "serve", "serve"),
    Member("jobs", "serve", "jobs"),
    Member("migrate", "serve", "migrate"),
    Member("demo", "serve", "demo"),
    Member("listen", "webhooks", "listen"),
    Member("mcp", "mcp", "mcp"),
    Member("doctor", "doctor", "doctor"),
    Member("backup", "backup", "backup"),
    Member("restore", "backup", "restore"),
    Member("reconcile", "reconcile", "reconcile"),
)
FAMILIES = (
    Member("organizations", "organizations", "app", "Organisations: the owners of data and credits."),
    Member("users", "users", "app", "Users: the first person of an organisation; later ones are invited."),
    Member("webhooks", "webhooks", "app", "Webhooks: where events are sent, beside the one URL of the API."),
    Member("keys", "keys", "app", "API keys: create, list, rotate, revoke."),
    Member("credits", "credits", "app", "Credits: grant them, and read every movement."),
    Member("books", "books", "app", "The built-in ledger: connections, clients, services and rights."),
    Member("banks", "banks", "app", "Providers of bank connections."),
    Member("sandbox", "sandbox", "app", "The sandbox bank: book, expire, fail, destroy, and move its clock."),
    Member("seller", "mobility", "sellers", "Who an organisation is on its invoices."),
    Member("customers", "mobility", "buyers", "The customers of transport tickets."),
    Member(
        "invoices", "mobility", "invoices", "Invoices: check received ones, and see to those for transport tickets."
    ),
    Member("payables", "payables", "app", "Received invoices: import them, list them."),
    Member("import", "files", "imports", "Import files."),
    Member("export", "files", "exports", "Export files."),
)


@cache
def command_line(only: str | None = None) -> typer.Typer:
    """All commands, or one of them; the name of none makes a command line that can only be listed.

    Each imports what it needs, and together they take a second.
    """
    app = typer.Typer(
        name=NAME,
        help="Ledger, banking and mobility invoicing behind one JSON API.",
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"]},
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # Rich would be two thirds of the time that the help takes
        epilog="The data directory is ./data, or KONTOBAHN_DATA, or --data DIR after any command.",
    )
    app.callback()(root)
    for member in COMMANDS:
        if only in (None, member.name):
            app.command(member.name)(member.load())
        elif only == LISTED:
            app.command(member.name, help=member.described())(_listed)
    app.command("version")(version)
    app.command("completion")(completion)
    for member in FAMILIES:
        if only in (None, member.name):
            app.add_typer(member.load(), name=member.name, help=member.help)
        elif only == LISTED:
            app.command(member.name, help=member.help)(_listed)
    add_output_option(app)
    _list_in_full(app)
    return app


def _list_in_full(app: typer.Typer) -> None:
    """Lists of commands show all of their first paragraph, which is cut otherwise."""
    for group in app.registered_groups:
        if group.typer_instance is not None:
            group.short_help = str(group.help)
            _list_in_full(group.typer_instance)
    for command in app.registered_commands:
        text = command.help or inspect.getdoc(command.callback) or ""
        command.short_help = " ".join(text.partition("\n\n")[0].split())


def _listed() -> None:
    raise AssertionError("a command that is named is loaded")


def _wanted(arguments: Sequence[str]) -> str:
    """The command that is named first, by a person or by a shell that completes a line; else the list of them is enough."""
    completing = os.environ.get("_TYPER_COMPLETE_ARGS", os.environ.get("COMP_WORDS", "")).split()[1:]
    first = (completing if f"_{NAME.upper()}_COMPLETE" in os.environ else [*arguments])[:1]
    return first[0] if any(first == [member.name] for member in (*COMMANDS, *FAMILIES)) else LISTED


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
    if shell is Shell.bash:
        print("# Scopes have a colon, at which bash would begin a new word.\nCOMP_WORDBREAKS=${COMP_WORDBREAKS//:/}")


def main() -> NoReturn:
    raise SystemExit(run())


def run(arguments: Sequence[str] | None = None) -> int:
    """Runs one command line, and returns its exit code. Nothing is raised, and no traceback is shown."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a terminal that is not UTF-8 shows the code of a letter
    try:
        arguments = sys.argv[1:] if arguments is None else arguments
        command = command_line(_wanted(arguments))
        collect_garbage_again()
        code = command(arguments, prog_name=NAME, standalone_mode=False) or ExitCode.DONE
        sys.stdout.flush()
        sentence = "Interrupted." if code == ExitCode.INTERRUPTED else ""
    except BaseException as error:
        sentence, code = ending(error)
        _give_up_output()
        if is_help(error):
            print(error.format_message(), file=sys.stderr)
    if sentence:
        try:
            print(f"{NAME}: {sentence}", file=sys.stderr, flush=True)
        except (OSError, ValueError):
            pass  # nobody can be told; the code says it
    return int(code)


def collect_garbage_again() -> None:
    """Garbage is not collected while the program is imported (`__main__`); what it then consists of is never looked at again."""
    gc.set_threshold(*_GARBAGE_AFTER)
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
