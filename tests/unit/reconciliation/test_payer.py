"""When names are alike, and what is learned about who pays."""

from __future__ import annotations

import pytest

from kontobahn.ledger.partner_names import NameIndex, name_similarity, normal_name
from kontobahn.reconciliation.core.evidence import PayerIndex
from kontobahn.reconciliation.core.model import Knowledge, Learned, Movement, Person
from tests.unit.reconciliation.client import ANNA, BERT, DAY, STRANGER, best, item, matcher, movement


@pytest.mark.parametrize(
    ("ours", "theirs", "agrees"),
    [
        ("Anna Bauer", "Anna Bayer", True),  # 90 of 100, the least that agrees
        ("Anna Bauer", "Anna Baxter", False),
        ("Anna Muster", "Muster", False),  # one word is in many names
        ("Muster", "Muster", True),
        ("Otto", "OTTO GmbH", True),
        ("Uwe", "Uwe", False),
        ("Otto Uwe", "Uwe", False),
    ],
)
def test_names_agree_at_ninety_of_a_hundred_and_never_by_one_word_of_several(
    ours: str, theirs: str, agrees: bool
) -> None:
    assert [konto for konto, _ in NameIndex([("1", ours)]).find(theirs)] == ["1"] * agrees
    assert (name_similarity(normal_name(ours), normal_name(theirs)) >= 90) == agrees


def test_fewer_than_four_letters_are_no_name() -> None:
    assert name_similarity("otto", "otto") == 100
    assert name_similarity("uwe", "uwe uwe") == name_similarity("uwe uwe", "uwe") == 0


def test_equal_names_are_told_in_the_order_of_their_accounts() -> None:
    index = NameIndex([("3", "Anna Muster"), ("2", "Anna Muster Bau"), ("1", "Anna Muster Bau"), ("1", "Anna Muster")])
    assert [konto for konto, _ in index.find("Anna Muster Bau")] == ["1", "2"]
    assert [konto for konto, _ in index.find("Anna Bau Muster")] == ["1", "1", "2", "3"]


def test_a_name_is_learned_when_it_was_confirmed_twice() -> None:
    def supported(*learned: Learned) -> list[str]:
        index = PayerIndex(Knowledge(persons=(ANNA, BERT), learned=learned))
        return list(index.find(Movement("1", DAY, 100, name="Zentrale Abrechnung"), ()).supported)

    assert supported(Learned(ANNA.konto, 1, name="Zentrale Abrechnung")) == []
    assert supported(Learned(ANNA.konto, 2, name="Zentrale Abrechnung")) == [ANNA.konto]
    assert supported(Learned(ANNA.konto, 2)) == []


def test_an_iban_that_a_person_confirms_is_seen_once_and_then_known() -> None:
    owed = item("RE-2026-00123")
    learning = matcher(owed)
    for evidence in ("C", "B4", "B2"):
        assert learning.match(movement("danke", **STRANGER))[0].evidence == evidence
        learning.learn(movement("danke", **STRANGER), ANNA.konto)
    assert learning.match(movement("danke", **STRANGER))[0].reasons[1].value == "9890 (2 confirmations)"
    nameless = matcher(owed)
    for _ in range(2):
        nameless.learn(movement("danke", iban=None), ANNA.konto)
    assert nameless.match(movement("danke", iban=None, name=None))[0].evidence == "C", "no IBAN is nobody's"


def test_an_account_without_an_iban_is_found_by_its_name_alone() -> None:
    owed = item("RE-2026-00123")
    assert best(movement("danke", **STRANGER | {"name": "Otto"}), owed, persons=(Person(ANNA.konto, "Otto"),)).keys
