"""Open items: from documents and carry-overs to the list per person account. Amounts in cents, SOLL positive.

An opening balance repeats the balance of earlier years' documents. The amount beyond them (the rest) is netted against
payments and credits that lack their document, the oldest first; what then remains is an item of its own. Without the call
(`routes/rewe_read.py`): the port and its adapters speak these types.
"""

from __future__ import annotations

from bisect import bisect_left
from datetime import date
from decimal import Decimal
from itertools import groupby
from operator import attrgetter
from typing import Literal, NamedTuple, cast

from msgspec import Raw

from kontobahn.api.wire import Answer
from kontobahn.json_text import encode
from kontobahn.ledger.konto import FIRST_CREDITOR, SACHKONTO_DIGITS, is_debitor
from kontobahn.money import amount_text, to_wire

EB_RESIDUAL, EB_RESIDUAL_TEXT = "EB-RESIDUAL", "Saldovortrag"
RAW_EB_BELEG = "0"
EMPTY = '""'


class Posten(Answer, gc=False):
    beleg: str
    belegdatum: date
    buchungstext: str
    saldo: Decimal


class OposKonto(Answer, gc=False):
    kontonummer: str
    bezeichnung: str
    isDebitor: bool
    totalSaldo: Decimal
    posten: list[Posten]


class Opos(Answer):
    stichtag: date
    konten: list[OposKonto]
    sumDebitoren: Decimal
    sumKreditoren: Decimal


Side = Literal["debitors", "creditors", "all"]
EbModus = Literal["reconcile", "raw"]


class OposSelection(NamedTuple):
    """The open items that are asked for."""

    stichtag: date
    side: Side
    eb_modus: EbModus
    kontonummer: str | None


class Belegbewegung(NamedTuple):
    """A movement of a document of a person account; `betrag` in cents, SOLL positive, with the discount in it."""

    konto: str
    beleg: str
    belegdatum: date
    betrag: int
    skonto: int
    # Money moved: the other account is a bank's or a cash book's.
    ist_zahlung: bool
    # The document itself: when it began, its text, and whether nothing of it is left.
    beginn: date
    text: str
    ist_ausgeglichen: bool
    # The invoice's, in per cent, 0 if it is free of tax; None if unknown, if it has several, or one not simply in the amount.
    steuersatz: int | None = None
    # The other account; whether it holds cash; and the second document field, which tells a bank's movements apart.
    gegenkonto: str = ""
    ist_bar: bool = False
    belegfeld2: str = ""
    # Of an invoice with several rates: each in per cent, with its part of the invoice in cents; empty if that is not known.
    anteile: tuple[tuple[int, int], ...] = ()


class Item(NamedTuple):
    """A document: all legs of one person account under one document number, up to the cut-off."""

    beleg: str
    soll: int
    haben: int
    belegdatum: str
    buchungstext: str

    @property
    def saldo(self) -> int:
        return self.soll - self.haben


# An account of the answer: its number, balance, and its text after number and label.
OpenKonto = tuple[str, int, str]


class Rest(NamedTuple):
    """The part of an account's opening balance beyond the documents of the years before."""

    betrag: int
    # For an item of its own: the carried year's first day (reconcile) or the day of the first opening balance ever (raw).
    belegdatum: str
    buchungstext: str


def reconcile(items: list[Item], rest: Rest) -> list[Item]:
    """Nets the rest against one-sided documents of the opposite sign; the remainder becomes EB-RESIDUAL."""
    left = rest.betrag
    result = []
    for item in sorted(items, key=lambda item: (item.belegdatum, item.beleg)):
        one_sided = not item.soll or not item.haben
        step = 0
        if one_sided and item.saldo * left < 0:
            step = min(abs(left), abs(item.saldo)) * (1 if left > 0 else -1)
            left -= step
        result.append(item._replace(soll=item.soll + max(step, 0), haben=item.haben + max(-step, 0)))
    if left:
        result.append(Item(EB_RESIDUAL, max(left, 0), max(-left, 0), rest.belegdatum, EB_RESIDUAL_TEXT))
    return result


def raw(items: list[Item], rest: Rest) -> list[Item]:
    """Shows opening balances as an ordinary document “0”, together with other legs of that number."""
    opening = Item(RAW_EB_BELEG, max(rest.betrag, 0), max(-rest.betrag, 0), rest.belegdatum, rest.buchungstext)
    result = []
    for item in items:
        if item.beleg == RAW_EB_BELEG:
            first = min(item, opening, key=lambda leg: (leg.belegdatum, leg.buchungstext))
            opening = first._replace(soll=item.soll + opening.soll, haben=item.haben + opening.haben)
        else:
            result.append(item)
    return [*result, opening]


def open_konto(konto: str, items: list[Item]) -> OpenKonto | None:
    """Returns the account with its items that have a balance, the largest first, or None if there are none."""
    by_size = sorted([(-abs(item[1] - item[2]), item) for item in items if item[1] != item[2]])
    if not by_size:
        return None
    saldo = sum([item[1] - item[2] for _, item in by_size])
    posten = ",".join([_item_text(item) for _, item in by_size])
    side = "true" if is_debitor(konto) else "false"
    return konto, saldo, f'"isDebitor":{side},"totalSaldo":{amount_text(saldo)},"posten":[{posten}]}}'


def _item_text(item: Item) -> str:
    beleg, soll, haben, belegdatum, buchungstext = item
    return (
        f'{{"beleg":{quoted(beleg)},"belegdatum":"{belegdatum}","buchungstext":{quoted(buchungstext)},'
        f'"saldo":{amount_text(soll - haben)}}}'
    )


def quoted(text: str) -> str:
    return encode(text).decode()


def _size(konto: OpenKonto) -> int:
    """Returns the key by which the largest comes first."""
    return -abs(konto[1])


def assemble(stichtag: date, konten: list[OpenKonto], names: dict[str, str]) -> Opos:
    """Returns the answer: accounts by absolute balance, sums by side."""
    # Written as text: a struct for each of many thousand items would cost several times as much.
    konten.sort()
    # Added up before the accounts are ordered by size: many thousands lie apart in memory then.
    first_creditor = bisect_left(konten, (FIRST_CREDITOR,))
    debitoren = sum([saldo for _, saldo, _ in konten[:first_creditor]])
    kreditoren = sum([saldo for _, saldo, _ in konten[first_creditor:]])
    konten.sort(key=_size)
    if names:
        texts = [
            f'{{"kontonummer":"{konto}","bezeichnung":{quoted(names[konto]) if konto in names else EMPTY},{wire}'
            for konto, _, wire in konten
        ]
    else:
        texts = [f'{{"kontonummer":"{konto}","bezeichnung":{EMPTY},{wire}' for konto, _, wire in konten]
    return answer(stichtag, ",".join(texts).encode(), debitoren, kreditoren)


def answer(stichtag: date, konten: bytes, debitoren: int, kreditoren: int) -> Opos:
    """Returns the answer, given the JSON of its accounts in their order."""
    return Opos(
        stichtag=stichtag,
        konten=cast(list[OposKonto], Raw(b"[%b]" % konten)),
        sumDebitoren=to_wire(debitoren),
        sumKreditoren=to_wire(kreditoren),
    )


class JoinedOpos(NamedTuple):
    """The answer before its accounts are in it: their JSON may be ten megabytes long, and each copy costs as much as to read it."""

    stichtag: date
    konten: bytes
    debitoren: int
    kreditoren: int

    def without_accounts(self) -> Opos:
        return answer(self.stichtag, b"", self.debitoren, self.kreditoren)

    def whole(self) -> Opos:
        return answer(*self)


# Opening balances written as a pair: which leg opens the account, and which one only takes the earlier documents out
# again. Pure.


# Class 9 of every chart holds carry-overs and statistics, never money.
_CARRY_OVER_CLASS = "9"


class OpeningLeg(NamedTuple):
    """One leg of a person account in an opening balance; SOLL is positive."""

    jahr: str
    booking: int
    betrag: int
    gegenkonto: str
    beleg: str
    is_reversal: int
    is_twin: int = 0


class AccountYear(NamedTuple):
    """A person account in a fiscal year: opening balance without twins, its text if there is one, and movements."""

    jahr: str
    eb: int
    eb_text: str
    bewegung: int


def may_be_paired(gegenkonto: str) -> bool:
    """Returns whether an opening against this account may be half of a pair; against the bank two legs are simply two payments."""
    return len(gegenkonto) == SACHKONTO_DIGITS and gegenkonto.startswith(_CARRY_OVER_CLASS)


def twins(legs: list[OpeningLeg], total: int, before: int, *, has_history: bool) -> set[int]:
    """Returns the bookings whose legs are twins, of one person account in one year.

    `total` is the plain sum of all its opening balances, `before` the account's balance on the day before.
    """
    # Choice 36: openings that add up to the earlier balance need no other interpretation: they are carried item by item, or
    # one was corrected.
    if has_history and total == before:
        return set()
    by_amount: dict[int, tuple[list[OpeningLeg], list[OpeningLeg]]] = {}
    for leg in _standing(legs):
        by_amount.setdefault(abs(leg.betrag), ([], []))[leg.betrag < 0].append(leg)
    found = set()
    for both_sides in by_amount.values():
        for soll, haben in zip(*both_sides, strict=False):
            if before:
                found.add((haben if before > 0 else soll).booking)
            elif soll.beleg == haben.beleg:
                # With no balance before, two documents of one amount are two documents.
                found.add(max(soll.booking, haben.booking))
    return found


def _standing(legs: list[OpeningLeg]) -> list[OpeningLeg]:
    """Returns the legs that no Generalumkehr has reversed, in their order."""
    standing: list[OpeningLeg] = []
    reversals: list[int] = []
    for leg in sorted(legs, key=attrgetter("booking")):
        if leg.is_reversal:
            reversals.append(leg.betrag)
        else:
            standing.append(leg)
    for betrag in reversals:
        for leg in reversed(standing):
            if leg.betrag == -betrag:
                standing.remove(leg)
                break
    return standing


def twins_of_account(years: list[AccountYear], legs: list[OpeningLeg]) -> set[int]:
    """Returns the bookings whose legs are twins, in all years; `eb` of a year holds its openings without the legs marked so."""
    of_year = {jahr: list(group) for jahr, group in groupby(sorted(legs), key=attrgetter("jahr"))}
    found: set[int] = set()
    before, has_history = 0, False
    for jahr, eb, eb_text, bewegung in sorted(years):
        own = of_year.get(jahr, [])
        total = eb + sum(leg.betrag for leg in own if leg.is_twin)
        pairs = twins(own, total, before, has_history=has_history)
        found |= pairs
        if eb_text:
            before = total - sum(leg.betrag for leg in own if leg.booking in pairs)
        before += bewegung
        has_history = True
    return found
