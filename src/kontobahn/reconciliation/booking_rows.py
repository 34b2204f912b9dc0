"""From matches to bookings, row by row as a DATEV file has them, and what is open when they are booked. Pure.

A row for each line: bank against person account, Belegfeld 1 the document byte for byte, a discount beside the payment that it
belongs to. What was booked and then undone is a Generalumkehr, never a missing row.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import NamedTuple

from kontobahn.formats.extf import Buchungssatz, encode_weitere
from kontobahn.ledger.buchungen import EUR, NeueBuchung
from kontobahn.ledger.konto import PERSONENKONTO_DIGITS, SACHKONTO_DIGITS, is_debitor, is_personenkonto
from kontobahn.ledger.steuer import AUFHEBUNG_DER_AUTOMATIK, era_of, key_for
from kontobahn.money import allocate, from_minor
from kontobahn.reconciliation.core.model import Key, Line
from kontobahn.sentences import said

MAX_TEXT, MAX_BELEGFELD2, MAX_INFO = 60, 12, 210
# Columns of a row: kinds and contents of what goes with it, and the mandate.
_INFOS, _MANDATE = (("21", "22"), ("23", "24"), ("25", "26")), "105"
_OF_DOCUMENTS = ("item", "return")
TITLE = "Kontobahn Zahlungsabgleich"
# Of an account that does not exist.
SANDBOX_TITLE = "SANDBOX Zahlungsabgleich"


class Transfer(NamedTuple):
    """A match to be booked: a movement at the bank with its lines, signed as there. `is_undone`: booked, and to be taken back."""

    match_id: str
    transaction_id: int
    day: date
    konto: str
    lines: tuple[Line, ...]
    payer: str = ""
    evidence: str = ""
    end_to_end_id: str = ""
    mandate: str = ""
    is_undone: bool = False
    # The bank has taken the movement back since it was matched.
    is_removed: bool = False


def reference_of(transaction_id: int) -> str:
    """Returns what all bookings of a transaction carry beside the document: as much of its id as the column takes."""
    return str(transaction_id)[-MAX_BELEGFELD2:]


def problem(transfer: Transfer) -> str | None:
    """Returns why a match cannot be booked, if it cannot."""
    if not transfer.konto:
        return "The bank has no ledger account."
    for paid, discount in _paired(transfer.lines):
        if len(paid.konto) not in (SACHKONTO_DIGITS, PERSONENKONTO_DIGITS) or not paid.konto.isdigit():
            return said("The line `{kind}` has no account of the books.", kind=paid.kind)
        if paid.konto == transfer.konto:
            return said("The line `{kind}` has the account of the bank itself.", kind=paid.kind)
        if not paid.amount_minor + discount:
            return said("Nothing was paid for document {beleg}.", beleg=paid.beleg)
    return None


# The rates of a document's invoice, in per cent, each with its part of it: of one rate, everything.
Rates = tuple[tuple[int, int], ...]


def rows(transfer: Transfer, rates: Mapping[Key, Rates]) -> list[Buchungssatz]:
    """The bookings of a match that can be booked, with accounts in full. `rates` is the tax of the documents.

    A discount on an invoice with several rates reduces the tax of each: the payment is booked in as many parts, which sum to it.
    """
    found = []
    for paid, discount in _paired(transfer.lines):
        known = rates.get((paid.konto, paid.beleg), ()) if discount else ()
        parts = _parts(paid.amount_minor + discount, discount, known)
        found += [_row(transfer, paid, part) for part in parts]
    return found


class _Part(NamedTuple):
    amount: int
    discount: int
    rate: int | None
    is_divided: bool = False


def _parts(amount: int, discount: int, rates: Rates) -> list[_Part]:
    """Divides a payment and its discount by the rates of the invoice; undivided if one of them would get nothing of the payment."""
    if len(rates) == 1:
        return [_Part(amount, discount, rates[0][0])]
    weights = [weight for _, weight in rates]
    amounts = allocate(amount, weights) if weights else [0]
    if not all(amounts):
        return [_Part(amount, discount, None)]
    divided = zip(amounts, allocate(discount, weights), rates, strict=True)
    return [_Part(paid, taken, rate, is_divided=True) for paid, taken, (rate, _) in divided]


def _row(transfer: Transfer, paid: Line, part: _Part) -> Buchungssatz:
    amount, discount = part.amount, part.discount
    key = _tax_key(paid.konto, transfer.day, part) if discount else ""
    return Buchungssatz(
        line=0,
        umsatz=abs(amount),
        # Money in is on the debit side of the bank; what takes it back is on the other one.
        soll=(amount > 0) != transfer.is_undone,
        waehrung=EUR,
        kurs="",
        basis_umsatz=None,
        konto=transfer.konto,
        gegenkonto=paid.konto,
        bu_schluessel=key or "",
        belegdatum=transfer.day.isoformat(),
        belegfeld1=paid.beleg,
        belegfeld2=reference_of(transfer.transaction_id),
        skonto=abs(discount),
        buchungstext=_one_line(transfer.payer, MAX_TEXT) or "Zahlung",
        kost1="",
        kost2="",
        generalumkehr=transfer.is_undone,
        weitere=_weitere(transfer),
    )


def _paired(lines: Iterable[Line]) -> list[tuple[Line, int]]:
    """Each line with the discount that was taken from it; a discount is no line of its own."""
    discounts: dict[Key, int] = defaultdict(int)
    others = []
    for line in lines:
        if line.kind == "skonto":
            discounts[line.konto, line.beleg] += line.amount_minor
        else:
            others.append(line)
    found = []
    for line in others:
        taken = discounts.pop((line.konto, line.beleg), 0) if line.kind in _OF_DOCUMENTS else 0
        found.append((line, taken))
    # A discount without its document would be lost: it is shown as what cannot be booked.
    found += [(Line("skonto", "", beleg, amount), 0) for (_, beleg), amount in discounts.items()]
    return found


def untaxed_documents(transfer: Transfer, rates: Mapping[Key, Rates]) -> list[Key]:
    """The documents that a discount was taken from without its being known how that is taxed on the day."""
    found = []
    for paid, discount in _paired(transfer.lines):
        key = (paid.konto, paid.beleg)
        if not discount:
            continue
        parts = _parts(paid.amount_minor + discount, discount, rates.get(key, ()))
        if any(_tax_key(paid.konto, transfer.day, part) is None for part in parts):
            found.append(key)
    return found


def _tax_key(konto: str, day: date, part: _Part) -> str | None:
    """The tax key of the invoice's rate on the day of the payment; None if it is not known.

    A part free of tax needs a key that says so only beside parts with tax.
    """
    if not part.rate:
        return None if part.rate is None else AUFHEBUNG_DER_AUTOMATIK if part.is_divided else ""
    return key_for(part.rate, era_of(day.isoformat()), is_income=is_debitor(konto))


def _weitere(transfer: Transfer) -> str:
    infos = (
        ("Transaktion", str(transfer.transaction_id)),
        ("EndToEndId", _one_line(transfer.end_to_end_id, MAX_INFO)),
        ("Klasse", transfer.evidence or "von Hand"),
    )
    columns: dict[str, str] = {}
    for (kind, content), (name, value) in zip(_INFOS, infos, strict=True):
        if value:
            columns |= {kind: name, content: value}
    mandate = _one_line(transfer.mandate, 35)
    return encode_weitere(columns | ({_MANDATE: mandate} if mandate else {}))


def _one_line(text: str, most: int) -> str:
    plain = "".join(char if char.isprintable() else " " for char in text)
    return " ".join(plain.split())[:most].rstrip()


# --- For the books, and their effect on documents


def for_books(records: Iterable[Buchungssatz]) -> list[NeueBuchung]:
    """The same bookings as the books take them, through the one way in for bookings."""
    return [
        NeueBuchung(
            umsatz=from_minor(record.umsatz),
            sollHabenKennzeichen="SOLL" if record.soll else "HABEN",
            konto=record.konto,
            gegenkonto=record.gegenkonto,
            buSchluessel=record.bu_schluessel or None,
            belegdatum=date.fromisoformat(record.belegdatum),
            belegfeld1=record.belegfeld1 or None,
            belegfeld2=record.belegfeld2,
            buchungstext=record.buchungstext,
            skonto=from_minor(record.skonto) if record.skonto else None,
            generalumkehr=record.generalumkehr,
        )
        for record in records
    ]


def changes(records: Sequence[Buchungssatz]) -> dict[Key, int]:
    """Returns what these bookings change of each person account's documents, in cents, SOLL positive; `""` stands for no document."""
    found: dict[Key, int] = defaultdict(int)
    for record in records:
        if is_personenkonto(record.gegenkonto):
            amount = record.umsatz + record.skonto
            found[record.gegenkonto, record.belegfeld1] += -amount if record.soll else amount
    return found
