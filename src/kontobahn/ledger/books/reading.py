"""Reads of the built-in books: open items, trial balance, accounts, bookings and lists; from read models, not from the history."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, date, datetime
from typing import NamedTuple, cast

import msgspec

from kontobahn import money
from kontobahn.clock import berlin_date
from kontobahn.db import Table, Tx
from kontobahn.errors import BadRequest
from kontobahn.ledger import opos
from kontobahn.ledger.accounting import Buchung, Buchungszeile, Kontozeile, Kostenstellen, SusaZeile, Zahlungsbedingung
from kontobahn.ledger.books import answers
from kontobahn.ledger.books.store import LAST_BOOKING, UNDONE, Client, edition_of, year_of_start
from kontobahn.ledger.kassenbuch import Belegtyp, Kassenbuch, Ordnertyp, Rechnungsordner
from kontobahn.ledger.konto import FIRST_CREDITOR, PERSONENKONTO_DIGITS, SACHKONTO_DIGITS, is_personenkonto, readings
from kontobahn.ledger.opos import Item, OpenKonto, Opos, OposSelection, Rest

_ALL_PERSONS = ("100000000", "999999999")
_ONE_BY_ONE = 20
_FEW_KONTEN = 5_000


def kontonummer(client: Client, text: str, field: str = "kontonummer") -> str:
    return _readings(client, text, field)[-1]


def _readings(client: Client, text: str, field: str = "kontonummer") -> list[str]:
    try:
        return readings(text, client.konto_laenge)
    except ValueError as error:
        raise BadRequest(f"The query parameter `{field}` {error}.", field=field) from None


# --- Open items


def offene_posten(tx: Tx, client: Client, selection: OposSelection) -> Opos:
    stichtag = selection.stichtag.isoformat()
    low, high = _konto_range(client, selection)
    rests = _rests_at(tx, client, stichtag, low, high, is_raw=selection.eb_modus == "raw")
    changed = _changed_since(tx, client, stichtag, low, high)
    stored = _open_accounts(tx, client, low, high)
    # Only accounts with a carry-over, with movements after the cut-off or with too many items are read document by document.
    special = set(rests) | {konto for konto, _ in changed} | {konto for _, konto, _, wire in stored if not wire}
    if not special:
        return opos.assemble(selection.stichtag, stored, _names_of(tx, client, stored, low, high))
    net = opos.reconcile if selection.eb_modus == "reconcile" else opos.raw
    konten = [row for row in stored if row[1] not in special]
    later = _by_konto(changed)
    for portion in answers.open_items(tx, edition_of(tx, client), special):
        for konto, open_now in portion.items():
            items = [item for item in open_now if (konto, item.beleg) not in changed] + later.get(konto, [])
            found = opos.open_konto(konto, net(items, rests[konto]) if konto in rests else items)
            if found is not None:
                konten.append(found)
    return opos.assemble(selection.stichtag, konten, _names_of(tx, client, konten, low, high))


def open_amounts(tx: Tx, client: Client, konten: Collection[str]) -> dict[tuple[str, str], int]:
    """What is open today of the documents of these person accounts, in cents."""
    # A few are read one by one, many at once.
    asked: list[str | None] = [None] if len(konten) > _ONE_BY_ONE else [*konten]
    found = {}
    for nummer in asked:
        answer = offene_posten(tx, client, OposSelection(berlin_date(tx.now), "all", "reconcile", nummer))
        for konto in msgspec.json.decode(bytes(cast(msgspec.Raw, answer.konten)), type=list[opos.OposKonto]):
            if konto.kontonummer in konten:
                found.update({(konto.kontonummer, item.beleg): money.to_minor(item.saldo) for item in konto.posten})
    return found


def _konto_range(client: Client, selection: OposSelection) -> tuple[str, str]:
    low, high = _ALL_PERSONS
    if selection.side == "debitors":
        high = "699999999"
    elif selection.side == "creditors":
        low = FIRST_CREDITOR
    if selection.kontonummer is not None:
        konto = kontonummer(client, selection.kontonummer)
        if not is_personenkonto(konto):
            raise BadRequest("The query parameter `kontonummer` must be a person account.", field="kontonummer")
        low, high = max(low, konto), min(high, konto)
    return low, high


def _open_accounts(tx: Tx, client: Client, low: str, high: str) -> list[OpenKonto]:
    """Returns what is open now, account by account; without its text if an account has too many items."""
    return tx.all(
        "SELECT -ABS(saldo), konto, saldo, wire FROM books_open_accounts WHERE edition = ? AND konto BETWEEN ? AND ?",
        edition_of(tx, client), low, high,
    )  # fmt: skip


def _by_konto(changed: dict[tuple[str, str], Item]) -> dict[str, list[Item]]:
    found: dict[str, list[Item]] = {}
    for (konto, _), item in changed.items():
        found.setdefault(konto, []).append(item)
    return found


def _changed_since(tx: Tx, client: Client, stichtag: str, low: str, high: str) -> dict[tuple[str, str], Item]:
    """Returns documents that moved after the cut-off, less those movements."""
    return {
        (konto, beleg): Item(beleg, int(soll), int(haben), belegdatum, buchungstext)
        for konto, beleg, soll, haben, belegdatum, buchungstext in tx.all(
            "SELECT i.konto, i.beleg, i.soll - m.soll, i.haben - m.haben, i.belegdatum, i.buchungstext FROM ("
            " SELECT konto, beleg, SUM(CASE WHEN betrag > 0 THEN betrag ELSE 0 END) AS soll,"
            " SUM(CASE WHEN betrag < 0 THEN -betrag ELSE 0 END) AS haben FROM books_item_moves"
            f" WHERE mandant = ? AND belegdatum > ? AND konto BETWEEN ? AND ? AND booking <= {LAST_BOOKING} AND booking NOT {UNDONE}"
            " GROUP BY konto, beleg"
            ") m JOIN books_items i ON i.edition = ? AND i.konto = m.konto AND i.beleg = m.beleg",
            client.mandant, stichtag, low, high, *[client.mandant] * 3, edition_of(tx, client),
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
        "SELECT konto, rest FROM books_carry_rests WHERE edition = ? AND jahr = ? AND konto BETWEEN ? AND ?",
        edition_of(tx, client), carried, low, high,
    )  # fmt: skip
    if not is_raw:
        return {konto: Rest(rest, carried, opos.EB_RESIDUAL_TEXT) for konto, rest in rests}
    first = _first_openings(tx, client, carried, low, high)
    return {konto: Rest(rest, *first[konto]) for konto, rest in rests}


def _first_openings(tx: Tx, client: Client, carried: str, low: str, high: str) -> dict[str, tuple[str, str]]:
    """Returns the first year each account was carried into, with or without an opening balance, and the text of it."""
    scope = (edition_of(tx, client), carried, low, high)
    found = {
        konto: (jahr, opos.EB_RESIDUAL_TEXT)
        for konto, jahr in tx.all(
            "SELECT konto, MIN(jahr) FROM books_carry_rests WHERE edition = ? AND jahr <= ? AND konto BETWEEN ? AND ?"
            " GROUP BY konto",
            *scope,
        )
    }
    for konto, jahr, text in tx.all(
        "SELECT konto, jahr, eb_text FROM books_item_years WHERE edition = ? AND jahr <= ? AND konto BETWEEN ? AND ?"
        " AND eb_text <> '' ORDER BY jahr DESC",
        *scope,
    ):
        if konto in found and jahr <= found[konto][0]:
            found[konto] = (jahr, text)
    return found


def _names_of(tx: Tx, client: Client, konten: list[OpenKonto], low: str, high: str) -> dict[str, str]:
    """Labels of the accounts shown. Of a few their own are read, for a client may have many more partners than open items."""
    if len(konten) > _FEW_KONTEN:
        return _labels(tx, client, low, high)
    # Numbers are compared as texts, so impersonal accounts lie between those of persons: they are shorter.
    any_label = "SELECT 1 FROM books_accounts WHERE mandant = ? AND konto BETWEEN ? AND ? AND LENGTH(konto) = ? LIMIT 1"
    if tx.one(any_label, client.mandant, low, high, PERSONENKONTO_DIGITS) is None:
        return {}
    found: dict[str, str] = {}
    for some, is_one in answers.each_portion([konto for _, konto, _, _ in konten]):
        found.update(
            tx.all(
                f"SELECT konto, beschriftung FROM books_accounts WHERE mandant = ? AND konto {is_one}",
                client.mandant, *some,
            )
        )  # fmt: skip
    return found


def _labels(tx: Tx, client: Client, low: str, high: str) -> dict[str, str]:
    rows = tx.all(
        "SELECT konto, beschriftung FROM books_accounts WHERE mandant = ? AND konto BETWEEN ? AND ?",
        client.mandant,
        low,
        high,
    )
    return dict(rows)


# --- Trial balance


def susa(tx: Tx, client: Client, jahr: date, only: str | None) -> list[SusaZeile]:
    year = year_of_start(tx, client, jahr)
    spans = [("", _ALL_PERSONS[1])]
    if only is not None:
        spans = [(konto, konto) for konto in _readings(client, only)]
    rows: list[tuple[str, str]] = []
    for low, high in spans:
        rows = rows or tx.all(
            "SELECT konto, wire FROM books_balances WHERE edition = ? AND jahr = ? AND konto BETWEEN ? AND ? ORDER BY konto",
            edition_of(tx, client), year.start, low, high,
        )  # fmt: skip
    names = _labels(tx, client, spans[0][0], spans[-1][1])
    # Written as text, like the open items: a year has many thousand period values.
    lines = [
        f'{{"kontobeschriftung":{opos.quoted(names[konto]) if konto in names else opos.EMPTY},{wire}'
        for digits in (SACHKONTO_DIGITS, PERSONENKONTO_DIGITS)
        for konto, wire in rows
        if len(konto) == digits
    ]
    return cast(list[SusaZeile], msgspec.Raw(f"[{','.join(lines)}]"))


# --- Accounts, bookings, lists


def konten(tx: Tx, client: Client, jahr: date, from_id: str | None, limit: int | None) -> list[Kontozeile]:
    year = year_of_start(tx, client, jahr)
    last = from_id or ""
    if last and len(last) not in (SACHKONTO_DIGITS, PERSONENKONTO_DIGITS):
        last = kontonummer(client, last, "from_id")
    # A posting may name an account that no file has labelled.
    rows = tx.all(
        "SELECT k.konto, a.beschriftung FROM ("
        " SELECT konto FROM books_accounts WHERE mandant = ?"
        " UNION SELECT konto FROM books_balances WHERE edition = ? AND jahr = ?"
        ") k LEFT JOIN books_accounts a ON a.mandant = ? AND a.konto = k.konto"
        " WHERE (LENGTH(k.konto), k.konto) > (?, ?) ORDER BY LENGTH(k.konto), k.konto LIMIT ?",
        client.mandant, edition_of(tx, client), year.start, client.mandant, len(last), last, limit or 1_000_000_000,
    )  # fmt: skip
    return [Kontozeile(kontonummer=konto, kontobeschriftung=text or "") for konto, text in rows]


class _BookingRow(NamedTuple):
    id: int
    waehrung: str
    soll: int
    buchungstext: str
    konto: str
    gegenkonto: str
    bu_schluessel: str
    umsatz: int
    belegfeld1: str
    belegdatum: str
    kost1: str
    kost2: str


_BOOKINGS = Table("books_bookings", _BookingRow)


def buchungen(tx: Tx, client: Client, jahr: date, from_id: str | None, limit: int | None) -> list[Buchung]:
    year = year_of_start(tx, client, jahr)
    rows = _BOOKINGS.all(
        tx, f"mandant = ? AND jahr = ? AND id > ? AND +id <= {LAST_BOOKING} ORDER BY id LIMIT ?",
        client.mandant, year.start, int(from_id or 0), client.mandant, limit or 1_000_000_000,
    )  # fmt: skip
    return [_buchung(row) for row in rows]


def _buchung(row: _BookingRow) -> Buchung:
    shared = {
        "kostenstellen": Kostenstellen(kost1=row.kost1 or None, kost2=row.kost2 or None),
        "buSchluessel": row.bu_schluessel or None,
        "umsatz": money.to_wire(row.umsatz),
        "belegfeld1": row.belegfeld1,
        "belegdatum": datetime.combine(date.fromisoformat(row.belegdatum), datetime.min.time(), UTC),
    }
    return Buchung(
        id=str(row.id),
        waehrung=row.waehrung,
        sollHabenKennzeichen="SOLL" if row.soll else "HABEN",
        buchungstext=row.buchungstext,
        buchungszeilen=[
            Buchungszeile(kontonummer=row.konto, **shared),  # type: ignore[arg-type]
            Buchungszeile(kontonummer=row.gegenkonto, **shared),  # type: ignore[arg-type]
        ],
    )


def zahlungsbedingungen(tx: Tx, client: Client, jahr: date) -> list[Zahlungsbedingung]:
    year_of_start(tx, client, jahr)
    rows = tx.all("SELECT wire FROM books_payment_terms WHERE mandant = ? ORDER BY nummer", client.mandant)
    return [msgspec.json.decode(text, type=Zahlungsbedingung) for (text,) in rows]


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
