"""The clients of accounting connections, and the bookings of an account: the built-in books, read for people."""

from __future__ import annotations

from datetime import date
from typing import NamedTuple

from kontobahn.access.principal import in_scope
from kontobahn.db import Tx


class BooksClient(NamedTuple):
    connection_id: str
    client_id: str
    name: str
    kontenrahmen: str
    konto_laenge: int
    bookings: int
    is_default: int


def clients(tx: Tx, organizations: tuple[str, ...]) -> list[BooksClient]:
    return [
        BooksClient(*row)
        for row in tx.all(
            "SELECT connection_id, client_id, bezeichnung, kontenrahmen, konto_laenge, last_buchung, is_default"
            f" FROM books_clients WHERE {in_scope(len(organizations))} ORDER BY is_default DESC, bezeichnung, client_id",
            *organizations,
        )
    ]


class AccountBooking(NamedTuple):
    id: int
    belegdatum: str
    belegfeld1: str
    buchungstext: str
    konto: str
    gegenkonto: str
    bu_schluessel: str
    umsatz: int
    soll: int
    batch: str

    @property
    def day(self) -> date:
        return date.fromisoformat(self.belegdatum)

    def other(self, konto: str) -> str:
        return self.gegenkonto if self.konto == konto else self.konto

    def amount(self, konto: str) -> int:
        """In cents, SOLL positive, as seen from one of its two accounts."""
        on_debit = bool(self.soll) == (self.konto == konto)
        return self.umsatz if on_debit else -self.umsatz


_COLUMNS = "id, belegdatum, belegfeld1, buchungstext, konto, gegenkonto, bu_schluessel, umsatz, soll, batch"
_BOOKING = f"SELECT {_COLUMNS} FROM books_bookings WHERE mandant = ?"
# Those after it are of a file that is being written.
_COUNTS = "<= (SELECT last_buchung FROM books_clients WHERE mandant = ?)"
# Of a batch that was undone, until they are deleted.
_UNDONE = (
    "BETWEEN (SELECT undone_from FROM books_clients WHERE mandant = ?)"
    " AND (SELECT undone_to FROM books_clients WHERE mandant = ?)"
)


def _mandant(tx: Tx, connection_id: str, client_id: str) -> int:
    """Found first, so that what follows is looked for among the rows of this client alone. The connection was found in the
    caller's scope."""
    row = tx.one(
        "SELECT mandant FROM books_clients WHERE connection_id = ? AND client_id = ?", connection_id, client_id
    )
    return int(row[0]) if row else -1


def bookings_of_account(
    tx: Tx, connection_id: str, client_id: str, jahr: str, konto: str, after: int, limit: int
) -> list[AccountBooking]:
    """The bookings that name this account, in the order they were booked."""
    mandant = _mandant(tx, connection_id, client_id)
    # Each side by its own index, so that what is read follows the page and not the year.
    side = (
        "SELECT s.id FROM (SELECT id FROM books_bookings WHERE mandant = ? AND jahr = ? AND {} = ? AND id > ?"
        f" AND +id {_COUNTS} ORDER BY id LIMIT ?) AS s"
    )
    given = (mandant, jahr, konto, after, mandant, limit)
    return [
        AccountBooking(*row)
        for row in tx.all(
            f"{_BOOKING} AND id IN ({side.format('konto')} UNION {side.format('gegenkonto')}) ORDER BY id LIMIT ?",
            mandant, *given, *given, limit,
        )
    ]  # fmt: skip


def bookings_of_document(
    tx: Tx, connection_id: str, client_id: str, konto: str, beleg: str, limit: int
) -> list[AccountBooking]:
    """All movements of a person account under one document number, over all years."""
    mandant = _mandant(tx, connection_id, client_id)
    return [
        AccountBooking(*row)
        for row in tx.all(
            f"{_BOOKING} AND id IN (SELECT booking FROM books_item_moves WHERE mandant = ? AND konto = ? AND beleg = ?)"
            f" AND +id {_COUNTS} AND +id NOT {_UNDONE} ORDER BY belegdatum, id LIMIT ?",
            mandant, mandant, konto, beleg, *[mandant] * 3, limit,
        )
    ]  # fmt: skip


class Partner(NamedTuple):
    konto: str
    name: str
    # The record as it was sent or read; empty if only a name is known.
    record: str


_PARTNERS = (
    "SELECT k.konto, COALESCE(a.beschriftung, ''), COALESCE(p.record, '') FROM ("
    " SELECT konto FROM books_accounts WHERE mandant = ? UNION SELECT konto FROM books_persons WHERE mandant = ?"
    ") k LEFT JOIN books_accounts a ON a.mandant = ? AND a.konto = k.konto"
    " LEFT JOIN books_persons p ON p.mandant = ? AND p.konto = k.konto WHERE LENGTH(k.konto) = 9"
)


def partners(tx: Tx, connection_id: str, client_id: str, search: str, after: str, limit: int) -> list[Partner]:
    """Person accounts by number. Every word of the search must stand in the number or the name."""
    words = [f"%{_escaped(word)}%" for word in search.lower().split()[:5]]
    condition = " AND (k.konto LIKE ? ESCAPE '!' OR LOWER(COALESCE(a.beschriftung, '')) LIKE ? ESCAPE '!')" * len(words)
    given = [word for word in words for _ in range(2)]
    mandant = _mandant(tx, connection_id, client_id)
    return [
        Partner(*row)
        for row in tx.all(
            f"{_PARTNERS} AND k.konto > ?{condition} ORDER BY k.konto LIMIT ?", *[mandant] * 4, after, *given, limit
        )
    ]


def partner(tx: Tx, connection_id: str, client_id: str, konto: str) -> Partner | None:
    row = tx.one(f"{_PARTNERS} AND k.konto = ?", *[_mandant(tx, connection_id, client_id)] * 4, konto)
    return Partner(*row) if row else None


def _escaped(word: str) -> str:
    return word.replace("!", "!!").replace("%", "!%").replace("_", "!_")
