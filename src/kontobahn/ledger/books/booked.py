"""Rows that look booked already: same day, accounts and sides, amount, document and text as a booking that stands in the books.

A row is found as often as such bookings stand there. Batches that were undone stand there no more.
"""

from __future__ import annotations

from kontobahn.db import Tx
from kontobahn.errors import Conflict
from kontobahn.formats.extf import RowError
from kontobahn.ledger.books import batches
from kontobahn.ledger.books.posting import Poster, Satz
from kontobahn.ledger.books.protocol import Protocol
from kontobahn.ledger.books.store import Client, FiscalYear

SHOWN = 20

_OF_DAY = (
    "SELECT id, batch, konto, gegenkonto, soll, umsatz, waehrung, belegfeld1, buchungstext, generalumkehr"
    " FROM books_bookings WHERE mandant = ? AND belegdatum = ? AND id <= ? ORDER BY id DESC"
)


class LooksBooked(Conflict):
    """Rows look as if they were already booked, and nothing was booked."""

    def __init__(self, lookalikes: Lookalikes, way_out: str) -> None:
        protocol, shown, count = lookalikes.protocol, lookalikes.shown, lookalikes.count
        more = f"; and {count - len(shown)} more" if count > len(shown) else ""
        super().__init__(
            f"{count} {'rows look' if count > 1 else 'row looks'} booked already (same day, accounts, amount, document and text):"
            f" {'; '.join(shown)}{more}. Nothing was booked. {way_out}",
            abgelehnt=count,
            warnungen=protocol.warning_count,
            protokoll=protocol.lines(),
        )
        self.protocol = protocol
        # Undoing the earlier import would put its cause right.
        self.is_final = False


class Lookalikes:
    """Rows that are refused for the only reason that they look booked already."""

    def __init__(self, booked: BookedRows, protocol: Protocol) -> None:
        self._booked = booked
        self.protocol = protocol
        self.count = 0
        # The first of them in words.
        self.shown: list[str] = []

    def refuse(self, line: int, booking: int, name: str = "line") -> None:
        self.count += 1
        like = "" if self.protocol.is_full else self._booked.described(booking)
        self.protocol.add(RowError(line, "", f"The row looks like {like}."))
        if len(self.shown) < SHOWN:
            self.shown.append(f"{name} {line} like {like}")


class BookedRows:
    """What the fiscal year held before a batch. Costs nothing where that is nothing."""

    def __init__(self, tx: Tx, client: Client, jahr: FiscalYear, poster: Poster) -> None:
        self._tx, self._mandant, self._before = tx, client.mandant, poster.before
        held = tx.one(
            "SELECT 1 FROM books_bookings WHERE mandant = ? AND jahr = ? AND id <= ? LIMIT 1",
            client.mandant, jahr.start, poster.before,
        )  # fmt: skip
        self.has_any = held is not None
        self._without_effect = batches.without_effect(tx, client.mandant) if self.has_any else set()
        # By day: what a booking looks like (a hash of it, for a year may hold a million), and its numbers, the lowest last.
        self._days: dict[str, dict[int, list[int]]] = {}

    def take(self, satz: Satz) -> int | None:
        """Returns the booking that the row looks like, each booking once."""
        if not self.has_any:
            return None
        of_day = self._days.get(satz.belegdatum)
        if of_day is None:
            of_day = self._days[satz.belegdatum] = self._load(satz.belegdatum)
        if not of_day:
            return None
        found = of_day.get(look_of(satz))
        return found.pop() if found else None

    def _load(self, day: str) -> dict[int, list[int]]:
        held: dict[int, list[int]] = {}
        for booking, batch, *look in self._tx.all(_OF_DAY, self._mandant, day, self._before):
            if batch not in self._without_effect:
                held.setdefault(_look(*look), []).append(booking)
        return held

    def described(self, booking: int) -> str:
        row = self._tx.one(
            "SELECT a.source FROM books_bookings b JOIN books_batches a ON a.mandant = b.mandant AND a.id = b.batch"
            " WHERE b.mandant = ? AND b.id = ?",
            self._mandant, booking,
        )  # fmt: skip
        return f"booking {booking} from {row[0] if row else 'an unknown batch'}"


def look_with_day(satz: Satz) -> int:
    return hash((satz.belegdatum, look_of(satz)))


def looks_between(tx: Tx, client: Client, after: int, last: int) -> set[int]:
    """What the bookings after this one look like, with their days."""
    return {
        hash((day, _look(*look)))
        for day, *look in tx.all(
            "SELECT belegdatum, konto, gegenkonto, soll, umsatz, waehrung, belegfeld1, buchungstext, generalumkehr"
            " FROM books_bookings WHERE mandant = ? AND id > ? AND id <= ?",
            client.mandant, after, last,
        )
    }  # fmt: skip


def look_of(satz: Satz) -> int:
    """What the row looks like, apart from its day, as a number of 64 bits."""
    return _look(
        satz.konto, satz.gegenkonto, satz.soll, satz.umsatz, satz.waehrung, satz.belegfeld1, satz.buchungstext,
        satz.generalumkehr,
    )  # fmt: skip


def _look(
    konto: str, gegenkonto: str, soll: int, umsatz: int, waehrung: str, belegfeld1: str, text: str, umkehr: int
) -> int:
    # Which of the two accounts is called Konto does not matter, only which is debited.
    sides = (konto, gegenkonto) if soll else (gegenkonto, konto)
    return hash((sides, umsatz, waehrung, belegfeld1, text, bool(umkehr)))
