"""The lines of an MT940 file as text, whatever code page its bank uses.

Nothing in the file names it. UTF-8 is recognised by itself; the code pages of DOS and Windows, and the seven-bit German of
ISO 646, by where their umlauts would stand.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, TypeAlias

from kontobahn.formats.statements.model import StatementError
from kontobahn.formats.statements.source import Source

_MAX_LINE_BYTES = 65_536
_CONTROLS = "\x00\x01\x02\x03\x04\x1a"
_CodePage: TypeAlias = Literal["cp1252", "cp850", "iso-8859-1"]

# Ä Ö Ü ä ö ü ß in the code page of Windows, and in that of DOS: there within words only, as they are marks in the other.
_WINDOWS = re.compile(rb"[\xc4\xd6\xdc\xe4\xf6\xfc\xdf]")
_DOS = re.compile(rb"\x81|(?<=[A-Za-z])[\x84\x94\xe1](?=[a-z\xe1])|(?<![a-z])[\x8e\x99\x9a](?=[A-Za-z])")
_NOT_WINDOWS = re.compile(rb"[\x81\x8d\x8f\x90\x9d]")
_HIGH = re.compile(rb"[\x80-\xff]")

# In ISO 646 for Germany these are Ä Ö Ü ä ö ü ß. Braces and brackets are sure signs within a word, the others only together.
_SEVEN_BIT = str.maketrans("[\\]{|}", "ÄÖÜäöü")
_SHARP_S = re.compile(r"~(?!\d\d)")
_SURE = re.compile(rb"(?<=[A-Za-z])[}{](?=[a-z~])|(?<=[A-Z])[\]\[](?=[A-Z])")
_UNSURE = re.compile(rb"(?<=[A-Za-z|])[|\\~](?=[A-Za-z~])")
_ENVELOPE = ("{", "-}")


def read_lines(source: Source) -> Iterator[str]:
    """Raises StatementError if a line is longer than any in a bank statement."""
    decode = _Decoder(source.head)
    newline = b"\n" if b"\n" in source.head else b"\r"
    rest = b""
    first = True
    while chunk := source.read():
        if first:
            chunk = chunk.removeprefix(b"\xef\xbb\xbf")
            first = False
        *lines, rest = (rest + chunk).split(newline)
        for line in lines:
            yield decode.line(line)
        if len(rest) > _MAX_LINE_BYTES:
            raise StatementError("A line is longer than any in a bank statement.", file=source.name)
    if rest:
        yield decode.line(rest)


class _Decoder:
    """Decides by the head of the file, or otherwise by the first line that shows it."""

    def __init__(self, head: bytes) -> None:
        self._page = _code_page(head)
        self._is_seven_bit = not _HIGH.search(head) and _is_seven_bit(head)

    def line(self, line: bytes) -> str:
        line = line.rstrip(b"\r")
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError:
            if self._page is None:
                self._page = _code_page(line)
            page = self._page or "cp1252"
            if page == "cp1252" and _NOT_WINDOWS.search(line):
                page = "iso-8859-1"
            text = line.decode(page)
        text = text.strip(_CONTROLS)
        if self._is_seven_bit and not text.startswith(_ENVELOPE):
            text = _SHARP_S.sub("ß", text.translate(_SEVEN_BIT))
        return text


def _code_page(text: bytes) -> _CodePage | None:
    """Returns None if nothing shows it."""
    windows, dos = len(_WINDOWS.findall(text)), len(_DOS.findall(text))
    if windows == dos == 0:
        return None
    return "cp850" if dos > windows else "cp1252"


def _is_seven_bit(head: bytes) -> bool:
    return bool(_SURE.search(head)) or len(set(_UNSURE.findall(head))) > 1
