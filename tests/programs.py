"""The programs that the project's own Python and shell texts start, and those that set-up installs.

Python is read from its syntax: the first word of every command that is given to subprocess and its kind. A command that is put
together elsewhere cannot be read; tests/test_programs.py lists those. Shell is read word by word, as far as our scripts go.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from tests.tidy_rules import files, parse, walk


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Where commands are started that `make` must be able to run on a bare machine.
FOLDERS = ("tests", "scripts", "bench", "torture", "mutation", "simulators")
# Programs that Debian and Ubuntu have from the start, and those of anybody who cloned the project and called `make`.
BASE = _words(
    "awk basename bash cat chmod chown chroot cp cut date dirname dpkg echo env false find flock free getconf git grep head hostname "
    "id install kill ldconfig ln ls lscpu make mkdir mktemp mount mv nproc ps python3 readlink realpath rm rmdir sed seq setpriv sh "
    "sha256sum sleep sort stat tail tar tee touch tr true umount uname unshare wc xargs apt-get apt-cache"
)
_STARTING = frozenset(
    {("subprocess", name) for name in ("run", "Popen", "check_output", "check_call", "call")}
    | {("asyncio", "create_subprocess_exec"), ("os", "execvp"), ("os", "execv"), ("shutil", "which")}
)
_MAY_START = re.compile(r"subprocess|execv|shutil\.which|find_program|_program")


class Command(NamedTuple):
    """The place where a program is started, and its name; None if it cannot be read."""

    place: str
    program: str | None


def started_by_python(root: Path) -> Iterator[Command]:
    for folder in FOLDERS:
        for name, text in files(root, ".py", under=folder):
            if not _MAY_START.search(text):
                continue
            tree = parse(text)
            of_module = _assigned(_own_nodes(tree))
            for owner, function in _functions(tree):
                nodes = list(_own_nodes(function))
                known = {**of_module, **_assigned(nodes)}
                for call in (node for node in nodes if isinstance(node, ast.Call)):
                    yield from (
                        Command(f"{name}:{owner}", program) for program in _programs(call, known) if program != ""
                    )


def _functions(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """The module and every function, with its name."""
    yield "", tree
    for node in walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node


def _own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """Everything in it but what a function in it holds."""
    waiting = list(ast.iter_child_nodes(function))
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            waiting += ast.iter_child_nodes(node)


def _assigned(nodes: Iterable[ast.AST]) -> dict[str, list[ast.expr]]:
    found: dict[str, list[ast.expr]] = {}
    for node in nodes:
        match node:
            case ast.arg(arg=name):  # whoever calls decides
                found[name] = [ast.Name(name)]
                continue
            case ast.Assign(targets=targets, value=value):
                names = [target.id for target in targets if isinstance(target, ast.Name)]
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                names = [name]
            case ast.For(target=ast.Name(id=name), iter=ast.Tuple(elts=elements) | ast.List(elts=elements)):
                found.setdefault(name, []).extend(elements)
                continue
            case _:
                continue
        for name in names:
            found.setdefault(name, []).append(value)
    return found


def _programs(call: ast.Call, known: dict[str, list[ast.expr]]) -> Iterable[str | None]:
    match call.func:
        case ast.Attribute(value=ast.Name(id=owner), attr=name) if (owner, name) in _STARTING:
            return _first_words(call.args[0], known)
        case ast.Name(id="find_program" | "_program"):
            return _first_words(call.args[0], known)
        case ast.Name(id="map") if ast.unparse(call.args[0]) == "shutil.which":
            return [None]
    return []


def _first_words(node: ast.expr, known: dict[str, list[ast.expr]]) -> list[str | None]:
    """The names that the first word of a command may be; "" where it is our own Python or one of our own files."""
    match node:
        case ast.Constant(value=str(text)):
            return ["" if "/" in text else text]
        case ast.List(elts=[first, *_]) | ast.Tuple(elts=[first, *_]):
            return _first_words(first, known)
        case ast.Starred(value=inner) | ast.Subscript(value=inner):
            return _first_words(inner, known)
        case ast.BinOp(left=inner, op=ast.Add()):
            return _first_words(inner, known)
        case ast.Attribute(value=ast.Name(id="sys"), attr="executable"):
            return [""]
        case ast.Name(id=name) if name in known:
            others = {other: values for other, values in known.items() if other != name}
            return [word for value in known[name] for word in _first_words(value, others)]
        case ast.BoolOp(values=values):
            return [word for value in values for word in _first_words(value, known)]
        case ast.Call(func=ast.Attribute(value=ast.Name(id="shutil"), attr="which"), args=[inner, *_]):
            return _first_words(inner, known)
        case ast.Call(func=ast.Name(id="str" | "find_program" | "_program"), args=[inner, *_]):
            return _first_words(inner, known)
        # A path beside our interpreter or below the project.
        case _ if any(isinstance(part, ast.Attribute) and part.attr == "executable" for part in ast.walk(node)):
            return [""]
        case ast.BinOp(op=ast.Div()) | ast.Call(func=ast.Attribute(attr="with_name")):
            return [""]
    return [None]


# --- Shell

_KEYWORDS = _words(
    "if then elif else fi for in do done while until case esac function select time ! { } [[ ]] (( )) [ ] : . alias break builtin cd "
    "command compgen continue declare eval exec exit export local printf pwd read readonly return set shift source test trap type "
    "ulimit umask unset wait"
)
_BEFORE_A_COMMAND = _words("if then elif else do while until ! time exec env command {")
_QUOTED = re.compile(r"'[^']*'|\"(?:\\.|[^\"\\])*\"")
_HERE = re.compile(r"<<-?\s*['\"]?(\w+)['\"]?[^\n]*\n.*?^\s*\1$", re.DOTALL | re.MULTILINE)
_FUNCTION = re.compile(r"^\s*([\w-]+)\(\)", re.MULTILINE)
_WORD = re.compile(r"[a-z][a-z0-9_.-]*")


def started_by_shell(root: Path) -> Iterator[Command]:
    scripts = [(name, text) for name, text in files(root, ".sh", under="scripts")]
    ours = {function for _, text in scripts for function in _FUNCTION.findall(text)}
    for name, text in scripts:
        for program in _words_in_front(_HERE.sub("<<HERE", text)):
            if program not in ours:
                yield Command(name, program)


def _words_in_front(text: str) -> Iterator[str]:
    """Every word that stands where a command begins."""
    plain = re.sub(r"(^|\s)#.*", "", text.replace("\\\n", " "))
    substituted = re.findall(r"\$\(([^()]*)\)", plain)
    plain = _QUOTED.sub("QUOTED", plain)
    plain = re.sub(r"^.*\w\)\s*$", "", plain, flags=re.MULTILINE)  # the pattern of a case
    for piece in [
        *re.split(r"[;\n|&(){}]+", plain),
        *(part for inner in substituted for part in re.split(r"[;|&]+", inner)),
    ]:
        words = piece.split()
        while words and (words[0] in _BEFORE_A_COMMAND or re.match(r"\w+\+?=|[<>\d]", words[0])):
            words.pop(0)
        if words and _WORD.fullmatch(words[0]) and words[0] not in _KEYWORDS:
            yield words[0]


# --- Set-up

_NEED = re.compile(r"^ *(?:need|compare) (\"[^\"]+\"|\S+) (.+)$", re.MULTILINE)


def installed(root: Path, purpose: str) -> frozenset[str]:
    """Programs that scripts/system-packages.sh installs for a purpose; of alternatives all."""
    script = (root / "scripts" / "system-packages.sh").read_text("utf-8")
    section = re.search(rf"^{purpose}\)\n(.*?)^ *;;", script, re.MULTILINE | re.DOTALL)
    assert section, f"system-packages.sh has no purpose {purpose}"
    programs = (rest.partition("#")[0] for _, rest in _NEED.findall(section[1]))
    return frozenset(program for rest in programs for program in re.split(r"[\s|]+", rest.replace('"', " ").strip()))


def purposes(root: Path) -> list[str]:
    return re.findall(r"^(\w+)\)$", (root / "scripts" / "system-packages.sh").read_text("utf-8"), re.MULTILINE)


# --- A fence


def fenced_path(folder: Path, programs: Iterable[str]) -> str:
    """Fills the folder, so that a PATH of it alone leads to these programs, as far as the machine has them, and to no others."""
    for program in programs:
        if found := shutil.which(program, path=os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"):
            (folder / program).symlink_to(found)
    return str(folder)
