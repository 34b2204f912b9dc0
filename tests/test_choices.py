"""The choices that the code names and those that docs/choices.md explains are the same ones."""

from __future__ import annotations

import io
import re
import tokenize
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_COMMENT = re.compile(r"^#+ Choice (\d+): \S")
_HEADING = re.compile(r"^## (\d+)\. \S", re.MULTILINE)


def named_in_code(source: Path) -> dict[int, list[str]]:
    """The numbers in comments `# Choice N: …`, with the places they stand."""
    found: dict[int, list[str]] = {}
    for path in sorted(source.rglob("*.py")):
        text = path.read_text("utf-8")
        for token in tokenize.generate_tokens(io.StringIO(text).readline) if "# Choice " in text else ():
            match = _COMMENT.match(token.string) if token.type == tokenize.COMMENT else None
            if match:
                found.setdefault(int(match[1]), []).append(f"{path.relative_to(source)}:{token.start[0]}")
    return found


def explained(page: Path) -> list[int]:
    return [int(number) for number in _HEADING.findall(page.read_text("utf-8"))]


def test_every_choice_the_code_carries_out_is_explained_and_no_other() -> None:
    named, headings = named_in_code(ROOT / "src"), explained(ROOT / "docs" / "choices.md")
    unexplained = {number: places for number, places in named.items() if number not in headings}
    assert unexplained == {}, "docs/choices.md lacks a heading for these"
    assert [number for number in headings if number not in named] == [], "no comment in src/ carries out these"


def test_choices_stand_in_order_and_once() -> None:
    headings = explained(ROOT / "docs" / "choices.md")
    assert headings == sorted(set(headings))


def test_a_choice_is_found_in_a_comment_and_only_there(tmp_path: Path) -> None:
    module = 'TEXT = "# Choice 7: in a text"\n\n# Choice 12: why\nVALUE = 1  # Choice 3: beside code\n'
    (tmp_path / "module.py").write_text(module, "utf-8")
    assert named_in_code(tmp_path) == {12: ["module.py:3"], 3: ["module.py:4"]}
