"""Files that come a second time, mended: the rows that a partial import has taken are known again, and never booked twice.

A row is known by its content, as often as it was taken. Only the same file, with all of those rows in it, passes without them;
any other overlap is refused, because nobody can tell a repeated row from a second booking that looks the same.
"""

from __future__ import annotations

import hashlib

from kontobahn.db import Tx
from kontobahn.errors import Conflict
from kontobahn.formats.extf import Header
from kontobahn.ledger.books.posting import FLUSH_EVERY, Batch, Satz
from kontobahn.ledger.books.store import Client

_ADD = (
    "INSERT INTO books_partial_rows (mandant, batch, digest, kopf, times) VALUES (?, ?, ?, ?, ?)"
    " ON CONFLICT (mandant, batch, digest) DO UPDATE SET times = books_partial_rows.times + excluded.times"
)


class PartialRows:
    """What earlier partial imports took, and where this one is partial too, what it takes."""

    def __init__(
        self, tx: Tx, client: Client, batch: Batch, header: Header, *, is_partial: bool, is_another: bool
    ) -> None:
        self._tx, self._mandant, self._batch = tx, client.mandant, batch.id
        self._header = _digest((
            header.category, header.berater, header.mandant, header.wj_beginn, header.datum_von, header.datum_bis, header.bezeichnung,
            header.buchungstyp,
        ))  # fmt: skip
        self._is_partial = is_partial
        # Of each batch: its header and how many rows it took; and how many of them this file has.
        self._earlier: dict[str, tuple[str, int]] = {}
        self._found: dict[str, int] = {}
        # Of each row: the batches that took it, each as often as it did.
        self._left: dict[str, list[str]] = {}
        self._taken: dict[str, int] = {}
        if not is_another:
            self._load()

    def _load(self) -> None:
        # Rows of this very file last, to be found first, where another one has the same.
        for batch, digest, kopf, times in self._tx.all(
            "SELECT batch, digest, kopf, times FROM books_partial_rows WHERE mandant = ?"
            " ORDER BY CASE WHEN kopf = ? THEN 1 ELSE 0 END, batch",
            self._mandant, self._header,
        ):  # fmt: skip
            self._earlier[batch] = (kopf, self._earlier.get(batch, ("", 0))[1] + times)
            self._left.setdefault(digest, []).extend([batch] * times)

    @property
    def known(self) -> int:
        """How many rows of this file were taken before."""
        return sum(self._found.values())

    def has(self, satz: Satz) -> bool:
        """Whether the row was taken before; each of them is found as often as it was taken."""
        if not self._left:
            return False
        batches = self._left.get(_digest(satz))
        if not batches:
            return False
        batch = batches.pop()
        self._found[batch] = self._found.get(batch, 0) + 1
        return True

    def take(self, satz: Satz) -> None:
        if self._is_partial:
            digest = _digest(satz)
            self._taken[digest] = self._taken.get(digest, 0) + 1
            if len(self._taken) >= FLUSH_EVERY:
                self._flush()

    def finish(self, *, has_refused: bool) -> None:
        """Conflict where the file holds some rows of an earlier one but is not that file mended."""
        for batch, found in self._found.items():
            kopf, rows = self._earlier[batch]
            if kopf != self._header or found != rows:
                raise Conflict(
                    f"{found} of the {rows} rows that were taken with --partial from {self._source(batch)} are in this file"
                    " again, but it is not that file with only the refused rows mended. Nothing was taken. Import a file with the"
                    " refused rows alone; or, if these are other bookings that look the same, import it with --another."
                )
        if has_refused:
            self._flush()
            return
        # Whole at last: from now on the file is known by the checksum over all its rows.
        for batch in (*self._found, self._batch):
            self._tx.run("DELETE FROM books_partial_rows WHERE mandant = ? AND batch = ?", self._mandant, batch)

    def _source(self, batch: str) -> str:
        row = self._tx.one("SELECT source FROM books_batches WHERE mandant = ? AND id = ?", self._mandant, batch)
        return str(row[0]) if row else batch

    def _flush(self) -> None:
        rows = [(self._mandant, self._batch, digest, self._header, times) for digest, times in self._taken.items()]
        self._tx.many(_ADD, rows)
        self._taken = {}


def _digest(content: object) -> str:
    return hashlib.blake2b(repr(content).encode(), digest_size=12).hexdigest()
