"""The XML of an invoice, within its bounds, as the values of its terms.

A syntax is a table of terms and their places (`Syntax`); what is not in the table is not read. A line is read when it is complete
and then emptied, so memory follows the longest line and not the length of the invoice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

from lxml import etree

from kontobahn.formats.invoices.model import Refused
from kontobahn.formats.xml import BOM, PARSER_OPTIONS, Options, Prolog, prolog_of

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


class _Line:
    """Lines are handed over apart."""


_LINE = _Line()


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
                _add(plans[above], self._tags(path), _LINE if own == LINE else _Group(own, plans[name]))
            elif name:
                self.paths.setdefault(name.rstrip("~"), f"{places[group]}/{path}")
                _add(plans[group], self._tags(path), _Raw(name[:-1]) if name.endswith("~") else name)
        self.line_tags = self._tags(re.sub(r"\[.*?\]", "", self.paths[LINE]))[2:]
        self.line_plan = plans[LINE]
        # Kept by the reader: how lines are read that have these elements.
        self.line_shapes: dict[Any, Any] = {}

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


class Flat:
    """An element and all below it in the order of the file: names and numbers of children, which tell everything but texts.

    Asking a tree for its elements one by one takes several times as long as parsing it.
    """

    __slots__ = ("elements", "sizes", "tags")

    def __init__(self, element: etree._Element) -> None:
        self.elements = list(element.iter())
        self.tags: list[Any] = [item.tag for item in self.elements]
        self.sizes = list(map(len, self.elements))

    def after(self, index: int) -> int:
        """Returns the index of what follows an element and all below it."""
        open_ = 1
        while open_:
            open_ += self.sizes[index] - 1
            index += 1
        return index

    def after_line(self, index: int) -> int:
        """As `after`, quickly if the next line follows at once."""
        try:
            end = self.tags.index(self.tags[index], index + 1)
        except ValueError:
            return self.after(index)
        return end if sum(self.sizes[index:end]) == end - index - 1 else self.after(index)


TakeLine: TypeAlias = "Callable[[Flat, int, int], None]"


def fill(values: Values, flat: Flat, index: int, plan: dict[str, Any], take_line: TakeLine | None = None) -> int:
    """Adds the values that the plan names below an element. Of a term that should occur once, the first counts.

    Returns the index of what follows the element.
    """
    tags, sizes, elements = flat.tags, flat.sizes, flat.elements
    left = sizes[index]
    index += 1
    while left:
        left -= 1
        step: Any = plan.get(tags[index])
        kind = step.__class__
        if kind is dict:
            index = fill(values, flat, index, step, take_line)
            continue
        if kind is str:
            text = elements[index].text
            if text and step not in values:
                values[step] = text.strip()
        elif kind is _WithAttributes:
            _fill_stated(values, elements[index], step)
        elif kind is _Group:
            inner: Values = {}
            if sizes[index]:
                fill(inner, flat, index, step.plan)
            else:
                _fill_own(inner, elements[index], step.plan)
            values.setdefault(step.name, []).append(inner)
        elif kind is _Raw:
            values.setdefault(step.term, elements[index].text or "")
        elif kind is _Line and take_line is not None:
            end = flat.after_line(index)
            take_line(flat, index, end)
            index = end
            continue
        index = flat.after(index) if sizes[index] else index + 1
    return index


def _fill_stated(values: Values, element: etree._Element, step: _WithAttributes) -> None:
    if step.term not in values:
        values[step.term] = (element.text or "").strip()
        for attribute, term in step.attributes:
            stated = element.get(attribute)
            if stated:
                values[term] = stated.strip()


def _fill_own(values: Values, element: etree._Element, plan: dict[str, Any]) -> None:
    """Adds the text and the attributes of a group that has no elements in it."""
    for place, term in plan.items():
        stated = element.text if place == "." else element.get(place[1:]) if place.startswith("@") else None
        if stated:
            values[term] = stated.strip()


class Place(NamedTuple):
    """The place of a term among the elements below a line, in the order of the file: a text, or an attribute."""

    offset: int
    attribute: str
    term: str


def plain_places(flat: Flat, start: int, plan: dict[str, Any]) -> list[Place] | None:
    """Returns the places that `fill` would read, or None if a term occurs twice or is in a group of its own."""
    places: list[Place] = []
    below = [(start, plan)]
    while below:
        above, steps = below.pop()
        index = above + 1
        for _ in range(flat.sizes[above]):
            step = steps.get(flat.tags[index])
            if isinstance(step, str):
                places.append(Place(index - start, "", step))
            elif isinstance(step, dict):
                below.append((index, step))
            elif isinstance(step, _WithAttributes):
                places.append(Place(index - start, "", step.term))
                places += (Place(index - start, attribute, term) for attribute, term in step.attributes)
            elif step is not None:
                return None
            index = flat.after(index)
    return places if len({place.term for place in places}) == len(places) else None


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


def root_of(content: bytes, tree: etree._Element | None) -> Root:
    """Returns the root of a prepared file, if it has no tree from its beginning. Raises Refused if there is none."""
    if tree is not None:
        return _named(tree)
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
    return next((_named(element) for _, element in probe.read_events()), None)


def _named(element: etree._Element) -> Root:
    # Not by QName, which refuses the names that a damaged file may have.
    namespace, _, name = str(element.tag).rpartition("}")
    return Root(namespace[1:], name)


# --- Parsing


def tree_of(content: bytes) -> etree._Element | None:
    """Returns the tree of a prepared file, or None if it is to be read line by line: it is long, or something is wrong with it."""
    if len(content) > _CHUNK:
        return None
    try:
        return etree.fromstring(content, etree.XMLParser(**PARSER_OPTIONS))
    except etree.XMLSyntaxError:
        return None


def values_of(content: bytes, tree: etree._Element | None, syntax: Syntax, take_line: TakeLine) -> Values:
    """Returns the values of a prepared file, without those of its lines, which are handed over one by one."""
    values: Values = {}
    if tree is not None:
        fill(values, Flat(tree), 0, syntax.plan, take_line)
        return values
    try:
        top = _streamed(content, syntax, take_line)
    except etree.XMLSyntaxError:
        raise _malformed(content) from None
    fill(values, Flat(top), 0, syntax.plan)
    return values


def _streamed(content: bytes, syntax: Syntax, take_line: TakeLine) -> etree._Element:
    """Hands over each line when it is complete, and empties it. Returns the root, once all of them were taken."""
    options: Options = {**PARSER_OPTIONS, "huge_tree": len(content) > _LONG_TEXT}
    tags = syntax.line_tags
    parser = etree.XMLPullParser(events=("end",), tag=tags[-1], **options)
    nodes = lines = 0
    for start in range(0, len(content), _CHUNK):
        chunk = content[start : start + _CHUNK]
        nodes += chunk.count(b"<") + chunk.count(b"=")
        parser.feed(chunk)
        for _, element in parser.read_events():
            if sum(1 for _ in element.iterancestors()) != len(tags):
                continue
            nodes = 0
            lines += 1
            flat = Flat(element)
            take_line(flat, 0, len(flat.tags))
            element.clear()
        if nodes > _MAX_NODES or lines > MAX_LINES:
            raise Refused("file-too-complex")
    return parser.close()


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
