"""Person accounts: a business partner as it is sent, checked, and answered.

Without the call (`routes/rewe.py`): the port and its adapters speak these types. Field names are the contract's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from typing import Annotated, Any, Literal, NamedTuple, NoReturn

import msgspec
from msgspec import Meta
from msgspec import field as struct_field

from kontobahn.api.answers import NOT_YET_KNOWN, Platform
from kontobahn.api.wire import CONTROL, Answer, Body, Timestamp, form
from kontobahn.clock import optional_datetime, to_datetime
from kontobahn.errors import BadRequest
from kontobahn.formats import extf
from kontobahn.formats.extf import PERSONENKONTEN
from kontobahn.json_text import encode
from kontobahn.ledger.konto import is_personenkonto, technical
from kontobahn.ledger.wire import Meldung, words_on_one_line
from kontobahn.sentences import said

_NO_BLANK = f"[^@ {CONTROL}]"
Land = Annotated[str, form("a country code of two capital letters", r"^[A-Z]{2}$", examples=["DE"])]
EmailTyp = Literal["BUSINESS", "PRIVATE", "OFFICE", "INVOICE", "PAYMENT", "OTHER"]
TelefonTyp = Literal["BUSINESS", "MOBILE", "OFFICE", "FAX", "PRIVATE", "OTHER"]
AdressTyp = Literal["BILLING", "DELIVERY", "PRIVATE", "WORK", "PICKUP"]
MaxSixty = Annotated[str, words_on_one_line(60)]


class Email(Body):
    email: Annotated[
        str,
        form("an e-mail address", f"^{_NO_BLANK}+@{_NO_BLANK}+$", max_length=60, examples=["info@muster.example"]),
    ]
    typ: EmailTyp = "BUSINESS"


class Telefon(Body):
    nummer: MaxSixty
    typ: TelefonTyp = "BUSINESS"


class Bankkonto(Body, kw_only=True):
    iban: Annotated[str, Meta(min_length=15, max_length=42, examples=["DE02120300000000202051"])]
    bic: Annotated[str, form("a BIC", r"^[A-Z]{6}[A-Z0-9]{2}([A-Z0-9]{3})?$", examples=["BYLADEM1001"])] | None = None
    name: Annotated[str, words_on_one_line(70)] | None = None
    istHauptkonto: bool = False


class Kontaktperson(Body, kw_only=True):
    nachname: Annotated[str, words_on_one_line(30)]
    vorname: Annotated[str, words_on_one_line(30)] | None = None
    anrede: Annotated[str, words_on_one_line(30)] | None = None
    emailAdressen: list[Email] = struct_field(default_factory=list)
    telefonnummern: list[Telefon] = struct_field(default_factory=list)


class Adresse(Body, kw_only=True):
    adresszeile: Annotated[str, words_on_one_line(36)]
    adresszeile2: Annotated[str, words_on_one_line(36)] | None = None
    postleitzahl: Annotated[str, words_on_one_line(10)]
    ort: Annotated[str, words_on_one_line(30)]
    laendercode: Land = "DE"
    typ: AdressTyp = "BILLING"


class Personenkonto(Body, kw_only=True):
    # Choice 15: what a person account must have and which values its fields take.
    personenkontoNummer: Annotated[
        str,
        form("a person account of 5 to 9 digits that does not start with 0", r"^[1-9][0-9]{4,8}$", examples=["10010"]),
    ]
    kontaktTyp: Literal["COMPANY", "CONTACT_PERSON", "UNDEFINED"]
    kontenrahmen: Literal["SKR03", "SKR04", "SKR14", "SKR42", "SKR51"]
    kontonummernLaenge: Annotated[int, Meta(ge=4, le=8)]
    geschaeftsjahrStartDatum: date
    firmenname: Annotated[str, words_on_one_line(50)] | None = None
    ustId: Annotated[str, form("a VAT id", r"^[A-Z]{2}[0-9A-Za-z+*]{2,13}$", examples=["DE136695976"])] | None = None
    emailAdressen: Annotated[list[Email], Meta(max_length=20)] = struct_field(default_factory=list)
    telefonnummern: Annotated[list[Telefon], Meta(max_length=20)] = struct_field(default_factory=list)
    bankkonten: Annotated[list[Bankkonto], Meta(max_length=10)] = struct_field(default_factory=list)
    kontaktpersonen: Annotated[list[Kontaktperson], Meta(max_length=50)] = struct_field(default_factory=list)
    adressen: Annotated[list[Adresse], Meta(max_length=20)] = struct_field(default_factory=list)


class PersonenkontoEintrag(Answer, kw_only=True):
    id: str | None
    kontaktTyp: str
    personenkontoNummer: int
    nummer: str | None
    firmenname: str | None
    ustId: str | None
    aktualisiertAm: Timestamp | None
    projektId: str | None
    bankkonten: list[Bankkonto]
    emailAdressen: list[Email]
    telefonnummern: list[Telefon]
    kontaktpersonen: list[Kontaktperson]
    adressen: list[Adresse]


class PersonenkontoDaten(Answer):
    id: str | None
    kontonummernLaenge: int
    kontenrahmen: str
    erstelltAm: Timestamp
    geschaeftsjahrStartDatum: date
    eintraege: list[PersonenkontoEintrag]


class PersonenkontoErgebnis(Answer):
    status: str
    antwortDaten: dict[str, Any] | None
    meldungen: list[Meldung]


class PersonenkontoAntwort(Answer, kw_only=True):
    data: PersonenkontoDaten
    ledgerAntwort: PersonenkontoErgebnis
    platform: Platform = NOT_YET_KNOWN


def answer_of(
    person: Personenkonto, konto: str, task_id: str, kept_id: str, created_at: int, updated_at: int | None,
    ergebnis: PersonenkontoErgebnis,
) -> PersonenkontoAntwort:  # fmt: skip
    """Returns the answer to a person account that was sent; `konto` is its technical number."""
    eintrag = PersonenkontoEintrag(
        id=kept_id,
        kontaktTyp=person.kontaktTyp,
        personenkontoNummer=int(person.personenkontoNummer),
        nummer=konto,
        firmenname=person.firmenname,
        ustId=person.ustId,
        aktualisiertAm=optional_datetime(updated_at),
        projektId=None,
        bankkonten=person.bankkonten,
        emailAdressen=person.emailAdressen,
        telefonnummern=person.telefonnummern,
        kontaktpersonen=person.kontaktpersonen,
        adressen=person.adressen,
    )
    daten = PersonenkontoDaten(
        id=task_id,
        kontonummernLaenge=person.kontonummernLaenge,
        kontenrahmen=person.kontenrahmen,
        erstelltAm=to_datetime(created_at),
        geschaeftsjahrStartDatum=person.geschaeftsjahrStartDatum,
        eintraege=[eintrag],
    )
    return PersonenkontoAntwort(data=daten, ledgerAntwort=ergebnis)


def check_fits(person: Personenkonto, laenge: int, kontenrahmen: str, years: list[str]) -> str:
    """Returns the technical number. Raises BadRequest if the record does not fit the client's books."""
    if person.kontonummernLaenge != laenge:
        _refuse("kontonummernLaenge", said("must be {value}, as in the client's books", value=laenge))
    if person.kontenrahmen != kontenrahmen:
        _refuse("kontenrahmen", said("must be {value}, as in the client's books", value=kontenrahmen))
    if person.geschaeftsjahrStartDatum.isoformat() not in years:
        known = ", ".join(years) or "none yet"
        _refuse("geschaeftsjahrStartDatum", said("must be the start of a fiscal year: {known}", known=known))
    if len(person.personenkontoNummer) != laenge + 1:
        text = said("must have {count} digits, one more than kontonummernLaenge", count=laenge + 1)
        _refuse("personenkontoNummer", text)
    konto = technical(person.personenkontoNummer, laenge)
    assert is_personenkonto(konto)
    return konto


def _refuse(field: str, reason: str) -> NoReturn:
    raise BadRequest(said("The field `{path}` {reason}.", path=field, reason=reason), field=field)


class Geschaeftspartner(NamedTuple):
    """The owner of a person account, as far as payments need it: the number in full and as the client writes it."""

    konto: str
    nummer: str
    name: str
    ibans: tuple[str, ...]
    ust_id: str = ""


def check(person: Personenkonto) -> None:
    """Checks the rules that concern several fields, and writes IBANs without blanks. Raises BadRequest that names the field."""
    if not person.firmenname and not person.kontaktpersonen:
        raise BadRequest("The field `firmenname` is required, or one entry in `kontaktpersonen`.", field="firmenname")
    main_accounts = 0
    for number, konto in enumerate(person.bankkonten):
        konto.iban = _iban(f"bankkonten[{number}].iban", konto.iban)
        main_accounts += konto.istHauptkonto
    if main_accounts > 1:
        raise BadRequest("The field `bankkonten`: only one account can be the main one.", field="bankkonten")


def _iban(path: str, text: str) -> str:
    from schwifty import IBAN
    from schwifty.exceptions import SchwiftyException

    try:
        return str(IBAN(text))
    except SchwiftyException as error:
        raise BadRequest(
            said("The field `{field}` is not a valid IBAN: {why}.", field=path, why=error), field=path
        ) from None


# The column that partners are listed by.
PartnerOrder = Literal["konto", "name"]


class Partner(NamedTuple):
    """A person account as people find it."""

    konto: str
    name: str
    # The record as it was sent or read, in JSON; empty if only a name is known.
    record: str


# Business partners as rows of a Debitoren/Kreditoren file, there and back.
#
# The format has room for ten bank accounts, one address for letters and one for invoices, one e-mail address, a
# telephone, a fax, one other number or address, and one contact person.


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


def name_of(record: dict[str, Any]) -> str:
    if record.get("firmenname"):
        return str(record["firmenname"])
    first = (record.get("kontaktpersonen") or [{}])[0]
    return " ".join(filter(None, (first.get("vorname"), first.get("nachname"))))


# --- From a row


def as_personenkonto(kontenrahmen: str, laenge: int, jahr: date, person: extf.Personenkonto) -> Personenkonto:
    """Returns the row of a file in the form of the API."""
    weitere = extf.decode_weitere(person.weitere)
    emails, phones = _reachable(person, weitere)
    return Personenkonto(
        personenkontoNummer=person.konto,
        kontaktTyp=_KONTAKTTYP.get(person.adressattyp, "COMPANY" if person.firmenname else "UNDEFINED"),
        kontenrahmen=kontenrahmen,  # type: ignore[arg-type]
        kontonummernLaenge=laenge,
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


def lost_in_row(record: dict[str, Any], row: extf.Personenkonto) -> Iterator[Lost]:
    """Yields everything that would be missing if the row were imported."""
    back = _as_stored(as_personenkonto("", 0, date.min, row))
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
