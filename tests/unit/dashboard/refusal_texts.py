"""Collects from the source what areas may say to a person: codes of sentences, and sentences without holes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import kontobahn
from tests.tidy_rules import parse, walk

SOURCE = Path(kontobahn.__file__).parent
ROOMS = ("access", "api", "bank_providers", "banking", "books", "credits.py", "dashboard", "errors.py", "events", "formats",
         "ledger", "mobility", "outbound.py", "payables", "reconciliation", "webhooks")  # fmt: skip
# Told by a call about itself, not about a request; and texts that have their German in another way.
_NOT_SAID = ("get", "post", "put", "delete", "Meta", "form", "N_", "_", "gettext", "ngettext", "said")
_SENTENCE = re.compile(r"[A-Z'“`{].*[a-z]{2} [a-z].*(\.|\{\})", re.DOTALL)
_SQL = re.compile(r"(?:\{\w*\} )?(SELECT|INSERT|UPDATE|DELETE|WITH|CREATE|FROM|JOIN) ")


def sentences() -> dict[str, str]:
    """Every sentence that is not made by `said`, with the place that says it; with `{}` for what an f-string fills in."""
    found: dict[str, str] = {}
    for place, statement in _statements():
        if re.split("[/:]", place)[0] in ROOMS:
            for text in _texts(statement):
                if _SENTENCE.fullmatch(text) and not _SQL.match(text):
                    found.setdefault(text, place)
    return found


def codes() -> dict[str, str]:
    """The code of every sentence that `said` makes, with its place; `?` and the line for one that is not written out."""
    return {
        str(node.args[0].value) if isinstance(node.args[0], ast.Constant) else f"? {place}:{node.lineno}": place
        for place, statement in _statements()
        for node in ast.walk(statement)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "said"
    }


@cache
def _statements() -> list[tuple[str, ast.stmt]]:
    """Each statement of each module, as `room/module.py:name`."""
    return [
        (f"{path.relative_to(SOURCE).as_posix()}:{_name(statement)}", statement)
        for path in sorted(SOURCE.rglob("*.py"))
        for statement in parse(path.read_text("utf-8")).body
    ]


def _name(statement: ast.stmt) -> str:
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return name
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return name
    return ""


def forms() -> set[str]:
    """Returns what fields must be, in words: `form("a VAT id", …)`."""
    return {
        str(node.args[0].value)
        for path in SOURCE.rglob("*.py")
        if "form(" in (source := path.read_text("utf-8"))
        for node in walk(parse(source))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "form"
        and isinstance(node.args[0], ast.Constant)
    }


def plain(text: str) -> str:
    """Without the names of what is filled in; two side by side are one."""
    return re.sub(r"(\{\w*\})+", "{}", text)


def _texts(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return  # a docstring
    if isinstance(node, ast.Call):
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        if name in _NOT_SAID:
            return
    text = _text(node)
    if text is not None:
        yield text
        return
    for child in ast.iter_child_nodes(node):
        yield from _texts(child)


def _text(node: ast.AST) -> str | None:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return plain("".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values))
    return None
