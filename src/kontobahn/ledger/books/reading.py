"""What the books answer: open items, trial balance, accounts, bookings and lists. Read models, never the history."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from itertools import groupby
from operator import itemgetter
from typing import cast

import msgspec

from kontobahn import money
from kontobahn.api.wire import encode
from kontobahn.db import Tx
from kontobahn.errors import BadRequest
from kontobahn.ledger import opos
from kontobahn.ledger.books.posting import EB_PERIOD
from kontobahn.ledger.books.store import Client, year_of_start
from kontobahn.ledger.konto import PERSONENKONTO_DIGITS, SACHKONTO_DIGITS, is_personenkonto, technical
from kontobahn.ledger.model import (
    Belegtyp,
    Buchung,
    Buchungszeile,
    Kassenbuch,
    Kontozeile,
    Kostenstellen,
    Opos,
    Ordnertyp,
    Rechnungsordner,
    SusaZeile,
    Zahlungsbedingung,
)  # fmt: skip
from kontobahn.ledger.opos import Item, OpenRow, Rest
from kontobahn.ledger.provider import OposFrage

FIRST_CREDITOR = "700000000"
MOST_SINGLE_ACCOUNTS = 100
_ALL_PERSONS = ("100000000", "999999999")


def kontonummer(client: Client, given: str, field: str = "kontonummer") -> str:
    try:
        return technical(given, client.konto_laenge)
    except ValueError as error:
        raise BadRequest(f"The query parameter `{field}` {error}.", field=field) from None


# --- Open items


def offene_posten(tx: Tx, client: Client, frage: OposFrage) -> Opos:
    stichtag = frage.stichtag.isoformat()
    low, high = _konto_range(client, frage)
    rests = _rests_at(tx, client, stichtag, low, high, is_raw=frage.eb_modus == "raw")
    changed = _changed_since(tx, client, stichtag, low, high)
    names = _labels(tx, client, low, high)
    open_now = _open_now(tx, client, low, high)
    if not rests and not changed:
        return opos.assemble(frage.stichtag, open_now, names)
    # Only accounts with a carry-over, or with movements after the cut-off, have to be looked at document by document.
    net = opos.reconcile if frage.eb_modus == "reconcile" else opos.raw
    special = set(rests) | {konto for konto, _ in changed}
    of_konto: dict[str, list[Item]] = {konto: [] for konto in special}
    for konto, item in _open_items(tx, client, special, low, high):
        if (konto, item.beleg) not in changed:
            of_konto[konto].append(item)
    for (konto, _), item in changed.items():
        of_konto[konto].append(item)
    rows = [row for row in open_now if row[0] not in special]
    for konto, items in of_konto.items():
        rows += opos.rows_of(konto, net(items, rests[konto]) if konto in rests else items)
    return opos.assemble(frage.stichtag, rows, names)


def _konto_range(client: Client, frage: OposFrage) -> tuple[str, str]:
    low, high = _ALL_PERSONS
    if frage.filter == "debitors":
        high = "699999999"
    elif frage.filter == "creditors":
        low = FIRST_CREDITOR
    if frage.kontonummer is not None:
        konto = kontonummer(client, frage.kontonummer)
        if not is_personenkonto(konto):
            raise BadRequest("The query parameter `kontonummer` must be a person account.", field="kontonummer")
        low, high = max(low, konto), min(high, konto)
    return low, high


def _open_now(tx: Tx, client: Client, low: str, high: str) -> list[OpenRow]:
    return tx.all(
        "SELECT konto, soll - haben, wire FROM books_items WHERE mandant = ? AND is_open = 1 AND konto BETWEEN ? AND ?"
        " ORDER BY konto, ABS(soll - haben) DESC, beleg",
        client.mandant, low, high,
    )  # fmt: skip


def _open_items(tx: Tx, client: Client, konten: set[str], low: str, high: str) -> Iterator[tuple[str, Item]]:
    """What is open now in these accounts, with all that is known of it."""
    select = (
        "SELECT konto, beleg, soll, haben, belegdatum, buchungstext FROM books_items WHERE mandant = ? AND is_open = 1"
        " AND konto BETWEEN ? AND ?"
    )
    # A few accounts are asked for one by one, many by one look at all of them.
    ranges = [(konto, konto) for konto in konten] if len(konten) <= MOST_SINGLE_ACCOUNTS else [(low, high)]
    for first, last in ranges:
        for row in tx.all(select, client.mandant, first, last):
            if row[0] in konten:
                yield row[0], Item._make(row[1:])


def _changed_since(tx: Tx, client: Client, stichtag: str, low: str, high: str) -> dict[tuple[str, str], Item]:
    """Documents that moved after the cut-off, with what came later taken out again."""
    return {
        (konto, beleg): Item(beleg, int(soll), int(haben), belegdatum, buchungstext)
        for konto, beleg, soll, haben, belegdatum, buchungstext in tx.all(
            "SELECT i.konto, i.beleg, i.soll - m.soll, i.haben - m.haben, i.belegdatum, i.buchungstext FROM ("
            " SELECT konto, beleg, SUM(CASE WHEN betrag > 0 THEN betrag ELSE 0 END) AS soll,"
            " SUM(CASE WHEN betrag < 0 THEN -betrag ELSE 0 END) AS haben FROM books_item_moves"
            " WHERE mandant = ? AND belegdatum > ? AND konto BETWEEN ? AND ? GROUP BY konto, beleg"
            ") m JOIN books_items i ON i.mandant = ? AND i.konto = m.konto AND i.beleg = m.beleg",
            client.mandant, stichtag, low, high, client.mandant,
        )
    }  # fmt: skip


def _rests_at(tx: Tx, client: Client, stichtag: str, low: str, high: str, *, is_raw: bool) -> dict[str, Rest]:
    row = tx.one(
        "SELECT MAX(jahr) FROM books_years WHERE mandant = ? AND has_eb = 1 AND jahr <= ?", client.mandant, stichtag
    )
    if row is None or row[0] is None:
        return {}
    carried: str = row[0]
    rests = tx.all(
        "SELECT konto, rest FROM books_carry_rests WHERE mandant = ? AND jahr = ? AND konto BETWEEN ? AND ?",
        client.mandant, carried, low, high,
    )  # fmt: skip
    if not is_raw:
        return {konto: Rest(rest, carried, opos.EB_RESIDUAL_TEXT) for konto, rest in rests}
    return {konto: Rest(rest, *_first_opening(tx, client, konto, carried)) for konto, rest in rests}


def _first_opening(tx: Tx, client: Client, konto: str, carried: str) -> tuple[str, str]:
    """The first year the account was carried into: with an opening balance, or without one for all that was in it."""
    scope = (client.mandant, konto, carried)
    eb = tx.one(
        "SELECT jahr, eb_text FROM books_item_years WHERE mandant = ? AND konto = ? AND eb_text <> '' AND jahr <= ?"
        " ORDER BY jahr LIMIT 1",
        *scope,
    )
    rest = tx.one("SELECT MIN(jahr) FROM books_carry_rests WHERE mandant = ? AND konto = ? AND jahr <= ?", *scope)
    assert rest is not None
    return (eb[0], eb[1]) if eb is not None and eb[0] <= rest[0] else (rest[0], opos.EB_RESIDUAL_TEXT)


def _labels(tx: Tx, client: Client, low: str, high: str) -> dict[str, str]:
    rows = tx.all(
        "SELECT konto, beschriftung FROM books_accounts WHERE mandant = ? AND konto BETWEEN ? AND ?",
        client.mandant,
        low,
        high,
    )
    return {konto: text for konto, text in rows if is_personenkonto(konto)}


# --- Trial balance


def susa(tx: Tx, client: Client, jahr: date, nur_konto: str | None) -> list[SusaZeile]:
    year = year_of_start(tx, client, jahr)
    narrowed, params = "", [client.mandant, year.start]
    if nur_konto is not None:
        narrowed = " AND p.konto = ?"
        params.append(kontonummer(client, nur_konto))
    rows = tx.all(
        "SELECT p.konto, a.beschriftung, p.periode, p.soll, p.haben FROM books_periods p"
        " LEFT JOIN books_accounts a ON a.mandant = p.mandant AND a.konto = p.konto"
        f" WHERE p.mandant = ? AND p.jahr = ?{narrowed} ORDER BY LENGTH(p.konto), p.konto, p.periode",
        *params,
    )
    lines = (_susa_text(konto, list(of_konto)) for konto, of_konto in groupby(rows, key=itemgetter(0)))
    # Written as text, like the open items: a year has many thousand period values.
    return cast(list[SusaZeile], msgspec.Raw(f"[{','.join(lines)}]"))


def _susa_text(konto: str, rows: list[tuple[str, str | None, int, int, int]]) -> str:
    """A row of the answer (SusaZeile) in JSON."""
    eb: int | None = None
    total_soll = total_haben = 0
    periods = []
    for _, _, periode, soll, haben in rows:
        if periode == EB_PERIOD:
            eb = soll - haben
        else:
            total_soll += soll
            total_haben += haben
            periods.append(f'{{"periode":{periode},"saldo":{_saldo_text(soll - haben)}}}')
    return (
        f'{{"kontobeschriftung":{encode(rows[0][1] or "").decode()},"kontonummer":"{konto}",'
        f'"saldo":{_saldo_text((eb or 0) + total_soll - total_haben)},"periodenwerte":[{",".join(periods)}],'
        f'"ebWert":{"null" if eb is None else _saldo_text(eb)},'
        f'"umsatzHaben":{money.amount_text(total_haben)},"umsatzSoll":{money.amount_text(total_soll)}}}'
    )


def _saldo_text(cents: int) -> str:
    side = "HABEN" if cents < 0 else "SOLL"
    return f'{{"betrag":{money.amount_text(abs(cents))},"sollHabenKennzeichen":"{side}"}}'


# --- Accounts, bookings, lists


def konten(tx: Tx, client: Client, jahr: date, from_id: str | None, limit: int | None) -> list[Kontozeile]:
    year_of_start(tx, client, jahr)
    last = from_id or ""
    if last and len(last) not in (SACHKONTO_DIGITS, PERSONENKONTO_DIGITS):
        last = kontonummer(client, last, "from_id")
    after = (len(last), last)
    rows = tx.all(
        "SELECT konto, beschriftung FROM books_accounts WHERE mandant = ? AND (LENGTH(konto), konto) > (?, ?)"
        " ORDER BY LENGTH(konto), konto LIMIT ?",
        client.mandant, *after, limit or 1_000_000_000,
    )  # fmt: skip
    return [Kontozeile(kontonummer=konto, kontobeschriftung=text) for konto, text in rows]


def buchungen(tx: Tx, client: Client, jahr: date, from_id: str | None, limit: int | None) -> list[Buchung]:
    year = year_of_start(tx, client, jahr)
    rows = tx.all(
        "SELECT id, waehrung, soll, buchungstext, konto, gegenkonto, bu_schluessel, umsatz, belegfeld1, belegdatum, kost1, kost2"
        " FROM books_bookings WHERE mandant = ? AND jahr = ? AND id > ? ORDER BY id LIMIT ?",
        client.mandant, year.start, int(from_id or 0), limit or 1_000_000_000,
    )  # fmt: skip
    return [_buchung(*row) for row in rows]


def _buchung(
    booking: int, waehrung: str, soll: int, text: str, konto: str, gegenkonto: str, schluessel: str, umsatz: int,
    belegfeld1: str, belegdatum: str, kost1: str, kost2: str,
) -> Buchung:  # fmt: skip
    shared = {
        "kostenstellen": Kostenstellen(kost1=kost1 or None, kost2=kost2 or None),
        "buSchluessel": schluessel or None,
        "umsatz": money.to_wire(umsatz),
        "belegfeld1": belegfeld1,
        "belegdatum": datetime.combine(date.fromisoformat(belegdatum), datetime.min.time(), UTC),
    }
    return Buchung(
        id=str(booking),
        waehrung=waehrung,
        sollHabenKennzeichen="SOLL" if soll else "HABEN",
        buchungstext=text,
        buchungszeilen=[
            Buchungszeile(kontonummer=konto, **shared),  # type: ignore[arg-type]
            Buchungszeile(kontonummer=gegenkonto, **shared),  # type: ignore[arg-type]
        ],
    )


def zahlungsbedingungen(tx: Tx, client: Client, jahr: date) -> list[Zahlungsbedingung]:
    year_of_start(tx, client, jahr)
    rows = tx.all("SELECT wire FROM books_payment_terms WHERE mandant = ? ORDER BY nummer", client.mandant)
    return [msgspec.json.decode(text, type=Zahlungsbedingung) for (text,) in rows]


def save_zahlungsbedingung(tx: Tx, client: Client, bedingung: Zahlungsbedingung) -> None:
    tx.run(
        "INSERT INTO books_payment_terms (mandant, nummer, wire) VALUES (?, ?, ?)"
        " ON CONFLICT (mandant, nummer) DO UPDATE SET wire = excluded.wire",
        client.mandant, int(bedingung.id), encode(bedingung).decode(),
    )  # fmt: skip


def kassenbuecher(tx: Tx, client: Client) -> list[Kassenbuch]:
    rows = tx.all("SELECT bezeichnung FROM books_cash_books WHERE mandant = ? ORDER BY bezeichnung", client.mandant)
    return [Kassenbuch(bezeichnung=name) for (name,) in rows]


def rechnungsordner(tx: Tx, client: Client, ordnertyp: Ordnertyp | None) -> list[Rechnungsordner]:
    rows = tx.all(
        "SELECT bezeichnung, ordnertyp FROM books_folders WHERE mandant = ? ORDER BY ordnertyp, bezeichnung",
        client.mandant,
    )
    return [Rechnungsordner(bezeichnung=name, ordnertyp=typ) for name, typ in rows if ordnertyp in (None, typ)]


def belegtypen(tx: Tx, client: Client) -> list[Belegtyp]:
    rows = tx.all(
        "SELECT bezeichnung, kategorie FROM books_document_types WHERE mandant = ? ORDER BY bezeichnung", client.mandant
    )
    return [Belegtyp(bezeichnung=name, kategorie=kategorie) for name, kategorie in rows]
