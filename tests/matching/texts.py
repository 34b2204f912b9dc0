"""A document's number as payers write it, and the rest of their texts."""

from __future__ import annotations

import random
import re

from kontobahn.reconciliation.core.model import OpenItem

_WORDS = (
    "Rechnung",
    "Rg.",
    "Rechnung Nr.",
    "RNR",
    "Rechnungs-Nr.",
    "Re.-Nr.",
    "Invoice",
    "Beleg",
    "RECHNUNGSNR.:",
    "zu Rechnung",
)
_THANKS = ("", "", " danke", " vielen Dank", " Danke und Gruss", " wie besprochen")
OWN_WORDS = (
    "Zahlung", "wie vereinbart", "Lieferung vom Montag", "Ueberweisung", "Honorar", "Ihre Leistung", "Abschlag Projekt Nordhof",
    "Bestellung 4500{six}", "Auftrag {six}", "Unser Zeichen {six}", "Material BV Hafenstr. {two}", "Projekt {six} Phase {one}",
)  # fmt: skip


def shape(r: random.Random, number: str) -> str:
    """The number in another dress: without separators, with others, in small letters, without leading zeros."""
    parts = re.split(r"[-/.]", number)
    way = r.random()
    if way < 0.35:
        return "".join(parts)
    if way < 0.65:
        return r.choice((" ", "-", "/", ".", " - ")).join(parts)
    if way < 0.8:
        return number.lower()
    return re.sub(r"(?<![0-9])0+(?=[1-9])", "", number)


def typo(r: random.Random, number: str) -> str:
    places = [place for place, char in enumerate(number) if char.isdigit()]
    place = r.choice(places[-3:])
    way = r.random()
    if way < 0.5:
        return number[:place] + str(r.randint(0, 9)) + number[place + 1 :]
    if way < 0.75:
        return number[:place] + number[place + 1 :]
    return number[: place - 1] + number[place] + number[place - 1] + number[place + 1 :] if place else number


def own_words(r: random.Random) -> str:
    numbers = {"six": r.randint(100_000, 999_999), "two": r.randint(1, 99), "one": r.randint(1, 9)}
    return r.choice(OWN_WORDS).format(**numbers)


def about(r: random.Random, habit: str, items: list[OpenItem], customer: str) -> tuple[str, str | None]:
    """Returns the purpose and the end-to-end id of a payer with a habit."""
    numbers = [item.beleg for item in items]
    if habit == "never":
        return own_words(r), None
    if habit == "end":
        return " ".join(re.split(r"[-/.]", number)[-1] for number in numbers) + r.choice(_THANKS), None
    if habit == "typo":
        return ", ".join(typo(r, number) for number in numbers), None
    if habit == "reference":
        return own_words(r), numbers[0][:35] if len(numbers) == 1 else " ".join(numbers)[:35]
    if habit == "reshaped":
        return f"{r.choice(_WORDS)} {', '.join(shape(r, number) for number in numbers)}{r.choice(_THANKS)}", None
    if habit == "customer":
        return f"Kd-Nr. {customer} {r.choice(_WORDS)} {' + '.join(numbers)}", None
    if habit == "sentence":
        word = r.choice(_WORDS)
        if len(numbers) == 1:
            amount = abs(items[0].open_minor)
            extra = r.choice(("", f" vom {items[0].day:%d.%m.%Y}", f" ueber {amount // 100},{amount % 100:02d} EUR"))
            return f"{word} {numbers[0]}{extra}{r.choice(_THANKS)}", None
        return f"{word} {' u. '.join(numbers)}{r.choice(_THANKS)}", None
    return r.choice((", ", " ", "; ", "/ ")).join(numbers), None
