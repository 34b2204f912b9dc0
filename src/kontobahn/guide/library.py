"""The pages of the guide: the Markdown files of docs/, by name, and the menu that docs/README.md lays out.

A page's name is its path without `.md`; the README of a folder is the folder. Only what was found here is ever served, by exact
name, so an address cannot lead out of the folder.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

_PACKAGE = Path(__file__).resolve().parent.parent
# In a wheel the pages are inside the package; in a checkout they are where they are written.
_FOLDERS = (_PACKAGE / "docs", _PACKAGE.parent.parent / "docs")
FILES = {".png": "image/png", ".svg": "image/svg+xml", ".json": "application/json"}
START = ""


class Source(NamedTuple):
    name: str
    # Its path below docs/, from which its links are resolved.
    path: str
    title: str
    text: str


class Group(NamedTuple):
    title: str
    # Name and title of each page.
    pages: list[tuple[str, str]]


def folder() -> Path | None:
    return next((folder for folder in _FOLDERS if (folder / "README.md").is_file()), None)


@cache
def sources() -> dict[str, Source]:
    root = folder()
    if root is None:
        return {}
    found = {}
    for path in sorted(root.rglob("*.md")):
        relative = path.relative_to(root).as_posix()
        text = path.read_text("utf-8")
        title = re.search(r"^# (.+)$", text, re.MULTILINE)
        name = page_name(relative)
        found[name] = Source(name, relative, title[1].replace("`", "") if title else name, text)
    return found


@cache
def files() -> dict[str, Path]:
    """Pictures and other files that pages link to."""
    root = folder()
    if root is None:
        return {}
    return {path.relative_to(root).as_posix(): path for path in sorted(root.rglob("*")) if path.suffix in FILES}


def page_name(path: str) -> str:
    name = path.removesuffix(".md")
    return name.removesuffix("README").rstrip("/")


@cache
def menu() -> list[Group]:
    """The lists of links below the headings of docs/README.md."""
    start = sources().get(START)
    groups: list[Group] = []
    for line in start.text.splitlines() if start else []:
        if heading := re.match(r"## (.+)", line):
            groups.append(Group(heading[1], []))
        elif (link := re.match(r"- \[([^\]]+)\]\(([^)#]+\.md)\)", line)) and groups:
            groups[-1].pages.append((page_name(link[2]), link[1]))
    return [group for group in groups if group.pages]
