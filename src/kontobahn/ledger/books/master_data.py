"""Master data of a file: read and turned into rows before the transaction that writes them, for which others wait.

The rows wait in a file without a name, so that memory does not grow with them, and the transaction may run again.
"""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, TypeAlias

from kontobahn.db import Tx
from kontobahn.formats import extf
from kontobahn.formats.extf import ExtfFile, RowError, RowWarning
from kontobahn.json_text import encode
from kontobahn.ledger.books import partner_rows, persons, terms
from kontobahn.ledger.books.batches import Content
from kontobahn.ledger.books.persons import PersonRow
from kontobahn.ledger.books.protocol import Protocol
from kontobahn.ledger.books.store import Client, label_accounts
from kontobahn.ledger.konto import SACHKONTO_DIGITS

CHUNK = 1_000
_SPOOL_BYTES = 4 * 1024 * 1024
# Account and label.
_Label: TypeAlias = tuple[str, str]


class MasterData:
    """The rows of a file for a client's books, with what was found wrong with others, and their content."""

    def __init__(self, client: Client, file: ExtfFile) -> None:
        self.client, self._file = client, file
        self.protocol, self.content = Protocol(file.warnings), Content(file.header)
        self._spool = tempfile.SpooledTemporaryFile[bytes](_SPOOL_BYTES)
        try:
            self._read()
        except BaseException:
            self.close()
            raise

    def _read(self) -> None:
        make_row, records = _MAKERS[self._file.header.category], self._records()
        while some := [make_row(self.client, self._file, record) for record in islice(records, CHUNK)]:
            pickle.dump(some, self._spool, pickle.HIGHEST_PROTOCOL)

    def close(self) -> None:
        self._spool.close()

    def _records(self) -> Iterator[Any]:
        for record in self._file:
            if isinstance(record, RowError | RowWarning):
                self.protocol.add(record)
            else:
                self.content.add(record[1:])
                yield record

    def write(self, tx: Tx) -> int:
        """Returns the number of rows."""
        write, written = _WRITERS[self._file.header.category], 0
        for some in self._chunks():
            write(tx, self.client, some)
            written += len(some)
        return written

    def _chunks(self) -> Iterator[list[Any]]:
        end = self._spool.seek(0, 2)
        self._spool.seek(0)
        while self._spool.tell() < end:
            # Only this process has ever seen the file, so what comes out of it is what went in.
            yield pickle.load(self._spool)


def _label_row(client: Client, file: ExtfFile, record: extf.Kontobeschriftung) -> _Label:
    return _with_zeros(client, record.konto), record.beschriftung


def _person_row(client: Client, file: ExtfFile, person: extf.Personenkonto) -> PersonRow | _Label:
    konto = _with_zeros(client, person.konto)
    if len(person.konto) != client.konto_laenge + 1:
        # The format allows labels of ledger accounts here.
        return konto, extf.display_name(person)
    # An array in the order of the fields, which must not change: it is stored, and read back by the export.
    row = encode(person).decode()
    return persons.row_of(konto, partner_rows.as_personenkonto(client, file.header.wj_beginn, person), row)


def _with_zeros(client: Client, konto: str) -> str:
    return konto + "0" * (SACHKONTO_DIGITS - client.konto_laenge)


def _terms_row(client: Client, file: ExtfFile, record: extf.Zahlungsbedingung) -> extf.Zahlungsbedingung:
    return record


def _write_persons(tx: Tx, client: Client, some: list[PersonRow | _Label]) -> None:
    persons.lock(tx, client)
    for row in some:
        if isinstance(row, PersonRow):
            persons.store_row(tx, client, row)
    label_accounts(tx, client, [row.label if isinstance(row, PersonRow) else row for row in some])


def _write_terms(tx: Tx, client: Client, some: list[extf.Zahlungsbedingung]) -> None:
    for bedingung in some:
        terms.save(tx, client, terms.as_answer(bedingung), encode(bedingung).decode())


_MAKERS: dict[int, Callable[[Client, ExtfFile, Any], Any]] = {
    extf.PERSONENKONTEN.number: _person_row,
    extf.KONTENBESCHRIFTUNGEN.number: _label_row,
    extf.ZAHLUNGSBEDINGUNGEN.number: _terms_row,
}
_WRITERS: dict[int, Callable[[Tx, Client, list[Any]], None]] = {
    extf.PERSONENKONTEN.number: _write_persons,
    extf.KONTENBESCHRIFTUNGEN.number: label_accounts,
    extf.ZAHLUNGSBEDINGUNGEN.number: _write_terms,
}
