"""Account numbers. On the wire and in the database they have the technical length: 8 digits, 9 for person accounts.

A client with a number length of 4 writes 8400 and 10010; that is 84000000 and 100100000 here.
"""

from __future__ import annotations

from typing import NamedTuple

from kontobahn.sentences import said

SACHKONTO_DIGITS = 8
PERSONENKONTO_DIGITS = 9
FIRST_CREDITOR = "700000000"


def is_personenkonto(konto: str) -> bool:
    return len(konto) == PERSONENKONTO_DIGITS


def is_debitor(konto: str) -> bool:
    """Returns whether a person account is a debtor: those start with 1 to 6, creditors with 7 to 9."""
    return konto[0] < "7"


def technical(nummer: str, laenge: int) -> str:
    """Returns the technical number for one in the client's own length or in full. Raises ValueError with the reason."""
    if not nummer.isascii() or not nummer.isdigit():
        raise ValueError("must be digits")
    if not nummer.strip("0"):
        raise ValueError("must not be only zeros")
    if len(nummer) in (laenge, laenge + 1):
        padded = nummer + "0" * (SACHKONTO_DIGITS - laenge)
    elif len(nummer) in (SACHKONTO_DIGITS, PERSONENKONTO_DIGITS):
        padded = nummer
        if nummer[laenge - SACHKONTO_DIGITS :].strip("0"):
            raise ValueError(
                said(
                    "must end in {count} zeros: the client's numbers have {digits} digits",
                    count=SACHKONTO_DIGITS - laenge,
                    digits=laenge,
                )
            )
    else:
        raise ValueError(
            said(
                "must have {digits} digits, or {persons} for a person account (or {full} and"
                " {fullpersons} in full), not {found}",
                digits=laenge,
                persons=laenge + 1,
                full=SACHKONTO_DIGITS,
                fullpersons=PERSONENKONTO_DIGITS,
                found=len(nummer),
            )
        )
    if is_personenkonto(padded) and padded[0] == "0":
        raise ValueError("must not start with 0: a person account starts with 1 to 9")
    return padded


def readings(nummer: str, laenge: int) -> list[str]:
    """Returns the accounts that a number may mean, the form that answers use first. Raises ValueError with the reason if none.

    If a client's own numbers have seven digits, 84000000 may be a ledger account in full or one of its person accounts.
    """
    found = technical(nummer, laenge)
    is_full = len(nummer) == SACHKONTO_DIGITS and not nummer[laenge:].strip("0")
    return [nummer, found] if is_full and nummer != found else [found]


def functional(konto: str, laenge: int) -> str:
    """Returns the number as the client writes it."""
    return konto[: len(konto) - (SACHKONTO_DIGITS - laenge)]


def readable(konto: str, laenge: int) -> str:
    """Returns the number as the client writes it; in full if it would lose a digit."""
    short = functional(konto, laenge)
    return konto if konto[len(short) :].strip("0") else short


# Our own short charts of accounts: enough to label what small companies post to, and to know cash, money and discounts.
#
# Numbers have four digits here; a client with longer ones appends zeros. The accounts and keys that carry tax are in
# `steuer.py`.


class Kontenrahmen(NamedTuple):
    name: str
    beschriftungen: dict[str, str]
    kasse: str
    zweite_kasse: str
    # Transfers between own accounts, and what banks charge.
    geldtransit: str
    geldverkehr: str
    # Money accounts (cash, bank, transit): a tax key never belongs to them.
    geld: tuple[str, str]
    # Those of them that hold cash.
    bargeld: tuple[str, str]
    # First digits of the accounts of expenses.
    aufwand: str
    # Accounts of discounts by their rate of tax.
    gewaehrte_skonti: dict[int, str]
    erhaltene_skonti: dict[int, str]


SALDENVORTRAEGE = ("9000", "9008", "9009")
_VORTRAEGE = {
    "9000": "Saldenvorträge Sachkonten",
    "9008": "Saldenvorträge Debitoren",
    "9009": "Saldenvorträge Kreditoren",
}


def _discounts(first: str, last_of_16: str) -> dict[int, str]:
    return {19: f"{first}6", 7: f"{first}1", 16: f"{first}{last_of_16}", 5: f"{first}2", 0: f"{first}0"}


_SKR03 = Kontenrahmen(
    name="SKR03",
    beschriftungen={
        "0027": "EDV-Software", "0320": "Pkw", "0400": "Betriebsausstattung", "0420": "Büroeinrichtung",
        "0480": "Geringwertige Wirtschaftsgüter", "0650": "Verbindlichkeiten gegenüber Kreditinstituten",
        "0800": "Gezeichnetes Kapital", "0868": "Verlustvortrag", "0970": "Sonstige Rückstellungen", "1000": "Kasse",
        "1010": "Nebenkasse", "1200": "Bank", "1210": "Bank 2", "1360": "Geldtransit",
        "1400": "Forderungen aus Lieferungen und Leistungen", "1410": "Forderungen ohne Kontokorrent",
        "1568": "Vorsteuer 5 %", "1571": "Vorsteuer 7 %", "1572": "Vorsteuer aus innergemeinschaftlichem Erwerb 7 %",
        "1574": "Vorsteuer aus innergemeinschaftlichem Erwerb 19 %", "1575": "Vorsteuer 16 %", "1576": "Vorsteuer 19 %",
        "1577": "Vorsteuer nach § 13b UStG 19 %", "1578": "Vorsteuer nach § 13b UStG", "1590": "Durchlaufende Posten",
        "1600": "Verbindlichkeiten aus Lieferungen und Leistungen", "1610": "Verbindlichkeiten ohne Kontokorrent",
        "1740": "Verbindlichkeiten aus Lohn und Gehalt", "1741": "Verbindlichkeiten Lohnsteuer",
        "1742": "Verbindlichkeiten soziale Sicherheit", "1771": "Umsatzsteuer 7 %",
        "1772": "Umsatzsteuer aus innergemeinschaftlichem Erwerb 7 %", "1773": "Umsatzsteuer 5 %",
        "1774": "Umsatzsteuer aus innergemeinschaftlichem Erwerb 19 %", "1775": "Umsatzsteuer 16 %",
        "1776": "Umsatzsteuer 19 %", "1777": "Umsatzsteuer aus EU-Lieferungen 7 %",
        "1778": "Umsatzsteuer aus EU-Lieferungen 19 %", "1780": "Umsatzsteuer-Vorauszahlungen",
        "1785": "Umsatzsteuer nach § 13b UStG", "1787": "Umsatzsteuer nach § 13b UStG 19 %", "1800": "Privatentnahmen",
        "1890": "Privateinlagen", "2100": "Zinsen und ähnliche Aufwendungen", "2650": "Zinserträge",
        "2700": "Andere Erträge", "3100": "Fremdleistungen", "3120": "Bauleistungen § 13b UStG 19 %",
        "3123": "Leistungen aus der EU § 13b UStG 19 %", "3125": "Leistungen aus dem Ausland § 13b UStG 19 %",
        "3300": "Wareneingang 7 %", "3400": "Wareneingang 19 %", "3420": "Innergemeinschaftlicher Erwerb 7 %",
        "3425": "Innergemeinschaftlicher Erwerb 19 %", "3730": "Erhaltene Skonti", "3731": "Erhaltene Skonti 7 %",
        "3732": "Erhaltene Skonti 5 %", "3736": "Erhaltene Skonti 19 %", "3737": "Erhaltene Skonti 16 %",
        "4100": "Löhne und Gehälter", "4130": "Gesetzliche Sozialaufwendungen", "4210": "Miete",
        "4240": "Gas, Strom, Wasser", "4250": "Reinigung", "4360": "Versicherungen", "4380": "Beiträge",
        "4500": "Fahrzeugkosten", "4530": "Laufende Kfz-Betriebskosten", "4600": "Werbekosten",
        "4650": "Bewirtungskosten", "4660": "Reisekosten Arbeitnehmer", "4830": "Abschreibungen auf Sachanlagen",
        "4910": "Porto", "4920": "Telefon", "4930": "Bürobedarf", "4940": "Zeitschriften, Bücher",
        "4950": "Rechts- und Beratungskosten", "4955": "Buchführungskosten", "4970": "Nebenkosten des Geldverkehrs",
        "4980": "Sonstiger Betriebsbedarf", "8100": "Steuerfreie Umsätze", "8120": "Steuerfreie Ausfuhren",
        "8125": "Steuerfreie innergemeinschaftliche Lieferungen", "8300": "Erlöse 7 %",
        "8336": "Leistungen in der EU, Steuer beim Empfänger",
        "8337": "Leistungen nach § 13b UStG, Steuer beim Empfänger", "8400": "Erlöse 19 %", "8730": "Gewährte Skonti",
        "8731": "Gewährte Skonti 7 %", "8732": "Gewährte Skonti 5 %", "8735": "Gewährte Skonti 16 %",
        "8736": "Gewährte Skonti 19 %",
        **_VORTRAEGE,
    },
    kasse="1000",
    zweite_kasse="1010",
    geldtransit="1360",
    geldverkehr="4970",
    geld=("1000", "1369"),
    bargeld=("1000", "1099"),
    aufwand="34",
    gewaehrte_skonti=_discounts("873", "5"),
    erhaltene_skonti=_discounts("373", "7"),
)  # fmt: skip

_SKR04 = Kontenrahmen(
    name="SKR04",
    beschriftungen={
        "0135": "EDV-Software", "0520": "Pkw", "0650": "Büroeinrichtung", "0670": "Geringwertige Wirtschaftsgüter",
        "0690": "Sonstige Betriebsausstattung", "1200": "Forderungen aus Lieferungen und Leistungen",
        "1205": "Forderungen ohne Kontokorrent", "1370": "Durchlaufende Posten", "1401": "Vorsteuer 7 %",
        "1402": "Vorsteuer aus innergemeinschaftlichem Erwerb 7 %", "1403": "Vorsteuer 5 %",
        "1404": "Vorsteuer aus innergemeinschaftlichem Erwerb 19 %", "1405": "Vorsteuer 16 %", "1406": "Vorsteuer 19 %",
        "1407": "Vorsteuer nach § 13b UStG 19 %", "1408": "Vorsteuer nach § 13b UStG", "1460": "Geldtransit",
        "1600": "Kasse", "1610": "Nebenkasse", "1800": "Bank", "1810": "Bank 2", "2100": "Privatentnahmen",
        "2180": "Privateinlagen", "2900": "Gezeichnetes Kapital", "2978": "Verlustvortrag",
        "3070": "Sonstige Rückstellungen", "3150": "Verbindlichkeiten gegenüber Kreditinstituten",
        "3300": "Verbindlichkeiten aus Lieferungen und Leistungen", "3301": "Verbindlichkeiten ohne Kontokorrent",
        "3720": "Verbindlichkeiten aus Lohn und Gehalt", "3730": "Verbindlichkeiten Lohnsteuer",
        "3740": "Verbindlichkeiten soziale Sicherheit", "3801": "Umsatzsteuer 7 %",
        "3802": "Umsatzsteuer aus innergemeinschaftlichem Erwerb 7 %", "3803": "Umsatzsteuer 5 %",
        "3804": "Umsatzsteuer aus innergemeinschaftlichem Erwerb 19 %", "3805": "Umsatzsteuer 16 %",
        "3806": "Umsatzsteuer 19 %", "3807": "Umsatzsteuer aus EU-Lieferungen 7 %",
        "3808": "Umsatzsteuer aus EU-Lieferungen 19 %", "3820": "Umsatzsteuer-Vorauszahlungen",
        "3835": "Umsatzsteuer nach § 13b UStG", "3837": "Umsatzsteuer nach § 13b UStG 19 %",
        "4100": "Steuerfreie Umsätze", "4120": "Steuerfreie Ausfuhren",
        "4125": "Steuerfreie innergemeinschaftliche Lieferungen", "4300": "Erlöse 7 %",
        "4336": "Leistungen in der EU, Steuer beim Empfänger",
        "4337": "Leistungen nach § 13b UStG, Steuer beim Empfänger", "4400": "Erlöse 19 %", "4730": "Gewährte Skonti",
        "4731": "Gewährte Skonti 7 %", "4732": "Gewährte Skonti 5 %", "4735": "Gewährte Skonti 16 %",
        "4736": "Gewährte Skonti 19 %", "4830": "Sonstige betriebliche Erträge", "5300": "Wareneingang 7 %",
        "5400": "Wareneingang 19 %", "5420": "Innergemeinschaftlicher Erwerb 7 %",
        "5425": "Innergemeinschaftlicher Erwerb 19 %", "5730": "Erhaltene Skonti", "5731": "Erhaltene Skonti 7 %",
        "5732": "Erhaltene Skonti 5 %", "5736": "Erhaltene Skonti 19 %", "5737": "Erhaltene Skonti 16 %",
        "5900": "Fremdleistungen", "5920": "Bauleistungen § 13b UStG 19 %",
        "5923": "Leistungen aus der EU § 13b UStG 19 %", "5925": "Leistungen aus dem Ausland § 13b UStG 19 %",
        "6000": "Löhne und Gehälter", "6110": "Gesetzliche Sozialaufwendungen",
        "6220": "Abschreibungen auf Sachanlagen", "6310": "Miete", "6325": "Gas, Strom, Wasser", "6330": "Reinigung",
        "6400": "Versicherungen", "6420": "Beiträge", "6500": "Fahrzeugkosten", "6530": "Laufende Kfz-Betriebskosten",
        "6600": "Werbekosten", "6640": "Bewirtungskosten", "6650": "Reisekosten Arbeitnehmer", "6800": "Porto",
        "6805": "Telefon", "6815": "Bürobedarf", "6820": "Zeitschriften, Bücher", "6825": "Rechts- und Beratungskosten",
        "6830": "Buchführungskosten", "6850": "Sonstiger Betriebsbedarf", "6855": "Nebenkosten des Geldverkehrs",
        "7100": "Zinserträge", "7300": "Zinsen und ähnliche Aufwendungen",
        **_VORTRAEGE,
    },
    kasse="1600",
    zweite_kasse="1610",
    geldtransit="1460",
    geldverkehr="6855",
    geld=("1460", "1899"),
    bargeld=("1600", "1699"),
    aufwand="56",
    gewaehrte_skonti=_discounts("473", "5"),
    erhaltene_skonti=_discounts("573", "7"),
)  # fmt: skip

KONTENRAHMEN = {rahmen.name: rahmen for rahmen in (_SKR03, _SKR04)}
