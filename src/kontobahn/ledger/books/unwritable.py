"""What an export does with a record that the format refuses: texts without control characters, large amounts in parts.

Books may hold what no call and no file would bring in today. What cannot be mended is left out; the protocol names either.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

from kontobahn.formats import extf
from kontobahn.formats.extf import Buchungssatz
from kontobahn.ledger.books.export_target import Note, Notes

_R = TypeVar("_R", bound=tuple[Any, ...])
# Ten digits before the comma.
_TOO_LARGE = 10**12
# A part of an amount is a multiple of this: then its tax has no fraction of a cent at any rate (5, 7, 16, 19 %), and the tax of
# the parts is the tax of the whole.
_EVEN = 22_155_420
_PART = (_TOO_LARGE - 1) // _EVEN * _EVEN
MAX_PARTS = 100
_UNWRITABLE = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


class Mender:
    """For the records of one file."""

    def __init__(self, notes: Notes, file: str, name_of: Callable[[Any], str]) -> None:
        self._notes, self._file, self._name_of = notes, file, name_of
        # The rows that splitting may add to the file, which has a largest number of rows.
        self.room = MAX_PARTS

    def mend(self, record: _R, reason: str) -> list[_R]:
        clean: _R = _cleaned(record)
        if clean != record:
            self._note(record, reason, "Each such character was replaced by a blank.")
            return [clean]
        self._note(record, reason, "The record was left out.", left_out=True)
        return []

    def mend_booking(self, record: Buchungssatz, reason: str) -> list[Buchungssatz]:
        count = -(-record.umsatz // _PART)
        if record.umsatz < _TOO_LARGE or record.basis_umsatz is not None or count > self.room:
            return self.mend(record, reason)
        self.room -= count
        self._note(record, reason, f"It was written as {count} rows that add up to it.")
        part = record._replace(umsatz=_PART, skonto=0)
        rest = record.umsatz - _PART * (count - 1)
        return [*[part] * (count - 1), record._replace(umsatz=rest)]

    def _note(self, record: Any, found: str, done: str, *, left_out: bool = False) -> None:
        self._notes.add(Note(self._file, self._name_of(record), "", found, done), left_out=left_out)


def _cleaned(value: Any) -> Any:
    """The record with blanks for characters that no file can hold."""
    if isinstance(value, str):
        return _UNWRITABLE.sub(" ", value)
    if isinstance(value, tuple):
        items = [_cleaned(item) for item in value]
        if "weitere" in getattr(value, "_fields", ()):
            items[value._fields.index("weitere")] = _cleaned_columns(value.weitere)  # type: ignore[attr-defined]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    return value


def _cleaned_columns(weitere: str) -> str:
    columns = extf.decode_weitere(weitere)
    clean = {number: _UNWRITABLE.sub(" ", text) for number, text in columns.items()}
    return weitere if clean == columns else extf.encode_weitere(clean)
