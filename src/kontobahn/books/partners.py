"""Business partners by the number of their person account, as the API knows them and as a row of a Debitoren/Kreditoren file.

A change replaces the whole record; the old one is kept as history. A row that came from a file has more columns than the API has
fields; they are kept with the partner.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from kontobahn.books.store import SUCCESS, Client, label_accounts, save_task, years
from kontobahn.clock import to_datetime
from kontobahn.db import Tx, chunked
from kontobahn.formats import extf
from kontobahn.ids import new_id
from kontobahn.json_text import encode
from kontobahn.ledger import personenkonto
from kontobahn.ledger.konto import functional
from kontobahn.ledger.personenkonto import (
    Geschaeftspartner,
    Partner,
    PartnerOrder,
    Personenkonto,
    PersonenkontoAntwort,
    PersonenkontoErgebnis,
    answer_of,
    check_fits,
)
from kontobahn.ledger.provider import Author
from kontobahn.ledger.wire import Meldung


def save(tx: Tx, client: Client, person: Personenkonto, author: Author) -> tuple[PersonenkontoAntwort, bool]:
    """Creates the account, or replaces the one with this number. Returns the answer, and whether it was created."""
    konto = check_for_client(tx, client, person)
    lock(tx, client)
    created = save_record(tx, client, konto, person)
    row = tx.one(
        "SELECT version, created_at, updated_at FROM books_persons WHERE mandant = ? AND konto = ?",
        client.mandant,
        konto,
    )
    assert row is not None
    now = to_datetime(tx.now)
    text = f"Das Personenkonto {person.personenkontoNummer} wurde {'angelegt' if created else 'aktualisiert'}."
    meldungen = [Meldung(dateiname=None, nachricht=text, zeitstempel=now, typ="INFO")]
    save_task(tx, client, new_id(), "personenkonto", SUCCESS, meldungen, author)
    ergebnis = PersonenkontoErgebnis(status=SUCCESS, antwortDaten=None, meldungen=meldungen)
    version, created_at, updated_at = row
    kept = f"{client.client_id}/{konto}"
    return answer_of(person, konto, f"{kept}/{version}", kept, created_at, updated_at, ergebnis), created


def lock(tx: Tx, client: Client) -> None:
    """Serialises changes of a client's partners, by call and by file: a file has too many for a lock of each."""
    tx.lock("personenkonten", str(client.mandant))


def check_for_client(tx: Tx, client: Client, person: Personenkonto) -> str:
    """Returns the technical number. Raises BadRequest if the record does not fit the client's books."""
    known = [jahr.start for jahr in years(tx, client)]
    return check_fits(person, client.konto_laenge, client.kontenrahmen, known)


class PersonRow(NamedTuple):
    konto: str
    record: str
    name: str
    # The row of the file it came from, if any.
    extf: str

    @property
    def label(self) -> tuple[str, str]:
        return self.konto, self.name


def row_of(konto: str, person: Personenkonto, row: str = "") -> PersonRow:
    record = encode(person)
    return PersonRow(konto, record.decode(), personenkonto.name_of(msgspec.json.decode(record)), row)


def save_record(tx: Tx, client: Client, konto: str, person: Personenkonto, *, row: str = "") -> bool:
    """Writes the record and its name. Returns whether it is new."""
    made = row_of(konto, person, row)
    is_new = save_row(tx, client, made)
    label_accounts(tx, client, [made.label])
    return is_new


def save_row(tx: Tx, client: Client, person: PersonRow) -> bool:
    """Writes the record and keeps the one it replaces as history. Returns whether it is new.

    A record from a file keeps the row of the file too, so that an export returns every column of it. A call replaces the columns
    that it has fields for; the others, such as the terms of payment, stay.
    """
    old = tx.one("SELECT extf FROM books_persons WHERE mandant = ? AND konto = ?", client.mandant, person.konto)
    if old is not None and not person.extf and (kept := _decode_row(old[0])) is not None:
        row = encode(personenkonto.as_row(msgspec.json.decode(person.record), kept)).decode()
        person = person._replace(extf=row)
    save_rows(tx, client, [person])
    return old is None


def save_rows(tx: Tx, client: Client, persons: list[PersonRow], *, leaving_same: bool = False) -> None:
    """Writes records of different accounts, and keeps those that they replace as history; with `leaving_same`, not by the very same."""
    mandant, now = client.mandant, tx.now
    old: dict[str, tuple[int, str]] = {}
    same: set[tuple[str, str, str]] = set()
    for some, is_one in chunked([person.konto for person in persons]):
        for konto, version, record, row in tx.all(
            f"SELECT konto, version, record, extf FROM books_persons WHERE mandant = ? AND konto {is_one}",
            mandant,
            *some,
        ):
            old[konto] = version, record
            same.add((konto, record, row))
    if leaving_same:
        persons = [one for one in persons if (one.konto, one.record, one.extf) not in same]
        old = {one.konto: old[one.konto] for one in persons if one.konto in old}
    tx.many(
        "INSERT INTO books_persons (mandant, konto, version, record, extf, created_at) VALUES (?, ?, 1, ?, ?, ?)",
        [(mandant, konto, record, row, now) for konto, record, _, row in persons if konto not in old],
    )
    tx.many(
        "INSERT INTO books_person_history (mandant, konto, version, record, replaced_at) VALUES (?, ?, ?, ?, ?)",
        [(mandant, konto, *kept, now) for konto, kept in old.items()],
    )
    tx.many(
        "UPDATE books_persons SET version = version + 1, record = ?, extf = ?, updated_at = ? WHERE mandant = ? AND konto = ?",
        [(record, row, now, mandant, konto) for konto, record, _, row in persons if konto in old],
    )


def _decode_row(text: str) -> extf.Personenkonto | None:
    return extf.renewed(msgspec.json.decode(text, type=extf.Personenkonto)) if text else None


def listing(
    tx: Tx, client: Client, after: str, limit: int
) -> list[tuple[str, dict[str, Any], extf.Personenkonto | None]]:
    """Returns number, record, and the row of the file it came from, if any; in the order of the numbers."""
    rows = tx.all(
        "SELECT konto, record, extf FROM books_persons WHERE mandant = ? AND konto > ? ORDER BY konto LIMIT ?",
        client.mandant, after, limit,
    )  # fmt: skip
    return [(konto, msgspec.json.decode(record), _decode_row(row)) for konto, record, row in rows]


_PARTNERS = (
    "SELECT k.konto, COALESCE(a.beschriftung, ''), COALESCE(p.record, '') FROM ("
    " SELECT konto FROM books_accounts WHERE mandant = ? UNION SELECT konto FROM books_persons WHERE mandant = ?"
    ") k LEFT JOIN books_accounts a ON a.mandant = ? AND a.konto = k.konto"
    " LEFT JOIN books_persons p ON p.mandant = ? AND p.konto = k.konto WHERE LENGTH(k.konto) = 9"
)


_NAME = "LOWER(COALESCE(a.beschriftung, ''))"


def search(
    tx: Tx,
    client: Client,
    text: str,
    after: str,
    limit: int,
    order: PartnerOrder = "konto",
    *,
    descending: bool = False,
) -> list[Partner]:
    """Returns person accounts by number or name. Every word of the text must stand in the number or the name."""
    words = [f"%{_escaped(word)}%" for word in text.lower().split()[:5]]
    condition = " AND (k.konto LIKE ? ESCAPE '!' OR LOWER(COALESCE(a.beschriftung, '')) LIKE ? ESCAPE '!')" * len(words)
    given = [word for word in words for _ in range(2)]
    first, params = _beginning(tx, client, after, order, descending=descending)
    way = " DESC" if descending else ""
    by = f"{_NAME}{way}, k.konto{way}" if order == "name" else f"k.konto{way}"
    rows = tx.all(f"{_PARTNERS}{first}{condition} ORDER BY {by} LIMIT ?", *[client.mandant] * 4, *params, *given, limit)
    return [Partner(*row) for row in rows]


def _beginning(
    tx: Tx, client: Client, after: str, order: PartnerOrder, *, descending: bool
) -> tuple[str, tuple[str, ...]]:
    """The condition of what follows on an account in the list."""
    if not after:
        return "", ()
    sign = "<" if descending else ">"
    if order == "konto":
        return f" AND k.konto {sign} ?", (after,)
    # As the database writes it small, which may be another way than ours.
    found = tx.one(f"SELECT {_NAME} FROM books_accounts a WHERE a.mandant = ? AND a.konto = ?", client.mandant, after)
    return f" AND ({_NAME}, k.konto) {sign} (?, ?)", (found[0] if found else "", after)


def find(tx: Tx, client: Client, konto: str) -> Partner | None:
    row = tx.one(f"{_PARTNERS} AND k.konto = ?", *[client.mandant] * 4, konto)
    return Partner(*row) if row else None


def _escaped(word: str) -> str:
    return word.replace("!", "!!").replace("%", "!%").replace("_", "!_")


def geschaeftspartner(tx: Tx, client: Client) -> list[Geschaeftspartner]:
    rows = tx.all("SELECT konto, record FROM books_persons WHERE mandant = ? ORDER BY konto", client.mandant)
    found = []
    for konto, text in rows:
        record = msgspec.json.decode(text)
        ibans = tuple(bank["iban"] for bank in record.get("bankkonten") or () if bank.get("iban"))
        found.append(
            Geschaeftspartner(
                konto,
                functional(konto, client.konto_laenge),
                personenkonto.name_of(record),
                ibans,
                record.get("ustId") or "",
            )
        )
    return found
