"""From bytes to rows: which encoding a file has, its lines, and their fields; malformed lines are refused.

One pass over the whole file comes before it is read: it finds everything that makes the bytes unreadable, so that no import stops
half-way. The rows of a Buchungsstapel have 87 columns after the last one that most of them fill, and the tails of most rows
are equal. A tail that was seen before is cut off and not split again, which takes a quarter off the time of an import.
"""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Callable, Iterator
from typing import BinaryIO, Generic, NamedTuple, TypeVar

from kontobahn.formats.extf.format import ExtfError, InvalidValue
from kontobahn.sentences import said

_T = TypeVar("_T")

_MAX_TAILS = 4_096
_MAX_LENGTHS = 3
_LEARNT_AT_ONCE = 4


class KnownTails(Generic[_T]):
    """Tails of lines that were seen, from a column on, with what was read from them. They have few different lengths."""

    def __init__(self, head_columns: int, read_tail: Callable[[list[str]], _T]) -> None:
        self.head_columns = head_columns
        self._read_tail = read_tail
        self._known: dict[str, _T] = {}
        self._lengths: list[int] = []

    def cut_off(self, lines: list[str]) -> tuple[list[str], list[_T | None]]:
        """Returns the head of each line and what its tail says; the whole line and None if its tail is not known."""
        heads: list[str] = []
        tails: list[_T | None] = []
        known, lengths = self._known, self._lengths
        for line in lines:
            for length in lengths:
                tail = known.get(line[-length:])
                if tail is not None:
                    heads.append(line[:-length])
                    tails.append(tail)
                    break
            else:
                heads.append(line)
                tails.append(None)
        return heads, tails

    def learn(self, lines: list[tuple[str, list[str]]]) -> None:
        """Remembers the tails of some of these well-formed lines, which come with their fields."""
        for line, fields in lines[:_LEARNT_AT_ONCE]:
            try:
                value = self._read_tail(fields)
            except InvalidValue:
                continue
            if len(self._known) >= _MAX_TAILS:
                self._known.clear()
            tail = line[_head_length(line, self.head_columns) :]
            self._known[tail] = value
            # The latest comes first, so a length that no longer occurs drops out.
            self._lengths = [len(tail), *(length for length in self._lengths if length != len(tail))][:_MAX_LENGTHS]


def _head_length(line: str, columns: int) -> int:
    """Returns the length of the first `columns` fields of a well-formed line."""
    position = -1
    for _ in range(columns):
        position += 1
        if line.startswith('"', position):
            position = line.index('"', position + 1)
            while line.startswith('"', position + 1):
                position = line.index('"', position + 2)
        position = line.index(";", position)
    return position


# BEDI "…" is a text with quotes of its own, which some programs do not double.
_BELEGLINK = re.compile(r'(?<![^;])"([A-Z]{2,8}) "([^";]+)""(?![^;\r])')


def _double_quotes_of_links(line: str) -> str:
    return _BELEGLINK.sub(r'"\1 ""\2"""', line)


def split_lines(lines: list[str]) -> list[list[str]] | None:
    """Returns the fields of each line, or None if any line is malformed."""
    rows = _split_all(lines)
    return rows if rows is not None else _split_all(list(map(_double_quotes_of_links, lines)))


def _split_all(lines: list[str]) -> list[list[str]] | None:
    try:
        rows = list(csv.reader(lines, delimiter=";", strict=True))
    except csv.Error:
        return None
    # A quote that is not closed swallows the line after it, and there are fewer rows than lines.
    return rows if len(rows) == len(lines) else None


_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def split_line(line: str) -> list[str]:
    """Returns the fields of one line. Raises InvalidValue if a quote is misplaced or a text holds a control character."""
    line = line.removesuffix("\r")
    control, text = _CONTROL.search(line), _CONTROL.sub("\0", line)
    rows = split_lines([text])
    fields = rows[0] if rows is not None else _split_at_separators(text)
    if fields is None:
        raise InvalidValue("A quoted text is not closed on this line, or something other than a semicolon follows it.")
    if control:
        column = next(index for index, field in enumerate(fields) if "\0" in field)
        raise InvalidValue(
            said("The text holds the control character 0x{code}.", code=f"{ord(control[0]):02X}"), column
        )
    return fields


def _split_at_separators(line: str) -> list[str] | None:
    """Returns the fields of a line in which quotes within a text are not doubled: `"Firma "Nord" GmbH"`, `"Monitor 24" breit"`.

    A text ends at the first quote before a semicolon or at the end of the line; any other quote is part of it. None if it may end
    elsewhere: the next field would begin within it, or a quote without a partner stands outside a text or has one there.
    """
    fields: list[str] = []
    has_lone = has_bare = False
    pieces = iter(line.split(";"))
    for piece in pieces:
        text = piece
        while text.startswith('"') and (len(text) == 1 or not text.endswith('"')):
            following = next(pieces, '"')
            if following.startswith('"'):
                return None
            text += ";" + following
        is_text, is_lone = text.startswith('"'), text.count('"') % 2 == 1
        if is_lone and not is_text:
            return None
        has_lone = has_lone or is_lone
        has_bare = has_bare or (not is_text and '"' in text)
        fields.append(text[1:-1].replace('""', '"') if is_text else text)
    return None if has_lone and has_bare else fields


_BLOCK_BYTES = 256 * 1024
# As many rows as stay in the processor's cache with all their fields; larger blocks took a fifth more time.
_BLOCK_OF_LINES_BYTES = 32 * 1024
MAX_LINE_BYTES = 1024 * 1024

_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
# Bytes that are not control characters and mean the same in code page 1252 and in Latin-1.
_ORDINARY = bytes((*range(0x20, 0x7F), *range(0xA0, 0x100)))
_HIGH = bytes(range(0x80, 0x100))
_UNDEFINED = bytes((0x81, 0x8D, 0x8F, 0x90, 0x9D))
_NOT_UNDEFINED = bytes(set(range(256)) - set(_UNDEFINED))


class Inspection(NamedTuple):
    """The findings of the first pass. ``is_clean``: no control characters but those that end a line."""

    encoding: str
    codec: str
    mark_bytes: int
    total_bytes: int
    is_clean: bool


def inspect(stream: BinaryIO) -> Inspection:
    """Reads the whole file once. Raises ExtfError with the line and the byte that cannot be decoded."""
    block = stream.read(_BLOCK_BYTES)
    if not block:
        raise ExtfError("The file is empty.")
    mark, encoding = next(((mark, name) for mark, name in _MARKS if block.startswith(mark)), (b"", ""))
    decoding = _Marked(encoding) if mark else _Unmarked()
    decoding.feed(block[len(mark) :])
    total = 0
    while block:
        total += len(block)
        block = stream.read(_BLOCK_BYTES)
        decoding.feed(block)
    decoding.finish()
    return Inspection(decoding.encoding, decoding.codec, len(mark), total, decoding.tally.is_clean)


class Tally:
    """Counts lines and control characters, which are the same bytes in ASCII, UTF-8 and code page 1252."""

    def __init__(self) -> None:
        self.line = 1
        self.length = 0
        self._has_controls = False
        self._returns = self._pairs = 0
        self._ended_in_return = False

    @property
    def is_clean(self) -> bool:
        """No control characters but line feeds, each perhaps after a carriage return."""
        return not self._has_controls and self._returns == self._pairs

    def feed(self, data: bytes) -> bytes:
        """Counts, and returns the few bytes that are not ordinary."""
        rare = data.translate(None, _ORDINARY)
        feeds, returns = rare.count(b"\n"), rare.count(b"\r")
        others = rare.translate(None, b"\r\n")
        self._has_controls = self._has_controls or bool(others.translate(None, _HIGH))
        self._returns += returns
        if returns or self._ended_in_return:
            self._pairs += data.count(b"\r\n") + (self._ended_in_return and data.startswith(b"\n"))
        if data:
            self._ended_in_return = data.endswith(b"\r")
        self.line += feeds
        self.length = len(data) - data.rfind(b"\n") - 1 + (0 if feeds else self.length)
        # The reader holds a whole line in memory.
        if self.length > MAX_LINE_BYTES:
            raise ExtfError(said("Line {line} is longer than {most} bytes.", line=self.line, most=MAX_LINE_BYTES))
        return others


class _Marked:
    """A file with a byte order mark: every byte must be valid in that encoding."""

    def __init__(self, encoding: str) -> None:
        self.codec = self.encoding = encoding
        self.tally = Tally()
        self._decoder = codecs.getincrementaldecoder(encoding)()

    def feed(self, block: bytes, *, final: bool = False) -> None:
        data = self._decoder.getstate()[0] + block
        try:
            text = self._decoder.decode(block, final)
        except UnicodeDecodeError as error:
            line = self.tally.line + data[: error.start].decode(self.codec, "replace").count("\n")
            raise _undecodable(data[error.start], line, self.codec.upper()) from error
        self.tally.feed(block if self.codec == "utf-8" else text.encode())

    def finish(self) -> None:
        self.feed(b"", final=True)


class _Unmarked:
    """A file without a mark: UTF-8 if all of it is valid and not just ASCII; otherwise code page 1252, by the rules of the format.

    A third of all programs write UTF-8 without a mark. No German text in code page 1252 happens to be UTF-8.
    """

    def __init__(self) -> None:
        self.encoding = "cp1252"
        # Latin-1 differs in a few characters only, and decodes fifty times as fast.
        self.codec = "latin-1"
        self.tally = Tally()
        self._utf8: codecs.IncrementalDecoder | None = codecs.getincrementaldecoder("utf-8")()
        self._undefined: ExtfError | None = None
        self._is_ascii = True

    def feed(self, block: bytes) -> None:
        self._try_utf8(block)
        self._is_ascii = self._is_ascii and block.isascii()
        line = self.tally.line
        others = self.tally.feed(block)
        if not others.isascii():
            self.codec = "cp1252"
            undefined = others.translate(None, _NOT_UNDEFINED)
            if undefined and self._undefined is None:
                line += block.count(b"\n", 0, block.index(undefined[:1]))
                self._undefined = _undecodable(undefined[0], line, "code page 1252")

    def _try_utf8(self, block: bytes, *, final: bool = False) -> None:
        if self._utf8 is not None:
            try:
                self._utf8.decode(block, final)
            except UnicodeDecodeError:
                self._utf8 = None

    def finish(self) -> None:
        self._try_utf8(b"", final=True)
        if self._utf8 is not None and not self._is_ascii:
            self.encoding = self.codec = "utf-8"
        elif self._undefined is not None:
            raise self._undefined


def _undecodable(byte: int, line: int, encoding: str) -> ExtfError:
    return ExtfError(
        said(
            "Line {line} has the byte 0x{byte}, which is not {encoding}; a file must be written in one"
            " encoding throughout.",
            line=line,
            byte=f"{byte:02X}",
            encoding=encoding,
        )
    )


def lines_of(stream: BinaryIO, inspection: Inspection) -> Iterator[tuple[list[str], int, bool]]:
    """Yields the lines of the file in blocks, without their line feeds, and the number of bytes read so far.

    The last line is a block of its own, marked by True, if no line feed ends it.
    """
    stream.seek(inspection.mark_bytes)
    decoder = codecs.getincrementaldecoder(inspection.codec)()
    rest, position = "", inspection.mark_bytes
    while block := stream.read(_BLOCK_OF_LINES_BYTES):
        position += len(block)
        *lines, rest = (rest + decoder.decode(block)).split("\n")
        yield lines, position, False
    if rest:
        yield [rest], position, True
