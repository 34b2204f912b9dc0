"""Person accounts: business partners by number. A change replaces the whole record; the old one is kept as history."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from kontobahn.clock import optional_datetime, to_datetime
from kontobahn.db import Tx
from kontobahn.errors import BadRequest
from kontobahn.formats import extf
from kontobahn.ids import new_id
from kontobahn.json_text import encode
from kontobahn.ledger.accounting import Meldung
from kontobahn.ledger.books import partner_rows
from kontobahn.ledger.books.store import Client, label_accounts, years
from kontobahn.ledger.books.tasks import SUCCESS, save_task
from kontobahn.ledger.konto import functional, is_personenkonto, technical
from kontobahn.ledger.personenkonto import (
    Geschaeftspartner,
    Personenkonto,
    PersonenkontoAntwort,
    PersonenkontoDaten,
    PersonenkontoEintrag,
    PersonenkontoErgebnis,
)
from kontobahn.ledger.provider import Author


def save(tx: Tx, client: Client, person: Personenkonto, author: Author) -> tuple[PersonenkontoAntwort, bool]:
    """Creates the account, or replaces the one with this number. Returns the answer, and whether it was created."""
    konto = check_for_client(tx, client, person)
    lock(tx, client)
    created = store(tx, client, konto, person)
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
    eintrag = PersonenkontoEintrag(
        id=f"{client.client_id}/{konto}",
        kontaktTyp=person.kontaktTyp,
        personenkontoNummer=int(person.personenkontoNummer),
        nummer=konto,
        firmenname=person.firmenname,
        ustId=person.ustId,
        aktualisiertAm=optional_datetime(row[2]),
        projektId=None,
        bankkonten=person.bankkonten,
        emailAdressen=person.emailAdressen,
        telefonnummern=person.telefonnummern,
        kontaktpersonen=person.kontaktpersonen,
        adressen=person.adressen,
    )
    daten = PersonenkontoDaten(
        id=f"{client.client_id}/{konto}/{row[0]}",
        kontonummernLaenge=person.kontonummernLaenge,
        kontenrahmen=person.kontenrahmen,
        erstelltAm=to_datetime(row[1]),
        geschaeftsjahrStartDatum=person.geschaeftsjahrStartDatum,
        eintraege=[eintrag],
    )
    ergebnis = PersonenkontoErgebnis(status=SUCCESS, antwortDaten=None, meldungen=meldungen)
    return PersonenkontoAntwort(data=daten, ledgerAntwort=ergebnis), created


def lock(tx: Tx, client: Client) -> None:
    """Serialises changes of a client's partners, by call and by file: a file has too many for a lock of each."""
    tx.lock("personenkonten", str(client.mandant))


def check_for_client(tx: Tx, client: Client, person: Personenkonto) -> str:
    """Returns the technical number. Raises BadRequest if the record does not fit the client's books."""
    if person.kontonummernLaenge != client.konto_laenge:
        _refuse("kontonummernLaenge", f"must be {client.konto_laenge}, as in the client's books")
    if person.kontenrahmen != client.kontenrahmen:
        _refuse("kontenrahmen", f"must be {client.kontenrahmen}, as in the client's books")
    known = [jahr.start for jahr in years(tx, client)]
    if person.geschaeftsjahrStartDatum.isoformat() not in known:
        _refuse("geschaeftsjahrStartDatum", f"must be the start of a fiscal year: {', '.join(known) or 'none yet'}")
    if len(person.personenkontoNummer) != client.konto_laenge + 1:
        _refuse("personenkontoNummer", f"must have {client.konto_laenge + 1} digits, one more than kontonummernLaenge")
    konto = technical(person.personenkontoNummer, client.konto_laenge)
    assert is_personenkonto(konto)
    return konto


def _refuse(field: str, reason: str) -> None:
    raise BadRequest(f"The field `{field}` {reason}.", field=field)


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
    return PersonRow(konto, record.decode(), name_of_record(msgspec.json.decode(record)), row)


def store(tx: Tx, client: Client, konto: str, person: Personenkonto, *, row: str = "") -> bool:
    """Writes the record and its name. Returns whether it is new."""
    made = row_of(konto, person, row)
    is_new = store_row(tx, client, made)
    label_accounts(tx, client, [made.label])
    return is_new


def store_row(tx: Tx, client: Client, person: PersonRow) -> bool:
    """Writes the record and keeps the one it replaces as history. Returns whether it is new.

    A record from a file keeps the row of the file too, so that an export returns every column of it. A call replaces what it
    can say; the columns that it cannot say, like the terms of payment, stay.
    """
    konto, record, _, row = person
    old = tx.one(
        "SELECT version, record, extf FROM books_persons WHERE mandant = ? AND konto = ?", client.mandant, konto
    )
    if old is None:
        tx.run(
            "INSERT INTO books_persons (mandant, konto, version, record, extf, created_at) VALUES (?, ?, 1, ?, ?, ?)",
            client.mandant, konto, record, row, tx.now,
        )  # fmt: skip
    else:
        if not row and (kept := _decode_row(old[2])) is not None:
            row = encode(partner_rows.as_row(msgspec.json.decode(record), kept)).decode()
        tx.run(
            "INSERT INTO books_person_history (mandant, konto, version, record, replaced_at) VALUES (?, ?, ?, ?, ?)",
            client.mandant, konto, *old[:2], tx.now,
        )  # fmt: skip
        tx.run(
            "UPDATE books_persons SET version = version + 1, record = ?, extf = ?, updated_at = ? WHERE mandant = ? AND konto = ?",
            record, row, tx.now, client.mandant, konto,
        )  # fmt: skip
    return old is None


def _decode_row(text: str) -> extf.Personenkonto | None:
    return extf.renewed(msgspec.json.decode(text, type=extf.Personenkonto)) if text else None


def name_of_record(record: dict[str, Any]) -> str:
    if record.get("firmenname"):
        return str(record["firmenname"])
    first = (record.get("kontaktpersonen") or [{}])[0]
    return " ".join(filter(None, (first.get("vorname"), first.get("nachname"))))


def listing(
    tx: Tx, client: Client, after: str, limit: int
) -> list[tuple[str, dict[str, Any], extf.Personenkonto | None]]:
    """Returns number, record, and the row of the file it came from, if any; in the order of the numbers."""
    rows = tx.all(
        "SELECT konto, record, extf FROM books_persons WHERE mandant = ? AND konto > ? ORDER BY konto LIMIT ?",
        client.mandant, after, limit,
    )  # fmt: skip
    return [(konto, msgspec.json.decode(record), _decode_row(row)) for konto, record, row in rows]


def partners(tx: Tx, client: Client) -> list[Geschaeftspartner]:
    rows = tx.all("SELECT konto, record FROM books_persons WHERE mandant = ? ORDER BY konto", client.mandant)
    found = []
    for konto, text in rows:
        record = msgspec.json.decode(text)
        ibans = tuple(bank["iban"] for bank in record.get("bankkonten") or () if bank.get("iban"))
        found.append(Geschaeftspartner(konto, functional(konto, client.konto_laenge), name_of_record(record), ibans))
    return found
