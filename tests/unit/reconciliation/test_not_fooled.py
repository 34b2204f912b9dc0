"""Payments that look like somebody else's or like those of another document, and those that are clear although they have no number."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import pytest

from kontobahn.reconciliation.core.matcher import Matcher, run
from kontobahn.reconciliation.core.model import (
    Booked,
    EvidenceClass,
    Knowledge,
    Movement,
    OpenItem,
    Person,
    Proposal,
    Rule,
)
from kontobahn.reconciliation.core.numbers import NumberIndex
from tests.unit.reconciliation.client import ANNA, BERT, DAY, IBAN, STRANGER, best, item, match, movement


def of_names(payer: str, *names: str, text: str = "Rechnung RE-2026-00002", known: int = 20) -> Proposal:
    """The best proposal for a payment of the second document; each name owes one, all of the same amount."""
    persons = tuple(Person(f"1{number:04d}0000", name) for number, name in enumerate(names, 1))
    items = [item(f"RE-2026-{number:05d}", konto=person.konto) for number, person in enumerate(persons, 1)]
    others = [item(f"RE-2026-{500 + number:05d}", 77, BERT.konto) for number in range(known)]
    paid = movement(text, name=payer, iban=None)
    return Matcher([*items, *others], Knowledge(persons=persons)).match(paid)[0]


@pytest.mark.parametrize(
    ("payer", "other"),
    [
        ("Jan Schmitt", "Jan Schmidt"),
        ("Erik Muster", "Erika Muster"),
        ("SV Blau-Weiß 1905 e.V.", "SV Blau-Weiß 1950 e.V."),
        ("WEG Lindenstr. 12", "WEG Lindenstr. 21"),
        ("Autohaus Nord Kiel I", "Autohaus Nord Kiel II"),
        ("Weber Metallbau GmbH", "Weber Metallbau Verwaltungs GmbH"),
        ("Weber Immobilien GmbH", "Weber Immobilien KG"),
        ("Hans Peter Kuhn", "Peter Kuhn"),
    ],
)
def test_a_name_that_is_exactly_another_account_s_contradicts(payer: str, other: str) -> None:
    assert not of_names(payer, payer, other).acts
    assert of_names(other, payer, other).acts, "and its own name agrees"
    assert of_names(other.upper(), payer, other).acts


def test_a_name_that_two_accounts_could_have_names_neither() -> None:
    assert not of_names("Seidel Kassel", "Seidel Elektro Kassel", "Seidel Garten Kassel").acts
    assert of_names("Seidel Kassel", "Ahrens Elektro Kiel", "Seidel Garten Kassel").acts


def test_a_bank_cuts_a_long_name_off() -> None:
    long = "Zimmermann Transporte Hannover Verwaltungs GmbH"
    assert of_names(long[:27], "Zimmermann Reisen Hannover", long).acts
    assert not of_names("Zimmermann Transporte Hannover", "Zimmermann Transporte Hannover", long).acts


LABELS = (
    "TAN", "TAN:", "Auftrag", "Auftrags-Nr.", "Bestellnummer:", "Objekt", "Haus", "WE", "Vertragsnr.", "Schaden-Nr.", "Police", "Az.",
    "Kassenzeichen", "Mitglied", "Projekt", "Ihr Angebot Nr.", "Lieferschein", "Zaehlernr.", "Kostenstelle", "Brunnen-Nr.",
)  # fmt: skip


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize("number", ["RE-2026-00123", "48213375"])
def test_a_number_that_is_labelled_as_something_else_is_no_document_s(label: str, number: str) -> None:
    owed, twin = item(number), item("RE-2026-00777")
    found = match(movement(f"Zahlung {label} {number}"), owed, twin)
    assert not [it for it in found if it.acts]
    assert best(movement(f"{label} 4711 Rechnung {number}"), owed, twin).lines[0].beleg == number


@pytest.mark.parametrize("word", ["Rechnung", "Rg.-Nr.", "Referenznummer", "Belegnummer", "Zahlung", "Rechnungs-Nr.:"])
def test_a_word_for_an_invoice_is_no_other_label(word: str) -> None:
    assert best(movement(f"{word} RE-2026-00123"), item("RE-2026-00123"), item("RE-2026-00777")).acts


@pytest.mark.parametrize("said", ["11.09 UHR", "11:09 Uhr", "1109 Uhr", "um 11.09", "11.09h"])
def test_a_time_of_day_is_no_number(said: str) -> None:
    found = match(movement(f"Online 03.05.2026 {said}"), item("1109"), item("1207"))
    assert not [it for it in found if it.acts]
    assert not [reason for it in found for reason in it.reasons if reason.signal.startswith("number")]


def test_a_number_that_is_a_date_weighs_no_more_than_a_date() -> None:
    days = [date(2026, 1, 1) + timedelta(3 * n) for n in range(110)]
    dated = [OpenItem(ANNA.konto, f"{day:%Y%m%d}", day, 100 + n) for n, day in enumerate(days)]
    assert max(NumberIndex(dated).bits(it.key) for it in dated) <= 12
    assert max(NumberIndex(dated[:9]).bits(it.key) for it in dated[:9]) <= 12
    stranger = movement("Leistung 20260401", 130, **STRANGER)
    assert not [it for it in Matcher(dated, Knowledge()).match(stranger) if it.acts]


@pytest.mark.parametrize("before", ["", "RE", "RE-", "A7-"])
def test_a_date_in_a_number_weighs_the_same_wherever_it_stands(before: str) -> None:
    days = [date(2026, 1, 1) + timedelta(37 * n) for n in range(9)]
    dated = [OpenItem(ANNA.konto, f"{before}{day:%Y%m%d}", day, 100 + n) for n, day in enumerate(days)]
    assert {NumberIndex(dated).bits(it.key) for it in dated} == {10.0}


def test_a_column_that_hardly_varies_tells_little() -> None:
    items = [item(f"{1 + n % 2}{n:04d}", 100 + n) for n in range(200)]
    assert NumberIndex(items).bits(items[7].key) == pytest.approx(1 + 1 + 3.3 + 3.3, abs=0.1)


def test_a_stranger_s_number_is_not_enough_where_a_slip_makes_it_another_s() -> None:
    more = [item(number, 1_000, BERT.konto) for number in ("11111111", "22222222", "39393939")]
    mine, near = item("48213375"), item("48213378", konto=BERT.konto)
    assert best(movement("48213375", **STRANGER), mine, *more).acts
    assert not best(movement("48213375", **STRANGER), mine, near, *more).acts
    assert best(movement("48213375", **STRANGER), mine, near._replace(open_minor=99), *more).acts


def test_the_second_payment_of_an_invoice_is_never_clear() -> None:
    owed = item("RE-2026-00123")
    first = movement("RE-2026-00123")
    second = first._replace(id="2", day=DAY + timedelta(3))
    of_none, of_numbers = frozenset[EvidenceClass](), frozenset[EvidenceClass](("A2",))
    for acting in (of_none, of_numbers):
        one, other = run(Matcher([owed], Knowledge(persons=(ANNA, BERT))), [first, second], acting)
        assert one.proposals[0].acts
        assert not [it for it in other.proposals if it.acts or it.evidence.startswith("A")], acting


# --- More at once


@pytest.mark.parametrize("written", ["17/26", "2026/17", "17-2026", "017/2026", "17 / 2026"])
def test_a_number_with_its_year_is_known_in_any_order(written: str) -> None:
    others = [item(f"{n}/2026", 1_000 + n, BERT.konto) for n in range(20, 40)]
    twin = item("18/2026")
    found = best(movement(f"Rechnung {written}"), item("17/2026"), twin, *others)
    assert (found.acts, found.lines[0].beleg) == (True, "17/2026")
    assert {(reason.start, reason.end) for reason in found.reasons if not reason.field} == {(0, 0)}


def test_the_first_months_of_a_year_are_no_numbers() -> None:
    others = [item(f"{n}/2026", 1_000 + n, BERT.konto) for n in range(20, 40)]
    for said in ("9/2026", "09/26", "2026/9"):
        assert not [
            it for it in match(movement(f"Wartung {said}"), item("9/2026"), item("18/2026"), *others) if it.acts
        ]
    for number, acts in ((12, False), (13, True)):
        found = match(movement(f"Wartung {number}/26"), item(f"{number}/2026"), item("18/2026"), *others)
        assert any(it.acts for it in found) == acts, number


@pytest.mark.parametrize("said", ["5100023847 {}", "{} 5100023847", "10001 {}", "{} 10001"])
def test_numbers_of_the_payer_may_stand_beside_ours(said: str) -> None:
    others = [item(str(104_000 + n), 1_000 + n, BERT.konto) for n in range(40)]
    found = best(movement(said.format("104233"), iban=None), item("104233"), item("104277", 500), *others)
    assert (found.acts, found.lines[0].beleg) == (True, "104233")


def test_a_weak_form_acts_for_the_only_document_of_a_certain_payer() -> None:
    owed = item("RE-2026-00123")
    assert best(movement("Nr. 123"), owed).acts
    assert not best(movement("Nr. 123"), owed, item("RE-2026-00777")).acts, "another of the same amount"
    assert not best(movement("Nr. 123", **STRANGER), owed).acts
    settled = item("RA-2026-00123", 0)
    assert not best(movement("Nr. 123"), owed, settled).acts, "one that is paid ends so too"
    assert not best(movement("RE-2026-00132"), owed).acts, "a slip may be another that nobody knows any more"


def month(number: int, amount: int = 11_900, **changes: Any) -> OpenItem:
    names = {2: "Februar", 3: "März", 4: "April"}
    return item(
        f"RE-2026-0090{number}", amount, text=f"Miete {names[number]} 2026", day=date(2026, number, 1), **changes
    )


@pytest.mark.parametrize("said", ["Miete März", "Dauerauftrag 03/2026", "Mrz. 26", "Maerz 2026 Danke", "Miete 3/26"])
def test_a_month_that_is_named_tells_twins_apart(said: str) -> None:
    found = best(movement(said), month(2), month(3), month(4))
    assert (found.acts, found.lines[0].beleg) == (True, "RE-2026-00903")
    assert not best(movement(said, iban=None, name="Zentrale"), month(2), month(3)).acts
    assert not [it for it in match(movement(said), month(2), month(3, 0), month(4)) if it.acts], "paid already"
    assert not [it for it in match(movement(said), month(2), month(4)) if it.acts], "not written"
    for other in ("4711", "471"):
        proposed = match(movement(f"{said} Nr. {other}"), month(2), month(3))
        assert not [it for it in proposed if it.acts], "a number of something else"


def test_a_house_that_is_named_tells_twins_apart() -> None:
    houses = [item(f"RE-2026-0080{n}", text=f"Reinigung Lindenstr. {n}2") for n in range(1, 6)]
    found = best(movement("WEG Lindenstr. 32"), *houses)
    assert (found.acts, found.lines[0].beleg) == (True, "RE-2026-00803")
    paid = [houses[2]._replace(open_minor=0), *houses[:2]]
    assert not [it for it in match(movement("WEG Lindenstr. 32"), *paid) if it.acts]
    assert not [it for it in match(movement("WEG Lindenstr. 23"), *houses) if it.acts]


def test_everything_that_is_open_is_paid_where_the_text_says_so() -> None:
    one, other = item("RE-2026-00701", 5_000), item("RE-2026-00702", 6_900)
    found = best(movement("Kontoausgleich", iban=None), one, other)
    assert (found.evidence, found.acts, len(found.keys)) == ("A4", True, 2)
    assert not best(movement("Zahlung", iban=None), one, other).acts
    assert best(movement("Zahlung", iban=None), one, other).evidence == "B3", "a sum is proposed for a name too"
    assert not best(movement("Kontoausgleich"), one, other, item("RE-2026-00703", 400)).acts, "not everything"


def test_a_credit_note_is_deducted_where_the_text_speaks_of_one() -> None:
    owed, note = item("RE-2026-00701", 12_900), item("GS-2026-00004", -1_000)
    found = best(movement("Rechnung RE-2026-00701 abz. Gutschrift"), owed, note)
    assert (found.evidence, found.acts, found.keys) == ("A4", True, (owed.key, note.key))
    assert not best(movement("Rechnung RE-2026-00701"), owed, note).acts
    twin = note._replace(beleg="GS-2026-00005")
    assert not best(movement("Rechnung RE-2026-00701 abz. Gutschrift"), owed, note, twin).acts


def test_a_payer_is_learned_from_what_the_office_booked() -> None:
    stranger = "DE75512108001245126199"
    settled = [item(f"RE-2026-0060{n}", 0) for n in (1, 2)]
    booked = tuple(Booked(ANNA.konto, it.beleg, DAY - timedelta(20), 5_000) for it in settled)
    earlier = tuple(
        Movement(f"e{n}", DAY - timedelta(20), 5_000, texts=(("svwz", it.beleg),), iban=stranger)
        for n, it in enumerate(settled)
    )
    paid = movement("Zahlung", iban=stranger, name="Zentrale Abrechnung")
    assert best(paid, item("RE-2026-00123"), *settled, booked=booked, earlier=earlier).evidence == "B2"
    assert best(paid, item("RE-2026-00123"), *settled, booked=booked[:1], earlier=earlier[:1]).evidence != "B2"


def test_a_rule_acts_alone_where_a_person_said_so() -> None:
    fees = movement("Entgelt Kontofuehrung 05/2026", -1_290, name="Ihre Bank", iban=None)
    rule = Rule("r", "49700000", text="entgelt", sign="out")
    for acts in (False, True):
        [outcome] = run(Matcher([], Knowledge(rules=(rule._replace(acts=acts),))), [fees], frozenset())
        assert (outcome.acted is not None) == acts
    owed = item("ER-1", -1_290, "700010000", text="")
    person = Person("700010000", "Ihre Bank", (IBAN,))
    matcher = Matcher([owed], Knowledge(persons=(person,), rules=(rule._replace(acts=True),)))
    [outcome] = run(matcher, [fees._replace(iban=IBAN)], frozenset())
    assert outcome.acted is None, "something better is proposed"
