"""A cash book and its account are one: what every booking moves on the account, by day, and the balance that follows from it.

An opening balance of the account replaces what was before it, as in the trial balance; everything else adds up.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kontobahn import money
from kontobahn.db import Tx
from kontobahn.formats.extf import RowWarning
from kontobahn.ledger.books.answers import EB_PERIOD
from kontobahn.ledger.books.store import Client, edition_of

ADD_DAY = (
    "INSERT INTO books_cash_days (mandant, kassenname, datum, bewegung) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (mandant, kassenname, datum) DO UPDATE SET bewegung = books_cash_days.bewegung + excluded.bewegung"
)
Days = dict[tuple[str, str], int]


class CashDay(NamedTuple):
    datum: str
    bewegung: int
    # The account's opening balance on this day, if it has one.
    eb: int | None


class Negative(NamedTuple):
    kassenname: str
    datum: str
    saldo: int


def cash_book_of_account(tx: Tx, client: Client) -> dict[str, str]:
    """Returns account → cash book. Of several with one account, which older books may have, the first by name."""
    return dict(
        tx.all(
            "SELECT konto, bezeichnung FROM books_cash_books WHERE mandant = ? ORDER BY bezeichnung DESC",
            client.mandant,
        )
    )


def days(tx: Tx, client: Client, kassenname: str) -> list[CashDay]:
    found: dict[str, CashDay] = {
        datum: CashDay(datum, bewegung, None)
        for datum, bewegung in tx.all(
            "SELECT datum, bewegung FROM books_cash_days WHERE mandant = ? AND kassenname = ?",
            client.mandant, kassenname,
        )
    }  # fmt: skip
    # What was opened and taken back again opens nothing.
    for jahr, eb in tx.all(
        "SELECT p.jahr, p.soll - p.haben FROM books_periods p JOIN books_cash_books c ON c.konto = p.konto"
        " WHERE p.edition = ? AND c.mandant = ? AND c.bezeichnung = ? AND p.periode = ? AND (p.soll <> 0 OR p.haben <> 0)",
        edition_of(tx, client), client.mandant, kassenname, EB_PERIOD,
    ):  # fmt: skip
        found[jahr] = found.get(jahr, CashDay(jahr, 0, None))._replace(eb=eb)
    return [found[datum] for datum in sorted(found)]


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
    """A negative cash book in the words of a protocol."""
    name, day, saldo = found
    return RowWarning(
        0,
        "",
        f"The cash book “{name}” is negative on {day}: {money.from_minor(saldo)} EUR.",
        "It was booked nevertheless.",
    )


def meldung(found: Negative) -> str:
    """A negative cash book in the words of the contract's messages, which are German."""
    name, day, saldo = found
    return f"Die Kasse „{name}“ ist am {day} negativ: {money.from_minor(saldo)} EUR."
