"""Open items of person accounts, with their due dates, and what moved their documents; from read models, not from the history."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from datetime import date
from typing import NamedTuple, cast

import msgspec

from kontobahn import money
from kontobahn.books import read_models
from kontobahn.books.satz import MIXED, tax_for_item
from kontobahn.books.store import LAST_BOOKING, UNDONE, Client, edition_of, kontonummer, labels
from kontobahn.clock import berlin_date
from kontobahn.db import IS_ONE_OF_A_CHUNK, Tx, chunked
from kontobahn.errors import BadRequest
from kontobahn.formats import extf
from kontobahn.ledger import opos
from kontobahn.ledger.faelligkeiten import Faelligkeiten, FirstInvoice, as_invoice, by_due_date
from kontobahn.ledger.konto import FIRST_CREDITOR, PERSONENKONTO_DIGITS, is_debitor, is_personenkonto
from kontobahn.ledger.opos import Belegbewegung, Item, JoinedOpos, OpenKonto, Opos, OposKonto, OposSelection, Rest
from kontobahn.ledger.steuer import STEUERFREI, UMSATZSTEUER, VORSTEUER
from kontobahn.ledger.wire import Zahlungsbedingung

_ALL_PERSONS = ("100000000", "999999999")
_ONE_BY_ONE = 20
_FEW_KONTEN = 5_000


# --- Open items


class _Exceptions(NamedTuple):
    """Carry-overs, and documents that moved after the cut-off, less those movements: today's list knows neither."""

    rests: dict[str, Rest]
    changed: dict[tuple[str, str], Item]


def offene_posten(tx: Tx, client: Client, selection: OposSelection) -> Opos:
    return _assembled(tx, client, selection, _exceptions(tx, client, selection))


def joined_offene_posten(tx: Tx, client: Client, selection: OposSelection) -> Opos | JoinedOpos:
    """The same, from a database that joins texts quickly."""
    exceptions = _exceptions(tx, client, selection)
    joined = None if any(exceptions) else _joined(tx, client, *_konto_range(client, selection))
    if joined is None:
        return _assembled(tx, client, selection, exceptions)
    return JoinedOpos(selection.stichtag, *joined)


def _exceptions(tx: Tx, client: Client, selection: OposSelection) -> _Exceptions:
    stichtag = selection.stichtag.isoformat()
    low, high = _konto_range(client, selection)
    rests = _rests_at(tx, client, stichtag, low, high, is_raw=selection.eb_modus == "raw")
    return _Exceptions(rests, _changed_since(tx, client, stichtag, low, high))


def _assembled(tx: Tx, client: Client, selection: OposSelection, exceptions: _Exceptions) -> Opos:
    rests, changed = exceptions
    low, high = _konto_range(client, selection)
    stored = _open_accounts(tx, client, low, high)
    # Only accounts with a carry-over, with movements after the cut-off or with too many items are read document by document.
    special = set(rests) | {konto for konto, _ in changed} | {konto for konto, _, wire in stored if not wire}
    if not special:
        return opos.assemble(selection.stichtag, stored, _names_of(tx, client, stored, low, high))
    net = opos.reconcile if selection.eb_modus == "reconcile" else opos.raw
    konten = [row for row in stored if row[0] not in special]
    later = _by_konto(changed)
    for chunk in read_models.open_items_of(tx, edition_of(tx, client), special):
        for konto, open_now in chunk.items():
            items = [item for item in open_now if (konto, item.beleg) not in changed] + later.get(konto, [])
            found = opos.open_konto(konto, net(items, rests[konto]) if konto in rests else items)
            if found is not None:
                konten.append(found)
    return opos.assemble(selection.stichtag, konten, _names_of(tx, client, konten, low, high))


def open_amounts(tx: Tx, client: Client, konten: Collection[str]) -> dict[tuple[str, str], int]:
    """Returns the open amounts of today of these person accounts' documents, in cents."""
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
    """Returns today's open items by account; without the text of an account that has too many."""
    return tx.all(
        "SELECT konto, saldo, wire FROM books_open_accounts WHERE edition = ? AND konto BETWEEN ? AND ?",
        edition_of(tx, client), low, high,
    )  # fmt: skip


_IN_RANGE = "FROM books_open_accounts o{labels} WHERE o.edition = ? AND o.konto BETWEEN ? AND ?"
# In the order that `opos.assemble` gives to other lists.
_JOINED = (
    """SELECT CAST(group_concat(account) AS BLOB) FROM (SELECT '{{"kontonummer":"' || o.konto || '","bezeichnung":' || {label}"""
    f""" || ',' || o.wire AS account {_IN_RANGE} ORDER BY ABS(o.saldo) DESC, o.konto) AS listed"""
)
_WITHOUT_LABELS = _JOINED.format(label=f"'{opos.EMPTY}'", labels="")
_WITH_LABELS = _JOINED.format(
    label="json_quote(COALESCE(a.beschriftung, ''))",
    labels=" LEFT JOIN books_accounts a ON a.mandant = ? AND a.konto = o.konto",
)
# Apart from the list: carried along while that is sorted, they would take twice as long.
_SUMS = (
    "SELECT COALESCE(SUM(saldo) FILTER (WHERE konto < ?), 0), COALESCE(SUM(saldo) FILTER (WHERE konto >= ?), 0),"
    f" COALESCE(MAX(wire = ''), 0) {_IN_RANGE.format(labels='')}"
)


def _joined(tx: Tx, client: Client, low: str, high: str) -> tuple[bytes, int, int] | None:
    """Returns today's list as the database joins it, with the sums of debtors and creditors: many thousand accounts one by one
    would take half as long again. None if one has too many items to be kept as text.
    """
    edition = edition_of(tx, client)
    sums = tx.one(_SUMS, FIRST_CREDITOR, FIRST_CREDITOR, edition, low, high)
    assert sums is not None
    debitoren, kreditoren, is_unwritten = sums
    if is_unwritten:
        return None
    is_labelled = _has_labels(tx, client, low, high)
    listed = tx.one(
        _WITH_LABELS if is_labelled else _WITHOUT_LABELS, *[client.mandant] * is_labelled, edition, low, high
    )
    assert listed is not None
    return listed[0] or b"", debitoren, kreditoren


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
    """Returns the labels of these accounts. A few are read one by one: a client may have many more partners than open items."""
    if len(konten) > _FEW_KONTEN:
        return labels(tx, client, low, high)
    if not _has_labels(tx, client, low, high):
        return {}
    found: dict[str, str] = {}
    for some, is_one in chunked(sorted([konto for konto, _, _ in konten])):
        found.update(
            tx.all(
                f"SELECT konto, beschriftung FROM books_accounts WHERE mandant = ? AND konto {is_one}",
                client.mandant, *some,
            )
        )  # fmt: skip
    return found


def _has_labels(tx: Tx, client: Client, low: str, high: str) -> bool:
    # Numbers are compared as texts, so impersonal accounts lie between those of persons: they are shorter.
    any_label = "SELECT 1 FROM books_accounts WHERE mandant = ? AND konto BETWEEN ? AND ? AND LENGTH(konto) = ? LIMIT 1"
    return tx.one(any_label, client.mandant, low, high, PERSONENKONTO_DIGITS) is not None


# --- Due dates


INVOICES = (
    "SELECT konto, beleg, rechnung FROM books_items WHERE edition = ? AND is_open = 1 AND rechnung <> ''"
    f" AND konto {IS_ONE_OF_A_CHUNK}"
)


def faelligkeiten(tx: Tx, client: Client, selection: OposSelection) -> Faelligkeiten:
    answer = offene_posten(tx, client, selection)
    konten = msgspec.json.decode(bytes(cast(msgspec.Raw, answer.konten)), type=list[OposKonto])
    numbers = [konto.kontonummer for konto in konten]
    invoices = _first_invoices(
        tx, client, {konto.kontonummer: [item.beleg for item in konto.posten] for konto in konten}
    )
    of_partners = _terms_of_partners(tx, client, numbers)
    return by_due_date(konten, answer.stichtag, invoices, of_partners)


def _first_invoices(tx: Tx, client: Client, asked: dict[str, list[str]]) -> dict[tuple[str, str], FirstInvoice]:
    """Returns the first invoice of each of these documents that has one."""
    edition, stored = edition_of(tx, client), dict[tuple[str, str], str]()
    for some, _ in chunked(sorted(asked)):
        stored.update({(konto, beleg): rechnung for konto, beleg, rechnung in tx.all(INVOICES, edition, *some)})
    # Documents that are cleared by now were open at an earlier cut-off.
    others = [(konto, beleg) for konto, belege in asked.items() for beleg in belege if (konto, beleg) not in stored]
    found = tx.each(
        "SELECT rechnung FROM books_items WHERE edition = ? AND konto = ? AND beleg = ? AND is_open = 0 AND rechnung <> ''",
        [(edition, *key) for key in others],
    )
    stored.update({key: rows[0][0] for key, rows in zip(others, found, strict=True) if rows})
    return {key: as_invoice(text) for key, text in stored.items()}


def _terms_of_partners(tx: Tx, client: Client, konten: list[str]) -> dict[str, Zahlungsbedingung]:
    """Returns the terms of those partners whose row of a file names some that are known."""
    known = {
        nummer: msgspec.json.decode(wire, type=Zahlungsbedingung)
        for nummer, wire in tx.all("SELECT nummer, wire FROM books_payment_terms WHERE mandant = ?", client.mandant)
    }
    found = {}
    for some, placeholders in chunked(sorted(konten if known else [])):
        for konto, row in tx.all(
            f"SELECT konto, extf FROM books_persons WHERE mandant = ? AND extf <> '' AND konto {placeholders}",
            client.mandant, *some,
        ):  # fmt: skip
            terms = known.get(msgspec.json.decode(row, type=extf.Personenkonto).zahlungsbedingung)
            if terms is not None:
                found[konto] = terms
    return found


# --- Movements of documents


# By day, so that the cost follows the days asked for.
_MOVES = (
    "SELECT m.konto, m.beleg, m.belegdatum, m.betrag, b.skonto, b.konto, b.gegenkonto, b.generalumkehr,"
    " b.belegfeld2, i.belegdatum, i.buchungstext, i.is_open, i.steuer, i.soll - i.haben, b.aufteilung"
    " FROM books_item_moves m"
    " JOIN books_bookings b ON b.mandant = m.mandant AND b.id = m.booking"
    " JOIN books_items i ON i.edition = ? AND i.konto = m.konto AND i.beleg = m.beleg"
    f" WHERE m.mandant = ? AND m.belegdatum >= ? AND m.booking <= {LAST_BOOKING} AND m.booking NOT {UNDONE}"
    " ORDER BY m.belegdatum DESC, m.booking DESC LIMIT ?"
)


class _Movement(NamedTuple):
    konto: str
    beleg: str
    day: str
    betrag: int
    skonto: int
    one: str
    other: str
    generalumkehr: int
    belegfeld2: str
    beginn: str
    text: str
    is_open: int
    steuer: str
    saldo: int
    aufteilung: str


def belegbewegungen(tx: Tx, client: Client, seit: date, limit: int) -> list[Belegbewegung]:
    cash = client.rahmen.bargeld
    taken_back: Counter[tuple[str, str, int]] = Counter()
    found = []
    given = (edition_of(tx, client), client.mandant, seit.isoformat(), *[client.mandant] * 3)
    rows = [_Movement._make(row) for row in tx.all(_MOVES, *given, limit)]
    shares = _shares(rows, client)
    for row in rows:
        if row.generalumkehr:
            taken_back[row.konto, row.beleg, -row.betrag] += 1
        elif taken_back[row.konto, row.beleg, row.betrag]:
            taken_back[row.konto, row.beleg, row.betrag] -= 1
        elif row.beleg:
            contra = _contra(row)
            is_money = _is_money(client, row)
            found.append(
                Belegbewegung(
                    row.konto, row.beleg, date.fromisoformat(row.day), row.betrag, row.skonto, is_money,
                    date.fromisoformat(row.beginn), row.text, not row.is_open, _rate(row.konto, row.steuer),
                    contra, is_money and cash[0] <= contra[:4] <= cash[1], row.belegfeld2,
                    shares.get((row.konto, row.beleg), ()),
                )
            )  # fmt: skip
    return found


def _contra(row: _Movement) -> str:
    return row.other if row.one == row.konto else row.one


def _is_money(client: Client, row: _Movement) -> bool:
    first, last = client.rahmen.geld
    contra = _contra(row)
    return len(contra) < len(row.konto) and first <= contra[:4] <= last


def _shares(rows: Iterable[_Movement], client: Client) -> dict[tuple[str, str], tuple[tuple[int, int], ...]]:
    """Returns the parts of invoices with several rates, if all movements of the document are here and each has a rate."""
    parts: dict[tuple[str, str], Counter[int | None]] = {}
    left: dict[tuple[str, str], int] = {}
    for row in rows:
        if row.steuer != MIXED:
            continue
        key = (row.konto, row.beleg)
        left[key] = left.get(key, row.saldo) - row.betrag
        steuer = tax_for_item(row.aufteilung)
        if steuer or not _is_money(client, row):
            parts.setdefault(key, Counter())[_rate(row.konto, steuer)] += row.betrag
    found = {}
    for key, amounts in parts.items():
        shares = {rate: abs(amount) for rate, amount in amounts.items() if amount}
        has_one_side = len({amount > 0 for amount in amounts.values() if amount}) == 1
        if not left[key] and has_one_side and None not in shares:
            found[key] = tuple(sorted((rate, amount) for rate, amount in shares.items() if rate is not None))
    return found


def _rate(konto: str, steuer: str) -> int | None:
    """Returns the rate that a discount on the document is split by: output tax for a debtor, input tax for a creditor, or None."""
    usual = UMSATZSTEUER if is_debitor(konto) else VORSTEUER
    return int(steuer[1:]) if steuer[:1] in (usual, STEUERFREI) and steuer[1:].isdigit() else None
