"""The content of a file is that of its rows as they were read: neither encoding, line ends and quoting nor their order matter."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from operator import itemgetter
from typing import Any

from msgspec.json import Encoder

from kontobahn.formats.extf import Header

# The fields that make up the content of a booking, in this order. Stored digests are made of it: it must not change.
_CONTENT_OF_BOOKING = (
    "umsatz", "soll", "konto", "gegenkonto", "belegdatum", "bu_schluessel", "belegfeld1", "buchungstext", "waehrung", "kurs",
    "basis_umsatz", "belegfeld2", "skonto", "kost1", "kost2", "generalumkehr", "weitere",
)  # fmt: skip


class Content:
    """Adds up a file's rows while they are read."""

    def __init__(self, header: Header) -> None:
        self._header = (header.category, header.wj_beginn, header.datum_von, header.datum_bis)
        self._sum = 0
        self.count = 0
        self._encode: Callable[[Any], bytes] = Encoder().encode

    def add(self, row: tuple[Any, ...]) -> None:
        digest = hashlib.blake2b(self._encode(row), digest_size=16).digest()
        # A sum, so that the order does not matter; equal rows count as often as they occur.
        self._sum += int.from_bytes(digest, "little")
        self.count += 1

    def give(self) -> tuple[int, int]:
        """Returns what was added, for another one to take, and forgets it."""
        given = self.count, self._sum
        self.count = self._sum = 0
        return given

    def take(self, given: tuple[int, int]) -> None:
        count, added = given
        self.count += count
        self._sum += added

    def digest(self) -> str:
        whole = self._encode((*self._header, self.count, f"{self._sum % (1 << 128):032x}"))
        return hashlib.blake2b(whole, digest_size=32).hexdigest()


def content_of(fields: tuple[str, ...]) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    """Returns a function that picks the content of a booking from a tuple with these fields."""
    return itemgetter(*map(fields.index, _CONTENT_OF_BOOKING))
