"""The days of a cash book, which is one with its account: what every booking moves on the account, and the balance that follows.

An opening balance of the account replaces what was before it, as in the trial balance; everything else adds up. Beside the days
stand the bookings themselves (books_cash_rows), of which `cash_report.py` makes the list.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kontobahn import money
from kontobahn.books.satz import EB_PERIOD, Satz, legs_of
from kontobahn.books.store import LAST_BOOKING, Client, edition_of
from kontobahn.db import Row, Statements, Tx
from kontobahn.formats.extf import RowWarning
from kontobahn.sentences import said

ADD_DAY = (
    "INSERT INTO books_cash_days (mandant, kassenname, datum, bewegung) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (mandant, kassenname, datum) DO UPDATE SET bewegung = books_cash_days.bewegung + excluded.bewegung"
)
ADD_ROW = "INSERT INTO books_cash_rows (mandant, kassenname, datum, booking) VALUES (?, ?, ?, ?)"
Days = dict[tuple[str, str], int]
# Cash book, day and booking.
CashRow = tuple[str, str, int]


class CashDay(NamedTuple):
    datum: str
    bewegung: int
    # The account's opening balance on this day, if it has one.
    eb: int | None


class Negative(NamedTuple):
    kassenname: str
    datum: str
    saldo: int


def cash_book_of_account(tx: Statements, client: Client) -> dict[str, str]:
    """Returns account → cash book: no two share an account."""
    return dict(tx.all("SELECT konto, bezeichnung FROM books_cash_books WHERE mandant = ?", client.mandant))


# An opening balance that was taken back again opens nothing.
_OPENINGS = (
    "SELECT p.jahr, p.soll - p.haben AS eb FROM books_periods p JOIN books_cash_books c ON c.konto = p.konto"
    " WHERE p.edition = ? AND c.mandant = ? AND c.bezeichnung = ? AND p.periode = ? AND (p.soll <> 0 OR p.haben <> 0)"
)


def openings(tx: Tx, client: Client, kassenname: str) -> dict[str, int]:
    """Returns the opening balances of the account, by the first day of their fiscal year."""
    return dict(tx.all(_OPENINGS, edition_of(tx, client), client.mandant, kassenname, EB_PERIOD))


def days(tx: Tx, client: Client, kassenname: str) -> list[CashDay]:
    found: dict[str, CashDay] = {
        datum: CashDay(datum, bewegung, None)
        for datum, bewegung in tx.all(
            "SELECT datum, bewegung FROM books_cash_days WHERE mandant = ? AND kassenname = ?",
            client.mandant, kassenname,
        )
    }  # fmt: skip
    for jahr, eb in openings(tx, client, kassenname).items():
        found[jahr] = found.get(jahr, CashDay(jahr, 0, None))._replace(eb=eb)
    return [found[datum] for datum in sorted(found)]


def balance_before(tx: Tx, client: Client, kassenname: str, datum: str) -> int:
    """Returns the balance at the end of the day before this one."""
    opened = tx.one(
        f"SELECT jahr, eb FROM ({_OPENINGS}) AS o WHERE jahr < ? ORDER BY jahr DESC LIMIT 1",
        edition_of(tx, client), client.mandant, kassenname, EB_PERIOD, datum,
    )  # fmt: skip
    since, eb = opened if opened is not None else ("", 0)
    moved = tx.one(
        "SELECT SUM(bewegung) FROM books_cash_days WHERE mandant = ? AND kassenname = ? AND datum >= ? AND datum < ?",
        client.mandant, kassenname, since, datum,
    )  # fmt: skip
    return int(eb) + int((moved and moved[0]) or 0)


def balances(of_days: list[CashDay]) -> Iterator[tuple[str, int]]:
    """Yields the balance at the end of each day on which something happened."""
    saldo = 0
    for day in of_days:
        saldo = (saldo if day.eb is None else day.eb) + day.bewegung
        yield day.datum, saldo


def balance_on(of_days: list[CashDay], datum: str) -> int:
    """Returns the balance at the end of this day."""
    saldo = 0
    for day, after in balances(of_days):
        if day <= datum:
            saldo = after
    return saldo


def negative(tx: Tx, client: Client, kassennamen: set[str]) -> list[Negative]:
    """Returns the first day on which each of these cash books is negative."""
    found = []
    for name in sorted(kassennamen):
        for datum, saldo in balances(days(tx, client, name)):
            if saldo < 0:
                found.append(Negative(name, datum, saldo))
                break
    return found


def warning(found: Negative) -> RowWarning:
    """Returns the line of a protocol about a negative cash book."""
    name, day, saldo = found
    return RowWarning(
        0,
        "",
        said(
            "The cash book “{name}” is negative on {day}: {amount} EUR.",
            name=name,
            day=day,
            amount=money.from_minor(saldo),
        ),
        "It was booked nevertheless.",
    )


def meldung(found: Negative) -> str:
    """Returns the message of the contract about a negative cash book; those are German."""
    name, day, saldo = found
    return f"Die Kasse „{name}“ ist am {day} negativ: {money.from_minor(saldo)} EUR."


# --- Counted again from the bookings


def recount(tx: Tx, client: Client) -> tuple[Days, set[CashRow]]:
    """Returns what every booking moves in every cash book by day, and the rows of the cash books, from the bookings themselves."""
    names = cash_book_of_account(tx, client)
    if not names:
        return {}, set()
    own: dict[int, str] = dict(
        tx.all("SELECT booking, kassenname FROM books_cash_entries WHERE mandant = ?", client.mandant)
    )
    marks = ", ".join("?" * len(names))
    days: Days = {}
    rows: set[CashRow] = set()
    for booking, periode, aufteilung, *values in tx.all(
        f"SELECT id, periode, aufteilung, {', '.join(Satz._fields)} FROM books_bookings WHERE mandant = ?"
        f" AND (konto IN ({marks}) OR gegenkonto IN ({marks})) AND +id <= {LAST_BOOKING}",
        client.mandant, *names, *names, client.mandant,
    ):  # fmt: skip
        satz = Satz._make(values)
        for konto, betrag in legs_of(client.rahmen, satz, aufteilung):
            kassenname = names.get(konto)
            if kassenname is None:
                continue
            if periode != EB_PERIOD:
                days[kassenname, satz.belegdatum] = days.get((kassenname, satz.belegdatum), 0) + betrag
            if periode != EB_PERIOD or own.get(booking) == kassenname:
                rows.add((kassenname, satz.belegdatum, booking))
    return days, rows


def rewrite(tx: Tx, client: Client) -> None:
    """Writes the days and rows again, with bookings from before there was a cash book."""
    tx.run("DELETE FROM books_cash_days WHERE mandant = ?", client.mandant)
    tx.run("DELETE FROM books_cash_rows WHERE mandant = ?", client.mandant)
    days, rows = recount(tx, client)
    tx.many(ADD_DAY, [(client.mandant, *key, bewegung) for key, bewegung in days.items()])
    tx.many(ADD_ROW, [(client.mandant, *row) for row in sorted(rows)])


def remove_rows(tx: Tx, mandant: int, bookings: list[Row]) -> None:
    """Deletes the rows of bookings that nobody has seen; each comes as its day and number."""
    names = tx.all("SELECT bezeichnung FROM books_cash_books WHERE mandant = ?", mandant)
    tx.many(
        "DELETE FROM books_cash_rows WHERE mandant = ? AND kassenname = ? AND datum = ? AND booking = ?",
        [(mandant, name, *booking) for (name,) in names for booking in bookings],
    )
