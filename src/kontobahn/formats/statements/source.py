"""A file's bytes before anything is parsed: how many are allowed, which format they are, and which XML is refused outright."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import BinaryIO, Literal, NamedTuple, TypedDict

from lxml import etree

from kontobahn.formats.statements.model import StatementError

HEAD = 65_536
CHUNK = 65_536
MAX_FILE_BYTES = 200_000_000
_BOM = b"\xef\xbb\xbf"
_BLANKS = b" \t\r\n\x0b\x0c\x00\x01\x02\x03\x04\x1a"  # with the marks of transmission that older software leaves
_UTF_16_OR_32 = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff", b"<\x00", b"\x00<", b"\x00\x00\x00<")
# Supersets of ASCII only: in any other encoding a DOCTYPE could go unnoticed.
_ENCODINGS = {"utf-8", "utf8", "us-ascii", "ascii", "iso-8859-1", "iso-8859-15", "latin1", "latin-1", "windows-1252"}
_DECLARED = re.compile(rb"""^<\?xml\s[^>]*?encoding\s*=\s*["']([^"']*)["']""")
_FIELD_20 = re.compile(rb"(?:^|[\r\n\x00-\x04]|\{4:)\s*:20:")

Shape = Literal["zip", "xml", "mt"]


class Source:
    """A file read once, from the front, no further than `max_bytes` bytes."""

    def __init__(self, file: BinaryIO, name: str, max_bytes: int = MAX_FILE_BYTES) -> None:
        self.name = name
        self._file = file
        self._max_bytes = max_bytes
        self._bytes_read = 0
        self.head = self._read_head()

    def _read_head(self) -> bytes:
        head = b""
        while len(head) < HEAD and (more := self._file.read(HEAD - len(head))):
            head += more
        self._unread = head
        return head

    def read(self, size: int = CHUNK) -> bytes:
        chunk = self._unread or self._file.read(size)
        self._unread = b""
        self._bytes_read += len(chunk)
        if self._bytes_read > self._max_bytes:
            raise StatementError(
                f"The file has more than the {self._max_bytes:,} bytes that are allowed.", file=self.name
            )
        return chunk

    @property
    def has_more_than_head(self) -> bool:
        return self._bytes_read > len(self.head) or bool(self._unread)

    def forget_namespace(self, namespace: str) -> bool:
        """Blanks out the default namespace if it is declared once, at the root; otherwise returns False.

        lxml rebuilds a tag with a namespace on every access, which would take a third of the reader's time.
        """
        named = re.escape(namespace.encode())
        declared: list[bytes] = re.findall(rb"""xmlns(?::[^\s=]+)?\s*=\s*["']%b["']""" % named, self._unread)
        if len(declared) != 1 or declared[0].startswith(b"xmlns:"):
            return False
        self._unread = self._unread.replace(declared[0], b" " * len(declared[0]), 1)
        return True

    def shape(self) -> Shape:
        """Returns the format by content, never by file name."""
        if self.head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
            return "zip"
        text = self.head.removeprefix(_BOM).lstrip(_BLANKS)
        if not text:
            raise StatementError("The file is empty.", file=self.name)
        if self.head.startswith(_UTF_16_OR_32):
            raise StatementError("The file is encoded in UTF-16 or UTF-32; write it in UTF-8.", file=self.name)
        if text.startswith(b"<"):
            return "xml"
        if text.startswith(b"{1:") or _FIELD_20.search(self.head.removeprefix(_BOM)):
            return "mt"
        raise StatementError(
            "This is not a bank statement: neither camt.052, camt.053, camt.054, MT940 nor pain.002.", file=self.name
        )


class Root(NamedTuple):
    """`message` is the end of the namespace: camt.053.001.08. `space` stands before an element's name in its tag."""

    message: str
    space: str


# What a file without a namespace is, by the element of its message. Versions differ little in what is read.
_MESSAGES = {
    "BkToCstmrAcctRpt": "camt.052.001.08",
    "BkToCstmrStmt": "camt.053.001.08",
    "BkToCstmrDbtCdtNtfctn": "camt.054.001.08",
    "CstmrPmtStsRpt": "pain.002.001.10",
}


class _Options(TypedDict):
    resolve_entities: bool
    load_dtd: bool
    no_network: bool
    huge_tree: bool
    remove_comments: bool
    remove_pis: bool


# Entities, DTD and network off.
PARSER_OPTIONS: _Options = {
    "resolve_entities": False,
    "load_dtd": False,
    "no_network": True,
    "huge_tree": False,
    "remove_comments": True,
    "remove_pis": True,
}


def root_of(source: Source) -> Root:
    """Returns what an XML file is. Raises StatementError for a document type declaration or an encoding that could hide one."""
    _refuse_declarations(source)
    probe = etree.XMLPullParser(events=("start",), **PARSER_OPTIONS)
    fault: StatementError | None = None
    try:
        probe.feed(source.head)
    except etree.XMLSyntaxError as error:
        fault = _malformed(error, next(iter(probe.feed_error_log), None), at_end=False)
    started = [element for _, element in islice(probe.read_events(), 2)]
    if not started:
        raise (fault or StatementError("The file is cut off before its first element ends.")).at(source.name)
    root = started[0]
    namespace = etree.QName(root).namespace or ""
    found = re.search(r"[a-z]{4}\.\d{3}\.\d{3}\.\d{2}", namespace)
    if found is None:
        message = _MESSAGES.get(etree.QName(started[-1]).localname) if not namespace else None
        if message is not None:
            return Root(message, "")
        described = f"the namespace {namespace[:80]!r}" if namespace else "no namespace"
        raise StatementError(
            f"This is not a bank statement: the XML's root {etree.QName(root).localname[:40]} has {described},"
            " where one that ends in camt.053.001.08 or the like is needed.",
            file=source.name,
        )
    plain = root.prefix is None and source.forget_namespace(namespace)
    return Root(found[0], "" if plain else f"{{{namespace}}}")


def _refuse_declarations(source: Source) -> None:
    """Runs before any parser sees the file."""
    head = source.head.removeprefix(_BOM).lstrip()
    declared = _DECLARED.match(head)
    if declared and declared[1].decode("latin-1").lower() not in _ENCODINGS:
        encoding = declared[1].decode("latin-1")[:40]
        raise StatementError(f"The XML declares the encoding {encoding!r}; write it in UTF-8.", file=source.name)
    position = 0
    while True:
        if head.startswith(b"<?", position):
            end = head.find(b"?>", position)
        elif head.startswith(b"<!--", position):
            end = head.find(b"-->", position + 4)
        elif head.startswith(b"<!", position):
            raise StatementError(
                "The XML has a document type declaration (DOCTYPE). Bank statements have none, and entities are not"
                " read: the file is refused.",
                file=source.name,
                place=f"line {source.head[: source.head.find(b'<!DOCTYPE')].count(b'%c' % 10) + 1}",
            )
        else:
            return
        if end < 0:
            raise StatementError("The XML has no element in its first 64 KiB.", file=source.name)
        position = end + (2 if head.startswith(b"<?", position) else 3)
        position += len(head[position:]) - len(head[position:].lstrip())


def parse(parser: etree.XMLPullParser, source: Source) -> Iterator[int]:
    """Feeds a parser and yields the size of each piece. Raises StatementError, with the place, if the file is not XML."""
    at_end = False
    try:
        while chunk := source.read():
            try:
                parser.feed(chunk)
            finally:
                # What is complete before a fault is processed first, so that the error can say after which entry it came.
                yield len(chunk)
        at_end = not len(parser.feed_error_log)
        parser.close()
    except etree.XMLSyntaxError as error:
        raise _malformed(error, next(iter(parser.feed_error_log), None), at_end) from None


def _malformed(error: etree.XMLSyntaxError, first: etree._LogEntry | None, at_end: bool) -> StatementError:
    """The first entry of the log is the cause; the exception may be a consequence of it, and omits undeclared entities."""
    line, column, text = (first.line, first.column, first.message) if first else (*error.position, error.msg)
    reason = (text or "").partition(", line ")[0].strip().rstrip(".")
    if at_end:
        sentence = f"The file is cut off here ({reason})."
    elif "encod" in reason.lower() or "UTF-8" in reason or "invalid char" in reason.lower():
        sentence = f"The text is not in the encoding that the XML declares ({reason})."
    else:
        sentence = f"The XML is malformed ({reason})."
    return StatementError(sentence, place=f"line {line}, column {column}" if line else "")
