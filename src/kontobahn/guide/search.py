"""The search of the guide: sections by the words of a question, English or German, the best first. Pure.

A word counts the more the rarer it is, and more in a title or a heading than in the text; words of other forms (“transactions”,
“Kontoauszüge”) and German words for English ones find each other. A section need not have every word of a question, but one that has
more of them comes first.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from kontobahn.api.pages import Language

MAX_QUERY = 100
MAX_WORDS = 12
MAX_RESULTS = 30
_SNIPPET = 180
_WORD = re.compile(r"\w+")
# A word counts less each time that it stands in a section, and less in a long one; in a title or a heading it counts this many times,
# and has a weight of its own there, however often a long text repeats it.
_SATURATION, _BY_LENGTH, _IN_TITLE, _IN_HEADING = 2.0, 0.7, 5, 8
_OF_TITLE, _OF_HEADING = 0.5, 0.3
# Of a word's weight: for a translation, for a word that is part of a longer one, and for a pair that stands in a row as asked.
_TRANSLATED, _WITHIN, _IN_A_ROW = 0.9, 0.5, 0.6
# A part of a longer word has at least so many letters.
_SHORTEST_PART = 5
_SHORTEST_STEM = 3
# Words whose stems are kept: the pages have half as many, each of them some forty times.
_KNOWN_STEMS = 2**14
# A word as long as this that ends in “en” is German: “Auftragsdateien”.
_COMPOUND = 10
# In this order; the longer of two that fit first.
_ENGLISH_ENDINGS = ("ations", "ation", "ings", "ing", "ers", "er", "ied", "ies", "ed", "es", "ly", "s", "e", "y")
_GERMAN_ENDINGS = ("ungen", "ung", "ern", "en", "er", "es", "e", "n", "s")
_PLAIN_LETTERS = str.maketrans({"ä": "a", "ö": "o", "ü": "u"})

# Words that nobody looks for.
_COMMON = """
a about all am an and any are as at be by can could did do does for from get gets give given go happen happens has have how i if in
into is it its just like make me mean means my need of off on one or our out please see set shall should so that the their them then
there these they this those to us use used using want was way we what when where which who whom why will with without work would you
your
aber als am an auf aus bei bekomme bekommen bin das dass dem den der des die dies ein eine einem einen einer es fuer für geht gibt
habe haben ich ihr im in ist kann können man mein meine mich mit muss nach nicht noch ob oder ohne passiert sein sich sie sind so um
und uns von was welche wenn wer werden wie wir wird wo zu zum zur über
"""
_STOP_WORDS = frozenset(_COMMON.split())

# Words that people ask with, and those of these pages that mean the same.
_TRANSLATIONS = {
    "abgelaufen": "expired",
    "abgleich": "match reconciliation",
    "abrufen": "read list",
    "anlegen": "create",
    "anmelden": "sign-in session",
    "anmeldung": "sign-in session",
    "auszug": "statement",
    "automatisieren": "automate n8n make",
    "beleg": "receipt document",
    "benachrichtigung": "event webhook",
    "berechtigung": "permission scope",
    "buchen": "booking",
    "buchhaltung": "books ledger",
    "buchung": "booking transaction",
    "cost": "price",
    "datensicherung": "backup",
    "einladen": "invitation",
    "einladung": "invitation",
    "einrichten": "install receive set",
    "einstellung": "setting",
    "eintrag": "entry",
    "empfangen": "receive",
    "ereignis": "event webhook",
    "exportieren": "export",
    "fahrkarte": "ticket",
    "fails": "failed retry retries again",
    "faktor": "factor",
    "fehler": "error",
    "fehlschlägt": "failed retry retries again",
    "fälligkeit": "due",
    "geschwindigkeit": "performance",
    "guthaben": "credits",
    "hochladen": "send import",
    "importiere": "import importing",
    "importieren": "import importing",
    "installieren": "install",
    "kasse": "cash",
    "kassenbuch": "cash book",
    "konto": "account",
    "kontoauszug": "statement",
    "kosten": "price credits",
    "kunde": "customer partner",
    "lade": "einladen einladung invitation",
    "lastschrift": "debit",
    "lizenz": "licence",
    "löschen": "delete",
    "mahnung": "open due",
    "mandant": "client",
    "offene": "open",
    "passwort": "password",
    "pay": "payment paying",
    "posten": "items",
    "preis": "price credits",
    "prüfen": "verify verifying check",
    "rechnung": "invoice",
    "rechte": "scope permission role",
    "schlüssel": "key",
    "schreiben": "write writing",
    "sicherung": "backup",
    "signatur": "signature",
    "stornieren": "undo reverse reversing",
    "storno": "undo reverse reversing",
    "umsatz": "transaction",
    "umsatzsteuer": "vat tax",
    "umziehen": "move",
    "verbinden": "connect connecting",
    "wiederherstellen": "restore",
    "zahlung": "payment",
    "zahlungsbedingung": "payment term",
    "zuordnen": "match matching",
    "zweiter": "second",
    "überweisung": "payment order",
}  # fmt: skip


class Passage(NamedTuple):
    """A section of a page, as the search knows it."""

    address: str
    page_title: str
    heading: str
    text: str
    # The weight of a hit: pages that say what to do come before those that say why it is so.
    weight: float
    language: Language = "en"


class Result(NamedTuple):
    passage: Passage
    # Pieces of the text; every second one is a hit.
    snippet: list[str]


class Index:
    """The words of some passages, with where they stand and how much each counts there."""

    def __init__(self, passages: Iterable[Passage]) -> None:
        self._passages = list(passages)
        self._places: dict[str, dict[int, float]] = {}
        self._pairs: list[frozenset[tuple[str, str]]] = []
        usual = 1 + sum(len(passage.text) for passage in self._passages) / (1 + len(self._passages))
        for number, passage in enumerate(self._passages):
            half = _SATURATION * (1 - _BY_LENGTH + _BY_LENGTH * len(passage.text) / usual)
            for stem, weight in _weights(passage, half).items():
                self._places.setdefault(stem, {})[number] = weight
            self._pairs.append(frozenset(_pairs(f"{passage.page_title} {passage.heading} {passage.text}")))

    def search(self, query: str) -> list[Result]:
        stems = stems_of(query)
        if not stems:
            return []
        looked_for = [self._forms(stem) for stem in stems]
        rarity = [self._rarity(forms) for forms in looked_for]
        scores: defaultdict[int, float] = defaultdict(float)
        covered: defaultdict[int, float] = defaultdict(float)
        for forms, rare in zip(looked_for, rarity, strict=True):
            for number, found in self._found(forms).items():
                scores[number] += found * rare
                covered[number] += rare
        asked_pairs = list(pairwise(stems))
        whole = sum(rarity)

        def rank(number: int) -> float:
            in_a_row = sum(pair in self._pairs[number] for pair in asked_pairs)
            return (
                scores[number]
                * (covered[number] / whole) ** 2
                * (1 + _IN_A_ROW * in_a_row)
                * self._passages[number].weight
            )

        best = sorted(scores, key=lambda number: (-rank(number), number))[:MAX_RESULTS]
        hits = frozenset(form for forms in looked_for for form in forms)
        return [Result(self._passages[number], _snippet(self._passages[number].text, hits)) for number in best]

    def _forms(self, stem: str) -> dict[str, float]:
        """Returns the stems that answer for one that is asked for, with what each counts."""
        forms = {stem: 1.0}
        for translation in _TRANSLATED_STEMS.get(stem, ()):
            forms.setdefault(translation, _TRANSLATED)
        if stem not in self._places and len(stem) >= _SHORTEST_PART:
            for other in self._places:
                if stem in other or (len(other) >= _SHORTEST_PART and stem.endswith(other)):
                    forms.setdefault(other, _WITHIN)
        return forms

    def _found(self, forms: dict[str, float]) -> dict[int, float]:
        found: dict[int, float] = {}
        for form, share in forms.items():
            for number, count in self._places.get(form, {}).items():
                found[number] = max(found.get(number, 0.0), count * share)
        return found

    def _rarity(self, forms: dict[str, float]) -> float:
        standing = len(self._found(forms))
        return math.log(1 + len(self._passages) / (1 + standing))


def stems_of(query: str) -> list[str]:
    """Returns what a question asks for: its words without endings, and without those that every page has."""
    words = [word for word in _WORD.findall(query.casefold()) if word not in _STOP_WORDS]
    return list(dict.fromkeys(map(_stem, words)))[:MAX_WORDS]


@lru_cache(maxsize=_KNOWN_STEMS)
def _stem(word: str) -> str:
    """Cuts an ending off, so that “upgrade” finds “upgrading” and “Umsätze” finds “Umsatz”. What has a digit or `_` stays whole."""
    if not word.isalpha():
        return word
    plain = word.replace("ß", "ss").translate(_PLAIN_LETTERS)
    is_german = (
        plain != word or plain.endswith(_GERMAN_ENDINGS[:3]) or (len(plain) >= _COMPOUND and plain.endswith("en"))
    )
    endings = _GERMAN_ENDINGS if is_german else _ENGLISH_ENDINGS
    for ending in endings:
        if plain.endswith(ending) and len(plain) - len(ending) >= _SHORTEST_STEM:
            return plain.removesuffix(ending)
    return plain


_TRANSLATED_STEMS = {
    _stem(word): tuple(_stem(part) for part in _WORD.findall(meaning)) for word, meaning in _TRANSLATIONS.items()
}


def _stems(text: str) -> Iterator[str]:
    for word in _WORD.findall(text.casefold()):
        yield _stem(word)
        if "_" in word:
            yield from map(_stem, filter(None, word.split("_")))


def _weights(passage: Passage, half: float) -> dict[str, float]:
    """Returns what each word counts in a passage. The name of its page is a part of the title: addresses say what pages are about."""
    counts = Counter(_stems(passage.text))
    # As far as the section's id.
    name = passage.address.partition("#")[0].rpartition("/")[2]
    title, heading = set(_stems(f"{name} {passage.page_title}")), set(_stems(passage.heading))
    for stem in title:
        counts[stem] += _IN_TITLE
    for stem in heading:
        counts[stem] += _IN_HEADING
    return {
        stem: count / (count + half) + _OF_TITLE * (stem in title) + _OF_HEADING * (stem in heading)
        for stem, count in counts.items()
    }


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    stems = [_stem(word) for word in _WORD.findall(text.casefold()) if word not in _STOP_WORDS]
    return pairwise(stems)


def _snippet(text: str, stems: frozenset[str]) -> list[str]:
    """Returns a piece of the text around its first hit, cut at the hits."""
    hits = [match.span() for match in _WORD.finditer(text) if not stems.isdisjoint(_stems(match[0]))]
    start = max(0, (hits[0][0] if hits else 0) - _SNIPPET // 3)
    if start:
        start = text.find(" ", start) + 1
    end = len(text) if start + _SNIPPET >= len(text) else text.rfind(" ", start, start + _SNIPPET)
    end = end if end > start else start + _SNIPPET
    pieces, done = [], start
    for begin, stop in hits:
        if begin >= start and stop <= end:
            pieces += [text[done:begin], text[begin:stop]]
            done = stop
    pieces.append(text[done:end] + (" …" if end < len(text) else ""))
    return [("… " if start else "") + pieces[0], *pieces[1:]]
