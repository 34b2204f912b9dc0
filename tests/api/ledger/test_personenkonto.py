"""POST /v2/ledger-rewe/personenkonto."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.harness import Service
from tests.ledger_builder import NOT_ONE_LINE, PERSONENKONTO, Books, refusal

NOW, LATER = "2026-03-02T09:00:00Z", "2026-03-02T10:00:00Z"
IBAN, OTHER_IBAN = "DE02120300000000202051", "DE02500105170137075030"
FULL: dict[str, Any] = {
    "personenkontoNummer": "10010",
    "kontaktTyp": "COMPANY",
    "kontenrahmen": "SKR03",
    "kontonummernLaenge": 4,
    "geschaeftsjahrStartDatum": "2026-01-01",
    "firmenname": "Beispiel Handels GmbH",
    "ustId": "DE136695976",
    "emailAdressen": [{"email": "info@beispiel.example", "typ": "INVOICE"}],
    "telefonnummern": [{"nummer": "+49 30 1234567", "typ": "OFFICE"}],
    "bankkonten": [{"iban": "DE02 1203 0000 0000 2020 51", "bic": "BYLADEM1001", "name": "Hausbank", "istHauptkonto": True}],
    "kontaktpersonen": [
        {
            "vorname": "Erika", "nachname": "Muster", "anrede": "Frau Dr.",
            "emailAdressen": [{"email": "e.muster@beispiel.example", "typ": "BUSINESS"}],
            "telefonnummern": [{"nummer": "0151 1234567", "typ": "MOBILE"}],
        }
    ],
    "adressen": [
        {"adresszeile": "Hauptstr. 1", "postleitzahl": "10115", "ort": "Berlin", "laendercode": "DE", "typ": "BILLING"}
    ],
}  # fmt: skip


@pytest.fixture
def books(service: Service) -> Books:
    return Books(service, service.organization(), years=("2025-01-01", "2026-01-01"))


def person(**fields: Any) -> dict[str, Any]:
    """The least that a person account must have."""
    required = ("personenkontoNummer", "kontaktTyp", "kontenrahmen", "kontonummernLaenge", "geschaeftsjahrStartDatum")
    return {**{name: FULL[name] for name in (*required, "firmenname")}, **fields}


def records(books: Books) -> list[dict[str, Any]]:
    return [json.loads(record) for (record,) in books.rows("SELECT record FROM books_persons ORDER BY mandant, konto")]


def history(books: Books) -> list[tuple[int, str]]:
    rows = books.rows("SELECT version, record FROM books_person_history ORDER BY konto, version")
    return [(version, json.loads(record)["firmenname"]) for version, record in rows]


def test_a_new_account_is_201_in_the_contract_s_shape_and_costs_one(books: Books) -> None:
    answer = books.send(PERSONENKONTO, FULL)
    assert (answer.status_code, answer.headers["x-credits-charged"]) == (201, "1")
    assert answer.json() == {
        "data": {
            "id": "29098-55003/100100000/1",
            "kontonummernLaenge": 4,
            "kontenrahmen": "SKR03",
            "erstelltAm": NOW,
            "geschaeftsjahrStartDatum": "2026-01-01",
            "eintraege": [
                {
                    "id": "29098-55003/100100000",
                    "kontaktTyp": "COMPANY",
                    "personenkontoNummer": 10010,
                    "nummer": "100100000",
                    "firmenname": "Beispiel Handels GmbH",
                    "ustId": "DE136695976",
                    "aktualisiertAm": None,
                    "projektId": None,
                    "bankkonten": [{**FULL["bankkonten"][0], "iban": IBAN}],
                    "emailAdressen": FULL["emailAdressen"],
                    "telefonnummern": FULL["telefonnummern"],
                    "kontaktpersonen": FULL["kontaktpersonen"],
                    "adressen": [{**FULL["adressen"][0], "adresszeile2": None}],
                }
            ],
        },
        "ledgerAntwort": {
            "status": "SUCCESS",
            "antwortDaten": None,
            "meldungen": [
                {
                    "dateiname": None, "nachricht": "Das Personenkonto 10010 wurde angelegt.", "zeitstempel": NOW, "typ": "INFO",
                }
            ],
        },
        "platform": {"neuesGuthaben": 99},
    }  # fmt: skip


def test_the_number_is_a_string_in_the_request_and_a_number_in_the_answer(books: Books) -> None:
    answer = books.send(PERSONENKONTO, person())
    assert b'"personenkontoNummer":10010,' in answer.content
    refusal(books.send(PERSONENKONTO, person(personenkontoNummer=10010)), 400, "personenkontoNummer")


def test_the_least_that_is_needed_is_enough_and_the_rest_is_empty(books: Books) -> None:
    (entry,) = books.send(PERSONENKONTO, person()).json()["data"]["eintraege"]
    assert entry["ustId"] is None
    lists = ("bankkonten", "emailAdressen", "telefonnummern", "kontaktpersonen", "adressen")
    assert [entry[name] for name in lists] == [[]] * 5


def test_an_update_is_200_replaces_the_whole_record_and_keeps_the_old_one(books: Books) -> None:
    books.send(PERSONENKONTO, FULL)
    books.service.clock.advance(seconds=3600)
    answer = books.send(PERSONENKONTO, person(firmenname="Beispiel AG"))
    assert (answer.status_code, answer.headers["x-credits-charged"]) == (200, "1")
    data = answer.json()["data"]
    assert (data["id"], data["erstelltAm"]) == ("29098-55003/100100000/2", NOW)
    (entry,) = data["eintraege"]
    assert (entry["firmenname"], entry["aktualisiertAm"], entry["ustId"]) == ("Beispiel AG", LATER, None)
    assert (entry["bankkonten"], entry["adressen"], entry["kontaktpersonen"]) == ([], [], [])
    assert "aktualisiert" in answer.json()["ledgerAntwort"]["meldungen"][0]["nachricht"]
    (record,) = records(books)
    assert (record["firmenname"], record["bankkonten"]) == ("Beispiel AG", [])
    assert history(books) == [(1, "Beispiel Handels GmbH")]
    books.send(PERSONENKONTO, person(firmenname="Beispiel SE"))
    assert history(books) == [(1, "Beispiel Handels GmbH"), (2, "Beispiel AG")]


def test_the_year_of_the_request_does_not_make_another_account(books: Books) -> None:
    assert books.send(PERSONENKONTO, person()).status_code == 201
    assert books.send(PERSONENKONTO, person(geschaeftsjahrStartDatum="2025-01-01")).status_code == 200


def test_the_same_number_at_another_client_is_another_account(books: Books) -> None:
    books.another_client("29098-2", years=["2026-01-01"])
    assert books.send(PERSONENKONTO, person()).status_code == 201
    answer = books.send(PERSONENKONTO, person(firmenname="Andere"), query={"clientId": "29098-2"})
    assert answer.status_code == 201
    assert answer.json()["data"]["id"] == "29098-2/100100000/1"
    assert [record["firmenname"] for record in records(books)] == ["Beispiel Handels GmbH", "Andere"]
    assert history(books) == []


def test_made_twenty_times_at_once_it_is_created_once_and_updated_ever_after(books: Books) -> None:
    def call(number: int) -> int:
        return books.send(PERSONENKONTO, person(firmenname=f"Firma {number}")).status_code

    with ThreadPoolExecutor(20) as pool:
        statuses = list(pool.map(call, range(20)))
    assert (statuses.count(201), statuses.count(200)) == (1, 19)
    kept = history(books)
    assert [version for version, _ in kept] == list(range(1, 20))
    names = [name for _, name in kept] + [record["firmenname"] for record in records(books)]
    assert sorted(names) == sorted(f"Firma {number}" for number in range(20))
    assert books.service.balance(books.owner).spent == 20


def test_a_repeat_with_the_same_idempotency_key_changes_nothing(books: Books) -> None:
    headers = {"idempotency-key": "Kunde-1"}
    first = books.send(PERSONENKONTO, person(), headers=headers)
    with books.unchanged():
        second = books.send(PERSONENKONTO, person(), headers=headers)
    assert (first.status_code, first.content) == (second.status_code, second.content)
    assert second.status_code == 201
    assert history(books) == []


def test_the_name_shows_in_accounts_trial_balance_and_open_items(books: Books) -> None:
    books.post("2026-01-15 S 10010 8400 119,00 RE-1\n2026-01-16 H 70001 4930 50,00 ER-1")
    books.send(PERSONENKONTO, FULL)
    without_company = {"firmenname": None, "kontaktpersonen": [{"vorname": "Max", "nachname": "Muster"}]}
    books.send(PERSONENKONTO, person(personenkontoNummer="70001", kontaktTyp="CONTACT_PERSON", **without_company))
    expected = {"100100000": "Beispiel Handels GmbH", "700010000": "Max Muster"}
    items = books.read("/v2/ledger-rewe-read/opos")["konten"]
    assert {item["kontonummer"]: item["bezeichnung"] for item in items} == expected
    for path in ("susa", "konten"):
        rows = books.read(f"/v2/ledger-rewe-read/{path}", geschaeftsjahrStartDatum="2026-01-01")
        assert {
            row["kontonummer"]: row["kontobeschriftung"] for row in rows if len(row["kontonummer"]) == 9
        } == expected
    books.send(PERSONENKONTO, person(firmenname="Neuer Name"))
    (konto,) = books.read("/v2/ledger-rewe-read/opos", kontonummer="10010")["konten"]
    assert konto["bezeichnung"] == "Neuer Name"


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("kontaktTyp", ["COMPANY", "CONTACT_PERSON", "UNDEFINED"]),
        ("adressen", ["BILLING", "DELIVERY", "PRIVATE", "WORK", "PICKUP"]),
        ("emailAdressen", ["BUSINESS", "PRIVATE", "OFFICE", "INVOICE", "PAYMENT", "OTHER"]),
        ("telefonnummern", ["BUSINESS", "MOBILE", "OFFICE", "FAX", "PRIVATE", "OTHER"]),
    ],
)
@pytest.mark.either_engine
def test_every_value_of_an_enumeration_is_accepted_and_answered(books: Books, field: str, values: list[str]) -> None:
    for value in values:
        given = value if field == "kontaktTyp" else [{**FULL[field][0], "typ": value}]
        answer = books.send(PERSONENKONTO, person(**{field: given}))
        assert answer.status_code in (200, 201), answer.text
        (entry,) = answer.json()["data"]["eintraege"]
        assert (entry[field] if field == "kontaktTyp" else entry[field][0]["typ"]) == value


@pytest.mark.parametrize(
    ("laenge", "nummer", "technical"),
    [
        (4, "10010", "100100000"),
        (5, "100100", "100100000"),
        (7, "10010001", "100100010"),
        (8, "100100001", "100100001"),
    ],
)
@pytest.mark.either_engine
def test_the_number_has_one_digit_more_than_the_client_s_length(
    service: Service, laenge: int, nummer: str, technical: str
) -> None:
    books = Books(service, service.organization(), laenge=laenge)
    answer = books.send(PERSONENKONTO, person(personenkontoNummer=nummer, kontonummernLaenge=laenge))
    assert answer.status_code == 201, answer.text
    (entry,) = answer.json()["data"]["eintraege"]
    assert (entry["personenkontoNummer"], entry["nummer"]) == (int(nummer), technical)


def test_skr04_books_take_skr04_accounts_only(service: Service) -> None:
    books = Books(service, service.organization(), skr="SKR04")
    with books.unchanged():
        refusal(books.send(PERSONENKONTO, person()), 400, "kontenrahmen")
    assert books.send(PERSONENKONTO, person(kontenrahmen="SKR04")).status_code == 201


def _bank(**fields: Any) -> dict[str, Any]:
    return {"bankkonten": [{"iban": IBAN, **fields}]}


def _contact(**fields: Any) -> dict[str, Any]:
    return {"kontaktpersonen": [{"nachname": "Muster", **fields}]}


def _address(**fields: Any) -> dict[str, Any]:
    return {"adressen": [{**FULL["adressen"][0], **fields}]}


MALFORMED: list[tuple[dict[str, Any], str]] = [
    *(({"kontenrahmen": name}, "kontenrahmen") for name in ("SKR04", "SKR14", "SKR42", "SKR51", "SKR99", "03")),
    ({"kontaktTyp": "EMPTY"}, "kontaktTyp"),
    ({"kontaktTyp": "company"}, "kontaktTyp"),
    *(({"kontonummernLaenge": length}, "kontonummernLaenge") for length in (3, 5, 8, 9, "4", None)),
    *(({"personenkontoNummer": number}, "personenkontoNummer")
      for number in ("1001", "100100", "100100000", "01001", "1001a", "", "１００１０")),
    ({"geschaeftsjahrStartDatum": "2024-01-01"}, "geschaeftsjahrStartDatum"),
    ({"geschaeftsjahrStartDatum": "2026-01-02"}, "geschaeftsjahrStartDatum"),
    ({"geschaeftsjahrStartDatum": "2026-13-01"}, "geschaeftsjahrStartDatum"),
    ({"firmenname": None}, "firmenname"),
    ({"firmenname": "", "kontaktpersonen": [{"nachname": "Muster"}]}, "firmenname"),
    ({"firmenname": "x" * 51}, "firmenname"),
    # What no line of an export can hold.
    *(({"firmenname": text}, "firmenname") for text in NOT_ONE_LINE),
    ({"telefonnummern": [{"nummer": "030\n1"}]}, "telefonnummern[0].nummer"),
    ({"emailAdressen": [{"email": "a@b.example\n"}]}, "emailAdressen[0].email"),
    ({"emailAdressen": [{"email": "a\x7f@b.example"}]}, "emailAdressen[0].email"),
    ({"kontaktpersonen": [{"nachname": "Muster\n"}]}, "kontaktpersonen[0].nachname"),
    ({"adressen": [{**FULL["adressen"][0], "ort": "Berlin\rMitte"}]}, "adressen[0].ort"),
    ({"bankkonten": [{**FULL["bankkonten"][0], "name": "Haus\nbank"}]}, "bankkonten[0].name"),
    ({"ustId": "136695976"}, "ustId"),
    (_bank(iban="DE03120300000000202051"), "bankkonten[0].iban"),
    (_bank(iban="DE02120300000000202015"), "bankkonten[0].iban"),
    (_bank(iban="XX02120300000000202051"), "bankkonten[0].iban"),
    (_bank(iban="DE0212030000000020205Ä"), "bankkonten[0].iban"),
    (_bank(iban=" " * 20), "bankkonten[0].iban"),
    (_bank(bic="BYLADEM"), "bankkonten[0].bic"),
    (_bank(istHauptkonto="ja"), "bankkonten[0].istHauptkonto"),
    ({"bankkonten": [{"iban": IBAN}, {"bic": "BYLADEM1001"}]}, "bankkonten[1].iban"),
    ({"bankkonten": [{"iban": iban, "istHauptkonto": True} for iban in (IBAN, OTHER_IBAN)]}, "bankkonten"),
    (_contact(anrede="x" * 31), "kontaktpersonen[0].anrede"),
    (_contact(nachname="x" * 31), "kontaktpersonen[0].nachname"),
    (_contact(emailAdressen=[{"email": "keine"}]), "kontaktpersonen[0].emailAdressen[0].email"),
    ({"kontaktpersonen": [{"vorname": "Max"}]}, "kontaktpersonen[0].nachname"),
    ({"emailAdressen": [{"email": "a@b.de", "typ": "WORK"}]}, "emailAdressen[0].typ"),
    ({"emailAdressen": [{"email": "a b@c.de"}]}, "emailAdressen[0].email"),
    ({"telefonnummern": [{"nummer": "1", "typ": "LANDLINE"}]}, "telefonnummern[0].typ"),
    ({"telefonnummern": [{"nummer": "1" * 61}]}, "telefonnummern[0].nummer"),
    (_address(typ="EMPTY"), "adressen[0].typ"),
    (_address(laendercode="DEU"), "adressen[0].laendercode"),
    (_address(adresszeile="x" * 37), "adressen[0].adresszeile"),
    (_address(strasse="x"), "adressen[0].strasse"),
    ({"kundennummer": "1"}, "kundennummer"),
]  # fmt: skip


@pytest.mark.either_engine
def test_a_malformed_account_is_400_names_the_field_and_leaves_no_trace(books: Books) -> None:
    books.send(PERSONENKONTO, FULL)
    with books.unchanged():
        for fields, field in MALFORMED:
            refusal(books.send(PERSONENKONTO, person(**fields)), 400, field)


@pytest.mark.parametrize(
    "field", ["personenkontoNummer", "kontaktTyp", "kontenrahmen", "kontonummernLaenge", "geschaeftsjahrStartDatum"]
)
@pytest.mark.either_engine
def test_what_an_account_must_have_is_asked_for_by_name(books: Books, field: str) -> None:
    body = person()
    del body[field]
    with books.unchanged():
        assert "is required" in refusal(books.send(PERSONENKONTO, body), 400, field)["error"]


@pytest.mark.either_engine
def test_a_company_or_a_contact_person_must_be_named(books: Books) -> None:
    body = person()
    del body["firmenname"]
    with books.unchanged():
        assert "kontaktpersonen" in refusal(books.send(PERSONENKONTO, body), 400, "firmenname")["error"]
    body["kontaktpersonen"] = [{"nachname": "Muster", "anrede": "x" * 30}]
    answer = books.send(PERSONENKONTO, body)
    assert answer.status_code == 201, answer.text
    assert answer.json()["data"]["eintraege"][0]["firmenname"] is None


def test_the_log_keeps_what_was_answered_and_who_asked(books: Books) -> None:
    answer = books.send(PERSONENKONTO, person(), query={"quelle": "n8n"}, headers={"x-request-id": "run-7"})
    (kept,) = books.rows("SELECT kind, status, request_id, quelle, meldungen FROM books_tasks")
    assert kept[:4] == ("personenkonto", "SUCCESS", "run-7", "n8n")
    assert json.loads(kept[4]) == answer.json()["ledgerAntwort"]["meldungen"]


@pytest.mark.either_engine
def test_without_credits_nothing_is_written(service: Service) -> None:
    books = Books(service, service.organization(credits_granted=0))
    with books.unchanged():
        refusal(books.send(PERSONENKONTO, person()), 402)
