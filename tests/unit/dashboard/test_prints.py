"""Printed sheets: no text runs over the next one, and no sum stands alone on a page."""

from __future__ import annotations

import io
import re

import pytest
from pypdf import PdfReader

from kontobahn.dashboard import prints
from kontobahn.dashboard.lists import Cell
from kontobahn.dashboard.sheets import Column, Part, Sheet, _composed

HEAD = {"company": "Muster GmbH", "client": "", "printed": "", "page": "{page}/{pages}", "language": "de"}
NARROW = [Column("Name", 2), Column("Nummer", 2), Column("Text", 20), Column("Saldo", 3, right=True)]


def printed(*rows: tuple[Cell, ...], sums: list[tuple[Cell, ...]] | None = None) -> list[str]:
    """Returns the text of each page."""
    sheet = Sheet("Probe", "2026", NARROW, [Part(rows, sums=sums or [])], landscape=True)
    (document,) = prints.make("sheet", {"data": _composed(sheet, HEAD)}, 0)
    return [page.extract_text() for page in PdfReader(io.BytesIO(document.content)).pages]


@pytest.mark.parametrize(
    "word", ["Straßenverkehrsgenossenschaft", "47110815" * 6, "RE_2026_HAMBURG_0000000001", "W" * 40]
)
def test_a_word_wider_than_its_column_is_parted(word: str) -> None:
    (page,) = printed((word, word, word, "1,00"))
    # The wide column has it whole, the narrow ones do not.
    assert page.count(word) == 1
    assert re.sub(r"[\s\u00ad-]", "", page).count(word) == 3


def test_words_that_fit_are_left_whole() -> None:
    (page,) = printed(("Müller", "RE-1", "Straßenverkehrsgenossenschaft Nord", "1,00"))
    assert all(text in page for text in ("Müller", "RE-1", "Straßenverkehrsgenossenschaft Nord"))


def test_sums_stay_with_the_row_above_them() -> None:
    """Whatever room is left on the page for them."""
    sums: list[tuple[Cell, ...]] = [("", "", text, "1,00") for text in ("EB-Wert", "Verkehrszahlen", "Summe")]
    lengths = set()
    for count in range(34, 42):
        pages = printed(*(("Müller", str(number), "Zeile", "1,00") for number in range(count)), sums=sums)
        lengths.add(len(pages))
        assert all("Zeile" in page for page in pages), count
        assert all(sum(text in page for text in ("EB-Wert", "Verkehrszahlen", "Summe")) in (0, 3) for page in pages), (
            count
        )
    assert lengths == {1, 2}, "some leave room for the sums, and some do not"
