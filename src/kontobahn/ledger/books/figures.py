"""VAT figures of a fiscal year, or of days of it, by tax key and automatic account, from the split that is stored with each booking.

The database adds up: tax is calculated for each booking in whole cents, by the same formulas as in `kontierung.legs`.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import date
from typing import Any, NamedTuple

from kontobahn import money
from kontobahn.db import Tx
from kontobahn.ledger.auswertung import Steuerart, Umsatzsteuer, UmsatzsteuerZeile
from kontobahn.ledger.books.answers import EB_PERIOD
from kontobahn.ledger.books.store import LAST_BOOKING, Client, year_of_start
from kontobahn.ledger.kontierung import GROSS, PLAIN, SKONTO, full, parts_of, tax_in, tax_on
from kontobahn.ledger.kontierung_1 import split_by_first_rule
from kontobahn.ledger.konto import FIRST_CREDITOR, PERSONENKONTO_DIGITS, is_debitor, is_personenkonto
from kontobahn.ledger.steuerschluessel import (
    EU_ERWERB,
    EU_LIEFERUNG,
    LEISTUNGSEMPFAENGER,
    OHNE_ABZUG,
    ON_TOP,
    STEUERFREI,
    TAX_ACCOUNTS,
    UMSATZSTEUER,
    VORSTEUER,
    without_reversal,
)

_NAMES: dict[str, Steuerart] = {
    UMSATZSTEUER: "UMSATZSTEUER",
    VORSTEUER: "VORSTEUER",
    EU_LIEFERUNG: "EU_LIEFERUNG",
    EU_ERWERB: "INNERGEMEINSCHAFTLICHER_ERWERB",
    LEISTUNGSEMPFAENGER: "LEISTUNGSEMPFAENGER",
    OHNE_ABZUG: "LEISTUNGSEMPFAENGER_OHNE_ABZUG",
    STEUERFREI: "STEUERFREI",
    SKONTO: "SKONTO",
    GROSS: "BRUTTO",
}
_AMOUNT = "COALESCE(basis_umsatz, umsatz)"
_SPAN = f"mandant = ? AND jahr = ? AND belegdatum BETWEEN ? AND ? AND +id <= {LAST_BOOKING} AND periode <> {EB_PERIOD}"
_RATE = "CAST(SUBSTR(aufteilung, 2, LENGTH(aufteilung) - 2) AS INTEGER)"
_IN_KONTO = "SUBSTR(aufteilung, LENGTH(aufteilung), 1) = 'k'"
# Credit of the account that carries the tax is positive.
_SIGN = f"(CASE WHEN (soll = 1) = ({_IN_KONTO}) THEN -1 ELSE 1 END)"
_NET = f"(200 * {_AMOUNT} + 100 + {_RATE}) / (2 * (100 + {_RATE}))"
_ON_TOP = f"(2 * {_AMOUNT} * {_RATE} + 100) / 200"
_IS_ON_TOP = f"SUBSTR(aufteilung, 1, 1) IN ('{EU_ERWERB}', '{LEISTUNGSEMPFAENGER}', '{OHNE_ABZUG}')"
_TAXED = (
    f"SELECT schluessel, carrier, aufteilung, SUM(sign * base), SUM(sign * tax), COUNT(*) FROM ("
    f" SELECT bu_schluessel AS schluessel, aufteilung, {_SIGN} AS sign,"
    f" CASE WHEN bu_schluessel <> '' AND bu_schluessel <> '20' THEN '' WHEN {_IN_KONTO} THEN konto ELSE gegenkonto END AS carrier,"
    f" CASE WHEN {_IS_ON_TOP} THEN {_AMOUNT} ELSE {_NET} END AS base,"
    f" CASE WHEN {_IS_ON_TOP} THEN {_ON_TOP} ELSE {_AMOUNT} - {_NET} END AS tax"
    f" FROM books_bookings WHERE {_SPAN}"
    f" AND SUBSTR(aufteilung, 1, 1) IN ('{UMSATZSTEUER}', '{VORSTEUER}', '{EU_LIEFERUNG}', '{EU_ERWERB}',"
    f" '{LEISTUNGSEMPFAENGER}', '{OHNE_ABZUG}', '{STEUERFREI}')"
    f") taxed GROUP BY schluessel, carrier, aufteilung"
)
_SKONTO_RATE = "CAST(REPLACE(SUBSTR(aufteilung, 2, LENGTH(aufteilung) - 1), '!', '') AS INTEGER)"
_SKONTO_NET = f"(200 * skonto + 100 + {_SKONTO_RATE}) / (2 * (100 + {_SKONTO_RATE}))"
_PERSON = f"CASE WHEN LENGTH(konto) = {PERSONENKONTO_DIGITS} THEN konto ELSE gegenkonto END"
# Positive if the payment debits the person account.
_PERSON_SIGN = f"(CASE WHEN (soll = 1) = (LENGTH(konto) = {PERSONENKONTO_DIGITS}) THEN 1 ELSE -1 END)"
_DISCOUNTS = (
    f"SELECT is_debitor, rate, SUM(sign * net), SUM(sign * (skonto - net)), COUNT(*) FROM ("
    f" SELECT CASE WHEN {_PERSON} < '{FIRST_CREDITOR}' THEN 1 ELSE 0 END AS is_debitor, {_SKONTO_RATE} AS rate,"
    f" {_PERSON_SIGN} AS sign, {_SKONTO_NET} AS net, skonto"
    f" FROM books_bookings WHERE {_SPAN} AND SUBSTR(aufteilung, 1, 1) = '{SKONTO}'"
    f") discounts GROUP BY is_debitor, rate"
)
_GROSS = (
    f"SELECT schluessel, carrier, SUM(betrag), COUNT(*) FROM ("
    f" SELECT bu_schluessel AS schluessel, CASE WHEN generalumkehr = 1 THEN -{_AMOUNT} ELSE {_AMOUNT} END AS betrag,"
    f" CASE WHEN bu_schluessel <> '' THEN '' WHEN LENGTH(konto) = {PERSONENKONTO_DIGITS} THEN gegenkonto"
    f" WHEN LENGTH(gegenkonto) = {PERSONENKONTO_DIGITS} THEN konto ELSE gegenkonto END AS carrier"
    f" FROM books_bookings WHERE {_SPAN} AND aufteilung = '{GROSS}'"
    f") gross GROUP BY schluessel, carrier"
)
_FIRST_RULE = (
    f"SELECT id, konto, gegenkonto, bu_schluessel, skonto, soll, {_AMOUNT} FROM books_bookings"
    f" WHERE {_SPAN} AND aufteilung = '' AND id > ? ORDER BY id LIMIT ?"
)
_PAGE = 20_000


class _Line(NamedTuple):
    """What a line of the figures is about: key or account, kind and rate."""

    schluessel: str
    konto: str
    art: str
    prozent: int


class _Sums:
    def __init__(self) -> None:
        # Base, output tax, input tax, number of bookings.
        self.lines: dict[_Line, list[int]] = defaultdict(lambda: [0, 0, 0, 0])

    def add(self, line: _Line, base: int, umsatzsteuer: int, vorsteuer: int, count: int) -> None:
        sums = self.lines[line]
        for number, value in enumerate((base, umsatzsteuer, vorsteuer, count)):
            sums[number] += int(value)

    def add_taxed(self, schluessel: str, carrier: str, text: str, base: int, tax: int, count: int) -> None:
        """`base` and `tax` are positive if the account that carries the tax is credited."""
        parts = parts_of(text)
        key = without_reversal(schluessel)
        line = _Line(key, "" if key else carrier, parts.art, parts.prozent)
        if parts.art in ON_TOP:
            self.add(line, -base, -tax, 0 if parts.art == OHNE_ABZUG else -tax, count)
        elif parts.art == VORSTEUER:
            self.add(line, -base, 0, -tax, count)
        else:
            self.add(line, base, tax, 0, count)

    def add_discount(self, *, is_debitor: bool, prozent: int, net: int, tax: int, count: int) -> None:
        """`net` and `tax` are positive if the payment debits the person account."""
        # A creditor who is paid grants the discount; a debtor who pays takes it. Either way the tax of the invoice is reduced.
        line = _Line("", "", SKONTO, prozent)
        self.add(line, net if is_debitor else -net, tax if is_debitor else 0, 0 if is_debitor else -tax, count)


def umsatzsteuer(tx: Tx, client: Client, jahr: date, von: date | None, bis: date | None) -> Umsatzsteuer:
    year = year_of_start(tx, client, jahr)
    first, last = von.isoformat() if von else year.start, bis.isoformat() if bis else year.end
    scope = (client.mandant, year.start, first, last, client.mandant)
    sums = _Sums()
    for schluessel, carrier, text, base, tax, count in tx.all(_TAXED, *scope):
        sums.add_taxed(schluessel, carrier, text, base, tax, count)
    for debitor, prozent, net, tax, count in tx.all(_DISCOUNTS, *scope):
        sums.add_discount(is_debitor=bool(debitor), prozent=prozent, net=net, tax=tax, count=count)
    for schluessel, carrier, betrag, count in tx.all(_GROSS, *scope):
        sums.add(_Line(without_reversal(schluessel), carrier, GROSS, 0), betrag, 0, 0, count)
    _add_older(tx, client, scope, sums)
    direct = _direct(tx, client, scope)
    totals = [sum(values[number] for values in sums.lines.values()) for number in (1, 2)]
    gross = [values for line, values in sums.lines.items() if line.art == GROSS]
    return Umsatzsteuer(
        vonDatum=date.fromisoformat(first),
        bisDatum=date.fromisoformat(last),
        zeilen=[_wire(line, values) for line, values in sorted(sums.lines.items(), key=_order)],
        summeUmsatzsteuer=money.to_wire(totals[0]),
        summeVorsteuer=money.to_wire(totals[1]),
        direktUmsatzsteuer=money.to_wire(direct[0]),
        direktVorsteuer=money.to_wire(direct[1]),
        bruttoGebucht=money.to_wire(sum(values[0] for values in gross)),
        bruttoAnzahl=sum(values[3] for values in gross),
    )


def _order(item: tuple[_Line, list[int]]) -> tuple[Any, ...]:
    line, _ = item
    return list(_NAMES).index(line.art), -line.prozent, line.schluessel.zfill(4), line.konto


def _wire(line: _Line, values: list[int]) -> UmsatzsteuerZeile:
    base, output, given, count = values
    return UmsatzsteuerZeile(
        buSchluessel=line.schluessel or None,
        kontonummer=line.konto or None,
        art=_NAMES[line.art],
        prozent=line.prozent,
        bemessungsgrundlage=money.to_wire(base),
        umsatzsteuer=money.to_wire(output),
        vorsteuer=money.to_wire(given),
        anzahl=count,
    )


def _add_older(tx: Tx, client: Client, scope: tuple[Any, ...], sums: _Sums) -> None:
    """Bookings from before splits were stored: how each was split has to be worked out one by one."""
    after = 0
    while rows := tx.all(_FIRST_RULE, *scope, after, _PAGE):
        for _, konto, gegenkonto, schluessel, skonto, soll, betrag in rows:
            text = split_by_first_rule(client.rahmen, konto, gegenkonto, schluessel, skonto)
            parts = parts_of(text)
            if parts.art == SKONTO:
                person = konto if is_personenkonto(konto) else gegenkonto
                sign = 1 if bool(soll) == (person == konto) else -1
                tax = tax_in(skonto, parts.prozent)
                sums.add_discount(
                    is_debitor=is_debitor(person),
                    prozent=parts.prozent,
                    net=sign * (skonto - tax),
                    tax=sign * tax,
                    count=1,
                )
            elif parts.art != PLAIN:
                sign = -1 if bool(soll) == parts.in_konto else 1
                tax = tax_on(betrag, parts.prozent) if parts.art in ON_TOP else tax_in(betrag, parts.prozent)
                base = betrag if parts.art in ON_TOP else betrag - tax
                sums.add_taxed(schluessel, konto if parts.in_konto else gegenkonto, text, sign * base, sign * tax, 1)
        after = rows[-1][0]


def _direct(tx: Tx, client: Client, scope: tuple[Any, ...]) -> tuple[int, int]:
    """What was booked directly on accounts of output and input tax, not by a split."""
    accounts = TAX_ACCOUNTS[client.kontenrahmen].values()
    output = sorted({full(item.umsatzsteuer) for item in accounts if item.umsatzsteuer})
    given = sorted({full(item.vorsteuer) for item in accounts if item.vorsteuer})
    found = []
    for konten, sign in ((output, -1), (given, 1)):
        marks = ", ".join("?" * len(konten))
        total = 0
        for column, is_soll in (("konto", 1), ("gegenkonto", 0)):
            row = tx.one(
                f"SELECT SUM(CASE WHEN soll = {is_soll} THEN {_AMOUNT} ELSE -{_AMOUNT} END) FROM books_bookings"
                f" WHERE {_SPAN} AND {column} IN ({marks})",
                *scope, *konten,
            )  # fmt: skip
            total += int(row[0] or 0) if row else 0
        found.append(sign * total)
    return found[0], found[1]
