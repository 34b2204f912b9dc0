"""What a bank has handed out so far in a dialog: its documents, compressed, in a file without a name as soon as they are many.

Where the dialog waits for the person, they go into the sealed state and come out of it again.
"""

from __future__ import annotations

import tempfile
import weakref
import zlib
from collections.abc import Iterator
from typing import IO

import msgspec

from kontobahn.banking.provider import ProviderRefused

IN_MEMORY = 4 * 1024 * 1024
# Of one dialog; and of one that waits for the person, compressed.
MAX_BYTES, MAX_PACKED = 1024 * 1024 * 1024, 32 * 1024 * 1024
_LEVEL = 3


class Place(msgspec.Struct, array_like=True):
    """Where a document is, and whose: the number of its account, and whether it holds what is only pending."""

    account: int
    is_pending: bool
    at: int
    length: int


class _Packed(msgspec.Struct, array_like=True):
    places: list[Place]
    content: bytes


class Documents:
    def __init__(self, packed: bytes = b"") -> None:
        self._file: IO[bytes] = tempfile.SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115 - closed with this object
        weakref.finalize(self, self._file.close)
        self._places: list[Place] = []
        self._bytes = 0
        if packed:
            kept = msgspec.msgpack.decode(packed, type=_Packed)
            self._places = kept.places
            self._file.write(kept.content)

    def add(self, account: int, document: bytes, *, is_pending: bool) -> None:
        self._bytes += len(document)
        if self._bytes > MAX_BYTES:
            raise _too_much()
        at = self._file.seek(0, 2)
        length = self._file.write(zlib.compress(document, _LEVEL))
        self._places.append(Place(account, is_pending, at, length))

    def of_account(self, account: int, *, is_pending: bool) -> Iterator[bytes]:
        """The account's documents in the order in which they came."""
        for place in self._places:
            if (place.account, place.is_pending) == (account, is_pending):
                self._file.seek(place.at)
                yield zlib.decompress(self._file.read(place.length))

    def pack(self) -> bytes:
        if self._file.seek(0, 2) > MAX_PACKED:
            raise _too_much()
        self._file.seek(0)
        return msgspec.msgpack.encode(_Packed(self._places, self._file.read()))


def _too_much() -> ProviderRefused:
    return ProviderRefused("ProviderError", "The bank hands out more transactions than can be read at once")
