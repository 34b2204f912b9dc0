"""Every change that the audit log records is said in words."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import kontobahn
from kontobahn.dashboard.audit_words import ACTIONS

_ACTION = re.compile(r"[a-z_]+\.[a-z_]+")


def recorded() -> set[str]:
    """The actions written out where something is recorded."""
    found = set()
    for path in Path(kontobahn.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            name = getattr(node.func, "attr", getattr(node.func, "id", "")) if isinstance(node, ast.Call) else ""
            if isinstance(node, ast.Call) and name in ("record", "_record"):
                found |= {
                    arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)
                }
    return {text for text in found if _ACTION.fullmatch(text)}


def test_every_action_has_its_words() -> None:
    assert len(recorded()) > 30
    assert recorded() - set(ACTIONS) == set()
