"""The share of purpose texts that are read rightly: every habit of banks with every text, counted."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from random import Random

import pytest

from kontobahn.formats.mt940.entry import read_information
from kontobahn.formats.statements.purpose import Purpose, join_lines, parse
from tests.corpus.statements.purposes import Purpose as Written
from tests.corpus.statements.purposes import all_purposes

TAG = re.compile(r"(?:EREF|MREF|CRED|KREF|IBAN|BIC|SVWZ|ABWA)\s?[+:]", re.IGNORECASE)
CODES = (*range(20, 30), *range(60, 64))


def read(written: Written) -> Purpose:
    if not written.is_mt940:
        return parse(join_lines(written.lines))
    assert len(written.lines) <= len(CODES)
    fields = "".join(f"?{code}{line}" for code, line in zip(CODES, written.lines, strict=False))
    return parse(read_information([f"166?00GUTSCHRIFT{fields}?32Muster"]).description)


def faults() -> Counter[str]:
    found: Counter[str] = Counter()
    for habit, written in all_purposes():
        purpose = read(written)
        found["texts"] += 1
        svwz = purpose.svwz or ""
        if TAG.search(svwz):
            found["tags left"] += 1
        elif svwz.replace(" ", "") != written.text.replace(" ", ""):
            found[f"other text: {habit}"] += 1
        elif svwz.count(" ") < written.text.count(" "):
            found["fused"] += 1
        elif svwz != written.text:
            found["torn"] += 1
        values = (purpose.end_to_end_id, purpose.mref, purpose.cred, purpose.iban)
        if values != (written.end_to_end_id, written.mandate, written.creditor, written.iban):
            found["values"] += 1
    return found


def test_purpose_texts_are_read_as_they_were_written() -> None:
    found = faults()
    assert found.pop("texts") >= 250
    # Where a word ends exactly with a full line, whose blank is lost, a small letter may follow: nothing tells.
    assert found.pop("fused", 0) <= 2
    assert not found


# --- Words torn by forms: made at random, with a fixed seed, and counted

CAPITALS = re.findall(
    r"\w+",
    "MUENCHEN NUERNBERG RECHNUNG MIETE STADTWERKE LASTSCHRIFT KUNDENNUMMER VERTRAG KARTENZAHLUNG BAUMARKT HAMBURG DANKE FUER IHREN"
    " EINKAUF BEI ABSCHLAG STROM GAS BEITRAG JANUAR MAERZ RE NR VOM BIS GMBH KG AUGSBURG ENTGELT FILIALE PARKHAUS EC UND DER DIE",
)
SMALL = re.findall(
    r"\w+",
    "Rechnung Miete Strom Abschlag Danke für Ihren Einkauf München Beitrag Haftpflichtversicherung Kundennummer vom bis und der die"
    " Vertrag Lindenstraße Honorar Gehalt Februar Nebenkosten Objekt Gartenweg Wohnung Erstattung Auftrag Bücher letzte Rate zu in",
)


def _some_text(chance: Random, words: list[str], most: int) -> str:
    def piece() -> str:
        number = chance.randrange(99_999)
        kinds = (
            f"{number}",
            f"RE-2026-{number:05d}",
            f"{number % 28 + 1:02d}.03.2026",
            f"{number // 100},{number % 100:02d}",
        )
        return chance.choice(words) if chance.random() < 0.72 else chance.choice(kinds)

    return " ".join(piece() for _ in range(chance.randrange(3, most)))


def _cut(text: str, width: int, first: int = 0) -> list[str]:
    first = first or width
    rest = text[first:]
    return [text[:first].rstrip(), *(rest[at : at + width].rstrip() for at in range(0, len(rest), width))]


def _sub_fields(lines: list[str]) -> str:
    return "166?00GUTSCHRIFT" + "".join(f"?{code}{line}" for code, line in zip(CODES, lines, strict=False) if line)


def plain_lines(texts: list[str]) -> list[str]:
    """An unstructured :86:, whose first line has four columns less."""
    return _cut(" ".join(texts), 65, 61)


def structured(texts: list[str]) -> list[str]:
    """Sub-fields of 27 in lines of 65, of which blanks at the end are lost."""
    return _cut(_sub_fields(_cut(f"SVWZ+{' '.join(texts)}", 27)) + "?32Muster", 65, 61)


def lines_of_ones_own(texts: list[str]) -> list[str]:
    """Each part of the text begins a sub-field, and is cut where it has 27."""
    lines = [line for text in ("SVWZ+" + texts[0], *texts[1:]) for line in _cut(text, 27)]
    return [_sub_fields([line for line in lines if line])]


def narrow(texts: list[str]) -> list[str]:
    """Sub-fields that a program cut at less than their width."""
    return [_sub_fields(_cut(f"SVWZ+{' '.join(texts)}", 25))]


@pytest.mark.parametrize(
    ("write", "torn_percent", "fused_percent"),
    [(plain_lines, 0, 0), (structured, 0, 0), (lines_of_ones_own, 10, 4), (narrow, 35, 0)],
)
def test_words_torn_by_a_form_are_whole_again(
    write: Callable[[list[str]], list[str]], torn_percent: int, fused_percent: int
) -> None:
    chance = Random(31)
    torn = fused = count = 0
    for words in (CAPITALS, SMALL):
        for _ in range(250):
            texts = [_some_text(chance, words, 7) for _ in range(chance.randrange(2, 4))]
            information = read_information(write(texts))
            found, text = (information.purpose or parse(information.description)).svwz or "", " ".join(texts)
            assert found.replace(" ", "") == text.replace(" ", "")
            count += 1
            torn += found.count(" ") > text.count(" ")
            fused += found != text and found.count(" ") <= text.count(" ")
    assert 100 * torn <= torn_percent * count
    assert 100 * fused <= fused_percent * count
