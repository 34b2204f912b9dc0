"""Corrected files that are imported again: rows that a partial import booked are recognised and not booked twice.

A row is recognised by its content, as often as it was booked. Only the same file, with all of those rows in it, is imported
without them; any other overlap is refused, because a repeated row cannot be told from a second booking that looks the same.
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
    """The rows that earlier partial imports booked and, if this one is partial too, those that it books."""

    def __init__(
        self, tx: Tx, client: Client, batch: Batch, header: Header, *, is_partial: bool, is_another: bool
    ) -> None:
        self._tx, self._mandant, self._batch = tx, client.mandant, batch.id
        self._header = _digest((
            header.category, header.berater, header.mandant, header.wj_beginn, header.datum_von, header.datum_bis, header.bezeichnung,
            header.buchungstyp,
        ))  # fmt: skip
        self._is_partial = is_partial
        # By batch: its header and the number of rows it booked; and how many of them this file has.
        self._earlier: dict[str, tuple[str, int]] = {}
        self._matched: dict[str, int] = {}
        # By row: the batches that booked it, each as often as it did.
        self._unmatched: dict[str, list[str]] = {}
        self._booked: dict[str, int] = {}
        if not is_another:
            self._load()

    def _load(self) -> None:
        # Rows of this very file last: `has` pops from the end, and should prefer them.
        for batch, digest, header, times in self._tx.all(
            "SELECT batch, digest, kopf, times FROM books_partial_rows WHERE mandant = ? AND batch NOT IN"
            " (SELECT id FROM books_batches WHERE mandant = ? AND undone_by <> '')"
            " ORDER BY CASE WHEN kopf = ? THEN 1 ELSE 0 END, batch",
            self._mandant, self._mandant, self._header,
        ):  # fmt: skip
            self._earlier[batch] = (header, self._earlier.get(batch, ("", 0))[1] + times)
            self._unmatched.setdefault(digest, []).extend([batch] * times)

    @property
    def known(self) -> int:
        """How many rows of this file were booked before."""
        return sum(self._matched.values())

    def has(self, satz: Satz) -> bool:
        """Whether the row was booked before; each one is found as often as it was booked."""
        if not self._unmatched:
            return False
        batches = self._unmatched.get(_digest(satz))
        if not batches:
            return False
        batch = batches.pop()
        self._matched[batch] = self._matched.get(batch, 0) + 1
        return True

    def add(self, satz: Satz) -> None:
        if self._is_partial:
            digest = _digest(satz)
            self._booked[digest] = self._booked.get(digest, 0) + 1
            if len(self._booked) >= FLUSH_EVERY:
                self.flush(self._tx)

    def check(self) -> None:
        """Raises Conflict if the file repeats rows of an earlier one but is not that file corrected."""
        for batch, found in self._matched.items():
            header, rows = self._earlier[batch]
            if header != self._header or found != rows:
                raise Conflict(
                    f"{found} of the {rows} rows that were imported with --partial from {self._source(batch)} are in this file"
                    " again, but it is not that file with only the refused rows corrected. Nothing was imported. Import a file with the"
                    " refused rows alone; or, if these are other bookings that look the same, import it with --another."
                )

    def forget(self, tx: Tx) -> None:
        """Once the file is complete: from here on it is recognised by the checksum over all its rows."""
        for batch in (*self._matched, self._batch):
            tx.run("DELETE FROM books_partial_rows WHERE mandant = ? AND batch = ?", self._mandant, batch)

    def _source(self, batch: str) -> str:
        row = self._tx.one("SELECT source FROM books_batches WHERE mandant = ? AND id = ?", self._mandant, batch)
        return str(row[0]) if row else batch

    def flush(self, tx: Tx) -> None:
        rows = [(self._mandant, self._batch, digest, self._header, times) for digest, times in self._booked.items()]
        tx.many(_ADD, rows)
        self._booked = {}


def _digest(content: object) -> str:
    # Stored, and made of the repr: the name of Satz and the names and order of its fields must not change.
    return hashlib.blake2b(repr(content).encode(), digest_size=12).hexdigest()
