"""The frame of a DATEV-format file: its categories, their versions and columns, and the errors of a file or a row.

What the columns of a category mean is defined in that category's module.
"""

from __future__ import annotations

from typing import NamedTuple

from kontobahn.sentences import Sentence, shortened

# The columns of each category: titles in the order of the file, and which of them are numbers rather than text.
#
# The titles are those of DATEV's newest version of the format. What a column means is defined in the module of its
# category.


def _titles(*parts: str) -> tuple[str, ...]:
    return tuple(";".join(parts).split(";"))


def _pairs(name: str, count: int, content: str) -> str:
    return ";".join(f"{name} - Art {number};{name}{content} {number}" for number in range(1, count + 1))


BUCHUNGSSTAPEL_TITLES = _titles(
    "Umsatz (ohne Soll/Haben-Kz);Soll/Haben-Kennzeichen;WKZ Umsatz;Kurs;Basis-Umsatz;WKZ Basis-Umsatz",
    "Konto;Gegenkonto (ohne BU-Schlüssel);BU-Schlüssel;Belegdatum;Belegfeld 1;Belegfeld 2;Skonto;Buchungstext",
    "Postensperre;Diverse Adressnummer;Geschäftspartnerbank;Sachverhalt;Zinssperre;Beleglink",
    _pairs("Beleginfo", 8, " - Inhalt"),
    "KOST1 - Kostenstelle;KOST2 - Kostenstelle;Kost-Menge;EU-Land u. UStID (Bestimmung);EU-Steuersatz (Bestimmung)",
    "Abw. Versteuerungsart;Sachverhalt L+L;Funktionsergänzung L+L",
    "BU 49 Hauptfunktionstyp;BU 49 Hauptfunktionsnummer;BU 49 Funktionsergänzung",
    _pairs("Zusatzinformation", 20, "- Inhalt"),
    "Stück;Gewicht;Zahlweise;Forderungsart;Veranlagungsjahr;Zugeordnete Fälligkeit;Skontotyp;Auftragsnummer;Buchungstyp",
    "USt-Schlüssel (Anzahlungen);EU-Land (Anzahlungen);Sachverhalt L+L (Anzahlungen);EU-Steuersatz (Anzahlungen)",
    "Erlöskonto (Anzahlungen);Herkunft-Kz;Buchungs GUID;KOST-Datum;SEPA-Mandatsreferenz;Skontosperre",
    "Gesellschaftername;Beteiligtennummer;Identifikationsnummer;Zeichnernummer;Postensperre bis",
    "Bezeichnung SoBil-Sachverhalt;Kennzeichen SoBil-Buchung;Festschreibung;Leistungsdatum",
    "Datum Zuord. Steuerperiode;Fälligkeit;Generalumkehr (GU);Steuersatz;Land;Abrechnungsreferenz;BVV-Position",
    "EU-Land u. UStID (Ursprung);EU-Steuersatz (Ursprung);Abw. Skontokonto",
)
BUCHUNGSSTAPEL_NUMERIC = frozenset(
    {1, 4, 5, 7, 8, 10, 13, 15, 17, 18, 19, 39, 41, 43, 44, 45, 46, 47, 88, 89, 90, 92, 93, 94, 97, 99, 100, 101}
    | {104, 106, 108, 111, 113, 114, 115, 116, 117, 119, 122, 124, 125}
)


def _banks(first: int, last: int) -> str:
    return ";".join(
        f"Bankleitzahl {n};Bankbezeichnung {n};Bank-Kontonummer {n};Länderkennzeichen {n};IBAN-Nr. {n};Leerfeld;"
        f"SWIFT-Code {n};Abw. Kontoinhaber {n};Kennz. Hauptbankverb. {n};Bankverb {n} Gültig von;Bankverb {n} Gültig bis"
        for n in range(first, last + 1)
    )


def _numbered(name: str, count: int) -> str:
    return ";".join(f"{name} {number}" for number in range(1, count + 1))


PERSONENKONTEN_TITLES = _titles(
    "Konto;Name (Adressattyp Unternehmen);Unternehmensgegenstand;Name (Adressattyp natürl. Person)",
    "Vorname (Adressattyp natürl. Person);Name (Adressattyp keine Angabe);Adressattyp;Kurzbezeichnung;EU-Land;EU-UStID",
    "Anrede;Titel/Akad. Grad;Adelstitel;Namensvorsatz;Adressart;Straße;Postfach;Postleitzahl;Ort;Land;Versandzusatz",
    "Adresszusatz;Abweichende Anrede;Abw. Zustellbezeichnung 1;Abw. Zustellbezeichnung 2;Kennz. Korrespondenzadresse",
    "Adresse Gültig von;Adresse Gültig bis;Telefon;Bemerkung (Telefon);Telefon GL;Bemerkung (Telefon GL);E-Mail",
    "Bemerkung (E-Mail);Internet;Bemerkung (Internet);Fax;Bemerkung (Fax);Sonstige;Bemerkung (Sonstige)",
    _banks(1, 5),
    "Leerfeld;Briefanrede;Grußformel;Kunden-/Lief.-Nr.;Steuernummer;Sprache;Ansprechpartner;Vertreter;Sachbearbeiter",
    "Diverse-Konto;Ausgabeziel;Währungssteuerung;Kreditlimit (Debitor);Zahlungsbedingung;Fälligkeit in Tagen (Debitor)",
    "Skonto in Prozent (Debitor);Kreditoren-Ziel 1 Tg.;Kreditoren-Skonto 1 %;Kreditoren-Ziel 2 Tg.",
    "Kreditoren-Skonto 2 %;Kreditoren-Ziel 3 Brutto Tg.;Kreditoren-Ziel 4 Tg.;Kreditoren-Skonto 4 %",
    "Kreditoren-Ziel 5 Tg.;Kreditoren-Skonto 5 %;Mahnung;Kontoauszug",
    _numbered("Mahntext", 3),
    "Kontoauszugstext;Mahnlimit Betrag;Mahnlimit %;Zinsberechnung",
    _numbered("Mahnzinssatz", 3),
    "Lastschrift;Leerfeld;Mandantenbank;Zahlungsträger",
    _numbered("Indiv. Feld", 15),
    "Abweichende Anrede (Rechnungsadresse);Adressart (Rechnungsadresse);Straße (Rechnungsadresse)",
    "Postfach (Rechnungsadresse);Postleitzahl (Rechnungsadresse);Ort (Rechnungsadresse);Land (Rechnungsadresse)",
    "Versandzusatz (Rechnungsadresse);Adresszusatz (Rechnungsadresse);Abw. Zustellbezeichnung 1 (Rechnungsadresse)",
    "Abw. Zustellbezeichnung 2 (Rechnungsadresse);Adresse Gültig von (Rechnungsadresse)",
    "Adresse Gültig bis (Rechnungsadresse)",
    _banks(6, 10),
    "Nummer Fremdsystem;Insolvent",
    _numbered("SEPA-Mandatsreferenz", 10),
    "Verknüpftes OPOS-Konto;Mahnsperre bis;Lastschriftsperre bis;Zahlungssperre bis;Gebührenberechnung",
    _numbered("Mahngebühr", 3),
    "Pauschalenberechnung",
    _numbered("Verzugspauschale", 3),
    "Alternativer Suchname;Status;Anschrift manuell geändert (Korrespondenzadresse)",
    "Anschrift individuell (Korrespondenzadresse);Anschrift manuell geändert (Rechnungsadresse)",
    "Anschrift individuell (Rechnungsadresse);Fristberechnung bei Debitor",
    _numbered("Mahnfrist", 3),
    "Letzte Frist",
)
PERSONENKONTEN_NUMERIC = frozenset(
    {1, 26, 27, 28, 105, 106, *range(108, 133), 135, 163, 164, 221, *range(232, 244), 245, 246, 248, *range(250, 255)}
    | {first + 11 * bank + day for first in (50, 174) for bank in range(5) for day in (0, 1)}
)

KONTENBESCHRIFTUNGEN_TITLES = _titles("Konto;Kontobeschriftung;SprachId;Kontenbeschriftung lang")
KONTENBESCHRIFTUNGEN_NUMERIC = frozenset({1})


def _zeitraum(number: int) -> str:
    names = ("Rechnung bis", "Skonto1 Datum", "Skonto 1 Monat", "Skonto 2 Datum", "Skonto 2 Monat")
    return ";".join(f"{name} / Zeitraum {number}" for name in (*names, "Fällig Datum", "Fällig Monat"))


ZAHLUNGSBEDINGUNGEN_TITLES = _titles(
    "Nummer;Bezeichnung;Fälligkeitstyp;Skonto 1%;Skonto 1 Tage;Skonto 2 %;Skonto 2 Tage;Fällig Tage",
    _zeitraum(1),
    _zeitraum(2),
    _zeitraum(3),
    "Leerfeld;Verwendung",
)
ZAHLUNGSBEDINGUNGEN_NUMERIC = frozenset({1, *range(3, 30), 31})


class ExtfError(Exception):
    """A file that cannot be read at all, or a record that cannot be written."""

    def __init__(self, message: str) -> None:
        super().__init__(_shortened(message))


class RowError(NamedTuple):
    """A refused row and the reason. ``column`` is its title, empty if the row as a whole is wrong."""

    line: int
    column: str
    reason: str

    @classmethod
    def of(cls, category: Category, line: int, error: InvalidValue, column: int) -> RowError:
        """`column` is the one that was being read, if the error names none."""
        return cls(line, category.titles[column if error.column is None else error.column], str(error))


class RowWarning(NamedTuple):
    """Something that does not follow the format but was accepted: two sentences, what was found and what was done.

    ``column`` is its title, or on line 1 the name of the field in the header; empty if the line as a whole is meant.
    """

    line: int
    column: str
    found: str
    done: str

    @classmethod
    def of(cls, category: Category, line: int, column: int | None, found: str, done: str) -> RowWarning:
        return cls(line, "" if column is None else category.titles[column], _shortened(found), done)

    @classmethod
    def of_header(cls, field: str, found: str, done: str) -> RowWarning:
        return cls(1, field, _shortened(found), done)


class InvalidValue(Exception):
    """A refused value; the parser of the row turns it into a RowError.

    ``column`` is an index into the fields of the row, None if it is the column the parser is reading.
    """

    def __init__(self, reason: str, column: int | None = None) -> None:
        super().__init__(_shortened(reason))
        self.column = column


_LONGEST = 300


def _shortened(message: str) -> str:
    """A message quotes the offending value, which may be very long."""
    if isinstance(message, Sentence):
        return message if len(message) <= _LONGEST else shortened(message, _LONGEST // 3)
    return shortened(message, _LONGEST)


class Category(NamedTuple):
    """A kind of file. Columns are numbered from 1, as in DATEV's documentation.

    ``version`` is the newest one, which has all columns. Those since ``oldest_version`` have the same ones, or fewer at the end.
    ``understood`` are the columns that we give a meaning to; the others are kept as they are. ``numeric`` are those that
    are written without quotes.
    """

    number: int
    name: str
    version: int
    oldest_version: int
    titles: tuple[str, ...]
    numeric: frozenset[int]
    understood: frozenset[int]

    @property
    def not_understood(self) -> tuple[int, ...]:
        return tuple(number for number in range(1, len(self.titles) + 1) if number not in self.understood)


_BANKS = (*range(41, 96, 11), *range(165, 220, 11))

BUCHUNGSSTAPEL = Category(
    21, "Buchungsstapel", 13, 2, BUCHUNGSSTAPEL_TITLES, BUCHUNGSSTAPEL_NUMERIC,
    frozenset({*range(1, 15), 37, 38, 118}),
)  # fmt: skip
PERSONENKONTEN = Category(
    16, "Debitoren/Kreditoren", 5, 4, PERSONENKONTEN_TITLES, PERSONENKONTEN_NUMERIC,
    frozenset({1, 2, *range(4, 12), *range(16, 21), 22, 29, 33, 37, 109, *range(154, 159), 160})
    | {bank + field for bank in _BANKS for field in (1, 4, 6, 8)},
)  # fmt: skip
KONTENBESCHRIFTUNGEN = Category(
    20, "Kontenbeschriftungen", 3, 2, KONTENBESCHRIFTUNGEN_TITLES, KONTENBESCHRIFTUNGEN_NUMERIC,
    frozenset(range(1, 5)),
)  # fmt: skip
ZAHLUNGSBEDINGUNGEN = Category(
    46, "Zahlungsbedingungen", 2, 2, ZAHLUNGSBEDINGUNGEN_TITLES, ZAHLUNGSBEDINGUNGEN_NUMERIC,
    frozenset({*range(1, 30), 31}),
)  # fmt: skip
CATEGORIES = {
    category.number: category
    for category in (PERSONENKONTEN, KONTENBESCHRIFTUNGEN, BUCHUNGSSTAPEL, ZAHLUNGSBEDINGUNGEN)
}

# Categories that DATEV has and we do not import.
NOT_SUPPORTED = {
    44: "Textschlüssel", 47: "Konto-Notizen", 48: "Diverse Adressen", 62: "Filialen der Anlagenbuchführung",
    63: "Buchungssatzvorlagen der Anlagenbuchführung", 65: "Wiederkehrende Buchungen", 66: "Natural-Stapel",
    67: "Buchungstextkonstanten",
}  # fmt: skip
