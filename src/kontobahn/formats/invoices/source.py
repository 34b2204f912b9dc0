"""The XML of an invoice, within its bounds, as the values of its terms.

A syntax is a table of terms and their places (`Syntax`); what is not in the table is not read. A line is read when it is complete
and then emptied, so memory follows the longest line and not the length of the invoice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from lxml import etree

from kontobahn.formats.invoices.findings import Refused
from kontobahn.formats.xml_source import BOM, PARSER_OPTIONS, Options, Prolog, prolog_of

MAX_FILE_BYTES = 20_000_000
MAX_LINES = 100_000
_CHUNK = 262_144
_HEAD = 65_536
_STEP = 1_024
# Elements and attributes in one line, or in everything that is no line; each takes about 200 bytes in memory.
_MAX_NODES = 500_000
# The parser takes longer texts (attachments) only if it is told to; it then allows deeper nesting, too, but still bounds it.
_LONG_TEXT = 9_000_000

# The values of one group by term; a group within it is a list of such.
Values: TypeAlias = dict[str, Any]
LINE = "BG-25"


class _Group(NamedTuple):
    name: str
    plan: dict[str, Any]


class _WithAttributes(NamedTuple):
    term: str
    attributes: tuple[tuple[str, str], ...]


class _Raw(NamedTuple):
    """A text whose blanks at its end mean something."""

    term: str


class Syntax:
    """Terms and their places, from a table: `TERM path` in each line, below `[GROUP path]` for a group that is repeated.

    A path is relative to its group; `@name` at its end is an attribute, `.` is the text of the group itself, and a term with `~`
    keeps its blanks. `namespaces` has those of the prefixes, and `renamed` other names for elements.
    """

    def __init__(
        self, root: str, namespaces: Mapping[str, str], table: str, renamed: Iterable[tuple[str, str]] = ()
    ) -> None:
        self.root = root
        self.namespaces = dict(namespaces)
        self.namespace = namespaces[root.partition(":")[0]]
        self.renamed = dict(renamed)
        self.paths: dict[str, str] = {}
        self.plan: dict[str, Any] = {}
        plans, places = {"": self.plan}, {"": f"/{root}"}
        group = ""
        for line in table.strip().splitlines():
            name, _, path = line.strip("[] ").partition(" ")
            path = self._in_this_syntax(path)
            if line.startswith("["):
                group = name
                above, _, own = name.rpartition("/")
                plans[name] = {}
                places[name] = f"{places[above]}/{path}[{{{own}}}]"
                self.paths[own] = places[name]
                if own != LINE:  # lines are handed over apart
                    _add(plans[above], self._tags(path), _Group(own, plans[name]))
            elif name:
                self.paths.setdefault(name.rstrip("~"), f"{places[group]}/{path}")
                _add(plans[group], self._tags(path), _Raw(name[:-1]) if name.endswith("~") else name)
        self.line_tags = self._tags(re.sub(r"\[.*?\]", "", self.paths[LINE]))[2:]
        self.line_plan = plans[LINE]

    def _tags(self, path: str) -> list[str]:
        parts = (part.rpartition(":") for part in path.split("/"))
        return [f"{{{self.namespaces[prefix]}}}{name}" if prefix else name for prefix, _, name in parts]

    def _in_this_syntax(self, path: str) -> str:
        return "/".join(self.renamed.get(part, part) for part in path.split("/"))

    def path(self, term: str, numbers: Mapping[str, int]) -> str:
        """Returns the place of a term; `numbers` counts the groups on the way, from 1."""
        template = self.paths.get(term, f"/{self.root}")
        return re.sub(r"\[\{(.+?)\}\]", lambda match: f"[{numbers[match[1]]}]" if match[1] in numbers else "", template)


def _add(plan: dict[str, Any], tags: list[str], leaf: Any) -> None:
    *way, last = tags
    if last.startswith("@") and way:
        *way, owner = way
        inner = _reached(plan, way)
        known = inner.get(owner, "")
        attributes = known.attributes if isinstance(known, _WithAttributes) else ()
        term = known.term if isinstance(known, _WithAttributes) else known
        inner[owner] = _WithAttributes(term, (*attributes, (last[1:], leaf)))
    else:
        _reached(plan, way)[last] = leaf


def _reached(plan: dict[str, Any], way: list[str]) -> dict[str, Any]:
    for part in way:
        inner = plan.setdefault(part, {})
        plan = inner.plan if isinstance(inner, _Group) else inner
    return plan


def fill(values: Values, element: etree._Element, plan: dict[str, Any]) -> None:
    """Adds the values that the plan names. Of a term that should occur once, the first counts."""
    for child in element:
        step = plan.get(child.tag)  # type: ignore[arg-type]
        if step is None:
            continue
        kind = step.__class__
        if kind is str:
            text = child.text
            if text and step not in values:
                values[step] = text.strip()
        elif kind is dict:
            fill(values, child, step)
        elif kind is _WithAttributes:
            if step.term not in values:
                values[step.term] = (child.text or "").strip()
                for attribute, term in step.attributes:
                    stated = child.get(attribute)
                    if stated:
                        values[term] = stated.strip()
        elif kind is _Group:
            inner: Values = {}
            if len(child):
                fill(inner, child, step.plan)
            else:
                _fill_own(inner, child, step.plan)
            values.setdefault(step.name, []).append(inner)
        elif step.term not in values:
            values[step.term] = child.text or ""


def _fill_own(values: Values, element: etree._Element, plan: dict[str, Any]) -> None:
    """Adds the text and the attributes of a group that has no elements in it."""
    for place, term in plan.items():
        stated = element.text if place == "." else element.get(place[1:]) if place.startswith("@") else None
        if stated:
            values[term] = stated.strip()


# --- Before parsing


def prepared(content: bytes) -> bytes:
    """Returns an XML file as a parser may have it. Raises Refused if it is none, too large, or declares a document type."""
    if len(content) > MAX_FILE_BYTES:
        raise Refused("file-too-large", most=MAX_FILE_BYTES // 1_000_000)
    content = _as_utf_8(content)
    prolog: Prolog = prolog_of(content[:_HEAD])
    if prolog.foreign_encoding is not None:
        raise Refused("xml-encoding", encoding=prolog.foreign_encoding)
    if prolog.has_doctype:
        raise Refused("xml-doctype")
    return content


def _as_utf_8(content: bytes) -> bytes:
    if content.startswith((b"\xff\xfe\x00\x00", b"\x00\x00\xfe\xff")):
        raise Refused("xml-encoding", encoding="UTF-32")
    if content.startswith((b"\xff\xfe", b"\xfe\xff", b"<\x00", b"\x00<")):
        has_bom = content.startswith((b"\xff\xfe", b"\xfe\xff"))
        try:
            text = content.decode("utf-16" if has_bom else "utf-16-le" if content[1:2] == b"\x00" else "utf-16-be")
        except UnicodeDecodeError:
            raise Refused("xml-encoding", encoding="UTF-16") from None
        return re.sub(r"^\s*<\?xml[^>]{0,200}\?>", "", text).encode("utf-8", "replace")
    return content.removeprefix(BOM).lstrip()


class Root(NamedTuple):
    namespace: str
    name: str


def root_of(content: bytes) -> Root:
    """Returns the root of a prepared file. Raises Refused if there is none in its beginning."""
    probe = etree.XMLPullParser(events=("start",), **PARSER_OPTIONS)
    try:
        for start in range(0, min(len(content), _HEAD), _STEP):
            probe.feed(content[start : start + _STEP])
            if root := _first(probe):
                return root
        probe.close()
    except etree.XMLSyntaxError:
        pass  # said with its place below, unless the root came before the fault
    if root := _first(probe):
        return root
    raise _malformed(content)


def _first(probe: etree.XMLPullParser) -> Root | None:
    for _, element in probe.read_events():
        # Not by QName, which refuses the names that a damaged file may have.
        namespace, _, name = str(element.tag).rpartition("}")
        return Root(namespace[1:], name)
    return None


# --- Parsing


def values_of(content: bytes, syntax: Syntax, take_line: Callable[[Values], None]) -> Values:
    """Returns the values of a prepared file, without those of its lines, which are handed over one by one."""
    lines = _Lines(content, syntax)
    plan = syntax.line_plan
    try:
        for element in lines:
            values: Values = {}
            fill(values, element, plan)
            take_line(values)
    except etree.XMLSyntaxError:
        raise _malformed(content) from None
    values = {}
    fill(values, lines.top, syntax.plan)
    return values


class _Lines:
    """The lines of a file, one after the other; `top` is the root, once all of them were taken."""

    def __init__(self, content: bytes, syntax: Syntax) -> None:
        self._content = content
        self._tags = syntax.line_tags
        self._options: Options = {**PARSER_OPTIONS, "huge_tree": len(content) > _LONG_TEXT}
        self.top: etree._Element

    def __iter__(self) -> Iterator[etree._Element]:
        return self._at_once() if len(self._content) <= _CHUNK else self._streamed()

    def _at_once(self) -> Iterator[etree._Element]:
        self.top = etree.fromstring(self._content, etree.XMLParser(**self._options))
        return self.top.iterfind("/".join(self._tags))

    def _streamed(self) -> Iterator[etree._Element]:
        parser = etree.XMLPullParser(events=("end",), tag=self._tags[-1], **self._options)
        nodes = lines = 0
        for start in range(0, len(self._content), _CHUNK):
            chunk = self._content[start : start + _CHUNK]
            nodes += chunk.count(b"<") + chunk.count(b"=")
            parser.feed(chunk)
            for _, element in parser.read_events():
                if sum(1 for _ in element.iterancestors()) != len(self._tags):
                    continue
                nodes = 0
                lines += 1
                yield element
                element.clear()
            if nodes > _MAX_NODES or lines > MAX_LINES:
                raise Refused("file-too-complex")
        self.top = parser.close()


def _malformed(content: bytes) -> Refused:
    """Parses the file as it came, for the place of its fault. The first entry of the log is the cause."""
    parser = etree.XMLPullParser(events=(), **PARSER_OPTIONS)
    try:
        parser.feed(content)
        parser.close()
    except etree.XMLSyntaxError:
        pass
    first = next(iter(parser.feed_error_log), None)
    why = first.message.partition(", line ")[0].strip().rstrip(".") if first else "the file is cut off"
    return Refused("xml-malformed", why=why, line=first.line if first else 1, column=first.column if first else 1)
