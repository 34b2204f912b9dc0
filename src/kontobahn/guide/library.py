"""The pages of the guide: the Markdown files of docs/, by name, and the menus that docs/README.md and docs/de/README.md lay out.

A page's name is its path without `.md`; the README of a folder is the folder. What is below docs/de/ is German, everything else
English, and pages of the same name there are each other's translation. Only what was found here is ever served, by exact name, so
an address cannot lead out of the folder.
"""

from __future__ import annotations

import posixpath
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

from kontobahn.api.languages import Language

ROOT = "/docs/guide"
_PACKAGE = Path(__file__).resolve().parent.parent
# In a wheel the pages are inside the package; in a checkout they are where they are written.
_FOLDERS = (_PACKAGE / "docs", _PACKAGE.parent.parent / "docs")
FILES = {".png": "image/png", ".svg": "image/svg+xml", ".json": "application/json"}
GERMAN = "de"
STARTS: dict[Language, str] = {"en": "", "de": GERMAN}
# The section below this mark is what the dashboard's pages with these topics lead to.
_TOPICS = re.compile(r"^<!-- help: ([^>\n]+)>\n+#+ (.+)$", re.MULTILINE)


class Source(NamedTuple):
    name: str
    # Its path below docs/, from which its links are resolved.
    path: str
    title: str
    text: str

    @property
    def language(self) -> Language:
        return language_of(self.name)


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


def language_of(name: str) -> Language:
    return "de" if name.partition("/")[0] == GERMAN else "en"


def translation_of(name: str) -> str | None:
    """Returns the page that says the same in the other language."""
    other = name.removeprefix(GERMAN).lstrip("/") if language_of(name) == "de" else f"{GERMAN}/{name}".rstrip("/")
    return other if other in sources() else None


def address(name: str, anchor: str = "") -> str:
    """Of the English start page, the address that shows it to everybody: the guide's own one follows the visitor's language."""
    return f"{ROOT}/{name or 'en'}" + (f"#{anchor}" if anchor else "")


def resolved(link: str, source: Source) -> str:
    """Returns the path below docs/ that a link on a page means."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(source.path), link))


def slug(title: str) -> str:
    """Returns the id of a heading, as links to it are written."""
    return re.sub(r"[^\w\- ]", "", title).strip().lower().replace(" ", "-")


@cache
def menu(language: Language) -> list[Group]:
    """The lists of links below the headings of a language's start page."""
    start = sources().get(STARTS[language])
    groups: list[Group] = []
    for line in start.text.splitlines() if start else []:
        if heading := re.match(r"## (.+)", line):
            groups.append(Group(heading[1], []))
        elif start and groups and (link := re.match(r"- \[([^\]]+)\]\(([^)#]+\.md)\)", line)):
            groups[-1].pages.append((page_name(resolved(link[2], start)), link[1]))
    return [group for group in groups if group.pages]


@cache
def topics(language: Language) -> dict[str, str]:
    """The address of the section that helps with each topic of the dashboard."""
    return {
        topic: address(source.name, slug(title))
        for source in sources().values()
        if source.language == language
        for marked, title in _TOPICS.findall(source.text)
        for topic in marked.removesuffix("--").split()
    }
