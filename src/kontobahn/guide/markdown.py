"""Markdown to HTML, and to plain text by section for the search. HTML in a page is shown as text; links lead into the guide.

Imported when the first page is asked for: the library takes its time to load.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

from kontobahn.guide import library
from kontobahn.guide.library import Source

_COMMENT = re.compile(r"^<!--.*?-->\n?", re.DOTALL | re.MULTILINE)
_ELSEWHERE = re.compile(r"^(https?|mailto):", re.IGNORECASE)


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


def _table_open(*_: Any) -> str:
    return '<div class="scroll" tabindex="0"><table>\n'


def _table_close(*_: Any) -> str:
    return "</table></div>\n"


def _fence(_renderer: object, tokens: Sequence[Token], number: int, _options: object, _env: object) -> str:
    return Markup('<pre tabindex="0"><code>{}</code></pre>\n').format(tokens[number].content.rstrip("\n"))


def _parser() -> MarkdownIt:
    # An indented line continues its paragraph: code stands between fences.
    parser = MarkdownIt("commonmark", {"html": False}).enable("table").disable("code")
    for name, rule in (("table_open", _table_open), ("table_close", _table_close), ("fence", _fence)):
        parser.add_render_rule(name, rule)
    return parser


_PARSER = _parser()


def render(source: Source) -> Rendered:
    tokens = _PARSER.parse(_COMMENT.sub("", source.text))
    headings = _name_headings(tokens)
    sections = _sections(tokens, headings)
    for token in tokens:
        if token.children:
            token.children = list(_linked(token.children, source))
        # The alignment of a column would stand in a style attribute, which our pages do not allow.
        token.attrs.pop("style", None)
    return Rendered(Markup(_PARSER.renderer.render(tokens, _PARSER.options, {})), headings, sections)


def _name_headings(tokens: Sequence[Token]) -> list[Heading]:
    """Gives headings the ids that links in the pages use."""
    headings: list[Heading] = []
    taken: dict[str, int] = {}
    for number, token in enumerate(tokens):
        if token.type != "heading_open":
            continue
        title = _plain(tokens[number + 1])
        slug = library.slug(title)
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
    if children[0].type == "text" and children[0].content.startswith("[ ] "):
        children[0].content = "☐ " + children[0].content[4:]
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
        found = library.sources().get(library.page_name(library.resolved(path, source)))
        text.content = found.title if found else text.content


def address_of(target: str, source: Source) -> str | None:
    """Returns the address on the guide's pages that a link leads to; None if that is not a part of the guide."""
    if target.startswith(("#", "/")) or _ELSEWHERE.match(target):
        return target
    path, _, anchor = target.partition("#")
    path = library.resolved(path, source)
    name = library.page_name(path)
    if path.endswith(".md") and name in library.sources():
        return library.address(name, anchor)
    return f"{library.ROOT}/{path}" if path in library.files() else None
