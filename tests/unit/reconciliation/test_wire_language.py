"""The wire of reconciliation is English in snake_case: fields, queries, values, events and errors, but for three nouns of accounting."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import inspect as shape

from kontobahn.reconciliation.wire import EVENTS
from tests.spec_pages import ENDPOINTS, ROOT
from tests.tidy_rules import parse, walk

ROOM = ROOT / "src" / "kontobahn" / "reconciliation"
# Choice 44: no English noun is exact for these.
ACCOUNTING = {"beleg", "konto", "skonto"}
# Of the contract, in every priced answer and every query.
OF_THE_CONTRACT = {"neuesGuthaben", "quelle"}
# Classes of evidence, and `-` for none.
CODES = re.compile(r"[ABC][1-5]?|-")
SNAKE_CASE = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
# A new word is added here by whoever has read it as English.
WORDS = """
account adviser after amount any at automatic batch before best bits booked by changed class classes clear client code
confirmations confirmed connection count created currency data date difference direction effective end engine error
evidence fee field file first fiscal from iban id ids ignored import in item items kind known kontobahn last ledger left
limit line lines live made manual match matched matches max min missing name new of on open organization out outdated
partners per place platform proposal proposals proposed purpose rank reason reasons rejected removed replaced return
reversal reversals rules run scope score sha256 signal start status text thousand to total transaction transactions
transfer trial undo undone updated value version year
"""
ENGLISH = frozenset(WORDS.split())


def _reached(kind: shape.Type) -> Iterator[str]:
    """The names of fields and the values of enumerations in a type."""
    if isinstance(kind, shape.StructType):
        for field in kind.fields:
            yield field.encode_name
            yield from _reached(field.type)
    elif isinstance(kind, shape.LiteralType):
        yield from (str(value) for value in kind.values)
    for part in ("type", "item_type", "value_type"):
        inner = getattr(kind, part, None)
        if isinstance(inner, shape.Type):
            yield from _reached(inner)
    for inner in getattr(kind, "types", ()):
        yield from _reached(inner)


def _on_the_wire() -> set[str]:
    endpoints = [endpoint for endpoint in ENDPOINTS.values() if endpoint.path.startswith("/v2/reconciliation/")]
    assert len(endpoints) > 20
    sides: list[Any] = [side for one in endpoints for side in (one.query, one.body, one.answer)]
    structs = [side for side in sides if isinstance(side, type) and issubclass(side, msgspec.Struct)]
    names = {name for struct in (*structs, *EVENTS.values()) for name in _reached(shape.type_info(struct))}
    paths = {name for one in endpoints for name in re.findall(r"{(\w+)}", one.path)}
    return names | paths | set(EVENTS)


def _in_errors(source: Path) -> Iterator[str]:
    """The further fields of errors that a module raises, and the fields of a request that they name."""
    for node in walk(parse(source.read_text("utf-8"))):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        if node.func.id not in ("BadRequest", "Conflict", "DoesNotAddUp", "Forbidden", "NotFound"):
            continue
        for keyword in node.keywords:
            if keyword.arg == "field":
                parts = [part.value for part in ast.walk(keyword.value) if isinstance(part, ast.Constant)]
                yield from (name for part in parts for name in re.findall(r"\w+", str(part)))
            elif keyword.arg is not None and keyword.arg != "operator":
                yield keyword.arg


def _foreign(names: set[str]) -> list[str]:
    spelled = {name for name in names if SNAKE_CASE.fullmatch(name) and set(name.split("_")) <= ENGLISH | ACCOUNTING}
    return sorted(name for name in names - spelled - OF_THE_CONTRACT if not CODES.fullmatch(name))


def test_every_name_and_value_on_the_wire_is_english_in_snake_case() -> None:
    assert _foreign(_on_the_wire()) == []


def test_errors_name_their_fields_in_the_same_language() -> None:
    found = {name for source in ROOM.rglob("*.py") for name in _in_errors(source)}
    assert {"client_id", "open_amount", "lines"} <= found
    assert _foreign(found) == []


def test_a_german_word_and_another_spelling_are_noticed() -> None:
    assert _foreign({"connectionId", "zeilen", "made_on", "betrag", "konto", "A2", "am"}) == [
        "am", "betrag", "connectionId", "zeilen",
    ]  # fmt: skip
