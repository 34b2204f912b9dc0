"""Reports on a fiscal year: trial balance, VAT figures, profit and loss."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import date
from itertools import groupby
from typing import Any, NamedTuple, cast

import msgspec

from kontobahn import money
from kontobahn.books.satz import EB_PERIOD
from kontobahn.books.store import (
    LAST_BOOKING,
    STANDING,
    UNDONE,
    Client,
    edition_of,
    konto_readings,
    labels,
    year_of_start,
)
from kontobahn.db import Tx
from kontobahn.errors import BadRequest
from kontobahn.ledger import opos
from kontobahn.ledger.bwa import is_profit_and_loss
from kontobahn.ledger.istversteuerung import Charge, Discount, Movement, Receipt, taxes_due
from kontobahn.ledger.kontierung import GROSS, PLAIN, SKONTO, full, parts_of, tax_in
from kontobahn.ledger.konto import FIRST_CREDITOR, PERSONENKONTO_DIGITS, SACHKONTO_DIGITS
from kontobahn.ledger.steuer import (
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
from kontobahn.ledger.wire import (
    Bwa,
    Steuerart,
    SusaZeile,
    TaxedBooking,
    TaxSelection,
    Umsatzsteuer,
    UmsatzsteuerZeile,
    profit_and_loss,
)
from kontobahn.sentences import said

_LAST_KONTO = "9" * PERSONENKONTO_DIGITS


# --- Trial balance


def susa(tx: Tx, client: Client, jahr: date, only: str | None) -> list[SusaZeile]:
    year = year_of_start(tx, client, jahr)
    spans = [("", _LAST_KONTO)]
    if only is not None:
        spans = [(konto, konto) for konto in konto_readings(client, only)]
    rows: list[tuple[str, str]] = []
    for low, high in spans:
        rows = rows or tx.all(
            "SELECT konto, wire FROM books_balances WHERE edition = ? AND jahr = ? AND konto BETWEEN ? AND ? ORDER BY konto",
            edition_of(tx, client), year.start, low, high,
        )  # fmt: skip
    names = labels(tx, client, spans[0][0], spans[-1][1])
    # Written as text, like the open items: a year has many thousand period values.
    lines = [
        f'{{"kontobeschriftung":{opos.quoted(names[konto]) if konto in names else opos.EMPTY},{wire}'
        for digits in (SACHKONTO_DIGITS, PERSONENKONTO_DIGITS)
        for konto, wire in rows
        if len(konto) == digits
    ]
    return cast(list[SusaZeile], msgspec.Raw(f"[{','.join(lines)}]"))


# --- Profit and loss, from the turnover that is kept by account and period


def balances(tx: Tx, client: Client, jahr: date) -> list[tuple[str, int]]:
    """The balance of each account at the end of a fiscal year, in cents, by account."""
    rows = tx.all(
        "SELECT konto, SUM(soll - haben) FROM books_periods WHERE edition = ? AND jahr = ? GROUP BY konto ORDER BY konto",
        edition_of(tx, client), jahr.isoformat(),
    )  # fmt: skip
    return [(konto, int(cents)) for konto, cents in rows]


def bwa(tx: Tx, client: Client, jahr: date, bis_periode: int) -> Bwa:
    year = year_of_start(tx, client, jahr)
    rows = tx.all(
        "SELECT konto, periode, haben - soll FROM books_periods WHERE edition = ? AND jahr = ? AND periode > ? AND periode <= ?"
        " ORDER BY konto, periode",
        edition_of(tx, client), year.start, EB_PERIOD, bis_periode,
    )  # fmt: skip
    return profit_and_loss(client.kontenrahmen, jahr, bis_periode, rows, lambda konto: _label(tx, client, konto))


def _label(tx: Tx, client: Client, konto: str) -> str:
    row = tx.one("SELECT beschriftung FROM books_accounts WHERE mandant = ? AND konto = ?", client.mandant, konto)
    return row[0] if row else ""


# --- VAT figures by tax key and automatic account, from the split that is stored with each booking

# The database adds up: tax is calculated for each booking in whole cents, by the same formulas as in `kontierung.legs`.
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
# A key that says nothing but that a booking is reversed.
REVERSAL = "20"
_AMOUNT = "COALESCE(basis_umsatz, umsatz)"
_COLUMNS = (
    "konto, gegenkonto, soll, umsatz, basis_umsatz, bu_schluessel, belegfeld1, skonto, generalumkehr, aufteilung, id"
)
_COUNTED = f"+id <= {LAST_BOOKING} AND periode <> {EB_PERIOD} AND {STANDING}"
# The bookings whose tax belongs to these days: by the day of the document, or by that of the tax period if the row names one,
# whatever the fiscal year of the booking.
_ROWS = (
    f"(SELECT {_COLUMNS} FROM books_bookings WHERE mandant = ? AND jahr = ? AND belegdatum BETWEEN ? AND ? AND steuertag = ''"
    f" AND {_COUNTED} UNION ALL"
    f" SELECT {_COLUMNS} FROM books_bookings WHERE mandant = ? AND steuertag BETWEEN ? AND ? AND steuertag <> '' AND {_COUNTED}) b"
)
_RATE = "CAST(SUBSTR(aufteilung, 2, LENGTH(aufteilung) - 2) AS INTEGER)"
_IN_KONTO = "SUBSTR(aufteilung, LENGTH(aufteilung), 1) = 'k'"
# Credit of the account that carries the tax is positive.
_SIGN = f"(CASE WHEN (soll = 1) = ({_IN_KONTO}) THEN -1 ELSE 1 END)"
_NET = f"(200 * {_AMOUNT} + 100 + {_RATE}) / (2 * (100 + {_RATE}))"
_ON_TOP = f"(2 * {_AMOUNT} * {_RATE} + 100) / 200"
# Output tax that is due when the debtor pays, for a client that is taxed by payments received: not in the period of its invoice.
_ON_PAYMENT = (UMSATZSTEUER, EU_LIEFERUNG)
_OF_DEBITOR = " OR ".join(
    f"(LENGTH({side}) = {PERSONENKONTO_DIGITS} AND {side} < '{FIRST_CREDITOR}')" for side in ("konto", "gegenkonto")
)
_IS_ON_TOP = f"SUBSTR(aufteilung, 1, 1) IN ('{EU_ERWERB}', '{LEISTUNGSEMPFAENGER}', '{OHNE_ABZUG}')"
_TAXED_ROWS = (
    f"(SELECT id, bu_schluessel AS schluessel, aufteilung, {_SIGN} AS sign,"
    f" CASE WHEN bu_schluessel <> '' AND bu_schluessel <> '{REVERSAL}' THEN '' WHEN {_IN_KONTO} THEN konto ELSE gegenkonto END AS carrier,"
    f" CASE WHEN {_IS_ON_TOP} THEN {_AMOUNT} ELSE {_NET} END AS base,"
    f" CASE WHEN {_IS_ON_TOP} THEN {_ON_TOP} ELSE {_AMOUNT} - {_NET} END AS tax"
    f" FROM {_ROWS}"
    f" WHERE SUBSTR(aufteilung, 1, 1) IN ('{UMSATZSTEUER}', '{VORSTEUER}', '{EU_LIEFERUNG}', '{EU_ERWERB}',"
    f" '{LEISTUNGSEMPFAENGER}', '{OHNE_ABZUG}', '{STEUERFREI}')"
    f" AND (? = 0 OR SUBSTR(aufteilung, 1, 1) NOT IN ('{UMSATZSTEUER}', '{EU_LIEFERUNG}') OR NOT ({_OF_DEBITOR}))) taxed"
)
_TAXED = (
    "SELECT schluessel, carrier, aufteilung, SUM(sign * base), SUM(sign * tax), COUNT(*)"
    f" FROM {_TAXED_ROWS} GROUP BY schluessel, carrier, aufteilung"
)
# As they are split now that their invoice is known.
_DISCOUNT = "COALESCE(d.aufteilung, b.aufteilung)"
_SKONTO_RATE = f"CAST(REPLACE(SUBSTR({_DISCOUNT}, 2, LENGTH({_DISCOUNT}) - 1), '!', '') AS INTEGER)"
_SKONTO_NET = f"(200 * skonto + 100 + {_SKONTO_RATE}) / (2 * (100 + {_SKONTO_RATE}))"
_PERSON = f"CASE WHEN LENGTH(b.konto) = {PERSONENKONTO_DIGITS} THEN b.konto ELSE b.gegenkonto END"
# Positive if the payment debits the person account.
_PERSON_SIGN = f"(CASE WHEN (soll = 1) = (LENGTH(b.konto) = {PERSONENKONTO_DIGITS}) THEN 1 ELSE -1 END)"
_DISCOUNT_ROWS = (
    f"(SELECT b.id, CASE WHEN {_PERSON} < '{FIRST_CREDITOR}' THEN 1 ELSE 0 END AS is_debitor, {_SKONTO_RATE} AS rate,"
    f" {_PERSON_SIGN} AS sign, {_SKONTO_NET} AS net, skonto"
    f" FROM {_ROWS} LEFT JOIN books_discounts d ON d.edition = ? AND d.konto = {_PERSON} AND d.beleg = b.belegfeld1"
    f" AND d.booking = b.id WHERE SUBSTR(b.aufteilung, 1, 1) = '{SKONTO}'"
    f" AND (? = 0 OR {_PERSON} >= '{FIRST_CREDITOR}')) discounts"
)
_DISCOUNTS = (
    "SELECT is_debitor, rate, SUM(sign * net), SUM(sign * (skonto - net)), COUNT(*)"
    f" FROM {_DISCOUNT_ROWS} GROUP BY is_debitor, rate"
)
_GROSS_ROWS = (
    f"(SELECT id, bu_schluessel AS schluessel, CASE WHEN generalumkehr = 1 THEN -{_AMOUNT} ELSE {_AMOUNT} END AS betrag,"
    f" CASE WHEN bu_schluessel <> '' THEN '' WHEN LENGTH(konto) = {PERSONENKONTO_DIGITS} THEN gegenkonto"
    f" WHEN LENGTH(gegenkonto) = {PERSONENKONTO_DIGITS} THEN konto ELSE gegenkonto END AS carrier"
    f" FROM {_ROWS} WHERE aufteilung = '{GROSS}') gross"
)
_GROSS = f"SELECT schluessel, carrier, SUM(betrag), COUNT(*) FROM {_GROSS_ROWS} GROUP BY schluessel, carrier"


# The documents of debtors that moved in some days, with all that ever moved them.
_DEBITORS = ("1" + "0" * (PERSONENKONTO_DIGITS - 1), "6" + "9" * (PERSONENKONTO_DIGITS - 1))
_OF_PAID_ITEMS = (
    "SELECT m.konto, m.beleg, m.belegdatum, m.booking, m.betrag, b.skonto, b.generalumkehr, b.bu_schluessel, b.konto, b.gegenkonto,"
    " COALESCE(d.aufteilung, b.aufteilung) FROM books_item_moves m"
    " JOIN books_bookings b ON b.mandant = m.mandant AND b.id = m.booking"
    " LEFT JOIN books_discounts d ON d.edition = ? AND d.konto = m.konto AND d.beleg = m.beleg AND d.booking = m.booking"
    f" WHERE m.mandant = ? AND m.konto BETWEEN '{_DEBITORS[0]}' AND '{_DEBITORS[1]}'"
    " AND (m.konto, m.beleg) IN (SELECT konto, beleg FROM books_item_moves WHERE mandant = ? AND belegdatum BETWEEN ? AND ?)"
    f" AND m.booking <= {LAST_BOOKING} AND m.booking NOT {UNDONE} AND b.{STANDING}"
    " ORDER BY m.konto, m.beleg, m.booking"
)


class _Line(NamedTuple):
    """The subject of a line of the figures: key or account, kind and rate."""

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


class _Share(NamedTuple):
    """Base, output tax and input tax that bookings add to a line."""

    base: int
    umsatzsteuer: int
    vorsteuer: int


def _taxed_line(schluessel: str, carrier: str, text: str) -> _Line:
    parts, key = parts_of(text), without_reversal(schluessel)
    return _Line(key, "" if key else carrier, parts.art, parts.prozent)


def _taxed_share(art: str, base: int, tax: int) -> _Share:
    """`base` and `tax` are positive if the account that carries the tax is credited."""
    if art in ON_TOP:
        return _Share(-base, -tax, 0 if art == OHNE_ABZUG else -tax)
    return _Share(-base, 0, -tax) if art == VORSTEUER else _Share(base, tax, 0)


def _discount_share(*, is_debitor: bool, net: int, tax: int) -> _Share:
    """`net` and `tax` are positive if the payment debits the person account."""
    # A creditor who is paid grants the discount; a debtor who pays takes it. Either way the tax of the invoice is reduced.
    return _Share(net, tax, 0) if is_debitor else _Share(-net, 0, -tax)


def _days(tx: Tx, client: Client, jahr: date, von: date | None, bis: date | None) -> tuple[str, str, str]:
    """Start of the fiscal year, first and last day. Raises BadRequest for days outside it."""
    year = year_of_start(tx, client, jahr)
    first, last = von.isoformat() if von else year.start, bis.isoformat() if bis else year.end
    for name, day in (("vonDatum", first), ("bisDatum", last)):
        if not year.start <= day <= year.end:
            reason = said(
                "must lie in the fiscal year, {day_first} to {day_last}", day_first=year.start, day_last=year.end
            )
            raise BadRequest(said("The query parameter `{field}` {reason}.", field=name, reason=reason), field=name)
    return year.start, first, last


def _scope(client: Client, start: str, first: str, last: str) -> tuple[Any, ...]:
    """The values of `_ROWS`."""
    mandant = client.mandant
    return mandant, start, first, last, mandant, mandant, mandant, first, last, mandant, mandant


def umsatzsteuer(tx: Tx, client: Client, jahr: date, von: date | None, bis: date | None) -> Umsatzsteuer:
    start, first, last = _days(tx, client, jahr, von, bis)
    scope, sums = _scope(client, start, first, last), _Sums()
    by_payment = int(_is_by_payment(client))
    for schluessel, carrier, text, base, tax, count in tx.all(_TAXED, *scope, by_payment):
        line = _taxed_line(schluessel, carrier, text)
        sums.add(line, *_taxed_share(line.art, base, tax), count)
    for debitor, prozent, net, tax, count in tx.all(_DISCOUNTS, *scope, edition_of(tx, client), by_payment):
        share = _discount_share(is_debitor=bool(debitor), net=net, tax=tax)
        sums.add(_Line("", "", SKONTO, prozent), *share, count)
    for schluessel, carrier, betrag, count in tx.all(_GROSS, *scope):
        sums.add(_Line(without_reversal(schluessel), carrier, GROSS, 0), betrag, 0, 0, count)
    for line, shares in _on_payment(tx, client, first, last).items():
        for share in shares.values():
            sums.add(line, *share, 1)
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


# --- Tax that is due when the money comes in


class _ItemMove(NamedTuple):
    konto: str
    beleg: str
    day: str
    booking: int
    betrag: int  # positive if the person account is debited
    skonto: int
    is_reversal: int
    schluessel: str
    one: str
    other: str
    aufteilung: str

    @property
    def contra(self) -> str:
        return self.other if self.one == self.konto else self.one


def _is_by_payment(client: Client) -> bool:
    return client.versteuerung == "ist"


def _on_payment(tx: Tx, client: Client, first: str, last: str) -> dict[_Line, dict[int, _Share]]:
    """Returns what the payments of these days add to each line, by booking; nothing if the client is taxed by invoices."""
    found: dict[_Line, dict[int, _Share]] = {}
    if not _is_by_payment(client):
        return found
    mandant = client.mandant
    rows = tx.all(
        _OF_PAID_ITEMS, edition_of(tx, client), mandant, mandant, first, last, mandant, mandant, mandant, mandant
    )
    for (konto, _), moves in groupby(map(_ItemMove._make, rows), key=lambda move: (move.konto, move.beleg)):
        for due in taxes_due(item for move in moves for item in _movements(client, move)):
            if not first <= due.day <= last:
                continue
            # Money for something that nobody has invoiced is listed beside what was booked gross: somebody must look at its tax.
            line = due.line if isinstance(due.line, _Line) else _Line("", konto, GROSS, 0)
            shares = found.setdefault(line, {})
            base, tax, _given = shares.get(due.booking, (0, 0, 0))
            shares[due.booking] = _Share(base + due.base, tax + due.tax, 0)
    return {
        line: standing
        for line, shares in found.items()
        if (standing := {booking: share for booking, share in shares.items() if any(share)})
    }


def _movements(client: Client, move: _ItemMove) -> Iterator[Movement]:
    parts, sign = parts_of(move.aufteilung), 1 if move.betrag > 0 else -1
    if parts.art in _ON_PAYMENT:
        carrier = move.one if parts.in_konto else move.other
        has_key = move.schluessel not in ("", REVERSAL)
        line = _taxed_line(move.schluessel, "" if has_key else carrier, move.aufteilung)
        yield Charge(move.day, move.booking, line, parts.prozent, move.betrag, tax_in(move.betrag, parts.prozent))
    elif parts.art == SKONTO:
        discount = sign * move.skonto
        yield Discount(move.day, move.booking, parts.prozent, discount, tax_in(discount, parts.prozent))
        yield Receipt(move.day, move.booking, discount - move.betrag)
    elif parts.art != PLAIN:
        yield Charge(move.day, move.booking, None, 0, move.betrag, 0)
    elif not is_profit_and_loss(client.kontenrahmen, move.contra):
        yield Receipt(move.day, move.booking, -move.betrag)
    elif (move.betrag > 0) != bool(move.is_reversal):
        yield Charge(move.day, move.booking, None, 0, move.betrag, 0)
    # An amount that is written off was neither paid nor charged.


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


def _direct(tx: Tx, client: Client, scope: tuple[Any, ...]) -> tuple[int, int]:
    """Returns the amounts booked directly on accounts of output and input tax, not by a split."""
    accounts = TAX_ACCOUNTS[client.kontenrahmen].values()
    output = sorted({full(item.umsatzsteuer) for item in accounts if item.umsatzsteuer})
    given = sorted({full(item.vorsteuer) for item in accounts if item.vorsteuer})
    found = []
    for konten, sign in ((output, -1), (given, 1)):
        marks = ", ".join("?" * len(konten))
        total = 0
        for column, is_soll in (("konto", 1), ("gegenkonto", 0)):
            [(amount,)] = tx.all(
                f"SELECT SUM(CASE WHEN soll = {is_soll} THEN {_AMOUNT} ELSE -{_AMOUNT} END) FROM {_ROWS}"
                f" WHERE {column} IN ({marks})",
                *scope, *konten,
            )  # fmt: skip
            total += int(amount or 0)
        found.append(sign * total)
    return found[0], found[1]


# --- The bookings of a line, each with its share


def steuerbuchungen(tx: Tx, client: Client, selection: TaxSelection) -> list[TaxedBooking]:
    days = _days(tx, client, selection.jahr, selection.von, selection.bis)
    shares = _shares(tx, client, days, _scope(client, *days), selection)
    marks = ", ".join("?" * len(shares))
    rows = tx.all(
        "SELECT id, belegdatum, belegfeld1, buchungstext, konto, gegenkonto FROM books_bookings"
        f" WHERE mandant = ? AND id IN ({marks}) ORDER BY id",
        client.mandant, *shares,
    ) if shares else []  # fmt: skip
    return [
        TaxedBooking(
            number, date.fromisoformat(day), beleg, text, konto, gegenkonto, *map(money.from_minor, shares[number])
        )
        for number, day, beleg, text, konto, gegenkonto in rows
    ]


def _shares(
    tx: Tx, client: Client, days: tuple[str, str, str], scope: tuple[Any, ...], selection: TaxSelection
) -> dict[int, _Share]:
    """By booking: the page of a line that the selection asks for."""
    art = next(letter for letter, name in _NAMES.items() if name == selection.line.art)
    wanted = _Line(selection.line.schluessel, selection.line.konto, art, selection.line.prozent)
    page = (selection.after, selection.limit)
    by_payment = int(_is_by_payment(client))
    if art == SKONTO:
        found = tx.all(
            f"SELECT id, is_debitor, sign * net, sign * (skonto - net) FROM {_DISCOUNT_ROWS}"
            " WHERE rate = ? AND id > ? ORDER BY id LIMIT ?",
            *scope, edition_of(tx, client), by_payment, wanted.prozent, *page,
        )  # fmt: skip
        return {
            number: _discount_share(is_debitor=bool(debitor), net=int(net), tax=int(tax))
            for number, debitor, net, tax in found
        }
    if art == GROSS:
        groups = [
            (schluessel, carrier)
            for schluessel, carrier, _, _ in tx.all(_GROSS, *scope)
            if _Line(without_reversal(schluessel), carrier, GROSS, 0) == wanted
        ]
        found = _of_groups(
            tx, f"SELECT id, betrag, 0 FROM {_GROSS_ROWS}", ("schluessel", "carrier"), scope, groups, page
        )
        shares = {number: _Share(int(amount), 0, 0) for number, amount, _ in found}
    else:
        scope = (*scope, by_payment)
        groups = [row[:3] for row in tx.all(_TAXED, *scope) if _taxed_line(*row[:3]) == wanted]
        columns = ("schluessel", "carrier", "aufteilung")
        found = _of_groups(tx, f"SELECT id, sign * base, sign * tax FROM {_TAXED_ROWS}", columns, scope, groups, page)
        shares = {number: _taxed_share(art, int(base), int(tax)) for number, base, tax in found}
    paid = _on_payment(tx, client, *days[1:]).get(wanted, {})
    both = shares | {booking: share for booking, share in paid.items() if booking > selection.after}
    return {booking: both[booking] for booking in sorted(both)[: selection.limit]}


def _of_groups(
    tx: Tx, select: str, columns: tuple[str, ...], scope: tuple[Any, ...], groups: list[Any], page: tuple[int, int]
) -> list[tuple[int, int, int]]:
    """Returns the rows of some groups of a sum: a reversal has a key of its own, and the account may stand on either side."""
    if not groups:
        return []
    one = " AND ".join(f"{column} = ?" for column in columns)
    conditions = " OR ".join([f"({one})"] * len(groups))
    values = [value for group in groups for value in group]
    after, limit = page
    return tx.all(f"{select} WHERE ({conditions}) AND id > ? ORDER BY id LIMIT ?", *scope, *values, after, limit)
