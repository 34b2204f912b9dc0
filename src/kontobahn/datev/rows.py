"""Postings as DATEV sends them, and as they are kept: in columns, the rows of a person account always in the same share.

A question about one account reads its share alone. Open items of all accounts are calculated share by share, so their memory follows the
largest share, not the year. A posting whose amount is not certain is refused here, before anything is calculated with it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from datetime import date
from decimal import Decimal
from itertools import repeat
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from kontobahn import money
from kontobahn.datev.services import not_understood, read_lines
from kontobahn.ledger.errors import ProviderError
from kontobahn.ledger.konto import PERSONENKONTO_DIGITS, SACHKONTO_DIGITS

DISCOUNT = "cash_discount_posting"
# A posting that names no currency is in that of the books.
_EUROS = frozenset({"EUR", ""})
MAX_EUROS = 10**12
LAST_LEDGER_ACCOUNT = 10**SACHKONTO_DIGITS - 1
HIGHEST_ACCOUNT = 10**PERSONENKONTO_DIGITS - 1
# Person accounts are spread over the first shares; a prime, because most of their numbers end in zeros.
PERSON_SHARES = 17
# Opening balances of persons; postings between two persons; postings without one.
OPENINGS, BETWEEN_PERSONS, WITHOUT_PERSON = range(PERSON_SHARES, PERSON_SHARES + 3)
SHARES = PERSON_SHARES + 3
# A chunk is the consecutive postings of about this much of DATEV's text; each of its shares is a part.
BLOCK_BYTES = 2 * 1024 * 1024
# The number of a part: its share before the number of the first posting of its chunk.
_SHARE = 1 << 40
IS_OPENING, IS_REVERSAL, IS_DISCOUNT = 1, 2, 4


class AccountPosting(Struct, kw_only=True, gc=False):
    """A posting. A debit or credit is that of `accountNumber`; person accounts are expected in either place.

    An amount is a number in JSON; of its 15 significant digits a float loses none, and each is compared with its cents.
    """

    accountNumber: int
    contraAccountNumber: int = 0
    amountDebit: float = 0.0
    amountCredit: float = 0.0
    date: date
    isOpeningBalancePosting: bool = False
    generalReversal: bool = False
    followOnPostingType: str = ""
    documentField1: str = ""
    postingDescription: str = ""
    currencyCode: str = ""
    documentField2: str = ""
    accountingTransactionKey: int = 0
    kost1CostCenterId: str = ""
    kost2CostCenterId: str = ""


class Part(Struct, array_like=True, gc=False):
    """Postings in columns, in DATEV's order. A column in which every row is empty has none. `betrag` is cents of `konto`, SOLL positive."""

    number: list[int]
    konto: list[int]
    gegenkonto: list[int]
    betrag: list[int]
    belegdatum: list[str]
    marks: list[int]
    belegfeld1: list[str]
    buchungstext: list[str]
    # The currency that the amount is in, which is not euros.
    waehrung: list[str]
    belegfeld2: list[str]
    bu_schluessel: list[str]
    kost1: list[str]
    kost2: list[str]


class Posting(NamedTuple):
    """A posting with technical account numbers; `betrag` is cents of `konto`, SOLL positive."""

    number: int
    konto: str
    gegenkonto: str
    betrag: int
    belegdatum: str
    is_opening: bool
    is_reversal: bool
    # A discount that DATEV made a row of its own of. The payment repeats its amount, which must not be counted twice.
    is_discount: bool
    belegfeld1: str
    buchungstext: str
    waehrung: str
    belegfeld2: str
    bu_schluessel: str
    kost1: str
    kost2: str

    @property
    def legs(self) -> tuple[tuple[str, str, int], tuple[str, str, int]]:
        """Account, other account and cents, of either side."""
        return (self.konto, self.gegenkonto, self.betrag), (self.gegenkonto, self.konto, -self.betrag)


class KeptPart(NamedTuple):
    part: int
    content: bytes


def konto_of(number: int) -> str:
    """Returns the technical number of an account, which DATEV sends as an integer: 270000 is account 0027 of four digits."""
    _check_accounts([number])
    return str(number).zfill(SACHKONTO_DIGITS)


def _check_accounts(numbers: Sequence[int], least: int = 1) -> None:
    for number in (min(numbers), max(numbers)):
        if not least <= number <= HIGHEST_ACCOUNT:
            raise ProviderError(None, f"DATEV names an account {number}", type="nonsense")


def cents(amount: Decimal | None) -> int:
    if amount is None:
        return 0
    try:
        if amount.is_finite() and abs(amount) > MAX_EUROS:
            raise ValueError("is too large")
        return money.to_minor(amount)
    except ValueError as error:
        raise ProviderError(None, f"an amount of DATEV {error}", type="nonsense") from None


# --- Packing


def pack(content: bytes, first_number: int) -> tuple[list[KeptPart], int]:
    """Returns the rows of a page as the parts that are kept, and how many they are."""
    found: list[KeptPart] = []
    number = first_number
    for some in _blocks(content):
        rows = _rows(some)
        found += _pack_chunk(rows, number)
        number += len(rows)
    return found, number - first_number


def _blocks(content: bytes) -> Iterator[bytes]:
    """Yields some lines at a time."""
    start = 0
    while start < len(content):
        end = content.find(b"\n", start + BLOCK_BYTES) + 1 if content[:1] != b"[" else 0
        yield content[start : end or None]
        start = end or len(content)


def _rows(content: bytes) -> list[AccountPosting]:
    try:
        return read_lines(content, AccountPosting)
    except ProviderError:
        # The description has nothing that may be null in a posting; what is null all the same counts as left out.
        rows = [
            {name: value for name, value in row.items() if value is not None}
            for row in read_lines(content, dict[str, Any])
        ]
        try:
            return msgspec.convert(rows, list[AccountPosting])
        except msgspec.ValidationError as error:
            raise not_understood(error) from None


def _pack_chunk(rows: list[AccountPosting], first_number: int) -> Iterator[KeptPart]:
    if not rows:
        return
    columns = _columns(rows, first_number)
    shares = _shares(rows, columns[1], columns[2])
    order = sorted(range(len(rows)), key=shares.__getitem__)
    shares.sort()
    start = 0
    while start < len(rows):
        end = bisect_right(shares, shares[start], start)
        yield KeptPart(shares[start] * _SHARE + first_number, _packed(columns, order[start:end]))
        start = end


def _packed(columns: list[list[Any]], places: list[int]) -> bytes:
    if len(places) == 1:
        own = [column[places[0] :][:1] for column in columns]
    else:
        pick = itemgetter(*places)
        own = [pick(column) if column else column for column in columns]
    # Not compressed: it takes a fifth of the time, for 40 bytes of a row that are kept for half a day.
    return _encode([column if any(column) else [] for column in own])


def _shares(rows: list[AccountPosting], konten: list[int], others: list[int]) -> list[int]:
    found = [share_of(konto, other) for konto, other in zip(konten, others, strict=True)]
    opens = [row.isOpeningBalancePosting for row in rows]
    if any(opens):
        pairs = zip(found, opens, strict=True)
        return [OPENINGS if is_opening and share != WITHOUT_PERSON else share for share, is_opening in pairs]
    return found


def share_of(konto: int, other: int = 0) -> int:
    if konto <= LAST_LEDGER_ACCOUNT:
        return WITHOUT_PERSON if other <= LAST_LEDGER_ACCOUNT else other % PERSON_SHARES
    return konto % PERSON_SHARES if other <= LAST_LEDGER_ACCOUNT else BETWEEN_PERSONS


def part_numbers(share: int) -> tuple[int, int]:
    """Returns the first number that a part of a share may have, and the first that is one of the next share."""
    return share * _SHARE, (share + 1) * _SHARE


def place_of(part: int) -> tuple[int, int]:
    """Returns the share of a part, and the number of the first posting of its chunk."""
    return divmod(part, _SHARE)


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Part).decode


def _columns(rows: list[AccountPosting], first_number: int) -> list[list[Any]]:
    """Returns the columns of a part, with days that are still to be written as text."""
    # A loop for each column: there may be millions of rows, and this costs half of a loop over rows.
    konto, other = [row.accountNumber for row in rows], [row.contraAccountNumber for row in rows]
    _check_accounts(konto)
    _check_accounts(other, least=0)
    currency = [row.currencyCode for row in rows]
    key = [row.accountingTransactionKey for row in rows]
    return [
        list(range(first_number, first_number + len(rows))), konto, other, _amounts(rows), [row.date for row in rows], _marks(rows),
        [row.documentField1 for row in rows],
        [row.postingDescription for row in rows],
        [] if _EUROS.issuperset(currency) else ["" if code in _EUROS else code for code in currency],
        _filled([row.documentField2 for row in rows]),
        [str(number) if number else "" for number in key] if any(key) else [],
        _filled([row.kost1CostCenterId for row in rows]),
        _filled([row.kost2CostCenterId for row in rows]),
    ]  # fmt: skip


def _filled(column: list[str]) -> list[str]:
    return column if any(column) else []


def _marks(rows: list[AccountPosting]) -> list[int]:
    return [
        row.isOpeningBalancePosting * IS_OPENING
        + row.generalReversal * IS_REVERSAL
        + (row.followOnPostingType == DISCOUNT) * IS_DISCOUNT
        for row in rows
    ]


def _amounts(rows: list[AccountPosting]) -> list[int]:
    amounts = [row.amountDebit - row.amountCredit for row in rows]
    if max(amounts) <= MAX_EUROS and min(amounts) >= -MAX_EUROS:
        found = [int(amount * 100 + 0.5) if amount >= 0 else -int(0.5 - amount * 100) for amount in amounts]
        # The nearest float to so many cents is the one that was sent: no amount has a part of a cent.
        if [betrag / 100 for betrag in found] == amounts:
            return found
    return [_exact(row.amountDebit) - _exact(row.amountCredit) for row in rows]


def _exact(amount: float) -> int:
    return cents(Decimal(repr(amount)))


# --- Reading


def unpack(content: bytes) -> Part:
    return _decode(content)


def postings(part: Part) -> Iterator[Posting]:
    numbers = (part.gegenkonto, part.betrag, part.marks)
    texts = (
        part.belegfeld1,
        part.buchungstext,
        part.waehrung,
        part.belegfeld2,
        part.bu_schluessel,
        part.kost1,
        part.kost2,
    )
    columns = zip(
        part.number, part.konto, part.belegdatum,
        *(column or repeat(0) for column in numbers),
        *(column or repeat("") for column in texts),
        strict=False,
    )  # fmt: skip
    for number, konto, day, gegenkonto, betrag, marks, *rest in columns:
        yield Posting(
            number, str(konto).zfill(SACHKONTO_DIGITS), str(gegenkonto).zfill(SACHKONTO_DIGITS) if gegenkonto else "",
            betrag, day, bool(marks & IS_OPENING), bool(marks & IS_REVERSAL), bool(marks & IS_DISCOUNT), *rest,
        )  # fmt: skip
