"""The days of cash books, counted anew from the bookings: for a new cash book, for older books, and to verify."""

from __future__ import annotations

from kontobahn.db import Tx
from kontobahn.ledger.books.answers import EB_PERIOD
from kontobahn.ledger.books.cash_days import ADD_DAY, Days, cash_book_of_account
from kontobahn.ledger.books.posting import Satz
from kontobahn.ledger.books.splitting import legs_of
from kontobahn.ledger.books.store import LAST_BOOKING, Client


def recount(tx: Tx, client: Client) -> Days:
    """Returns what every booking moves in every cash book by day, from the bookings themselves."""
    names = cash_book_of_account(tx, client)
    if not names:
        return {}
    own: dict[int, tuple[str, str]] = {
        booking: (name, konto)
        for booking, name, konto in tx.all(
            "SELECT e.booking, e.kassenname, c.konto FROM books_cash_entries e JOIN books_cash_books c"
            " ON c.mandant = e.mandant AND c.bezeichnung = e.kassenname WHERE e.mandant = ?",
            client.mandant,
        )
    }
    marks = ", ".join("?" * len(names))
    found: Days = {}
    for booking, aufteilung, *values in tx.all(
        f"SELECT id, aufteilung, {', '.join(Satz._fields)} FROM books_bookings WHERE mandant = ? AND periode <> ?"
        f" AND (konto IN ({marks}) OR gegenkonto IN ({marks})) AND +id <= {LAST_BOOKING}",
        client.mandant, EB_PERIOD, *names, *names, client.mandant,
    ):  # fmt: skip
        satz = Satz._make(values)
        for konto, betrag in legs_of(client.rahmen, satz, aufteilung):
            name, own_konto = own.get(booking, ("", ""))
            kassenname = name if konto == own_konto else names.get(konto)
            if kassenname is not None:
                found[kassenname, satz.belegdatum] = found.get((kassenname, satz.belegdatum), 0) + betrag
    return found


def rewrite(tx: Tx, client: Client) -> None:
    """Writes the days anew: what came before a cash book, or before its account counted, counts too."""
    tx.run("DELETE FROM books_cash_days WHERE mandant = ?", client.mandant)
    tx.many(ADD_DAY, [(client.mandant, *key, bewegung) for key, bewegung in recount(tx, client).items()])
