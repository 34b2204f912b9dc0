"""The columns of each category: titles in the order of the file, and which of them are numbers rather than text.

The titles are those of DATEV's newest version of the format. What a column means is defined in the module of its category.
"""

from __future__ import annotations


def _titles(*parts: str) -> tuple[str, ...]:
    return tuple(";".join(parts).split(";"))


def _pairs(name: str, count: int, content: str) -> str:
    return ";".join(f"{name} - Art {number};{name}{content} {number}" for number in range(1, count + 1))


BUCHUNGSSTAPEL = _titles(
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


PERSONENKONTEN = _titles(
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

KONTENBESCHRIFTUNGEN = _titles("Konto;Kontobeschriftung;SprachId;Kontenbeschriftung lang")
KONTENBESCHRIFTUNGEN_NUMERIC = frozenset({1})


def _zeitraum(number: int) -> str:
    names = ("Rechnung bis", "Skonto1 Datum", "Skonto 1 Monat", "Skonto 2 Datum", "Skonto 2 Monat")
    return ";".join(f"{name} / Zeitraum {number}" for name in (*names, "Fällig Datum", "Fällig Monat"))


ZAHLUNGSBEDINGUNGEN = _titles(
    "Nummer;Bezeichnung;Fälligkeitstyp;Skonto 1%;Skonto 1 Tage;Skonto 2 %;Skonto 2 Tage;Fällig Tage",
    _zeitraum(1),
    _zeitraum(2),
    _zeitraum(3),
    "Leerfeld;Verwendung",
)
ZAHLUNGSBEDINGUNGEN_NUMERIC = frozenset({1, *range(3, 30), 31})
