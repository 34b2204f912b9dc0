"""Login, work, challenge, documents: what passes between the adapter, its threads and the sealed state. Nothing here needs the library."""

from __future__ import annotations

import tempfile
import weakref
import zlib
from collections.abc import Iterator
from datetime import date, timedelta
from typing import IO, Literal, NamedTuple

import msgspec

from kontobahn.banking.provider import OVERLAP, ProviderRefused

Stage = Literal["", "sync", "start", "accounts", "balance", "bookings"]
# Banks usually hand out this many days of bookings without a TAN.
DAYS_WITHOUT_TAN = 89


class Login(msgspec.Struct):
    """A login as it is kept, sealed."""

    blz: str
    url: str
    bank_name: str
    user: str
    customer: str | None = None
    # None if the person did not want it to be kept.
    pin: str | None = None
    # The library's own data on bank and user: system id, parameters, chosen method and device.
    data: bytes | None = None
    # When everything was read last.
    read_on: date | None = None


class SeenAccount(msgspec.Struct):
    iban: str
    bic: str
    number: str
    sub: str
    blz: str
    name: str = ""
    holder: str | None = None
    type: int = 1
    currency: str = "EUR"
    balance_minor: int | None = None
    has_balance: bool = False
    has_bookings: bool = False
    # False for what the login may not ask for.
    may_balance: bool = True
    may_bookings: bool = True
    # A balance that cannot be read, as the bank wrote it; and with what the bank refused this account alone.
    balance_told: str = ""
    refused: list[tuple[str, str]] = []


class Challenge(msgspec.Struct):
    """Something that the bank wants confirmed."""

    text: str
    is_decoupled: bool
    # A code for an optical generator, or an image with its type.
    flicker: str | None = None
    image_type: str | None = None
    image: bytes | None = None
    # For a confirmation elsewhere: how often it may be asked for, when first, and how long between.
    max_polls: int = 60
    first_seconds: int = 5
    next_seconds: int = 3
    by_itself: bool = True
    by_hand: bool = True


class Work(msgspec.Struct):
    login: Login
    pin: str
    product_id: str
    since: date | None = None
    stage: Stage = ""
    accounts: list[SeenAccount] | None = None
    # A dialog that waits for the person: what was read before, its frozen state and the bank's request.
    documents: bytes = b""
    dialog: bytes = b""
    request: bytes = b""
    is_decoupled: bool = False


class Method(msgspec.Struct):
    code: str
    name: str


def since_when(today: date, read_on: date | None = None) -> date:
    """From which day on bookings are asked for: what banks hand out without a TAN, or everything since the last time."""
    first = today - timedelta(days=DAYS_WITHOUT_TAN)
    return first if read_on is None else min(first, read_on - OVERLAP)


class FintsBank(NamedTuple):
    blz: str
    name: str
    bic: str
    url: str


# --- Documents: what a bank has handed out so far in a dialog, compressed, in a file without a name as soon as they are many


IN_MEMORY = 4 * 1024 * 1024
# Of one dialog; and of one that waits for the person, compressed.
MAX_BYTES, MAX_PACKED = 1024 * 1024 * 1024, 32 * 1024 * 1024
_LEVEL = 3


class Place(msgspec.Struct, array_like=True):
    """The place of a document, and whose it is: the number of its account, and whether it holds what is only pending."""

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
