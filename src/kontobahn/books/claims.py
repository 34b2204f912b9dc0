"""Claims on a client's books: a large file is being written into them, or a large batch undone, while others post.

It is written in slices that nobody sees: bookings with numbers above all that count, and an edition of the read models of its
own. Others post to both editions and below its numbers, so that one row makes all of it visible at once (slices.py).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kontobahn.books import cash_days, read_models, store
from kontobahn.books.read_models import TABLES
from kontobahn.books.store import Client
from kontobahn.clock import SECOND
from kontobahn.db import Database, Row, Statements, Table, Tx
from kontobahn.errors import StillRunning, Unavailable
from kontobahn.sentences import said

LEASE_SECONDS = 60
# Numbers that are left to others while a file is written: as many of its rows are written last, in one transaction.
HEADROOM = 1_000
ROWS_AT_ONCE = 5_000
_NO_CEILING = 1 << 62


class Claim(NamedTuple):
    """A row of books_preparing."""

    mandant: int
    batch: str
    source: str
    edition: int
    before: int
    ceiling: int
    is_copied: int
    carried: str
    # 0 if it was given up.
    lease_until: int
    # The batch that is being undone, and the year that is not carried over without it.
    undoes: str = ""
    uncarried: str = ""


_CLAIMS = Table("books_preparing", Claim, key=("mandant",))


class Place(NamedTuple):
    """The place where a batch is posted: after which booking, up to which number, and to which editions, the one that is read first."""

    mandant: int
    last: int
    ceiling: int
    editions: tuple[int, ...]
    # The year that only the edition that is being made carries over, and the one that only it does not.
    carried: str = ""
    uncarried: str = ""

    def carried_years(self, tx: Statements, edition: int) -> list[str]:
        found = read_models.carried_years(tx, self.mandant)
        if edition != self.editions[0]:
            found = sorted({*found, self.carried} - {self.uncarried, ""})
        return found

    def carry(self, tx: Statements, jahr: str) -> tuple[Place, tuple[int, ...]]:
        """Carries the year over. Returns the place as it is then, and the editions in which the year was not carried before."""
        if read_models.set_carried(tx, self.mandant, jahr):
            return self, self.editions
        if jahr != self.uncarried:
            return self, ()
        tx.run("UPDATE books_preparing SET uncarried = '' WHERE mandant = ?", self.mandant)
        return self._replace(uncarried=""), self.editions[1:]


def take_place(tx: Tx, client: Client, *, alone: bool = False) -> Place:
    """Locks the client's row on PostgreSQL: batches of one client are posted one after the other.

    Raises StillRunning if a file is being written and the batch cannot be posted beside it.
    """
    last, edition = _lock(tx, client.mandant)
    claim = _CLAIMS.one(tx, "mandant = ?", client.mandant)
    if claim is None:
        return Place(client.mandant, last, _NO_CEILING, (edition,))
    if alone:
        raise _still_running(claim)
    editions = (edition, claim.edition) if claim.is_copied else (edition,)
    return Place(client.mandant, last, claim.ceiling, editions, claim.carried, claim.uncarried)


def refuse(tx: Tx, client: Client) -> None:
    """Raises StillRunning if a file is being written into the client's books."""
    take_place(tx, client, alone=True)


def _lock(tx: Tx, mandant: int) -> tuple[int, int]:
    row = tx.one(
        "UPDATE books_clients SET last_buchung = last_buchung WHERE mandant = ? RETURNING last_buchung, edition",
        mandant,
    )
    assert row is not None
    return row[0], row[1]


def _still_running(claim: Claim) -> StillRunning:
    text = said(
        "The file {source} is being written into these books (import {batch}). Try again when that is done.",
        source=claim.source,
        batch=claim.batch,
    )
    if claim.undoes:
        text = said("The import {batch} is being undone. Try again when that is done.", batch=claim.undoes)
    return StillRunning(text, retry_after_seconds=5)


def no_numbers_left() -> Unavailable:
    return Unavailable(
        said(
            "A large import is being made or undone in these books, and {count} bookings were made"
            " meanwhile. Try again when it is done.",
            count=HEADROOM,
        ),
        retry_after_seconds=5,
    )


# --- By whoever writes the file


def claim(tx: Tx, client: Client, batch: str, source: str, undoes: str = "") -> Claim | None:
    """Claims the books. Raises StillRunning if they are already claimed. Returns None if something must be swept away first."""
    last, _ = _lock(tx, client.mandant)
    other = _CLAIMS.one(tx, "mandant = ?", client.mandant)
    if other is not None:
        if other.lease_until > tx.now:
            raise _still_running(other)
        return None
    if _undone(tx, client.mandant) is not None:
        return None
    made = Claim(
        client.mandant, batch, source, store.next_number(tx, "books_clients"), last, last + HEADROOM, is_copied=0,
        carried="", lease_until=tx.now + LEASE_SECONDS * SECOND, undoes=undoes,
    )  # fmt: skip
    _CLAIMS.insert(tx, made)
    return made


def renew(tx: Tx, claimed: Claim, **values: Any) -> tuple[int, int]:
    """Locks the client's books for a slice. Returns the last booking that counts, and the edition that is read.

    Raises Unavailable if the work was given up meanwhile.
    """
    locked = _lock(tx, claimed.mandant)
    held = _CLAIMS.one(tx, "mandant = ? AND batch = ? AND lease_until > 0", claimed.mandant, claimed.batch)
    if held is None and claimed.undoes:
        raise Unavailable("The undoing took too long and was given up. Nothing was undone: try again.")
    if held is None:
        raise Unavailable("The import took too long and was given up. Nothing was imported: send the file again.")
    _CLAIMS.update(tx, held, lease_until=tx.now + LEASE_SECONDS * SECOND, **values)
    return locked


def release(tx: Tx, claimed: Claim, left: int) -> None:
    """Ends the claim; `left` is the edition that nobody reads from now on."""
    tx.run("DELETE FROM books_preparing WHERE mandant = ?", claimed.mandant)
    tx.run("INSERT INTO books_left_editions (mandant, edition) VALUES (?, ?)", claimed.mandant, left)


# --- Sweeping away


def give_up(db: Database, mandant: int, batch: str) -> None:
    """Removes what was written of a file that nobody has seen, in slices. Does nothing if there is none."""
    held = db.write_now(_end_lease, mandant, batch)
    if held is None:
        return
    while db.write_now(_remove_hidden, held):
        pass
    while db.write_now(_remove_partial_rows, mandant, batch):
        pass
    db.write_now(_remove_claim, held)
    sweep_editions(db, mandant)


def sweep(db: Database) -> None:
    """Gives up claims on which no process works any longer, and deletes editions that nobody reads."""
    for mandant, batch in db.read_now(_abandoned):
        give_up(db, mandant, batch)
    for mandant in db.read_now(_with_left_editions):
        sweep_editions(db, mandant)


def sweep_editions(db: Database, mandant: int) -> None:
    """Deletes editions that nobody reads, and before them the remains of a batch that was undone with one of them."""
    while db.write_now(_remove_undone, mandant):
        pass
    while db.write_now(_remove_of_editions, mandant):
        pass


def _abandoned(tx: Tx) -> list[Any]:
    return tx.all("SELECT mandant, batch FROM books_preparing WHERE lease_until <= ?", tx.now)


def _with_left_editions(tx: Tx) -> list[int]:
    return [mandant for (mandant,) in tx.all("SELECT DISTINCT mandant FROM books_left_editions")]


def _end_lease(tx: Tx, mandant: int, batch: str) -> Claim | None:
    _lock(tx, mandant)
    held = _CLAIMS.one(tx, "mandant = ? AND batch = ?", mandant, batch)
    return None if held is None else _CLAIMS.update(tx, held, lease_until=0)


def _remove_hidden(tx: Tx, held: Claim) -> int:
    _lock(tx, held.mandant)
    found = tx.all(
        "SELECT belegdatum, id, jahr, periode, konto, gegenkonto, aufteilung FROM books_bookings"
        " WHERE mandant = ? AND id > ? ORDER BY id LIMIT ?",
        held.mandant, held.ceiling, ROWS_AT_ONCE,
    )  # fmt: skip
    rows = [row[:2] for row in found]
    tx.many(
        "DELETE FROM books_sheets WHERE mandant = ? AND jahr = ? AND blatt = ? AND periode = ? AND belegdatum = ? AND booking = ?",
        [(held.mandant, row[2], blatt, row[3], *row[:2]) for row in found for blatt in row[4:]],
    )
    _remove_moves(tx, held.mandant, rows)
    cash_days.remove_rows(tx, held.mandant, rows)
    tx.many("DELETE FROM books_bookings WHERE mandant = ? AND id = ?", [(held.mandant, row[1]) for row in rows])
    return len(rows)


def _remove_moves(tx: Tx, mandant: int, bookings: list[Row]) -> None:
    tx.many(
        "DELETE FROM books_item_moves WHERE mandant = ? AND belegdatum = ? AND booking = ?",
        [(mandant, *row) for row in sorted(bookings)],
    )


def _remove_partial_rows(tx: Tx, mandant: int, batch: str) -> int:
    rows = tx.all(
        "SELECT digest FROM books_partial_rows WHERE mandant = ? AND batch = ? ORDER BY digest LIMIT ?",
        mandant, batch, ROWS_AT_ONCE,
    )  # fmt: skip
    tx.many(
        "DELETE FROM books_partial_rows WHERE mandant = ? AND batch = ? AND digest = ?",
        [(mandant, batch, digest) for (digest,) in rows],
    )
    return len(rows)


def remove_moves_between(tx: Tx, mandant: int, first: int, last: int) -> None:
    """Deletes the movements of these bookings, which no longer count."""
    days = tx.all(
        "SELECT DISTINCT belegdatum FROM books_bookings WHERE mandant = ? AND id BETWEEN ? AND ?", mandant, first, last
    )
    tx.many(
        "DELETE FROM books_item_moves WHERE mandant = ? AND belegdatum = ? AND booking BETWEEN ? AND ?",
        [(mandant, day, first, last) for (day,) in sorted(days)],
    )


def _undone(tx: Tx, mandant: int) -> tuple[int, int] | None:
    """Returns the first and last booking of a batch that was undone and of which something is left to delete."""
    row = tx.one("SELECT undone_from, undone_to FROM books_clients WHERE mandant = ?", mandant)
    return None if row is None or row[1] == 0 else (row[0], row[1])


def _remove_undone(tx: Tx, mandant: int) -> bool:
    """Deletes some of the remains of such a batch. Returns whether there may be more."""
    found = _undone(tx, mandant)
    if found is None:
        return False
    first, last = found
    left = min(first + ROWS_AT_ONCE, last + 1), last
    if first <= last:
        remove_moves_between(tx, mandant, first, left[0] - 1)
    else:
        row = tx.one("SELECT batch FROM books_bookings WHERE mandant = ? AND id = ?", mandant, last)
        if row is None or not _remove_partial_rows(tx, mandant, row[0]):
            left = 0, 0
    # Two may sweep at once: what the other has done is not put back.
    tx.run(
        "UPDATE books_clients SET undone_from = ?, undone_to = ? WHERE mandant = ? AND undone_from = ? AND undone_to = ?",
        *left, mandant, first, last,
    )  # fmt: skip
    return True


def _remove_claim(tx: Tx, held: Claim) -> None:
    _lock(tx, held.mandant)
    if _CLAIMS.one(tx, "mandant = ? AND batch = ?", held.mandant, held.batch) is not None:
        release(tx, held, held.edition)


def _remove_of_editions(tx: Tx, mandant: int) -> bool:
    """Deletes some rows. Returns whether there may be more."""
    row = tx.one("SELECT edition FROM books_left_editions WHERE mandant = ? LIMIT 1", mandant)
    if row is None:
        return False
    for table, (keys, _) in TABLES.items():
        if _remove_rows(tx, table, keys, row[0]):
            return True
    tx.run("DELETE FROM books_left_editions WHERE mandant = ? AND edition = ?", mandant, row[0])
    return True


def _remove_rows(tx: Tx, table: str, keys: str, edition: int) -> int:
    last = tx.one(
        f"SELECT {keys} FROM {table} WHERE edition = ? ORDER BY {keys} LIMIT 1 OFFSET ?", edition, ROWS_AT_ONCE
    )
    if last is None:
        return tx.run(f"DELETE FROM {table} WHERE edition = ?", edition)
    marks = ", ".join("?" * len(last))
    return tx.run(f"DELETE FROM {table} WHERE edition = ? AND ({keys}) < ({marks})", edition, *last)
