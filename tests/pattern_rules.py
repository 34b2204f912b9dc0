"""Judges regular expressions by their parse: how many of their unbounded repeats may end at more than one place.

A repeat is settled if what must follow it begins with a character that it cannot hold: `[^;]*;` ends at the first semicolon, and
whoever tries again finds no other end. One that is not settled may cost its text once over; with a further repeat after it, or inside
another one, it costs the text squared and worse, and a few hundred characters stop everybody.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser as parser
from types import ModuleType
from typing import Any, NamedTuple

import kontobahn
from tests.tidy_rules import parse, walk

# A sample of every kind of character that patterns tell apart.
ALPHABET = frozenset([*map(chr, range(0x180)), "\u1680", "\u2003", "\u2009", "\u2028", "\u20ac", "\u3042", "\uffff"])
# A repeat that may go on for longer than this counts as unbounded.
BOUND = 100
SEARCHING = ("search", "split", "sub", "subn", "findall", "finditer")
FUNCTIONS = ("compile", "match", "fullmatch", "search", "split", "sub", "subn", "findall", "finditer")
_CATEGORIES = {
    sre.CATEGORY_DIGIT: r"\d", sre.CATEGORY_NOT_DIGIT: r"\D", sre.CATEGORY_SPACE: r"\s", sre.CATEGORY_NOT_SPACE: r"\S",
    sre.CATEGORY_WORD: r"\w", sre.CATEGORY_NOT_WORD: r"\W",
}  # fmt: skip
_ZERO_WIDTH = (sre.AT, sre.ASSERT, sre.ASSERT_NOT)


class Found(NamedTuple):
    """The numbers of unbounded repeats, those that are not settled, and how many of these have another one after or around them."""

    repeats: int = 0
    open: int = 0
    crossed: int = 0


def faults(pattern: str | bytes) -> str | None:
    """Returns what is wrong with a pattern, None if nothing is."""
    found = _judge(list(parser.parse(pattern)), frozenset(), ends=True)
    return (
        "an unbounded repeat that may end at several places has another one after or around it"
        if found.crossed
        else None
    )


def faults_of_search(pattern: str | bytes) -> str | None:
    """Returns what is wrong with a pattern that is looked for from every place of a text, None if nothing is.

    A repeat is read anew from each place inside it at which a match could begin, however it is settled.
    """
    for items in _spread(list(parser.parse(pattern))):
        for number, (kind, value) in enumerate(items):
            if kind not in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT) or value[1] <= BOUND:
                continue
            begins, nullable = _first(items[:number])
            ends = _first(items[number + 1 :])[1]
            held = _all_of(list(value[2]))
            if not ends and (held if nullable else held & begins) and not _is_tied(items[0], held):
                return "an unbounded repeat that a match may begin inside of"
    return None


def _is_tied(first: tuple[Any, Any], held: frozenset[str]) -> bool:
    """Tells whether no match begins after a character that the repeat holds: at the beginning alone, or by what must not stand before."""
    kind, value = first
    if kind is sre.AT:
        return value in (sre.AT_BEGINNING, sre.AT_BEGINNING_STRING)
    return kind is sre.ASSERT_NOT and value[0] < 0 and held <= _first(list(value[1]))[0]


def _spread(items: list[Any]) -> Iterator[list[Any]]:
    """The sequences that a pattern stands for, with its groups and alternatives written out."""
    options: list[list[Any]] = [[]]
    for kind, value in items:
        each: list[list[Any]] = [[(kind, value)]]
        if kind is sre.BRANCH:
            each = [sequence for option in value[1] for sequence in _spread(list(option))]
        elif kind in (sre.SUBPATTERN, sre.ATOMIC_GROUP):
            each = list(_spread(list(value[3] if kind is sre.SUBPATTERN else value)))
        options = [[*done, *more] for done in options for more in each]
    yield from options


def _all_of(items: list[Any]) -> frozenset[str]:
    """The characters that a repeat of the items may consist of."""
    found: frozenset[str] = frozenset()
    for sequence in _spread(items):
        for kind, value in sequence:
            if kind in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
                found |= _all_of(list(value[2]))
            else:
                found |= _first_of(kind, value)[0]
    return found


def searched() -> Iterator[tuple[str, str | bytes]]:
    """Every pattern that is looked for from each place of a text, with where it is."""
    for name, module, tree in _modules():
        for node in walk(tree):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id="re"), attr=function)) if function in SEARCHING:
                    found = _value(node.args[0], vars(module))
                case ast.Call(func=ast.Attribute(value=ast.Name(id=of), attr=function)) if function in SEARCHING:
                    found = vars(module).get(of)
                case _:
                    continue
            pattern = found.pattern if isinstance(found, re.Pattern) else found
            if isinstance(pattern, str | bytes):
                yield f"{name}:{node.lineno}", pattern


def _modules() -> Iterator[tuple[str, ModuleType, ast.Module]]:
    for info in pkgutil.walk_packages(kontobahn.__path__, "kontobahn."):
        if not info.name.endswith("__main__"):
            module = importlib.import_module(info.name)
            yield info.name, module, parse(Path(module.__file__ or "").read_text("utf-8"))


def patterns() -> Iterator[tuple[str, Any]]:
    """Every pattern of the source with its place; None for one that only a call makes."""
    for name, module, tree in _modules():
        for node in walk(tree):
            if isinstance(node, ast.Call) and (expression := _pattern_of(node)) is not None:
                yield f"{name}:{node.lineno}", _value(expression, vars(module))


def _pattern_of(node: ast.Call) -> ast.expr | None:
    match node.func:
        case ast.Attribute(value=ast.Name(id="re"), attr=name) if name in FUNCTIONS:
            return node.args[0]
        case ast.Name(id="form") if len(node.args) > 1:
            return node.args[1]
    return next((keyword.value for keyword in node.keywords if keyword.arg == "pattern"), None)


def _value(expression: ast.expr, names: dict[str, Any]) -> str | bytes | None:
    try:
        found: str | bytes = eval(compile(ast.Expression(expression), "pattern", "eval"), names)
    except NameError:
        return None
    return found


def _judge(items: list[Any], follow: frozenset[str], *, ends: bool) -> Found:
    """`follow` are the characters that may come after the items; `ends` is whether nothing need come."""
    found = Found()
    for number, (kind, value) in enumerate(items):
        after, nullable = _first(items[number + 1 :])
        if nullable:
            after |= follow
        inner = _judge_one(kind, value, after, ends=ends and nullable)
        crossed = found.crossed + inner.crossed + (found.open if inner.repeats else 0)
        found = Found(found.repeats + inner.repeats, found.open + inner.open, crossed)
    return found


def _judge_one(kind: Any, value: Any, after: frozenset[str], *, ends: bool) -> Found:
    if kind in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
        _, most, body = value
        first = _first(list(body))[0]
        is_open = most > BOUND and kind is not sre.POSSESSIVE_REPEAT and bool(first & after)
        inner = _judge(list(body), after | (first if most > 1 else frozenset()), ends=ends)
        crossed = inner.crossed + (inner.open if most > BOUND else inner.open and inner.repeats and most - 1)
        return Found(inner.repeats + (most > BOUND), inner.open + is_open, crossed)
    if kind is sre.BRANCH:
        each = [_judge(list(option), after, ends=ends) for option in value[1]]
        return Found(*(max(counts) for counts in zip(*each, strict=True)))
    if kind is sre.SUBPATTERN:
        return _judge(list(value[3]), after, ends=ends)
    if kind is sre.ATOMIC_GROUP:
        return _judge(list(value), frozenset(), ends=True)
    if kind in (sre.ASSERT, sre.ASSERT_NOT):
        return _judge(list(value[1]), frozenset(), ends=True)
    return Found()


def _first(items: list[Any]) -> tuple[frozenset[str], bool]:
    """The characters that the items may begin with, and whether they may be empty."""
    found: frozenset[str] = frozenset()
    for kind, value in items:
        begins, nullable = _first_of(kind, value)
        found |= begins
        if not nullable:
            return found, False
    return found, True


def _first_of(kind: Any, value: Any) -> tuple[frozenset[str], bool]:
    if kind in _ZERO_WIDTH:
        return frozenset(), True
    if kind in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
        begins, nullable = _first(list(value[2]))
        return begins, nullable or value[0] == 0
    if kind is sre.BRANCH:
        each = [_first(list(option)) for option in value[1]]
        return frozenset().union(*(begins for begins, _ in each)), any(nullable for _, nullable in each)
    if kind is sre.SUBPATTERN:
        return _first(list(value[3]))
    if kind is sre.ATOMIC_GROUP:
        return _first(list(value))
    if kind in (sre.GROUPREF, sre.GROUPREF_EXISTS):
        return ALPHABET, True
    return _characters(kind, value), False


def _characters(kind: Any, value: Any) -> frozenset[str]:
    if kind is sre.LITERAL:
        return frozenset({chr(value), chr(value).swapcase()})
    if kind is sre.NOT_LITERAL:
        return ALPHABET - {chr(value)}
    if kind is sre.RANGE:
        return frozenset(char for char in ALPHABET if value[0] <= ord(char) <= value[1])
    if kind is sre.CATEGORY:
        return frozenset(char for char in ALPHABET if re.match(_CATEGORIES[value], char))
    if kind is sre.IN:
        parts = [part for part in value if part[0] is not sre.NEGATE]
        found = frozenset().union(*(_characters(*part) for part in parts))
        return ALPHABET - found if len(parts) < len(value) else found
    return ALPHABET
