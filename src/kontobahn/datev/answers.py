"""Answers about bookings, accounts and documents, from postings at hand. Pure."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, date, datetime

from kontobahn import money
from kontobahn.datev.kept import Numbered
from kontobahn.datev.open_items import foreign_currency
from kontobahn.datev.rows import Posting, share_of
from kontobahn.errors import BadRequest
from kontobahn.ledger import buchungen
from kontobahn.ledger.buchungen import AccountBooking, DocumentBookings
from kontobahn.ledger.faelligkeiten import is_money
from kontobahn.ledger.kontenrahmen import Kontenrahmen
from kontobahn.ledger.konto import is_personenkonto
from kontobahn.ledger.kontoblatt import AccountSheet, SheetLine, SheetSelection
from kontobahn.ledger.opos import Belegbewegung

# Of a document: day, place in the order of all postings, posting, other account, cents.
Leg = tuple[str, str, Posting, str, int]
# Day and place before it, by which the latest comes first.
Movement = tuple[str, str, Belegbewegung]


def period_of(one: Numbered) -> int:
    """Returns the month of the fiscal year, 1 to 12; 0 for an opening balance."""
    if one.posting.is_opening:
        return 0
    day = one.posting.belegdatum
    months = (int(day[:4]) - int(one.jahr[:4])) * 12 + int(day[5:7]) - int(one.jahr[5:7])
    return min(months + 1, 12)


def buchung(one: Numbered) -> buchungen.Buchung:
    posting = one.posting
    lines = [
        buchungen.Buchungszeile(
            kontonummer=konto,
            kostenstellen=buchungen.Kostenstellen(kost1=posting.kost1 or None, kost2=posting.kost2 or None),
            buSchluessel=posting.bu_schluessel or None,
            umsatz=money.to_wire(abs(posting.betrag)),
            belegfeld1=posting.belegfeld1,
            belegdatum=datetime.combine(date.fromisoformat(posting.belegdatum), datetime.min.time(), UTC),
        )
        for konto in (posting.konto, posting.gegenkonto)
        if konto
    ]
    return buchungen.Buchung(
        id=str(posting.number),
        waehrung=posting.waehrung or buchungen.EUR,
        sollHabenKennzeichen="HABEN" if posting.betrag < 0 else "SOLL",
        buchungstext=posting.buchungstext,
        buchungszeilen=lines,
        generalumkehr=posting.is_reversal,
    )


def sheet(moved: list[Numbered], selection: SheetSelection) -> AccountSheet:
    """Returns a page of a person account's sheet, by period, day and posting."""
    after = _place_of(selection.after)
    legs = [((period_of(one), one.posting.belegdatum, one.posting.number), one.posting) for one in moved]
    legs.sort(key=lambda leg: leg[0])
    saldo = before = 0
    lines: list[SheetLine] = []
    for place, posting in legs:
        is_konto = posting.konto == selection.konto
        betrag = posting.betrag if is_konto else -posting.betrag
        saldo += betrag
        if place <= after or place[0] < (selection.periode or 0):
            before = saldo
        elif selection.periode not in (None, place[0]):
            break
        elif len(lines) == selection.limit:
            return AccountSheet(before, lines, lines[-1].place)
        else:
            on_debit = (betrag > 0) != posting.is_reversal
            lines.append(
                SheetLine(
                    f"{place[0]}.{place[1]}.{place[2]}", str(place[2]), place[0], date.fromisoformat(place[1]),
                    posting.belegfeld1, posting.buchungstext, posting.gegenkonto if is_konto else posting.konto,
                    posting.bu_schluessel, betrag if on_debit else 0, 0 if on_debit else -betrag, saldo,
                )
            )  # fmt: skip
    return AccountSheet(before, lines, None)


def _place_of(text: str) -> tuple[int, str, int]:
    period, _, rest = text.partition(".")
    day, _, number = rest.partition(".")
    if text and not (
        period.isascii() and period.isdigit() and number.isascii() and number.isdigit() and len(number) < 19
    ):
        raise BadRequest("The place in the sheet is not one that a page led to.", field="after")
    return (int(period), day, int(number)) if text else (-1, "", 0)


def of_document(moved: list[Numbered], konto: str, beleg: str, after: str, limit: int) -> DocumentBookings:
    soll = haben = 0
    found = []
    for jahr, posting in moved:
        if posting.belegfeld1 != beleg or posting.is_opening:
            continue
        betrag = posting.betrag if posting.konto == konto else -posting.betrag
        soll, haben = soll + max(betrag, 0), haben + max(-betrag, 0)
        found.append(
            AccountBooking(
                f"{jahr[:4]}{posting.number:09}", date.fromisoformat(posting.belegdatum), beleg, posting.buchungstext,
                posting.konto, posting.gegenkonto, posting.bu_schluessel, betrag,
            )
        )  # fmt: skip
    found.sort(key=lambda one: (one.belegdatum, one.id))
    shown = [one for one in found if f"{one.belegdatum} {one.id}" > after]
    return DocumentBookings(soll, haben, shown[:limit])


def movements(some: list[Numbered], shares: range, seit: str, rahmen: Kontenrahmen) -> list[Movement]:
    """Returns the movements of documents of these shares' accounts, without those that a Generalumkehr took back."""
    legs: dict[tuple[str, str], list[Leg]] = defaultdict(list)
    for jahr, posting in some:
        for konto, other, betrag in posting.legs if posting.belegfeld1 else ():
            if is_personenkonto(konto) and share_of(int(konto)) in shares:
                if posting.waehrung:
                    raise foreign_currency({int(konto): posting.waehrung})
                order = f"{jahr}{posting.number:012}"
                legs[konto, posting.belegfeld1].append((posting.belegdatum, order, posting, other, betrag))
    found = []
    for (konto, beleg), moved in legs.items():
        moved.sort(key=lambda leg: leg[:2])
        is_cleared = sum(leg[4] for leg in moved) == 0
        beginn, text = min((leg[0], leg[2].buchungstext) for leg in moved)
        for day, place, posting, other, betrag in _standing(moved):
            if day >= seit:
                paid = not is_personenkonto(other) and is_money(rahmen, other)
                is_cash = paid and rahmen.bargeld[0] <= other[:4] <= rahmen.bargeld[1]
                movement = Belegbewegung(
                    konto, beleg, date.fromisoformat(day), betrag, 0, paid, date.fromisoformat(beginn), text, is_cleared,
                    None, other, is_cash, posting.belegfeld2,
                )  # fmt: skip
                found.append((day, place, movement))
    return found


def _standing(moved: list[Leg]) -> list[Leg]:
    standing: list[Leg] = []
    for leg in moved:
        if leg[2].is_reversal:
            taken = next((one for one in reversed(standing) if one[4] == -leg[4]), None)
            if taken is not None:
                standing.remove(taken)
        else:
            standing.append(leg)
    return standing
