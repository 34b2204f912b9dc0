"""Every lock has a test of two transactions at once, in which the second waits for it."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
_TAKEN = re.compile(r"""\btx\.lock\(\s*"([^"]+)\"""")
_ANY = re.compile(r"\btx\.lock\(")
# `outcome.lock == "…"`, or handed to a function of the test that compares it.
_NAMED = re.compile(r"""(?:\.lock == |[(,]\s*)"([^"]+)\"""")


def test_every_lock_is_waited_for_in_a_test() -> None:
    sources = [path.read_text() for path in (ROOT / "src").rglob("*.py")]
    taken = [name for text in sources for name in _TAKEN.findall(text)]
    assert len(taken) == sum(len(_ANY.findall(text)) for text in sources), "a lock begins with its name in the source"
    tests = [path.read_text() for path in (ROOT / "tests").rglob("test_*.py")]
    named = {name for text in tests if "interleaving import" in text for name in _NAMED.findall(text)}
    missing = sorted(set(taken) - named)
    assert not missing, f"no test says that a transaction waits for {', '.join(missing)}: see tests/interleaving.py"
