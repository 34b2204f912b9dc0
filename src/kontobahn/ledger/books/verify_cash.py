"""Checks cash books: the chain of entries, their bookings and receipts, and the movement of each day."""

from __future__ import annotations

from typing import Any

from kontobahn.db import Tx
from kontobahn.ledger.books import cash_recount, receipts
from kontobahn.ledger.books.cash import CHAIN_START, chain, decode_record
from kontobahn.ledger.books.store import Client


def compare(label: str, what: str, must: dict[Any, Any], have: dict[Any, Any]) -> list[str]:
    must = {key: tuple(value) if isinstance(value, list) else value for key, value in must.items()}
    return [
        f"{label}: {what} {key} is {have.get(key)}, and the bookings say {must.get(key)}."
        for key in sorted(set(must) | set(have), key=str)
        if must.get(key) != have.get(key)
    ]


def differences(tx: Tx, client: Client, label: str) -> list[str]:
    """Returns a sentence for each difference in the client's cash books and receipts."""
    found = [f"{label}: {text}" for text in receipts.differences(tx, client)]
    filed = receipts.filed(tx, client)
    stored = tx.all("SELECT kassenname, datum, bewegung FROM books_cash_days WHERE mandant = ?", client.mandant)
    have = {(name, datum): bewegung for name, datum, bewegung in stored}
    found += compare(label, "day of a cash book", cash_recount.recount(tx, client), have)
    for name, konto, *end in tx.all(
        "SELECT bezeichnung, konto, last_nummer, last_hash, saldo FROM books_cash_books WHERE mandant = ?",
        client.mandant,
    ):
        found += [
            f"{label}: cash book “{name}”{text}"
            for text in _entry_differences(tx, client, name, konto, tuple(end), filed)
        ]
    return found


def _entry_differences(
    tx: Tx, client: Client, name: str, konto: str, end: tuple[int, str, int], filed: dict[str, list[str]]
) -> list[str]:
    """Checks that numbers have no gap, no entry was changed, and each agrees with its booking."""
    found: list[str] = []
    previous, total, count = CHAIN_START, 0, 0
    for count, (nummer, task, datum, betrag, storno_von, record, stored, booked) in enumerate(
        tx.all(
            "SELECT e.nummer, e.task, e.datum, e.betrag, e.storno_von, e.record, e.hash,"
            " (SELECT CASE WHEN b.soll = 1 THEN b.umsatz ELSE -b.umsatz END FROM books_bookings b"
            " WHERE b.mandant = e.mandant AND b.id = e.booking AND b.konto = ? AND b.belegdatum = e.datum)"
            " FROM books_cash_entries e WHERE e.mandant = ? AND e.kassenname = ? ORDER BY e.nummer",
            konto, client.mandant, name,
        ), 1,
    ):  # fmt: skip
        previous = chain(previous, record.encode())
        if nummer != count or stored != previous:
            return [*found, f", entry {nummer}: the chain is broken."]
        total += betrag
        recorded = decode_record(record)
        chained = (recorded.nummer, recorded.datum, recorded.betrag, recorded.saldo, recorded.storno_von)
        if (nummer, datum, betrag, total, storno_von) != chained:
            found.append(f", entry {nummer}: it is not what was chained.")
        if recorded.belege is not None and recorded.belege != filed.get(task, []):
            found.append(f", entry {nummer}: its receipts are not those that were chained.")
        if booked != betrag:
            found.append(f", entry {nummer} is {betrag}, and its booking says {booked}.")
    if (count, previous, total) != end:
        found.append(" does not end with its last entry.")
    return found
