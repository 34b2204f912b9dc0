"""Business partners by the number of their person account, as the API knows them and as a row of a Debitoren/Kreditoren file.

A change replaces the whole record; the old one is kept as history. The format has room for ten bank accounts, one address for
letters and one for invoices, one e-mail address, a telephone, a fax, one other number or address, and one contact person. A row that
came from a file has more columns than the API has fields; they are kept with the partner.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from typing import Any, NamedTuple

import msgspec

from kontobahn.books.store import SUCCESS, Client, label_accounts, save_task, years
from kontobahn.clock import optional_datetime, to_datetime
from kontobahn.db import Tx
from kontobahn.errors import BadRequest
from kontobahn.formats import extf
from kontobahn.formats.extf import PERSONENKONTEN
from kontobahn.ids import new_id
from kontobahn.json_text import encode
from kontobahn.ledger.konto import functional, is_personenkonto, technical
from kontobahn.ledger.personenkonto import (
    Adresse,
    Bankkonto,
    Email,
    Geschaeftspartner,
    Kontaktperson,
    Partner,
    PartnerOrder,
    Personenkonto,
    PersonenkontoAntwort,
    PersonenkontoDaten,
    PersonenkontoEintrag,
    PersonenkontoErgebnis,
    Telefon,
)
from kontobahn.ledger.provider import Author
from kontobahn.ledger.wire import Meldung
from kontobahn.sentences import said


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
        _refuse("kontonummernLaenge", said("must be {value}, as in the client's books", value=client.konto_laenge))
    if person.kontenrahmen != client.kontenrahmen:
        _refuse("kontenrahmen", said("must be {value}, as in the client's books", value=client.kontenrahmen))
    known = [jahr.start for jahr in years(tx, client)]
    if person.geschaeftsjahrStartDatum.isoformat() not in known:
        _refuse(
            "geschaeftsjahrStartDatum",
            said("must be the start of a fiscal year: {known}", known=", ".join(known) or "none yet"),
        )
    if len(person.personenkontoNummer) != client.konto_laenge + 1:
        _refuse(
            "personenkontoNummer",
            said("must have {count} digits, one more than kontonummernLaenge", count=client.konto_laenge + 1),
        )
    konto = technical(person.personenkontoNummer, client.konto_laenge)
    assert is_personenkonto(konto)
    return konto


def _refuse(field: str, reason: str) -> None:
    raise BadRequest(said("The field `{path}` {reason}.", path=field, reason=reason), field=field)


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
            row = encode(as_row(msgspec.json.decode(record), kept)).decode()
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
                konto, functional(konto, client.konto_laenge), name_of_record(record), ibans, record.get("ustId") or ""
            )
        )
    return found


# --- As a row of a file


_number = {title: str(number) for number, title in enumerate(PERSONENKONTEN.titles, 1)}
_TELEFON, _EMAIL = _number["Bemerkung (Telefon)"], _number["Bemerkung (E-Mail)"]
_SONSTIGE, _BEMERKUNG = _number["Sonstige"], _number["Bemerkung (Sonstige)"]
_ANSPRECHPARTNER = _number["Ansprechpartner"]
_OWN = (_TELEFON, _EMAIL, _SONSTIGE, _BEMERKUNG, _ANSPRECHPARTNER)
# Further columns that say more about an address or a bank account: with another one they would be wrong.
_OF_ADDRESSES = frozenset(map(str, (*range(12, 29), *range(152, 165))))
_OF_BANKS = frozenset(map(str, (*range(41, 96), *range(165, 220), *range(222, 232))))
_MAX_BANKS, _MAX_BANK_NAME, _MAX_CONTACT = 10, 30, 40

# The remark beside a number or address whose kind is not the usual one.
_WORDS = {
    "MOBILE": "Mobil", "OFFICE": "Büro", "PRIVATE": "Privat", "INVOICE": "Rechnung", "PAYMENT": "Zahlung",
    "OTHER": "Sonstige", "BUSINESS": "Geschäftlich",
}  # fmt: skip
_KINDS = {word: kind for kind, word in _WORDS.items()}
_ADDRESS_KINDS = ("WORK", "PRIVATE")
_ADRESSATTYP = {"COMPANY": "2", "CONTACT_PERSON": "1", "UNDEFINED": "0"}
_KONTAKTTYP: dict[str, Any] = {number: kind for kind, number in _ADRESSATTYP.items()}
_is_email = re.compile(r"[^@\x00-\x20]+@[^@\x00-\x20]+").fullmatch
_is_phone = re.compile(r"\+?[0-9][0-9 ()/.-]{3,}").fullmatch
_CONTACT = re.compile(r"(?:(Herr|Frau) )?([^,(]{1,100}?)(?:, ([^,(]{1,100}?))?(?: \(([^()]{1,100})\))?")


# --- From a row


def as_personenkonto(client: Client, jahr: date, person: extf.Personenkonto) -> Personenkonto:
    """Returns the row of a file in the form of the API."""
    weitere = extf.decode_weitere(person.weitere)
    emails, phones = _reachable(person, weitere)
    return Personenkonto(
        personenkontoNummer=person.konto,
        kontaktTyp=_KONTAKTTYP.get(person.adressattyp, "COMPANY" if person.firmenname else "UNDEFINED"),
        kontenrahmen=client.kontenrahmen,  # type: ignore[arg-type]
        kontonummernLaenge=client.konto_laenge,
        geschaeftsjahrStartDatum=jahr,
        firmenname=person.firmenname or None,
        ustId=person.ust_id or None,
        emailAdressen=emails,
        telefonnummern=phones,
        bankkonten=[
            Bankkonto(iban=bank.iban, bic=bank.bic or None, name=bank.name or None, istHauptkonto=bank.haupt)
            for bank in person.bankverbindungen
            if bank.iban
        ],
        kontaktpersonen=list(_contacts(person, weitere)),
        adressen=[
            Adresse(
                adresszeile=adresse.strasse or f"Postfach {adresse.postfach}".strip(),
                adresszeile2=adresse.adresszusatz or None,
                postleitzahl=adresse.plz,
                ort=adresse.ort,
                laendercode=adresse.land or "DE",
                typ="BILLING" if adresse.rechnung else "WORK",
            )
            for adresse in person.adressen
        ],
    )


def _reachable(person: extf.Personenkonto, weitere: dict[str, str]) -> tuple[list[Email], list[Telefon]]:
    emails = [Email(person.email, _kind(weitere.get(_EMAIL), "BUSINESS"))] if person.email else []
    phones = [Telefon(person.telefon, _kind(weitere.get(_TELEFON), "BUSINESS"))] if person.telefon else []
    phones += [Telefon(person.fax, "FAX")] if person.fax else []
    other = weitere.get(_SONSTIGE, "")
    if _is_email(other):
        emails.append(Email(other, _kind(weitere.get(_BEMERKUNG), "OTHER")))
    elif _is_phone(other):
        phones.append(Telefon(other, _kind(weitere.get(_BEMERKUNG), "OTHER")))
    return emails, phones


def _kind(remark: str | None, usual: str) -> Any:
    return _KINDS.get(remark or "", usual)


def _contacts(person: extf.Personenkonto, weitere: dict[str, str]) -> Iterator[Kontaktperson]:
    name = person.name or person.name_ohne_angabe
    if name:
        yield Kontaktperson(nachname=name, vorname=person.vorname or None, anrede=person.anrede or None)
    text = weitere.get(_ANSPRECHPARTNER)
    if text:
        found = _CONTACT.fullmatch(text)
        anrede, nachname, vorname, after = found.groups() if found else (None, text, None, None)
        yield Kontaktperson(nachname=nachname, vorname=vorname, anrede=anrede or after)


# --- To a row


def as_row(record: dict[str, Any], kept: extf.Personenkonto | None = None) -> extf.Personenkonto:
    """Returns the partner as a row; `kept` is the row that it came from, parts of which may have been replaced by call."""
    contacts = record.get("kontaktpersonen") or []
    is_company = bool(record.get("firmenname"))
    of_row = {} if is_company or not contacts else contacts[0]
    addresses, banks = _addresses(record.get("adressen") or []), _banks(record.get("bankkonten") or [])
    weitere = {} if kept is None else _still_right(kept, addresses, banks)
    telefon, fax, email = _reached_at(record, weitere)
    contact = next(filter(None, map(_contact_text, contacts if is_company else contacts[1:])), "")
    if contact:
        weitere[_ANSPRECHPARTNER] = contact
    anrede = of_row.get("anrede") or ""
    return extf.Personenkonto(
        line=0,
        konto=record["personenkontoNummer"],
        name=of_row.get("nachname") or "",
        vorname=of_row.get("vorname") or "",
        firmenname=record.get("firmenname") or "",
        name_ohne_angabe="",
        adressattyp=_ADRESSATTYP[record["kontaktTyp"]],
        anrede=kept.anrede if kept is not None and is_company else anrede,
        ust_id=record.get("ustId") or "",
        adressen=addresses,
        telefon=telefon,
        email=email,
        fax=fax,
        bankverbindungen=banks,
        zahlungsbedingung=0 if kept is None else kept.zahlungsbedingung,
        kurzbezeichnung="" if kept is None else kept.kurzbezeichnung,
        weitere=extf.encode_weitere(weitere),
    )


def _still_right(
    kept: extf.Personenkonto, addresses: tuple[extf.Adresse, ...], banks: tuple[extf.Bankverbindung, ...]
) -> dict[str, str]:
    """Returns the further columns of a row, without those about something that has been replaced."""
    stale = set(_OWN)
    if [bank[:2] for bank in banks] != [bank[:2] for bank in kept.bankverbindungen]:
        stale |= _OF_BANKS
    if addresses != kept.adressen:
        stale |= _OF_ADDRESSES
    return {number: text for number, text in extf.decode_weitere(kept.weitere).items() if number not in stale}


def _addresses(addresses: list[dict[str, Any]]) -> tuple[extf.Adresse, ...]:
    """Returns one for letters and one for invoices. Addresses for deliveries are for neither."""
    letters = [item for kind in _ADDRESS_KINDS for item in addresses if item["typ"] == kind]
    invoices = [item for item in addresses if item["typ"] == "BILLING"]
    return tuple(
        extf.Adresse(
            item["adresszeile"], "", item["postleitzahl"], item["ort"], item["laendercode"], item.get("adresszeile2") or "",
            is_invoice,
        )
        for is_invoice, found in ((False, letters), (True, invoices))
        for item in found[:1]
    )  # fmt: skip


def _banks(banks: list[dict[str, Any]]) -> tuple[extf.Bankverbindung, ...]:
    return tuple(
        extf.Bankverbindung(
            number, bank["iban"], bank.get("bic") or "", (bank.get("name") or "")[:_MAX_BANK_NAME], bank["istHauptkonto"]
        )
        for number, bank in enumerate(banks[:_MAX_BANKS], 1)
    )  # fmt: skip


def _reached_at(record: dict[str, Any], weitere: dict[str, str]) -> tuple[str, str, str]:
    """Returns telephone, fax and e-mail address, and adds the first of what is left to the further columns."""
    phones = [(item["nummer"], item["typ"]) for item in record.get("telefonnummern") or []]
    emails = [(item["email"], item["typ"]) for item in record.get("emailAdressen") or []]
    voice = [item for item in phones if item[1] != "FAX"]
    for remark, items in ((_TELEFON, voice[:1]), (_EMAIL, emails[:1])):
        if items and items[0][1] != "BUSINESS":
            weitere[remark] = _WORDS[items[0][1]]
    for text, kind in (*(item for item in voice[1:] if _is_phone(item[0])), *emails[1:]):
        weitere[_SONSTIGE], weitere[_BEMERKUNG] = text, _WORDS[kind]
        break
    faxes = [nummer for nummer, kind in phones if kind == "FAX"]
    return voice[0][0] if voice else "", faxes[0] if faxes else "", emails[0][0] if emails else ""


def _contact_text(contact: dict[str, Any]) -> str:
    """Returns the contact person in a form that can be read back; empty if it does not fit."""
    names = ", ".join(filter(None, (contact["nachname"], contact.get("vorname"))))
    text = f"{names} ({contact['anrede']})" if contact.get("anrede") else names
    return text if len(text) <= _MAX_CONTACT else ""


# --- Losses: what a row cannot hold


class Lost(NamedTuple):
    """Something about a partner that its row does not hold: the field of the API, and the value."""

    field: str
    text: str


def lost(record: dict[str, Any], row: extf.Personenkonto, client: Client) -> Iterator[Lost]:
    """Yields everything that would be missing if the row were imported."""
    back = _as_stored(as_personenkonto(client, date.min, row))
    for field in ("firmenname", "ustId", "kontaktTyp"):
        if record.get(field) and record[field] != back.get(field):
            yield Lost(field, str(record[field]))
    for field in ("emailAdressen", "telefonnummern", "bankkonten", "adressen"):
        yield from _missing(field, record.get(field) or [], back[field])
    known = [_without_reach(item) for item in back["kontaktpersonen"]]
    for item in record.get("kontaktpersonen") or []:
        if _without_reach(item) not in known:
            yield Lost("kontaktpersonen", _words(_without_reach(item)))
        for field in ("emailAdressen", "telefonnummern"):
            of_person = f"kontaktpersonen.{field}"
            yield from (
                Lost(of_person, f"{_words(reach)} ({_words(_without_reach(item))})") for reach in item.get(field) or []
            )


# The fields that tell one item from another; the others say more about it.
_KEYS = {
    "emailAdressen": ("email",), "telefonnummern": ("nummer",), "bankkonten": ("iban",),
    "adressen": ("adresszeile", "adresszeile2", "postleitzahl", "ort", "laendercode"),
}  # fmt: skip


def _missing(field: str, items: list[dict[str, Any]], known: list[dict[str, Any]]) -> Iterator[Lost]:
    left = list(known)
    for item in items:
        key = {name: item.get(name) for name in _KEYS[field]}
        same = [other for other in left if key.items() <= other.items()]
        if not same:
            yield Lost(field, _words(item))
            continue
        found = item if item in same else same[0]
        left.remove(found)
        for name, value in item.items():
            if value and value != found.get(name):
                yield Lost(f"{field}.{name}", f"{value} ({_words(key)})")


def _without_reach(contact: dict[str, Any]) -> dict[str, Any]:
    return {name: contact.get(name) for name in ("anrede", "vorname", "nachname")}


def _words(item: dict[str, Any]) -> str:
    return ", ".join(str(value) for value in item.values() if value and value is not True)


def _as_stored(person: Personenkonto) -> dict[str, Any]:
    decoded: dict[str, Any] = msgspec.json.decode(encode(person))
    return decoded
