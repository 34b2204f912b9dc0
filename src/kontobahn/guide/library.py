"""The pages of the guide: the Markdown files of docs/, by name, and the menus that docs/README.md and docs/de/README.md lay out.

A page's name is its path without `.md`; the README of a folder is the folder. What is below docs/de/ is German, everything else
English, and pages of the same name there are each other's translation. Only what was found here is ever served, by exact name, so
an address cannot lead out of the folder.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup, escape

from kontobahn.api.pages import Language

ROOT = "/docs/guide"
_PACKAGE = Path(__file__).resolve().parent.parent
# In a wheel the pages are inside the package; in a checkout they are where they are written.
_FOLDERS = (_PACKAGE / "docs", _PACKAGE.parent.parent / "docs")
FILES = {".png": "image/png", ".svg": "image/svg+xml", ".json": "application/json"}
GERMAN = "de"
LONG_NAME = 24
_TASK = "[ ] "
# In a first column, some two words.
_LONG_CELL = 14
_NAMED = "named"
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


def slug_of(title: str) -> str:
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
        topic: address(source.name, slug_of(title))
        for source in sources().values()
        if source.language == language
        for marked, title in _TOPICS.findall(source.text)
        for topic in marked.removesuffix("--").split()
    }


# Markdown to HTML, and to plain text by section for the search. HTML in a page is shown as text; links lead into the
# guide.
#
# Imported when the first page is asked for: the library takes its time to load.


_COMMENT = re.compile(r"^<!--.*?-->\n?", re.DOTALL | re.MULTILINE)
_ELSEWHERE = re.compile(r"^(https?|mailto):", re.IGNORECASE)
_BETWEEN_PARTS = re.compile(r"(?<=\w[/_=?&,.:@])(?![/_=?&,.:@]|$)")
# A figure and its unit, and a day and its month, stay on one line.
_KEPT_TOGETHER = re.compile(
    r"(?<=\d) (?=[%€]|(?:[kMG]i?B|m?s|EUR)\b)"
    r"|(?:(?<=\d)(?<!\d{4})|(?<=\d\.)) "
    r"(?=(?:Januar|Februar|März|March|April|Ma[iy]|Jun[ie]|Jul[iy]|August|September|O[ck]tober|November|De[cz]ember)y?\b)"
)


class Heading(NamedTuple):
    level: int
    id: str
    title: str


class Section(NamedTuple):
    heading: Heading
    text: str


class Rendered(NamedTuple):
    html: Markup
    headings: list[Heading]
    sections: list[Section]


def _table_open(_renderer: object, tokens: Sequence[Token], number: int, _options: object, _env: object) -> str:
    named = ' class="named"' if tokens[number].meta.get(_NAMED) else ""
    return f'<div class="scroll" tabindex="0"><table{named}>\n'


def _table_close(*_: Any) -> str:
    return "</table></div>\n"


def _fence(_renderer: object, tokens: Sequence[Token], number: int, _options: object, _env: object) -> str:
    return Markup('<pre tabindex="0"><code>{}</code></pre>\n').format(tokens[number].content.rstrip("\n"))


def _code(_renderer: object, tokens: Sequence[Token], number: int, _options: object, _env: object) -> str:
    return Markup("<code>{}</code>").format(Markup(" ").join(map(_word_of_code, tokens[number].content.split(" "))))


def _word_of_code(word: str) -> Markup:
    if len(word) > LONG_NAME:
        # A long name may end a line between its parts: unbroken, it would push the last columns of a table out of sight.
        return Markup("<wbr>").join(_BETWEEN_PARTS.split(word))
    # A line may end after a hyphen, which would part an option from its dashes.
    return Markup('<span class="whole">{}</span>').format(word) if "-" in word else escape(word)


def _parser() -> MarkdownIt:
    # An indented line continues its paragraph: code stands between fences.
    parser = MarkdownIt("commonmark", {"html": False}).enable("table").disable("code")
    for name, rule in (
        ("table_open", _table_open),
        ("table_close", _table_close),
        ("fence", _fence),
        ("code_inline", _code),
    ):
        parser.add_render_rule(name, rule)
    return parser


_PARSER = _parser()


def render(source: Source) -> Rendered:
    tokens = _PARSER.parse(_COMMENT.sub("", source.text))
    _mark_tasks(tokens)
    headings = _name_headings(tokens)
    sections = _sections(tokens, headings)
    _label_cells(tokens)
    tokens = _without_empty_heads(tokens)
    for token in tokens:
        if token.children:
            token.children = list(_linked(token.children, source))
        # The alignment of a column would stand in a style attribute, which our pages do not allow.
        token.attrs.pop("style", None)
    return Rendered(Markup(_PARSER.renderer.render(tokens, _PARSER.options, {})), headings, sections)


def _label_cells(tokens: Sequence[Token]) -> None:
    """Gives every cell the title of its column, which stands before it where a table becomes a list; and marks the tables whose
    first column is not to be squeezed to a word a line by what the others say."""
    titles: list[str] = []
    column = 0
    table = None
    for number, token in enumerate(tokens):
        if token.type == "table_open":
            table, titles = token, []
        elif token.type == "th_open":
            titles.append("".join(part.content for part in tokens[number + 1].children or ()))
        elif token.type == "tr_open":
            column = 0
        elif token.type == "td_open":
            if column and titles[column]:
                token.attrs["data-label"] = titles[column]
            elif table is not None and not column and len(_plain(tokens[number + 1])) >= _LONG_CELL:
                table.meta[_NAMED] = True
            column += 1


def _without_empty_heads(tokens: Sequence[Token]) -> list[Token]:
    """Leaves out heads of tables without a title, which Markdown asks for."""
    kept: list[Token] = []
    start = 0
    for token in tokens:
        if token.type == "thead_open":
            start = len(kept)
        kept.append(token)
        if token.type == "thead_close" and not any(part.content for part in kept[start:]):
            del kept[start:]
    return kept


def _mark_tasks(tokens: Sequence[Token]) -> None:
    """Gives what is to be done a box in place of its bullet."""
    for item, _, line in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if item.type == "list_item_open" and line.children and line.children[0].content.startswith(_TASK):
            item.attrSet("class", "task")
            line.children[0].content = line.children[0].content.removeprefix(_TASK)


def _name_headings(tokens: Sequence[Token]) -> list[Heading]:
    """Gives headings the ids that links in the pages use."""
    headings: list[Heading] = []
    taken: dict[str, int] = {}
    for number, token in enumerate(tokens):
        if token.type != "heading_open":
            continue
        title = _plain(tokens[number + 1])
        slug = slug_of(title)
        repeated = taken.get(slug, 0)
        taken[slug] = repeated + 1
        heading = Heading(int(token.tag[1:]), f"{slug}-{repeated}" if repeated else slug, title)
        token.attrSet("id", heading.id)
        headings.append(heading)
    return headings


def _sections(tokens: Sequence[Token], headings: list[Heading]) -> list[Section]:
    """The text below each heading. What stands before the first belongs to no section: pages begin with their title."""
    texts: list[list[str]] = []
    in_heading = False
    for token in tokens:
        if token.type == "heading_open":
            texts.append([])
            in_heading = True
        elif token.type == "heading_close":
            in_heading = False
        elif texts and not in_heading and token.type in ("inline", "fence"):
            texts[-1].append(token.content if token.type == "fence" else _plain(token))
    return [Section(heading, " ".join(" ".join(text).split())) for heading, text in zip(headings, texts, strict=True)]


def _plain(inline: Token) -> str:
    """Returns the text of a line as a reader sees it."""
    parts = (" " if child.type in ("softbreak", "hardbreak") else child.content for child in inline.children or [])
    return "".join(parts)


def _linked(children: Sequence[Token], source: Source) -> Iterable[Token]:
    """Turns addresses of files into addresses of the guide. A link to what the guide does not have becomes its text."""
    dropped = False
    for number, token in enumerate(children):
        if token.type == "link_open":
            target = str(token.attrGet("href") or "")
            address = address_of(target, source)
            _name_by_title(children[number + 1], target, source)
            dropped = address is None
            if address is not None:
                token.attrSet("href", address)
                if _ELSEWHERE.match(address):
                    token.attrSet("rel", "noreferrer")
        elif token.type == "text":
            token.content = _KEPT_TOGETHER.sub("\N{NO-BREAK SPACE}", token.content)
        elif token.type == "image":
            token.attrSet("src", address_of(str(token.attrGet("src") or ""), source) or "")
        if dropped and token.type in ("link_open", "link_close"):
            dropped = token.type == "link_open"
            continue
        yield token


def _name_by_title(text: Token, target: str, source: Source) -> None:
    """In the repository a link may show the name of a file; a page is called by its title."""
    path = target.partition("#")[0]
    if text.content in (path, posixpath.basename(path)) and path.endswith(".md"):
        found = sources().get(page_name(resolved(path, source)))
        text.content = found.title if found else text.content


def address_of(target: str, source: Source) -> str | None:
    """Returns the address on the guide's pages that a link leads to; None if that is not a part of the guide."""
    if target.startswith(("#", "/")) or _ELSEWHERE.match(target):
        return target
    path, _, anchor = target.partition("#")
    path = resolved(path, source)
    name = page_name(path)
    if path.endswith(".md") and name in sources():
        return address(name, anchor)
    return f"{ROOT}/{path}" if path in files() else None
