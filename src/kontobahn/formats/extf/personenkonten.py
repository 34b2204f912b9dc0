"""Category 16, Debitoren/Kreditoren: customers and suppliers with address, bank accounts and terms of payment."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kontobahn.formats.extf.format import PERSONENKONTEN, Abgelehnt, Zeilenfehler
from kontobahn.formats.extf.header import Kopf
from kontobahn.formats.extf.values import check_lengths, felder_of, kontonummer, quote, weitere_reader, whole_number


class Adresse(NamedTuple):
    """The address for letters or, where ``rechnung`` is true, that for invoices: at most one of each."""

    strasse: str
    postfach: str
    plz: str
    ort: str
    land: str
    adresszusatz: str
    rechnung: bool = False


class Bankverbindung(NamedTuple):
    """``nummer`` is its place in the file, 1 to 5, to which further columns refer; ``name`` is that of the bank."""

    nummer: int
    iban: str
    bic: str
    name: str
    haupt: bool


class Personenkonto(NamedTuple):
    """A person has ``name`` and ``vorname``, a company its ``firmenname``, and what is neither ``name_ohne_angabe``.

    ``adressattyp`` is 0 for neither, 1 for a person, 2 for a company, or empty; ``zahlungsbedingung`` is 0 for none.
    ``weitere`` keeps every column that has no field here, as a JSON object by number.
    """

    zeile: int
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


def bezeichnung(person: Personenkonto) -> str:
    """The name to show."""
    full_name = f"{person.vorname} {person.name}".strip()
    return person.firmenname or full_name or person.name_ohne_angabe or person.kurzbezeichnung


_ADRESSE = ((16, 36), (17, 10), (18, 10), (19, 30), (20, 2), (22, 36))
_TO_RECHNUNG = 138
_BANKEN = {nummer: 41 + 11 * (nummer - 1) for nummer in range(1, 6)}
_LONGEST = {
    **{2: 50, 4: 30, 5: 30, 6: 50, 8: 15, 9: 2, 10: 13, 11: 30, 29: 60, 33: 60, 37: 60},
    **{number + shift: length for shift in (0, _TO_RECHNUNG) for number, length in _ADRESSE},
    **{first + field: length for first in _BANKEN.values() for field, length in ((1, 30), (4, 34), (6, 11))},
}


def parser(kopf: Kopf) -> Callable[[int, list[str]], Personenkonto | Zeilenfehler]:
    """A reader of rows that have all columns of the newest version."""
    parse_konto = kontonummer(kopf.sachkontenlaenge)
    weitere_of = weitere_reader(PERSONENKONTEN, range(1, len(PERSONENKONTEN.titel) + 1))

    def parse(zeile: int, felder: list[str]) -> Personenkonto | Zeilenfehler:
        try:
            konto = parse_konto(felder[0])
            if len(konto) == kopf.sachkontenlaenge:
                raise Abgelehnt(f"'{felder[0]}' is not a Personenkonto of {kopf.sachkontenlaenge + 1} digits.")
            check_lengths(felder, _LONGEST)
            if felder[6] not in {"", "0", "1", "2"}:
                raise Abgelehnt(f"'{felder[6]}' is none of 0, 1 and 2.", 7)
            return Personenkonto(
                zeile=zeile, konto=konto, name=felder[3], vorname=felder[4], firmenname=felder[1],
                name_ohne_angabe=felder[5], adressattyp=felder[6], anrede=felder[10], ust_id=felder[8] + felder[9],
                adressen=tuple(_adressen(felder)), telefon=felder[28], email=felder[32], fax=felder[36],
                bankverbindungen=tuple(_bankverbindungen(felder)), zahlungsbedingung=_zahlungsbedingung(felder[108]),
                kurzbezeichnung=felder[7], weitere=weitere_of(felder),
            )  # fmt: skip
        except Abgelehnt as refusal:
            return Zeilenfehler(zeile, PERSONENKONTEN.titel[(refusal.spalte or 1) - 1], str(refusal))

    return parse


def _adressen(felder: list[str]) -> list[Adresse]:
    found = []
    for rechnung in (False, True):
        shift = _TO_RECHNUNG if rechnung else 0
        texts = [felder[number + shift - 1] for number, _ in _ADRESSE]
        if any(texts):
            found.append(Adresse._make((*texts, rechnung)))
    return found


def _bankverbindungen(felder: list[str]) -> list[Bankverbindung]:
    found = []
    for nummer, first in _BANKEN.items():
        name, iban, bic, haupt = (felder[first + field - 1] for field in (1, 4, 6, 8))
        if haupt not in {"", "0", "1"}:
            raise Abgelehnt(f"'{haupt}' is neither 0 nor 1.", first + 8)
        if name or iban or bic or haupt == "1":
            found.append(Bankverbindung(nummer, iban, bic, name, haupt == "1"))
    return found


def _zahlungsbedingung(text: str) -> int:
    try:
        return whole_number(text, 999)
    except Abgelehnt as refusal:
        raise Abgelehnt(str(refusal), 109) from refusal


def formatter(_kopf: Kopf) -> Callable[[Personenkonto], str]:
    """A writer of rows."""
    new_row = felder_of(PERSONENKONTEN)

    def write(person: Personenkonto) -> str:
        felder = new_row(person.weitere)
        land = person.ust_id[:2] if person.ust_id[:2].isalpha() else ""
        texts = {
            2: person.firmenname, 4: person.name, 5: person.vorname, 6: person.name_ohne_angabe, 7: person.adressattyp,
            8: person.kurzbezeichnung, 9: land, 10: person.ust_id.removeprefix(land), 11: person.anrede,
            29: person.telefon, 33: person.email, 37: person.fax,
        }  # fmt: skip
        for adresse in person.adressen:
            shift = _TO_RECHNUNG if adresse.rechnung else 0
            texts |= {number + shift: text for (number, _), text in zip(_ADRESSE, adresse[:6], strict=True)}
        for bank in person.bankverbindungen:
            if bank.nummer not in _BANKEN:
                raise Abgelehnt(f"'{bank.nummer}' is not the number of a bank account from 1 to 5.", _BANKEN[1] + 4)
            first = _BANKEN[bank.nummer]
            texts |= {first + 1: bank.name, first + 4: bank.iban, first + 6: bank.bic, first + 8: str(int(bank.haupt))}
        for number, text in texts.items():
            felder[number - 1] = quote(text)
        felder[0] = person.konto
        felder[108] = str(person.zahlungsbedingung or "")
        return ";".join(felder)

    return write
