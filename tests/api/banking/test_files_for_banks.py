"""Files that banks take: the payee's own country, one kind in a file, several orders rather than one, no day that has passed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.banking.test_several_orders import FILES, content, make
from tests.file_bank import FileBank
from tests.harness import Service
from tests.interleaving import on_postgres
from tests.unit.formats.statements.test_pain001 import find, texts

LITHUANIAN = "LT121000011101001000"
DAY = 86_400


@pytest.fixture
def bank(service: Service) -> FileBank:
    return FileBank(service)


def codes(answer: dict[str, Any]) -> list[str]:
    return [warning["code"] for warning in answer["warnings"]]


def fetched(bank: FileBank, file: dict[str, Any]) -> str:
    answer = bank.service.get(f"{FILES}/{file['id']}/file", bank.key)
    assert answer.status_code == 200, answer.text
    return answer.text


# --- The payee


@pytest.mark.parametrize(
    ("more", "country"),
    [
        ({"creditor_country_code": "DE", "creditor_address": {"town_name": "Berlin"}}, "DE"),
        ({"creditor_country_code": "DE", "creditor_address": "Ring 7, 10115 Berlin"}, "DE"),
        ({"creditor_address": "Ring 7, 10115 Berlin, Deutschland"}, "DE"),
        ({"creditor_address": "Ring 7, D-10115 Berlin"}, "DE"),
        ({"creditor_country_code": "LT", "creditor_address": {"town_name": "Vilnius"}}, "LT"),
    ],
)
@pytest.mark.either_engine
def test_the_payees_country_need_not_be_that_of_the_iban(bank: FileBank, more: dict[str, Any], country: str) -> None:
    file = make(bank, bank.pay(creditor_iban=LITHUANIAN, **more))
    assert texts(content(bank, file), "Ctry") == [country], "and the file is valid by its schema"


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"creditor_address": {"town_name": "Berlin"}}, "creditor_country_code"),
        ({"creditor_address": "Ring 7, 10115 Berlin"}, "creditor_country_code"),
        ({"creditor_address": "Ring 7, 10115 Berlin, DE", "creditor_country_code": "LT"}, "creditor_country_code"),
        ({"creditor_address": {"street_name": "Ring 7"}}, "creditor_address.town_name"),
    ],
)
@pytest.mark.either_engine
def test_a_country_is_not_made_up(bank: FileBank, more: dict[str, Any], field: str) -> None:
    refused = bank.ask(creditor_iban=LITHUANIAN, **more)
    assert (refused.status_code, refused.json()["field"]) == (400, field), refused.text


@pytest.mark.parametrize(
    ("more", "lines"),
    [
        ({}, []),
        ({"creditor_address": {"town_name": "Köln", "street_name": "Ring", "building_number": "7"}}, []),
        ({"creditor_address": "Haus Rhein, Ring 7, Köln, 50667 Köln"}, ["Haus Rhein, Ring 7"]),
    ],
)
@pytest.mark.either_engine
def test_an_address_is_in_fields_and_no_line_repeats_one(
    bank: FileBank, more: dict[str, Any], lines: list[str]
) -> None:
    document = content(bank, make(bank, bank.pay(**more)))
    assert texts(document, "AdrLine") == lines
    assert texts(document, "TwnNm") == (["Koeln"] if more else [])


@pytest.mark.either_engine
def test_nothing_that_was_sent_is_left_out_silently(bank: FileBank) -> None:
    payment = bank.pay(creditor_country_code="DE", creditor_agent_name="Beispielbank")
    left_out = [warning["message"] for warning in payment["warnings"] if warning["code"] == "left_out"]
    assert [("`creditor_country_code`" in text, "`creditor_agent_name`" in text) for text in left_out] == [
        (True, False),
        (False, True),
    ]
    assert codes(make(bank, payment)) == ["one_payment", "left_out", "left_out"]


# --- The file


def test_each_kind_has_a_file_of_its_own(bank: FileBank) -> None:
    plain, instant = [bank.pay(), bank.pay()], bank.pay(template_identifier="SEPA_INSTANT")
    for refused, field in (
        (make(bank, status=400), "template_identifier"),
        (make(bank, *plain, instant, status=400), "payment_ids"),
    ):
        assert refused["field"] == field
        assert f"Instant transfers: {instant['id']}. Transfers: {plain[0]['id']}, {plain[1]['id']}." in refused["error"]
    assert instant["id"] in make(bank, plain[0], instant, template_identifier="SEPA", status=400)["error"]
    first = make(bank, account_id=bank.account_id(), template_identifier="SEPA")
    assert (first["payment_ids"], first["template_identifier"]) == ([one["id"] for one in plain], "SEPA")
    second = make(bank)
    assert (second["payment_ids"], second["template_identifier"]) == ([instant["id"]], "SEPA_INSTANT")
    assert texts(find(content(bank, second), "LclInstrm")[0], "Cd") == ["INST"]


def test_a_file_with_one_payment_warns_and_one_with_two_does_not(service: Service, bank: FileBank) -> None:
    first, second = bank.pay(), bank.pay()
    assert codes(first) == codes(bank.payment(first)) == ["one_payment"]
    assert "refuse a file with one payment" in first["warnings"][0]["message"]
    assert "nur einer Zahlung" in service.http.get(first["payment_url"]).text
    both = make(bank, first, second)
    assert codes(both) == codes(bank.payment(first)) == []
    assert "nur einer Zahlung" not in service.http.get(both["file_url"]).text
    alone = make(bank, bank.pay())
    assert codes(alone) == codes(service.get(f"{FILES}/{alone['id']}", bank.key).json()["data"]) == ["one_payment"]
    assert "nur einer Zahlung" in service.http.get(alone["file_url"]).text


# --- Its day


def test_an_order_fetched_again_the_next_day_is_issued_anew(service: Service, bank: FileBank) -> None:
    payment = bank.pay()
    first = bank.order_file(payment).text
    assert "<Dt>2026-03-02</Dt>" in first
    assert bank.order_file(payment).text == first
    assert "day_passed" not in codes(bank.payment(payment))
    service.clock.advance(seconds=DAY)
    assert codes(bank.payment(payment)) == ["one_payment", "day_passed"]
    assert "nur ein, wenn die erste nicht bei der Bank ist" in service.http.get(payment["payment_url"]).text
    again = bank.order_file(payment).text
    assert "<Dt>2026-03-03</Dt>" in again
    for id in (f"<EndToEndId>{payment['end_to_end_id']}<", f"<MsgId>{payment['end_to_end_id']}<"):
        assert (first.count(id), again.count(id)) == (1, 1)
    service.clock.advance(seconds=60)
    assert bank.order_file(payment).text == again, "and this one is the same every time"
    assert codes(bank.payment(payment)) == ["one_payment"]


def test_a_file_issued_anew_keeps_its_instructions(service: Service, bank: FileBank) -> None:
    bank.pay(), bank.pay(date="2026-03-03"), bank.pay(date="2026-03-20")
    file = make(bank)
    first = content(bank, file)
    assert texts(first, "Dt") == ["2026-03-02", "2026-03-03", "2026-03-20"]
    service.clock.advance(seconds=3 * DAY)
    assert codes(service.get(f"{FILES}/{file['id']}", bank.key).json()["data"]) == ["day_passed"]
    again = content(bank, file)
    assert texts(again, "Dt") == ["2026-03-05", "2026-03-05", "2026-03-20"]
    for name in ("PmtInfId", "EndToEndId", "MsgId"):
        assert texts(again, name) == texts(first, name)
    assert fetched(bank, file) == fetched(bank, file)
    assert codes(service.get(f"{FILES}/{file['id']}", bank.key).json()["data"]) == []


def test_an_order_of_a_discarded_file_begins_anew(service: Service, bank: FileBank) -> None:
    payment = bank.pay()
    bank.order_file(payment)
    service.clock.advance(seconds=DAY)
    bank.order_file(payment)
    file = make(bank, payment, include_taken=True)
    service.request("DELETE", f"{FILES}/{file['id']}", bank.key)
    service.clock.advance(seconds=5 * DAY)
    assert "<CreDtTm>2026-03-08" in bank.order_file(payment).text


@on_postgres
def test_two_who_fetch_an_old_file_at_once_get_the_same(service: Service, bank: FileBank) -> None:
    from concurrent.futures import ThreadPoolExecutor

    bank.pay(), bank.pay()
    file = make(bank)
    service.clock.advance(seconds=DAY)
    with ThreadPoolExecutor(4) as threads:
        assert len(set(threads.map(lambda _: fetched(bank, file), range(4)))) == 1
