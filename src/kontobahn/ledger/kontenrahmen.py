"""Our own short charts of accounts: enough to label what small companies post to, and to know which accounts carry tax.

Numbers have four digits here; a client with longer ones appends zeros.
"""

from __future__ import annotations

from typing import NamedTuple


class Steuer(NamedTuple):
    """A tax: the account it is booked to, and its rate in percent."""

    konto: str
    prozent: int
    is_vorsteuer: bool


class Kontenrahmen(NamedTuple):
    name: str
    beschriftungen: dict[str, str]
    # Accounts whose bookings are split into net and tax without a key.
    automatik: dict[str, Steuer]
    # Tax keys and what they stand for; None is “no tax”.
    schluessel: dict[str, Steuer | None]
    kasse: str
    zweite_kasse: str
    # Money accounts (cash, bank, transit): a tax key never belongs to them.
    geld: tuple[str, str]
    gewaehrte_skonti: dict[int, str]
    erhaltene_skonti: dict[int, str]


SALDENVORTRAEGE = ("9000", "9008", "9009")
_VORTRAEGE = {
    "9000": "Saldenvorträge Sachkonten",
    "9008": "Saldenvorträge Debitoren",
    "9009": "Saldenvorträge Kreditoren",
}


def _rahmen(
    name: str,
    beschriftungen: dict[str, str],
    *,
    steuern: tuple[str, str, str, str],
    erloese: tuple[str, str],
    waren: tuple[str, str],
    skonti: tuple[dict[int, str], dict[int, str]],
    kassen: tuple[str, str],
    geld: tuple[str, str],
) -> Kontenrahmen:
    ust19, ust7 = Steuer(steuern[0], 19, is_vorsteuer=False), Steuer(steuern[1], 7, is_vorsteuer=False)
    vst19, vst7 = Steuer(steuern[2], 19, is_vorsteuer=True), Steuer(steuern[3], 7, is_vorsteuer=True)
    return Kontenrahmen(
        name=name,
        beschriftungen=beschriftungen | _VORTRAEGE,
        automatik={
            f"{first[:3]}{digit}": steuer
            for first, steuer in ((erloese[0], ust19), (erloese[1], ust7), (waren[0], vst19), (waren[1], vst7))
            for digit in range(10)
        },
        schluessel={"1": None, "2": ust7, "3": ust19, "8": vst7, "9": vst19},
        kasse=kassen[0],
        zweite_kasse=kassen[1],
        geld=geld,
        gewaehrte_skonti=skonti[0],
        erhaltene_skonti=skonti[1],
    )


_SKR03 = _rahmen(
    "SKR03",
    {
        "0027": "EDV-Software", "0320": "Pkw", "0400": "Betriebsausstattung", "0420": "Büroeinrichtung",
        "0480": "Geringwertige Wirtschaftsgüter", "0650": "Verbindlichkeiten gegenüber Kreditinstituten",
        "0800": "Gezeichnetes Kapital", "0868": "Verlustvortrag", "0970": "Sonstige Rückstellungen",
        "1000": "Kasse", "1010": "Nebenkasse", "1200": "Bank", "1210": "Bank 2", "1360": "Geldtransit",
        "1400": "Forderungen aus Lieferungen und Leistungen", "1410": "Forderungen ohne Kontokorrent",
        "1571": "Vorsteuer 7 %", "1576": "Vorsteuer 19 %", "1590": "Durchlaufende Posten",
        "1600": "Verbindlichkeiten aus Lieferungen und Leistungen", "1610": "Verbindlichkeiten ohne Kontokorrent",
        "1740": "Verbindlichkeiten aus Lohn und Gehalt", "1741": "Verbindlichkeiten Lohnsteuer",
        "1742": "Verbindlichkeiten soziale Sicherheit", "1771": "Umsatzsteuer 7 %", "1776": "Umsatzsteuer 19 %",
        "1780": "Umsatzsteuer-Vorauszahlungen", "1800": "Privatentnahmen", "1890": "Privateinlagen",
        "2100": "Zinsen und ähnliche Aufwendungen", "2650": "Zinserträge", "2700": "Andere Erträge",
        "3100": "Fremdleistungen", "3300": "Wareneingang 7 %", "3400": "Wareneingang 19 %",
        "3730": "Erhaltene Skonti", "3731": "Erhaltene Skonti 7 %", "3736": "Erhaltene Skonti 19 %",
        "4100": "Löhne und Gehälter", "4130": "Gesetzliche Sozialaufwendungen", "4210": "Miete",
        "4240": "Gas, Strom, Wasser", "4250": "Reinigung", "4360": "Versicherungen", "4380": "Beiträge",
        "4500": "Fahrzeugkosten", "4530": "Laufende Kfz-Betriebskosten", "4600": "Werbekosten",
        "4650": "Bewirtungskosten", "4660": "Reisekosten Arbeitnehmer", "4830": "Abschreibungen auf Sachanlagen",
        "4910": "Porto", "4920": "Telefon", "4930": "Bürobedarf", "4940": "Zeitschriften, Bücher",
        "4950": "Rechts- und Beratungskosten", "4955": "Buchführungskosten", "4970": "Nebenkosten des Geldverkehrs",
        "4980": "Sonstiger Betriebsbedarf", "8100": "Steuerfreie Umsätze", "8300": "Erlöse 7 %", "8400": "Erlöse 19 %",
        "8730": "Gewährte Skonti", "8731": "Gewährte Skonti 7 %", "8736": "Gewährte Skonti 19 %",
    },
    steuern=("1776", "1771", "1576", "1571"),
    erloese=("8400", "8300"),
    waren=("3400", "3300"),
    skonti=({19: "8736", 7: "8731", 0: "8730"}, {19: "3736", 7: "3731", 0: "3730"}),
    kassen=("1000", "1010"),
    geld=("1000", "1369"),
)  # fmt: skip

_SKR04 = _rahmen(
    "SKR04",
    {
        "0135": "EDV-Software", "0520": "Pkw", "0650": "Büroeinrichtung", "0670": "Geringwertige Wirtschaftsgüter",
        "0690": "Sonstige Betriebsausstattung", "1200": "Forderungen aus Lieferungen und Leistungen",
        "1205": "Forderungen ohne Kontokorrent", "1370": "Durchlaufende Posten", "1401": "Vorsteuer 7 %",
        "1406": "Vorsteuer 19 %", "1460": "Geldtransit", "1600": "Kasse", "1610": "Nebenkasse", "1800": "Bank",
        "1810": "Bank 2", "2100": "Privatentnahmen", "2180": "Privateinlagen", "2900": "Gezeichnetes Kapital",
        "2978": "Verlustvortrag", "3070": "Sonstige Rückstellungen",
        "3150": "Verbindlichkeiten gegenüber Kreditinstituten",
        "3300": "Verbindlichkeiten aus Lieferungen und Leistungen", "3301": "Verbindlichkeiten ohne Kontokorrent",
        "3720": "Verbindlichkeiten aus Lohn und Gehalt", "3730": "Verbindlichkeiten Lohnsteuer",
        "3740": "Verbindlichkeiten soziale Sicherheit", "3801": "Umsatzsteuer 7 %", "3806": "Umsatzsteuer 19 %",
        "3820": "Umsatzsteuer-Vorauszahlungen", "4100": "Steuerfreie Umsätze", "4300": "Erlöse 7 %",
        "4400": "Erlöse 19 %", "4730": "Gewährte Skonti", "4731": "Gewährte Skonti 7 %",
        "4736": "Gewährte Skonti 19 %", "4830": "Sonstige betriebliche Erträge", "5300": "Wareneingang 7 %",
        "5400": "Wareneingang 19 %", "5730": "Erhaltene Skonti", "5731": "Erhaltene Skonti 7 %",
        "5736": "Erhaltene Skonti 19 %", "5900": "Fremdleistungen", "6000": "Löhne und Gehälter",
        "6110": "Gesetzliche Sozialaufwendungen", "6220": "Abschreibungen auf Sachanlagen", "6310": "Miete",
        "6325": "Gas, Strom, Wasser", "6330": "Reinigung", "6400": "Versicherungen", "6420": "Beiträge",
        "6500": "Fahrzeugkosten", "6530": "Laufende Kfz-Betriebskosten", "6600": "Werbekosten",
        "6640": "Bewirtungskosten", "6650": "Reisekosten Arbeitnehmer", "6800": "Porto", "6805": "Telefon",
        "6815": "Bürobedarf", "6820": "Zeitschriften, Bücher", "6825": "Rechts- und Beratungskosten",
        "6830": "Buchführungskosten", "6850": "Sonstiger Betriebsbedarf", "6855": "Nebenkosten des Geldverkehrs",
        "7100": "Zinserträge", "7300": "Zinsen und ähnliche Aufwendungen",
    },
    steuern=("3806", "3801", "1406", "1401"),
    erloese=("4400", "4300"),
    waren=("5400", "5300"),
    skonti=({19: "4736", 7: "4731", 0: "4730"}, {19: "5736", 7: "5731", 0: "5730"}),
    kassen=("1600", "1610"),
    geld=("1460", "1899"),
)  # fmt: skip

KONTENRAHMEN = {rahmen.name: rahmen for rahmen in (_SKR03, _SKR04)}
