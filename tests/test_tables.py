"""Every table belongs to one room, and only its room names it in SQL: the others read it through that room's functions."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.tidy_rules import parse, walk

SOURCE = Path(__file__).parent.parent / "src" / "kontobahn"
# Adapters of the banking port have their folders below one of their own; every other room is a folder or a module of its name.
ADAPTERS = {name: f"bank_providers/{name}" for name in ("ebics", "enable_banking", "fints", "sandbox")}
# Names a table for a statement that is made from the database's own catalogue.
CATALOGUE = {"cli/organizations.py"}
_NAMED = re.compile(r"\b(?:FROM|JOIN|INTO|UPDATE|TABLE)\s+(?:IF NOT EXISTS\s+)?([a-z_0-9]+)")


class Mention(NamedTuple):
    file: str
    line: int
    table: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} names {self.table}, which belongs to {owner(self.table)}"


@cache
def owners() -> dict[str, str]:
    """The room of each table: the one that the file of its schema is named after."""
    found = {}
    for path in (SOURCE / "db" / "schema").glob("*.sql"):
        room = path.name.partition(".")[0]
        for table in re.findall(r"^CREATE TABLE (?:IF NOT EXISTS )?([a-z_0-9]+)", path.read_text(), re.MULTILINE):
            found[table] = ADAPTERS.get(room, room)
    return found


def owner(table: str) -> str:
    return owners()[table]


def is_in(room: str, file: str) -> bool:
    return file == f"{room}.py" or file.startswith(f"{room}/")


def texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The texts of a module with their lines; what an f-string puts in is left open. Docstrings are none."""
    passed = {id(node.value) for node in walk(tree) if isinstance(node, ast.Expr)}
    for node in walk(tree):
        if isinstance(node, ast.JoinedStr):
            passed |= {id(part) for part in node.values}
            yield (
                node.lineno,
                "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values),
            )
    for node in walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in passed:
            yield node.lineno, node.value


def mentions(file: str, tree: ast.Module, known: set[str]) -> Iterator[Mention]:
    """The tables that SQL of this module names, and names that stand alone, from which SQL may be made."""
    for line, text in texts(tree):
        for table in {*_NAMED.findall(text), *([text] if "_" in text and file not in CATALOGUE else [])} & known:
            yield Mention(file, line, table)


def declared(trees: dict[str, ast.Module]) -> dict[tuple[str, str], str]:
    """The table of each `ROWS = Table("…", Row)`, by module and name."""
    found = {}
    for file, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and node.value.args:
                call, target = node.value, node.targets[0]
                is_table = isinstance(call.func, ast.Name) and call.func.id == "Table"
                if is_table and isinstance(target, ast.Name) and isinstance(call.args[0], ast.Constant):
                    found[_module(file), target.id] = str(call.args[0].value)
    return found


def uses(file: str, tree: ast.Module, rows: dict[tuple[str, str], str]) -> Iterator[Mention]:
    """The tables that a module reaches by a `Table` of another one."""
    modules: dict[str, str] = {}
    for node in walk(tree):
        if isinstance(node, ast.ImportFrom):
            for name in node.names:
                modules[name.asname or name.name] = f"{node.module}.{name.name}"
                if table := rows.get((node.module or "", name.name)):
                    yield Mention(file, node.lineno, table)
    for node in walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            table = rows.get((modules.get(node.value.id, ""), node.attr))
            if table is not None:
                yield Mention(file, node.lineno, table)


def _module(file: str) -> str:
    return "kontobahn." + file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def test_only_the_room_of_a_table_names_it_in_sql() -> None:
    known = set(owners())
    trees = {path.relative_to(SOURCE).as_posix(): parse(path.read_text()) for path in sorted(SOURCE.rglob("*.py"))}
    rows = declared(trees)
    found = [
        mention
        for file, tree in trees.items()
        for mention in (*mentions(file, tree, known), *uses(file, tree, rows))
        if not is_in(owner(mention.table), file)
    ]
    assert not found, "\n".join(map(str, found))


def test_every_table_belongs_to_a_room_that_exists() -> None:
    assert len(owners()) > 50
    missing = {
        room for room in owners().values() if not ((SOURCE / room).is_dir() or (SOURCE / f"{room}.py").is_file())
    }
    assert not missing
