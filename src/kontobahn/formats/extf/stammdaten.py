"""The categories of master data: customers and suppliers (16), names of accounts (20), terms of payment (46)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import NamedTuple

from kontobahn.formats.extf.format import (
    KONTENBESCHRIFTUNGEN,
    PERSONENKONTEN,
    ZAHLUNGSBEDINGUNGEN,
    InvalidValue,
    RowError,
    RowWarning,
)
from kontobahn.formats.extf.header import Header
from kontobahn.formats.extf.values import (
    LEFT_OUT,
    decode_weitere,
    encode_weitere,
    is_digits,
    kontonummer_parser,
    parse_number,
    quote,
    row_maker,
    too_long,
    weitere_reader,
)
from kontobahn.sentences import said

# Category 16, Debitoren/Kreditoren: customers and suppliers with address, bank accounts and terms of payment.


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
_person_at = PERSONENKONTEN.titles.index
_KONTO, _ADRESSATTYP, _ZAHLUNGSBEDINGUNG = (
    _person_at("Konto"),
    _person_at("Adressattyp"),
    _person_at("Zahlungsbedingung"),
)
_EU_LAND, _UST_ID = _person_at("EU-Land"), _person_at("EU-UStID")
_TEXTS = {
    "firmenname": _person_at("Name (Adressattyp Unternehmen)"), "name": _person_at("Name (Adressattyp natürl. Person)"),
    "vorname": _person_at("Vorname (Adressattyp natürl. Person)"), "name_ohne_angabe": _person_at("Name (Adressattyp keine Angabe)"),
    "kurzbezeichnung": _person_at("Kurzbezeichnung"), "anrede": _person_at("Anrede"), "telefon": _person_at("Telefon"),
    "email": _person_at("E-Mail"), "fax": _person_at("Fax"),
}  # fmt: skip
_ADRESSE = {
    "strasse": "Straße", "postfach": "Postfach", "plz": "Postleitzahl", "ort": "Ort", "land": "Land",
    "adresszusatz": "Adresszusatz",
}  # fmt: skip
# The columns of the address for letters (False) and of that for invoices (True).
_ADRESSEN = {
    False: {name: _person_at(title) for name, title in _ADRESSE.items()},
    True: {name: _person_at(f"{title} (Rechnungsadresse)") for name, title in _ADRESSE.items()},
}


class _BankColumns(NamedTuple):
    name: int
    iban: int
    bic: int
    haupt: int


_BANKS = {
    number: _BankColumns(
        name=_person_at(f"Bankbezeichnung {number}"), iban=_person_at(f"IBAN-Nr. {number}"), bic=_person_at(f"SWIFT-Code {number}"),
        haupt=_person_at(f"Kennz. Hauptbankverb. {number}"),
    )
    for number in range(1, 11)
}  # fmt: skip
_GEGENSTAND = _person_at("Unternehmensgegenstand")
_NAMES = ("firmenname", "name", "vorname", "name_ohne_angabe", "kurzbezeichnung")
_CHOICES = {_ADRESSATTYP: ("", "0", "1", "2"), **{bank.haupt: ("", "0", "1") for bank in _BANKS.values()}}
_MAX_OF_TEXTS = {
    "firmenname": 50, "name": 30, "vorname": 30, "name_ohne_angabe": 50, "kurzbezeichnung": 15, "anrede": 30,
    "telefon": 60, "email": 60, "fax": 60,
}  # fmt: skip
_MAX_OF_ADRESSE = {"strasse": 36, "postfach": 10, "plz": 10, "ort": 30, "land": 2, "adresszusatz": 36}
_MAX_OF_PERSON = {
    **dict(sorted([(_EU_LAND, 2), (_UST_ID, 13), *((_TEXTS[name], length) for name, length in _MAX_OF_TEXTS.items())])),
    **{columns[name]: length for columns in _ADRESSEN.values() for name, length in _MAX_OF_ADRESSE.items()},
    **{
        column: length
        for bank in _BANKS.values()
        for column, length in ((bank.name, 30), (bank.iban, 34), (bank.bic, 11))
    },
}


def person_parser(header: Header, warned: list[RowWarning]) -> Callable[[int, list[str]], Personenkonto | RowError]:
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
            warned.extend(too_long(PERSONENKONTEN, line, fields, _MAX_OF_PERSON))
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


def person_formatter(_header: Header) -> Callable[[Personenkonto], str]:
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


# Category 20, Kontenbeschriftungen: the names of accounts.


_LABELLED, _SHORT, _LANGUAGE, _LONG = range(len(KONTENBESCHRIFTUNGEN.titles))
_MAX_SHORT = 40
_MAX_OF_LABEL = {_SHORT: _MAX_SHORT, _LANGUAGE: 5, _LONG: 300}


class Kontobeschriftung(NamedTuple):
    """``beschriftung`` is the long one if there is one; ``sprache`` is like de-DE."""

    line: int
    konto: str
    beschriftung: str
    sprache: str


def label_parser(header: Header, warned: list[RowWarning]) -> Callable[[int, list[str]], Kontobeschriftung | RowError]:
    parse_konto = kontonummer_parser(header.sachkontenlaenge)

    def parse(line: int, fields: list[str]) -> Kontobeschriftung | RowError:
        try:
            konto = parse_konto(fields[_LABELLED])
            warned.extend(too_long(KONTENBESCHRIFTUNGEN, line, fields, _MAX_OF_LABEL))
            beschriftung = fields[_LONG] or fields[_SHORT]
            if not beschriftung:
                raise InvalidValue(said("The name of the account '{konto}' is missing.", konto=konto), _SHORT)
            return Kontobeschriftung(line, konto, beschriftung, fields[_LANGUAGE])
        except InvalidValue as error:
            return RowError.of(KONTENBESCHRIFTUNGEN, line, error, _LABELLED)

    return parse


def label_formatter(_header: Header) -> Callable[[Kontobeschriftung], str]:
    def write(record: Kontobeschriftung) -> str:
        text = record.beschriftung
        return ";".join((
            record.konto, quote(text[:_MAX_SHORT]), quote(record.sprache), quote(text if len(text) > _MAX_SHORT else ""),
        ))  # fmt: skip

    return write


# Category 46, Zahlungsbedingungen: terms of payment, by days or by up to three periods of the month.


NACH_TAGEN, ALS_ZEITRAUM = 1, 2


class Zeitraum(NamedTuple):
    """For invoices up to a day of the month: the days on which discounts end and the rest is due; 0 means none.

    Months count from that of the invoice (0, then 1 for the next); a day of 31 is the last one of the month. The fields
    are in the order of the columns.
    """

    rechnung_bis: int
    skonto1_tag: int
    skonto1_monat: int
    skonto2_tag: int
    skonto2_monat: int
    faellig_tag: int
    faellig_monat: int


class Zahlungsbedingung(NamedTuple):
    line: int
    nummer: int
    bezeichnung: str
    faelligkeitstyp: int
    skonto1_prozent: Decimal
    skonto1_tage: int
    skonto2_prozent: Decimal
    skonto2_tage: int
    faellig_tage: int
    zeitraeume: tuple[Zeitraum, ...]
    verwendung: int


# Columns by their titles: indices into the fields of a row.
_terms_at = ZAHLUNGSBEDINGUNGEN.titles.index
_NUMMER, _BEZEICHNUNG, _FAELLIGKEITSTYP = _terms_at("Nummer"), _terms_at("Bezeichnung"), _terms_at("Fälligkeitstyp")
_SKONTO1_PROZENT, _SKONTO1_TAGE = _terms_at("Skonto 1%"), _terms_at("Skonto 1 Tage")
_SKONTO2_PROZENT, _SKONTO2_TAGE = _terms_at("Skonto 2 %"), _terms_at("Skonto 2 Tage")
_FAELLIG_TAGE, _VERWENDUNG = _terms_at("Fällig Tage"), _terms_at("Verwendung")
# The first column of each period; the others follow in the order of Zeitraum.
_ZEITRAEUME = tuple(_terms_at(f"Rechnung bis / Zeitraum {number}") for number in (1, 2, 3))
_MAX_OF_ZEITRAUM = Zeitraum(31, 31, 9, 31, 9, 31, 9)
_MAX_OF_TERMS = {
    _NUMMER: 999, _FAELLIGKEITSTYP: 2, _SKONTO1_TAGE: 999, _SKONTO2_TAGE: 999, _FAELLIG_TAGE: 999, _VERWENDUNG: 9,
    **{start + field: maximum for start in _ZEITRAEUME for field, maximum in enumerate(_MAX_OF_ZEITRAUM)},
}  # fmt: skip


def terms_parser(_header: Header, warned: list[RowWarning]) -> Callable[[int, list[str]], Zahlungsbedingung | RowError]:
    def parse(line: int, fields: list[str]) -> Zahlungsbedingung | RowError:
        column = _NUMMER
        numbers: dict[int, int] = {}
        try:
            for column, maximum in _MAX_OF_TERMS.items():
                numbers[column] = parse_number(fields[column], maximum)
            if not numbers[_NUMMER]:
                raise InvalidValue(said("'{text}' is not a number from 1 to 999.", text=fields[_NUMMER]), _NUMMER)
            if not numbers[_FAELLIGKEITSTYP]:
                raise InvalidValue(
                    said("'{text}' is neither 1 (days) nor 2 (periods).", text=fields[_FAELLIGKEITSTYP]),
                    _FAELLIGKEITSTYP,
                )
            warned.extend(too_long(ZAHLUNGSBEDINGUNGEN, line, fields, {_BEZEICHNUNG: 40}))
            return Zahlungsbedingung(
                line=line, nummer=numbers[_NUMMER], bezeichnung=fields[_BEZEICHNUNG],
                faelligkeitstyp=numbers[_FAELLIGKEITSTYP], skonto1_prozent=_prozent(fields, _SKONTO1_PROZENT),
                skonto1_tage=numbers[_SKONTO1_TAGE], skonto2_prozent=_prozent(fields, _SKONTO2_PROZENT),
                skonto2_tage=numbers[_SKONTO2_TAGE], faellig_tage=numbers[_FAELLIG_TAGE],
                zeitraeume=_zeitraeume(numbers), verwendung=numbers[_VERWENDUNG],
            )  # fmt: skip
        except InvalidValue as error:
            return RowError.of(ZAHLUNGSBEDINGUNGEN, line, error, column)

    return parse


def _zeitraeume(numbers: dict[int, int]) -> tuple[Zeitraum, ...]:
    """Returns those that name a day; the months of an unused one are often written as 0."""
    found = (Zeitraum._make(numbers[start + field] for field in range(7)) for start in _ZEITRAEUME)
    return tuple(
        zeitraum
        for zeitraum in found
        if zeitraum.rechnung_bis or zeitraum.skonto1_tag or zeitraum.skonto2_tag or zeitraum.faellig_tag
    )


def _prozent(fields: list[str], column: int) -> Decimal:
    """Without a comma the number is in hundredths: 300 is 3 %, and so is 3,00."""
    text = fields[column] or "0"
    if re.fullmatch(r"[0-9]{1,5}", text):
        prozent = Decimal(int(text)).scaleb(-2)
    elif re.fullmatch(r"[0-9]{1,3},[0-9]{1,2}", text):
        prozent = Decimal(text.replace(",", "."))
    else:
        raise InvalidValue(said("'{text}' is not a percentage in hundredths.", text=text), column)
    if prozent > 100:
        raise InvalidValue(said("'{text}' is more than 100 per cent.", text=text), column)
    return prozent.quantize(Decimal("0.01"))


def terms_formatter(_header: Header) -> Callable[[Zahlungsbedingung], str]:
    def write(record: Zahlungsbedingung) -> str:
        if len(record.zeitraeume) > len(_ZEITRAEUME):
            raise InvalidValue(
                said("'{text}' periods are more than three.", text=len(record.zeitraeume)), _ZEITRAEUME[0]
            )
        fields = [""] * len(ZAHLUNGSBEDINGUNGEN.titles)
        fields[_NUMMER] = str(record.nummer)
        fields[_BEZEICHNUNG] = quote(record.bezeichnung)
        fields[_FAELLIGKEITSTYP] = str(record.faelligkeitstyp)
        fields[_SKONTO1_PROZENT] = f"{record.skonto1_prozent.scaleb(2):03.0f}"
        fields[_SKONTO1_TAGE] = str(record.skonto1_tage)
        fields[_SKONTO2_PROZENT] = f"{record.skonto2_prozent.scaleb(2):03.0f}"
        fields[_SKONTO2_TAGE] = str(record.skonto2_tage)
        fields[_FAELLIG_TAGE] = str(record.faellig_tage)
        for start, zeitraum in zip(_ZEITRAEUME, record.zeitraeume, strict=False):
            for index, (name, value) in enumerate(zeitraum._asdict().items(), start):
                fields[index] = str(value) if name.endswith("_monat") else str(value or "")
        fields[_terms_at("Leerfeld")] = quote("")
        fields[_VERWENDUNG] = str(record.verwendung)
        return ";".join(fields)

    return write
