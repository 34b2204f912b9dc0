"""Category 16, Debitoren/Kreditoren: customers and suppliers with address, bank accounts and terms of payment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from kontobahn.formats.extf.format import PERSONENKONTEN, InvalidValue, RowError, RowWarning
from kontobahn.formats.extf.header import Header
from kontobahn.formats.extf.values import (
    LEFT_OUT,
    decode_weitere,
    encode_weitere,
    is_digits,
    kontonummer_parser,
    quote,
    row_maker,
    too_long,
    weitere_reader,
)
from kontobahn.sentences import said


class Adresse(NamedTuple):
    """The address for letters or, if ``rechnung`` is true, for invoices: at most one of each."""

    strasse: str
    postfach: str
    plz: str
    ort: str
    land: str
    adresszusatz: str
    rechnung: bool = False


class Bankverbindung(NamedTuple):
    """``nummer`` is its position in the file, 1 to 10, to which other columns refer; ``name`` is that of the bank."""

    nummer: int
    iban: str
    bic: str
    name: str
    haupt: bool


class Personenkonto(NamedTuple):
    """A person has ``name`` and ``vorname``, a company ``firmenname``, anything else ``name_ohne_angabe``.

    ``adressattyp`` is 0 for neither, 1 for a person, 2 for a company, or empty; ``zahlungsbedingung`` is 0 for none.
    ``weitere`` keeps every column that has no field here, as a JSON object by number.
    """

    line: int
    konto: str
    name: str
    vorname: str
    firmenname: str
    name_ohne_angabe: str
    adressattyp: str
    anrede: str
    ust_id: str
    adressen: tuple[Adresse, ...]
    telefon: str
    email: str
    fax: str
    bankverbindungen: tuple[Bankverbindung, ...]
    zahlungsbedingung: int
    kurzbezeichnung: str
    weitere: str


def display_name(person: Personenkonto) -> str:
    full_name = f"{person.vorname} {person.name}".strip()
    return person.firmenname or full_name or person.name_ohne_angabe or person.kurzbezeichnung


# Columns by their titles: indices into the fields of a row.
_at = PERSONENKONTEN.titles.index
_KONTO, _ADRESSATTYP, _ZAHLUNGSBEDINGUNG = _at("Konto"), _at("Adressattyp"), _at("Zahlungsbedingung")
_EU_LAND, _UST_ID = _at("EU-Land"), _at("EU-UStID")
_TEXTS = {
    "firmenname": _at("Name (Adressattyp Unternehmen)"), "name": _at("Name (Adressattyp natürl. Person)"),
    "vorname": _at("Vorname (Adressattyp natürl. Person)"), "name_ohne_angabe": _at("Name (Adressattyp keine Angabe)"),
    "kurzbezeichnung": _at("Kurzbezeichnung"), "anrede": _at("Anrede"), "telefon": _at("Telefon"),
    "email": _at("E-Mail"), "fax": _at("Fax"),
}  # fmt: skip
_ADRESSE = {
    "strasse": "Straße", "postfach": "Postfach", "plz": "Postleitzahl", "ort": "Ort", "land": "Land",
    "adresszusatz": "Adresszusatz",
}  # fmt: skip
# The columns of the address for letters (False) and of that for invoices (True).
_ADRESSEN = {
    False: {name: _at(title) for name, title in _ADRESSE.items()},
    True: {name: _at(f"{title} (Rechnungsadresse)") for name, title in _ADRESSE.items()},
}


class _BankColumns(NamedTuple):
    name: int
    iban: int
    bic: int
    haupt: int


_BANKS = {
    number: _BankColumns(
        name=_at(f"Bankbezeichnung {number}"), iban=_at(f"IBAN-Nr. {number}"), bic=_at(f"SWIFT-Code {number}"),
        haupt=_at(f"Kennz. Hauptbankverb. {number}"),
    )
    for number in range(1, 11)
}  # fmt: skip
_GEGENSTAND = _at("Unternehmensgegenstand")
_NAMES = ("firmenname", "name", "vorname", "name_ohne_angabe", "kurzbezeichnung")
_CHOICES = {_ADRESSATTYP: ("", "0", "1", "2"), **{bank.haupt: ("", "0", "1") for bank in _BANKS.values()}}
_MAX_OF_TEXTS = {
    "firmenname": 50, "name": 30, "vorname": 30, "name_ohne_angabe": 50, "kurzbezeichnung": 15, "anrede": 30,
    "telefon": 60, "email": 60, "fax": 60,
}  # fmt: skip
_MAX_OF_ADRESSE = {"strasse": 36, "postfach": 10, "plz": 10, "ort": 30, "land": 2, "adresszusatz": 36}
_MAX_LENGTHS = {
    **dict(sorted([(_EU_LAND, 2), (_UST_ID, 13), *((_TEXTS[name], length) for name, length in _MAX_OF_TEXTS.items())])),
    **{columns[name]: length for columns in _ADRESSEN.values() for name, length in _MAX_OF_ADRESSE.items()},
    **{
        column: length
        for bank in _BANKS.values()
        for column, length in ((bank.name, 30), (bank.iban, 34), (bank.bic, 11))
    },
}


def parser(header: Header, warned: list[RowWarning]) -> Callable[[int, list[str]], Personenkonto | RowError]:
    """Returns a parser of rows that have all columns of the newest version."""
    parse_konto = kontonummer_parser(header.sachkontenlaenge)
    read_weitere = weitere_reader(PERSONENKONTEN, range(1, len(PERSONENKONTEN.titles) + 1))

    def parse(line: int, fields: list[str]) -> Personenkonto | RowError:
        try:
            konto = parse_konto(fields[_KONTO])
            if len(konto) == header.sachkontenlaenge:
                raise InvalidValue(
                    said(
                        "'{text}' is not a Personenkonto of {digits} digits.",
                        text=fields[_KONTO],
                        digits=header.sachkontenlaenge + 1,
                    )
                )
            warned.extend(too_long(PERSONENKONTEN, line, fields, _MAX_LENGTHS))
            weitere = read_weitere(fields)
            warned.extend(_mend(line, fields))
            return Personenkonto(
                line=line, konto=konto, adressattyp=fields[_ADRESSATTYP], ust_id=fields[_EU_LAND] + fields[_UST_ID],
                adressen=tuple(_adressen(fields)), bankverbindungen=tuple(_bankverbindungen(fields)),
                zahlungsbedingung=int(fields[_ZAHLUNGSBEDINGUNG] or 0), weitere=weitere,
                **{name: fields[column] for name, column in _TEXTS.items()},
            )  # fmt: skip
        except InvalidValue as error:
            return RowError.of(PERSONENKONTEN, line, error, _KONTO)

    return parse


def _mend(line: int, fields: list[str]) -> Iterator[RowWarning]:
    """Empties the fields that have no meaning, and finds a name that is in the wrong column."""
    for column, choices in _CHOICES.items():
        if fields[column] not in choices:
            found = said("'{text}' is none of {choices}.", text=fields[column], choices=", ".join(choices[1:]))
            yield RowWarning.of(PERSONENKONTEN, line, column, found, LEFT_OUT)
            fields[column] = ""
    bedingung = fields[_ZAHLUNGSBEDINGUNG]
    if bedingung and not is_digits(bedingung, 3):
        found = said("'{text}' is not a number from 0 to 999.", text=bedingung)
        yield RowWarning.of(PERSONENKONTEN, line, _ZAHLUNGSBEDINGUNG, found, LEFT_OUT)
        fields[_ZAHLUNGSBEDINGUNG] = ""
    # Some programs write the name one column too far to the right.
    if fields[_GEGENSTAND] and not any(fields[_TEXTS[name]] for name in _NAMES):
        found = said("'{text}' stands in this column, and no name in any other.", text=fields[_GEGENSTAND])
        yield RowWarning.of(PERSONENKONTEN, line, _GEGENSTAND, found, "It was read as the name of the company.")
        fields[_TEXTS["firmenname"]] = fields[_GEGENSTAND]


def _adressen(fields: list[str]) -> list[Adresse]:
    found = []
    for rechnung, columns in _ADRESSEN.items():
        texts = {name: fields[column] for name, column in columns.items()}
        if any(texts.values()):
            found.append(Adresse(**texts, rechnung=rechnung))
    return found


def _bankverbindungen(fields: list[str]) -> list[Bankverbindung]:
    found = []
    for number, columns in _BANKS.items():
        name, iban, bic, haupt = (fields[column] for column in columns)
        if name or iban or bic or haupt == "1":
            found.append(Bankverbindung(number, iban, bic, name, haupt == "1"))
    return found


def renewed(person: Personenkonto) -> Personenkonto:
    """Returns a record that an earlier version has kept: some of its further columns have fields by now."""
    weitere = decode_weitere(person.weitere)
    known = [number for number in weitere if int(number) in PERSONENKONTEN.understood]
    if not known:
        return person
    fields = [""] * len(PERSONENKONTEN.titles)
    for number in known:
        fields[int(number) - 1] = weitere.pop(number)
    banks = (*person.bankverbindungen, *_bankverbindungen(fields))
    return person._replace(bankverbindungen=banks, weitere=encode_weitere(weitere))


def formatter(_header: Header) -> Callable[[Personenkonto], str]:
    """Returns a writer of rows."""
    new_row = row_maker(PERSONENKONTEN)

    def write(person: Personenkonto) -> str:
        fields = new_row(person.weitere)
        land = person.ust_id[:2] if person.ust_id[:2].isalpha() else ""
        texts = {_EU_LAND: land, _UST_ID: person.ust_id.removeprefix(land), _ADRESSATTYP: person.adressattyp}
        texts |= {column: getattr(person, name) for name, column in _TEXTS.items()}
        for adresse in person.adressen:
            texts |= {column: getattr(adresse, name) for name, column in _ADRESSEN[adresse.rechnung].items()}
        for bank in person.bankverbindungen:
            if bank.nummer not in _BANKS:
                raise InvalidValue(
                    said("'{text}' is not the number of a bank account from 1 to 10.", text=bank.nummer), _BANKS[1].iban
                )
            columns = _BANKS[bank.nummer]
            texts |= {columns.name: bank.name, columns.iban: bank.iban, columns.bic: bank.bic}
            texts[columns.haupt] = str(int(bank.haupt))
        for column, text in texts.items():
            fields[column] = quote(text)
        fields[_KONTO] = person.konto
        fields[_ZAHLUNGSBEDINGUNG] = str(person.zahlungsbedingung or "")
        return ";".join(fields)

    return write
