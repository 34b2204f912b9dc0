"""A simple profit and loss by the accounts of a chart (BWA): the line that each account belongs to. Pure.

Revenue is positive here, cost negative, so a sum is an addition. Numbers have four digits; longer ones go by their first four.
"""

from __future__ import annotations

from typing import NamedTuple


class Group(NamedTuple):
    """A line that accounts belong to, by spans of their numbers in SKR03 and SKR04."""

    bezeichnung: str
    skr03: tuple[tuple[str, str], ...]
    skr04: tuple[tuple[str, str], ...]


class Subtotal(NamedTuple):
    """A line that is the sum of all groups above it."""

    bezeichnung: str


UNASSIGNED = "Nicht zugeordnet"
RESULT = "Vorläufiges Ergebnis"
LINES: tuple[Group | Subtotal, ...] = (
    Group("Umsatzerlöse", (("8000", "8599"), ("8700", "8799")), (("4000", "4599"), ("4700", "4799"))),
    Group("Bestandsveränderungen, Eigenleistungen", (("8960", "8999"),), (("4800", "4829"),)),
    Subtotal("Gesamtleistung"),
    Group("Material, Wareneinkauf, Fremdleistungen", (("3000", "3969"), ("3990", "4099")), (("5000", "5999"),)),
    Subtotal("Rohertrag"),
    Group("Sonstige betriebliche Erträge", (("8600", "8699"), ("8800", "8959")), (("4600", "4699"), ("4830", "4999"))),
    Subtotal("Betrieblicher Rohertrag"),
    Group("Personalkosten", (("4100", "4199"),), (("6000", "6199"),)),
    Group("Raumkosten", (("4200", "4299"),), (("6305", "6399"),)),
    Group("Betriebliche Steuern", (("4300", "4359"),), (("7650", "7699"),)),
    Group("Versicherungen, Beiträge", (("4360", "4399"),), (("6400", "6449"),)),
    Group("Fahrzeugkosten", (("4500", "4599"),), (("6500", "6599"),)),
    Group("Werbe- und Reisekosten", (("4600", "4699"),), (("6600", "6699"),)),
    Group("Kosten der Warenabgabe", (("4700", "4799"),), (("6700", "6799"),)),
    Group("Abschreibungen", (("4815", "4899"),), (("6200", "6299"),)),
    Group("Reparatur, Instandhaltung", (("4800", "4814"),), (("6450", "6499"),)),
    Group("Sonstige Kosten", (("4900", "4999"),), (("6300", "6304"), ("6800", "6899"))),
    Subtotal("Betriebsergebnis"),
    Group("Zinserträge", (("2600", "2699"),), (("7000", "7199"),)),
    Group("Zinsaufwand", (("2100", "2149"),), (("7300", "7399"),)),
    Group("Sonstiger neutraler Ertrag", (("2500", "2599"), ("2700", "2799")), ()),
    Group("Sonstiger neutraler Aufwand", (("2000", "2099"), ("2150", "2199"), ("2300", "2499")), (("6900", "6999"),)),
    Subtotal("Ergebnis vor Steuern"),
    Group("Steuern vom Einkommen und Ertrag", (("2200", "2299"),), (("7600", "7649"),)),
)
# Accounts of profit and loss, those of no group included; the result is the sum of all of them.
_PROFIT_AND_LOSS = {
    "SKR03": (("2000", "3969"), ("3990", "6999"), ("8000", "8999")),
    "SKR04": (("4000", "7999"),),
}


def is_profit_and_loss(skr: str, konto: str) -> bool:
    """Returns whether a ledger account belongs to the result of the year, and not to the balance sheet."""
    return len(konto) == 8 and _within(_PROFIT_AND_LOSS[skr], konto)


def group_of(skr: str, konto: str) -> str:
    """Returns the line that an account of profit and loss belongs to."""
    for line in LINES:
        if isinstance(line, Group) and _within(line.skr03 if skr == "SKR03" else line.skr04, konto):
            return line.bezeichnung
    return UNASSIGNED


def _within(spans: tuple[tuple[str, str], ...], konto: str) -> bool:
    return any(first <= konto[:4] <= last for first, last in spans)
