"""Every change that the audit log records is said in words."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import kontobahn
from kontobahn.dashboard.pages.audit_log import ACTIONS

_ACTION = re.compile(r"[a-z_]+\.[a-z_]+")


def recorded() -> set[str]:
    """The actions written out where something is recorded."""
    found = set()
    for path in Path(kontobahn.__file__).parent.rglob("*.py"):
        text = path.read_text("utf-8")
        if "record(" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            name = getattr(node.func, "attr", getattr(node.func, "id", "")) if isinstance(node, ast.Call) else ""
            if isinstance(node, ast.Call) and name in ("record", "_record"):
                found |= {
                    arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)
                }
    return {text for text in found if _ACTION.fullmatch(text)}


def test_every_action_has_its_words() -> None:
    found = recorded()
    assert len(found) > 30
    assert found - set(ACTIONS) == set()
