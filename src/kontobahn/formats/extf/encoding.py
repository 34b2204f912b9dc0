"""From bytes to text: which encoding it is, and one pass over the whole file before it is read.

Everything that makes the bytes unreadable is found in that pass, so that no import stops half-way.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from kontobahn.formats.extf.format import ExtfError

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
    """What the first pass found. ``is_clean``: no control characters but those that end a line."""

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
            raise ExtfError(f"Line {self.line} is longer than {MAX_LINE_BYTES} bytes.")
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
        f"Line {line} has the byte 0x{byte:02X}, which is not {encoding}; "
        "a file must be written in one encoding throughout."
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
