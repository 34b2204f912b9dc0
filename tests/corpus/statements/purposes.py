"""German purpose texts after the habits of banks and aggregators, made by rules from what they should be read as."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

IBAN = "DE02120300000000202051"
BIC = "BYLADEM1001"
CREDITOR = "DE98ZZZ09999999999"
WIDTH = 27

TEXTS = (
    "Miete Mai 2026",
    "Rechnung 4711 vom 12.03.2026",
    "Rechnung RE-2026-00815 vom 01.03.2026 Kunde 10023 Danke",
    "Beitrag zur Haftpflichtversicherung 2026 Vertrag 88-1234567-9",
    "Gehalt Februar 2026 Personalnummer 00417",
    "Abschlag Strom und Gas Vertragskonto 200300400 Zeitraum 01.02.2026 bis 28.02.2026",
    "Umsatzsteuervorauszahlung 1. Vierteljahr 2026 Steuernummer 12/345/67890",
    "Erstattung der Kaution fuer Ihre alte Wohnung in der Lindenstrasse 5",
    "Mitgliedsbeitrag Turnverein Sommerhalbjahr Familie Meier",
    "Bestellung 302-1234567-7654321 Buecher und Hoerbuecher",
    "Kartenzahlung Baumarkt Sued 28.02.2026 17:45 Uhr",
    "Kundennummer 99887766 Mobilfunk Rechnung 03/2026",
    "Spende fuer das Tierheim",
    "Lastschrift Kundenkarte Einkauf 119,00 EUR am 27.02.2026",
    "Teilzahlung zu Auftrag 2026-77 abzueglich Skonto 2,00 %",
    "Rundfunkbeitrag fuer die Monate 03.2026 bis 05.2026 Beitragsnummer 123456789",
    "Darlehen 6001234567 Zins 12,34 Tilgung 487,66 Rate 500,00",
    "Zahlung gemaess Vereinbarung vom 15.01.2026 letzte Rate",
    "Honorar fuer Beratung und Uebersetzung Projekt Nordlicht",
    "Auslagenersatz Reise Hamburg Berlin Februar",
    "Kfz-Steuer fuer HH-AB 123 fuer die Zeit vom 01.03.2026 bis zum 28.02.2027",
    "Nebenkostennachzahlung 2025 Objekt Gartenweg 12 Wohnung 3",
    "Getraenkelieferung und Leergut Beleg 5566 Filiale 12",
    "Jahresabonnement Wochenzeitung Digital und Papier",
    "Ratenzahlung 4 von 12 Vertrag Waschmaschine",
    "Danke fuer den schoenen Abend",
)


class Purpose(NamedTuple):
    """The lines a bank writes, and what they say. `is_mt940`: the lines are sub-fields."""

    lines: list[str]
    text: str
    end_to_end_id: str | None
    mandate: str | None
    creditor: str | None
    iban: str | None
    is_mt940: bool = True


def _cut(text: str) -> list[str]:
    """Cut at the form's width, even within words; blanks at the end of a line are lost."""
    return [text[start : start + WIDTH].rstrip() for start in range(0, len(text), WIDTH)]


def _wrapped(text: str) -> list[str]:
    """Cut between words; a word longer than the line is torn."""
    lines = [""]
    for word in text.split(" "):
        if lines[-1] and len(lines[-1]) + 1 + len(word) > WIDTH:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
        while len(lines[-1]) > WIDTH:
            lines[-1:] = [lines[-1][:WIDTH], lines[-1][WIDTH:]]
    return lines


def sparkasse(text: str, number: int) -> Purpose:
    """Each tag begins a sub-field, and a value goes on in the next."""
    reference = f"ZAHLUNG-{number:04d}-2026-ABCDEFGHIJ"
    values = (f"EREF+{reference}", f"MREF+M-{number}", f"CRED+{CREDITOR}", f"SVWZ+{text}")
    return Purpose([line for value in values for line in _cut(value)], text, reference, f"M-{number}", CREDITOR, None)


def sparkasse_by_words(text: str, number: int) -> Purpose:
    lines = [f"EREF+E-{number}", *_wrapped(f"SVWZ+{text}")]
    return Purpose(lines, text, f"E-{number}", None, None, None)


def sparkasse_with_torn_tags(text: str, number: int) -> Purpose:
    """One stream of values, cut without regard to tags, blanks kept."""
    whole = f"EREF+E-{number} KREF+NONREF SVWZ+{text}"
    lines = [whole[start : start + WIDTH] for start in range(0, len(whole), WIDTH)]
    return Purpose(lines, text, f"E-{number}", None, None, None)


def volksbank(text: str, number: int) -> Purpose:
    """The text, then tags with colons, wrapped between words."""
    lines = [
        *_wrapped(text),
        f"EREF: E-{number}",
        f"MREF: M-{number}",
        f"CRED: {CREDITOR}",
        *_cut(f"IBAN: {IBAN}"),
        f"BIC: {BIC}",
    ]
    return Purpose(lines, text, f"E-{number}", f"M-{number}", CREDITOR, IBAN)


def volksbank_in_one_stream(text: str, number: int) -> Purpose:
    lines = _cut(f"{text} EREF: E-{number} MREF: M-{number} CRED: {CREDITOR} IBAN: {IBAN} BIC: {BIC}")
    return Purpose(lines, text, f"E-{number}", f"M-{number}", CREDITOR, IBAN)


def volksbank_second_list(text: str, number: int) -> Purpose:
    """Tags with plus signs first, and again with colons after the text."""
    lines = [
        f"EREF+E-{number}",
        *_wrapped(f"SVWZ+{text}"),
        *_wrapped(f"EREF: E-{number} MREF: M-{number} IBAN: {IBAN}"),
    ]
    return Purpose(lines, text, f"E-{number}", f"M-{number}", None, IBAN)


def not_provided(text: str, number: int) -> Purpose:
    missing = ("NOTPROVIDED", "NONREF", "NOT PROVIDED")[number % 3]
    return Purpose([f"EREF+{missing}", *_cut(f"SVWZ+{text}")], text, None, None, None, None)


def private_bank(text: str, number: int) -> Purpose:
    """Names spelled out, one line."""
    line = f"{text} End-to-End-Ref.: E-{number} CORE / Mandatsref.: M-{number} Gläubiger-ID: {CREDITOR}"
    return Purpose([line], text, f"E-{number}", f"M-{number}", CREDITOR, None, is_mt940=False)


def private_bank_in_camt(text: str, number: int) -> Purpose:
    """Ustrd with lines of 35."""
    whole = f"SVWZ+{text}"
    lines = [whole[start : start + 35] for start in range(0, len(whole), 35)]
    return Purpose([f"EREF+E-{number}", *lines], text, f"E-{number}", None, None, None, is_mt940=False)


def aggregator(text: str, number: int) -> Purpose:
    """Everything on one line, lower case now and then, text last or in the middle."""
    line = f"EREF+E-{number} SVWZ+{text} ABWA+Anna Muster" if number % 2 else f"eref: E-{number} svwz: {text}"
    return Purpose([line], text, f"E-{number}", None, None, None, is_mt940=False)


HABITS: tuple[Callable[[str, int], Purpose], ...] = (
    sparkasse, sparkasse_by_words, sparkasse_with_torn_tags, volksbank, volksbank_in_one_stream, volksbank_second_list,
    not_provided, private_bank, private_bank_in_camt, aggregator,
)  # fmt: skip


def all_purposes() -> Iterator[tuple[str, Purpose]]:
    for habit in HABITS:
        for number, text in enumerate(TEXTS, 1):
            yield habit.__name__, habit(text, number)
