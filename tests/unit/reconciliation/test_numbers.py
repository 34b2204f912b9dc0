"""Stretches of a text that are no document's number, and what a number weighs."""

from __future__ import annotations

from datetime import date

import pytest

from kontobahn.reconciliation.core.model import OpenItem
from kontobahn.reconciliation.core.numbers import Hit, NumberIndex, cut

KONTO = "100010000"


def find(text: str, *numbers: str) -> list[Hit]:
    items = [OpenItem(KONTO, number, date(2026, 5, 4), 100) for number in numbers]
    return [hit for hit in NumberIndex(items).find([cut("svwz", text)]) if not hit.weak]


@pytest.mark.parametrize(
    ("number", "text"),
    [
        ("37040044", "IBAN DE89 3704 0044 0532 0130 00"),
        ("532013000", "DE89370400440532013000"),
        ("1001", "BIC BYLADEM1001"),
        ("2026", "Leistung vom 04.05.2026"),
        ("0526", "Wartung 05/26"),
        ("20260504", "am 2026-05-04"),
        ("119", "Betrag 119,00"),
        ("1190", "EUR 1190"),
        ("1234", "1.234,56 wie besprochen"),
        ("532013000", "Kto. 0532013000"),
        ("4711", "Tel. 0431 4711"),
        ("10010", "Kd-Nr. 10010"),
        ("24103", "Objekt 24103 Kiel"),
        ("4711", "Auftrag 94711"),
        ("4711", "Auftrag 47110"),
        ("4711", "0431-4711-22"),
        ("1111", "1 1 1 1 1"),
    ],
)
def test_digits_of_something_else_are_no_number(number: str, text: str) -> None:
    assert find(text, number) == []


@pytest.mark.parametrize(
    ("number", "text"),
    [
        ("RE-2026-05-04", "Zahlung RE-2026-05-04"),
        ("24103", "Rechnung 24103 Vielen Dank"),
        ("4711", "4711 vom 04.05.2026"),
        ("4711", "Kd-Nr. 10010 Re 4711 ueber 119,00 EUR"),
        ("R000123", "r 123"),
        ("RÄ-77", "Zu RAE77"),
        ("RE-2026-00123", "RE-2026-0 0123"),
        ("A4711B", "Zahlung a4711b"),
    ],
)
def test_a_number_is_found_in_other_dress_and_beside_other_things(number: str, text: str) -> None:
    [hit] = find(text, number)
    assert hit.keys == ((KONTO, number),)


def test_only_places_that_vary_weigh() -> None:
    numbers = ("RE-2026-00123", "RE-2026-00145", "RE-2026-00987", "7A1", "8B2", "9C3", "2026-77")
    index = NumberIndex([OpenItem(KONTO, number, date(2026, 5, 4), 100) for number in numbers])
    assert [round(index.bits((KONTO, number)), 1) for number in numbers] == [9.9, 9.9, 9.9, 11.3, 11.3, 11.3, 6.6]


def test_a_running_number_counts_even_among_a_few_that_follow_each_other() -> None:
    numbers = ("RE-2026-00123", "RE-2026-00124", "RE-2026-00125", "2026007", "2026008", "2026009", "48213375")
    index = NumberIndex([OpenItem(KONTO, number, date(2026, 5, 4), 100) for number in numbers])
    bits = [round(index.bits((KONTO, number)), 1) for number in numbers]
    assert bits == [9.9, 9.9, 9.9, 9.9, 9.9, 9.9, 19.8]


def test_the_longest_wins_and_the_place_is_told() -> None:
    text = "Müller zahlt RE-2026-00123"
    [hit] = find(text, "RE-2026-00123", "123", "2026")
    assert (hit.keys, hit.found) == (((KONTO, "RE-2026-00123"),), "RE-2026-00123")
    assert cut("svwz", text).text[hit.start : hit.end] == hit.found
