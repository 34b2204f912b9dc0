"""The fields of an MT940 file: what stands between `:20:` and the end of each statement, without the frames around it.

A field begins with `:tag:` at the start of a line and includes the lines that follow without one. Around statements banks write
SWIFT's blocks, the BICs of sender and receiver, the number of the message, or nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain, pairwise
from typing import NamedTuple

from kontobahn.formats.mt940.lines import read_lines
from kontobahn.formats.statements.model import StatementError, StatementWarning
from kontobahn.formats.statements.source import Source

END = "-"
INTRADAY = "942"
_MAX_LINES = 1_000
_TAG = re.compile(r":(20|21|25P?|28C?|60[FM]|61|86|62[FM]|64|65|34F|13D?|90[CD]|NS):")
_ENVELOPE = re.compile(r"\{(?:[1235S]:(?:[^{}]|\{[^{}]*\})*\}|4:)")
_SEVERAL_LINES = frozenset(("25P", "61", "86", "NS"))
# After these, or outside a statement, the frame of the next message may follow.
_LAST = frozenset(("62F", "62M", "64", "65", "90C", "90D"))
# Known frames: BICs, the number of the message, a bank's count of messages, marks between messages.
_FRAME = re.compile(
    r"[A-Z]{6}[A-Z0-9]{2,6}(?:\s+\d+)?|:?94[02]:?(?:\s*\d{2})?|0000 \d\d[A-Z]{6}[A-Z0-9]{2,6}\d*|[A-Z]\d{2}[A-Z0-9]{8,14}\d*|[-$]+"
)
_IS_942 = re.compile(r":?942:?(?:\s*\d{2})?|.*\{2:[IO]942.*")


class Field(NamedTuple):
    tag: str
    lines: list[str]
    at: int

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


def read_fields(source: Source) -> Iterator[Field | StatementWarning]:
    """Yields the fields in order; the end of a message is a field with the tag `-`, the frame of an MT942 one with `942`.

    A line outside every statement that is not a known frame is left out with a warning.
    """
    field: Field | None = None
    for number, (line, following) in enumerate(pairwise(chain(read_lines(source), [None])), 1):
        assert line is not None
        text, ended = _without_envelope(line, following, field)
        if ended or ((field is None or field.tag in _LAST) and _FRAME.fullmatch(text.strip())):
            if field is not None:
                yield field
                field = None
            yield Field(INTRADAY if _IS_942.fullmatch(line.strip()) else END, [], number)
            if not ended:
                continue
        found = _TAG.match(text)
        if found:
            if field is not None:
                yield field
            field = Field(found[1], [text[found.end() :]], number)
        elif field is not None and field.tag in _SEVERAL_LINES:
            _add(field, text, source, number)
        elif text.strip():
            yield StatementWarning(f"line {number}", f"The line {text[:60]!r} belongs to no field.", "It was left out.")
    if field is not None:
        yield field


def _without_envelope(line: str, following: str | None, field: Field | None) -> tuple[str, bool]:
    """Returns the line without marks and blocks of SWIFT, and whether they end a message."""
    text = line
    ended = text.startswith("-}") or (text.strip() == "-" and not _is_text(following, field))
    if ended:
        text = text.strip()[2:].lstrip("$")
    if text.startswith("{"):
        text = _ENVELOPE.sub("", text)
        ended = ended or text != line
    return text, ended


def _is_text(following: str | None, field: Field | None) -> bool:
    """A hyphen alone on a line of :86: is text if the statement goes on after it."""
    if field is None or field.tag != "86" or following is None:
        return False
    found = _TAG.match(following)
    return found is not None and found[1] not in {"20", "21", "25", "25P"}


def _add(field: Field, text: str, source: Source, number: int) -> None:
    if text:
        field.lines.append(text)
    if len(field.lines) > _MAX_LINES:
        raise StatementError(
            f"The field :{field.tag}: has more than {_MAX_LINES} lines.", file=source.name, place=f"line {number}"
        )
