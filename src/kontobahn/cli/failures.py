"""Whatever ends a command becomes one sentence and an exit code here, and nowhere else. Nobody sees a traceback.

The codes are explained in docs/operating.md; a test holds the two together.
"""

from __future__ import annotations

import difflib
import errno
import getpass
import os
import re
from collections.abc import Sequence
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple, TypeGuard

import typer
from typer.exceptions import TyperException

from kontobahn import log
from kontobahn.errors import KontobahnError, Unavailable

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
