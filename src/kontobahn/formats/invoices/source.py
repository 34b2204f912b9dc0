"""The XML of an invoice, within its bounds, as the values of its terms.

A syntax is a table of terms and their places (`Syntax`); what is not in the table is not read. There are three ways to the values:
a short file as nearly all programs write them is taken apart at its tags (`Scan`), once a parser has found it well formed; any other
short file by its tree; of a long one a line is read when it is complete and then emptied, so memory follows the longest line and not
the length of the invoice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple, Protocol, TypeAlias

from lxml import etree

from kontobahn.formats.invoices.model import Refused
from kontobahn.xml_text import (
    BOM,
    MAX_TAG,
    PARSER_OPTIONS,
    Options,
    Part,
    Prolog,
    Unusual,
    check_well_formed,
    decoded,
    opening,
    parsed_tag,
    prolog_of,
    root_name,
    spaces_of,
    taken_apart,
    unescaped,
)

MAX_FILE_BYTES = 20_000_000
MAX_LINES = 100_000
_CHUNK = 262_144
_HEAD = 65_536
_STEP = 1_024
# Elements and attributes in one line, or in everything that is no line; each takes about 200 bytes in memory.
_MAX_NODES = 500_000
_MAX_FORMS, _MAX_FORM = 500, 20_000
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
        # Kept by the readers: how lines are read that have these elements, and what is around the lines.
        self.line_shapes: dict[Any, Any] = {}
        self.forms: dict[bytes, _Form] = {}

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


class Element(Protocol):
    """An element by its own text and its attributes, as both a tree and a scan have them."""

    @property
    def text(self) -> str | None: ...

    def get(self, key: str, /) -> str | None: ...


class Flat:
    """An element and all below it in the order of the file: names and numbers of children, which tell everything but texts.

    Asking a tree for its elements one by one takes several times as long as parsing it.
    """

    __slots__ = ("elements", "sizes", "tags")

    def __init__(self, elements: Sequence[Element], tags: list[Any], sizes: list[int]) -> None:
        self.elements = elements
        self.tags = tags
        self.sizes = sizes

    @classmethod
    def of_tree(cls, element: etree._Element) -> Flat:
        elements = list(element.iter())
        return cls(elements, [item.tag for item in elements], list(map(len, elements)))

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


def _fill_stated(values: Values, element: Element, step: _WithAttributes) -> None:
    if step.term not in values:
        values[step.term] = (element.text or "").strip()
        for attribute, term in step.attributes:
            stated = element.get(attribute)
            if stated:
                values[term] = stated.strip()


def _fill_own(values: Values, element: Element, plan: dict[str, Any]) -> None:
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


# --- Taken apart at its tags


class _Opened:
    """An element of a scan."""

    __slots__ = ("_attributes", "_text")

    def __init__(self, text: bytes | None, attributes: Mapping[str, str]) -> None:
        self._text = text
        self._attributes = attributes

    @property
    def text(self) -> str | None:
        return unescaped(self._text.decode()) if self._text else None

    def get(self, key: str) -> str | None:
        return self._attributes.get(key)


class Run(NamedTuple):
    """Lines that follow each other and have the same tags: where the first begins and the last ends, and how many tags each has."""

    start: int
    end: int
    size: int


class Scan:
    """A file that has nothing in it but elements and texts. It is well formed only if `check` says so."""

    def __init__(self, content: bytes, whole: Part) -> None:
        self.content = content
        self.whole = whole
        self.root = whole.tags[0]

    def name(self) -> str:
        return root_name(self.root)

    def runs(self, syntax: Syntax) -> list[Run]:
        """Returns all lines. Raises Unusual if something stands between them, or the file is not well formed."""
        begins, ends = self._line_tags(syntax)
        tags = self.whole.tags
        after = tags.index(begins) if begins in tags else len(tags)
        found: list[Run] = []
        try:
            while after < len(tags) and tags[after] == begins:
                start, after = after, tags.index(ends, after) + 1
                each, size = tags[start:after], after - start
                while tags[after : after + size] == each:
                    after += size
                found.append(Run(start, after, size))
            is_alike = len(found) == 1 and tags.count(ends) == (found[0].end - found[0].start) // found[0].size
            self._check(b"<" + ends + b">", is_alike)
        except (ValueError, etree.XMLSyntaxError):
            raise Unusual from None
        return found

    def _check(self, ends: bytes, is_alike: bool) -> None:
        """Parses the file, of lines that are alike only the first one: of the others the texts alone could be wrong."""
        content = self.content
        if is_alike:
            first, last = content.index(ends) + len(ends), content.rindex(ends) + len(ends)
            others = content[first:last]
            if not (b"&" in others or b"\xef" in others or len(others.translate(None, _CONTROLS)) != len(others)):
                content = content[:first] + content[last:]
        check_well_formed(content)

    def _line_tags(self, syntax: Syntax) -> tuple[bytes, bytes]:
        """Returns how a line begins and how it ends."""
        space, _, name = syntax.line_tags[-1][1:].partition("}")
        prefixes = [prefix for prefix, meaning in spaces_of(self.root).items() if meaning == space]
        if len(prefixes) != 1:
            raise Unusual
        tag = f"{prefixes[0]}:{name}" if prefixes[0] else name
        return tag.encode(), f"/{tag}".encode()

    def element(self, part: Part) -> tuple[Flat, list[int]]:
        """Returns the element that a part is, and the places of all its elements among the tags."""
        flat, places, _ = self._flat(part)
        return flat, places

    def around(self, runs: list[Run], syntax: Syntax) -> Values:
        """Returns the values of everything but the lines. Raises Unusual if these are not at their place."""
        tags, texts = self.whole
        at = runs[0].start if runs else None
        if runs:
            start, end = runs[0].start, runs[-1].end
            tags, texts = tags[:start] + tags[end:], texts[:start] + texts[end:]
        key = b"<".join((b"%d" % (at or 0), *tags))
        form = syntax.forms.get(key)
        if form is None:
            form = self._form(tags, at, syntax)
            if len(syntax.forms) < _MAX_FORMS and len(key) <= _MAX_FORM:
                syntax.forms[key] = form
        values = form.filled(texts)
        if values is None:
            values = {}
            fill(values, self._flat(Part(tags, texts))[0], 0, syntax.plan)
        return values

    def _form(self, tags: list[bytes], at: int | None, syntax: Syntax) -> _Form:
        # Each text says where it is; a blank at its end tells whether it was stripped.
        flat, _, way = self._flat(Part(tags, [b"\0%d " % place for place in range(len(tags))]), at)
        if syntax.line_tags[-1] in flat.tags or (at is not None and way[1:] != syntax.line_tags[:-1]):
            raise Unusual
        values: Values = {}
        fill(values, flat, 0, syntax.plan)
        return _Form(values)

    def _flat(self, part: Part, at: int | None = None) -> tuple[Flat, list[int], list[str]]:
        """Returns elements, their places, and the names of those that are open at one of the tags."""
        elements: list[_Opened] = []
        names: list[str] = []
        sizes: list[int] = []
        places: list[int] = []
        open_: list[int] = []
        way: list[str] = []
        root = self.root
        for place, tag in enumerate(part.tags):
            if place == at:
                way = [names[index] for index in open_]
            if tag.startswith(b"/"):
                open_.pop()
                continue
            if open_:
                sizes[open_[-1]] += 1
            name, attributes, is_whole = opening(root, tag) if len(tag) <= MAX_TAG else parsed_tag(root, tag)
            elements.append(_Opened(None if is_whole else part.texts[place], attributes))
            names.append(name)
            sizes.append(0)
            places.append(place)
            if not is_whole:
                open_.append(len(names) - 1)
        if open_:
            raise Unusual
        return Flat(elements, names, sizes), places, way


_CONTROLS = bytes(set(range(32)) - {9, 10, 13})


class _Form:
    """The values of files that have the same tags: those that attributes state, and the places of the texts."""

    def __init__(self, values: Values) -> None:
        places: list[int] = []
        self._recipe = _recipe_of(values, places)
        # The last of two equal places makes a tuple of a single one, too.
        self._pick = itemgetter(*places, places[-1]) if places else lambda _: ()

    def filled(self, texts: list[bytes]) -> Values | None:
        """Returns the values with these texts, or None if one of them is empty, so that another one may count."""
        found = self._pick(texts)
        if not all(found):
            return None
        read = decoded(found)
        return _cooked(self._recipe, list(map(str.strip, read)), read)


class _Recipe(NamedTuple):
    texts: list[tuple[str, int]]
    raw: list[tuple[str, int]]
    stated: dict[str, str]
    groups: list[tuple[str, list[_Recipe]]]


def _recipe_of(values: Values, places: list[int]) -> _Recipe:
    """Notes where the texts of some values are among the places, to which it adds them."""
    recipe = _Recipe([], [], {}, [])
    for term, value in values.items():
        if isinstance(value, list):
            recipe.groups.append((term, [_recipe_of(item, places) for item in value]))
        elif value.startswith("\0"):
            (recipe.raw if value.endswith(" ") else recipe.texts).append((term, len(places)))
            places.append(int(value[1:]))
        else:
            recipe.stated[term] = value
    return recipe


def _cooked(recipe: _Recipe, stripped: list[str], texts: list[str]) -> Values:
    values: Values = {term: stripped[index] for term, index in recipe.texts}
    if recipe.stated:
        values.update(recipe.stated)
    for term, index in recipe.raw:
        values[term] = texts[index]
    for name, members in recipe.groups:
        values[name] = [_cooked(member, stripped, texts) for member in members]
    return values


def _scanned(content: bytes) -> Scan | None:
    if len(content) > _CHUNK:
        return None
    try:
        return Scan(*taken_apart(content))
    except Unusual:
        return None


# --- Before parsing


class Source(NamedTuple):
    """A file that a parser may have. A tree is there if it is short and was not scanned."""

    content: bytes
    scan: Scan | None
    tree: etree._Element | None
    root: Root


def opened(content: bytes) -> Source:
    """Looks at an XML file. Raises Refused if it is none, too large, or declares a document type."""
    ready, is_utf_8 = _prepared(content)
    scan = _scanned(ready) if is_utf_8 else None
    if scan is not None:
        try:
            root = _named(scan.name())
        except (Unusual, ValueError):
            root = Root("", "")
        if root.namespace:
            return Source(ready, scan, None, root)
    tree = tree_of(ready)
    return Source(ready, None, tree, _root_of(ready, tree))


def _prepared(content: bytes) -> tuple[bytes, bool]:
    """Returns an XML file as a parser may have it, and whether it is in UTF-8."""
    if len(content) > MAX_FILE_BYTES:
        raise Refused("file-too-large", most=MAX_FILE_BYTES // 1_000_000)
    content = _as_utf_8(content)
    prolog: Prolog = prolog_of(content[:_HEAD])
    if prolog.foreign_encoding is not None:
        raise Refused("xml-encoding", encoding=prolog.foreign_encoding)
    if prolog.has_doctype:
        raise Refused("xml-doctype")
    return content, prolog.is_utf_8


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


def _root_of(content: bytes, tree: etree._Element | None) -> Root:
    """Returns the root of a prepared file, if it has no tree from its beginning. Raises Refused if there is none."""
    if tree is not None:
        return _named(str(tree.tag))
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
    return next((_named(str(element.tag)) for _, element in probe.read_events()), None)


def _named(tag: str) -> Root:
    # Not by QName, which refuses the names that a damaged file may have.
    namespace, _, name = tag.rpartition("}")
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
        fill(values, Flat.of_tree(tree), 0, syntax.plan, take_line)
        return values
    try:
        top = _streamed(content, syntax, take_line)
    except etree.XMLSyntaxError:
        raise _malformed(content) from None
    fill(values, Flat.of_tree(top), 0, syntax.plan)
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
            flat = Flat.of_tree(element)
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
