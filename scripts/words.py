"""Brings the message catalogues of the dashboard up to date: `make words`. New texts get an empty translation, to be filled in.

A text of `pages/NAME.py`, or of a template that only this module shows, belongs to `locale/de/NAME.po`; one that stands elsewhere
in the room to `shared.po`. `refusals*.po` are kept by hand: sentences of the areas.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from kontobahn.dashboard import page_templates, words
from kontobahn.dashboard.words import Message

ROOM = Path(page_templates.__file__).parent
SHARED, BY_HAND = "shared", "refusals"
_FUNCTIONS = ("_", "N_", "gettext", "ngettext")


def texts() -> dict[str, dict[str, str]]:
    """By catalogue: text and plural (or nothing), in the order they stand in the code."""
    stems = {path.stem for path in (ROOM / "pages").glob("*.py")}
    where: dict[tuple[str, str], set[str]] = {}
    for stem, text, plural in [*_of_python(), *_of_templates()]:
        where.setdefault((text, plural), set()).add(stem if stem in stems else SHARED)
    found: dict[str, dict[str, str]] = {}
    for (text, plural), places in where.items():
        for place in [SHARED] if SHARED in places else sorted(places):
            found.setdefault(place, {})[text] = plural
    return found


def _of_python() -> Iterator[tuple[str, str, str]]:
    for path in sorted(ROOM.rglob("*.py")):
        stem = path.stem if path.parent.name == "pages" else SHARED
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id not in _FUNCTIONS:
                continue
            values = [
                item.value for item in node.args if isinstance(item, ast.Constant) and isinstance(item.value, str)
            ]
            if values and values[0]:
                yield stem, values[0], values[1] if node.func.id == "ngettext" else ""


def _of_templates() -> Iterator[tuple[str, str, str]]:
    environment = page_templates.environment()
    pages = {path.stem: _templates_of(path.read_text("utf-8")) for path in (ROOM / "pages").glob("*.py")}
    for path in sorted(page_templates.TEMPLATES.rglob("*.html")):
        name = path.relative_to(page_templates.TEMPLATES).as_posix()
        users = [stem for stem, templates in pages.items() if name in templates]
        stem = users[0] if len(users) == 1 else name.partition("/")[0].removesuffix(".html")
        for _, function, message in environment.extract_translations(path.read_text("utf-8")):  # type: ignore[attr-defined]
            said = message if isinstance(message, tuple) else (message,)
            # A text that is not written here, such as `_(entry.text)`, was marked where it is.
            if isinstance(said[0], str) and said[0]:
                yield stem, said[0], said[1] if function == "ngettext" else ""


def _templates_of(module: str) -> set[str]:
    """The templates that a page module names."""
    return {
        node.value
        for node in ast.walk(ast.parse(module))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.endswith(".html")
    }


def catalogues() -> dict[Path, str]:
    """Returns what each catalogue should hold: the texts of now with the translations there are."""
    known: dict[tuple[str, str], Message] = {}
    folder = words.FOLDER / "de"
    for path in folder.glob("*.po"):
        for message in words.read_catalogue(path.read_text("utf-8")):
            known[message.text, message.plural] = message
    return {
        folder / f"{stem}.po": words.write_catalogue(
            [
                known.get((text, plural), Message(text, plural, ("", "") if plural else ("",)))
                for text, plural in sorted(found.items())
            ],
            "de",
        )
        for stem, found in texts().items()
    }


def main() -> None:
    wanted = catalogues()
    for path in (words.FOLDER / "de").glob("*.po"):
        if path not in wanted and not path.stem.startswith(BY_HAND):
            path.unlink()
    missing = 0
    for path, text in wanted.items():
        path.write_text(text, "utf-8")
        missing += sum(not message.is_translated for message in words.read_catalogue(text))
    sys.stdout.write(f"{missing} texts wait for their German in {words.FOLDER / 'de'}\n")


if __name__ == "__main__":
    main()
