"""From an open item: what was matched is said everywhere, letters to the partner, and payments with everything filled in."""

from __future__ import annotations

import html
import io
import re
from decimal import Decimal
from urllib.parse import parse_qs, urlsplit

import pytest
from pypdf import PdfReader

from tests.dashboard.test_reconciliation import Person, one_engine, proposals
from tests.harness import Service
from tests.ledger_builder import PERSONENKONTO
from tests.reconciliation_desk import OTHER, PERSON

SELLER = {
    "name": "Muster GmbH", "street": "Musterweg 1", "postal_code": "10115", "city": "Berlin", "tax_number": "37/123/45678",
    "iban": "DE02120300000000202051", "contact_name": "Erika Muster", "contact_phone": "030 1234567",
    "contact_email": "rechnung@muster.example",
}  # fmt: skip
ANNA = "/dashboard/open-items/100100000"
SUPPLIERS = {70001: "Papier Paul KG", 70002: "Druck Dora GmbH"}


@pytest.fixture
def person(service: Service) -> Person:
    found = Person(service)
    found.desk.books.post(
        "2026-02-01 H 70001 4930 59,50 ER/7 Papier bu=9\n2026-02-02 H 70001 4930 11,90 ER-8 Mehr Papier bu=9"
    )
    found.desk.books.post("2026-02-03 H 70002 4930 23,80 D-1 Druck bu=9")
    for number, name in SUPPLIERS.items():
        record = {**PERSON, "personenkontoNummer": str(number), "firmenname": name, "bankkonten": [{"iban": OTHER}]}
        assert found.desk.books.send(PERSONENKONTO, record).status_code == 201
    return found


def text_of(pdf: bytes) -> str:
    return " ".join(" ".join(page.extract_text() for page in PdfReader(io.BytesIO(pdf)).pages).split())


def links(page: str, path: str) -> list[str]:
    return [html.unescape(found) for found in re.findall(r'href="([^"]+)"', page) if path in found]


@one_engine
def test_nobody_is_dunned_who_has_paid(person: Person) -> None:
    person.set_up(booked_by="adviser")
    person.look()
    put = person.service.request("PUT", "/v2/mobility/seller", person.desk.owner.key, json=SELLER)
    assert put.status_code == 200, put.text
    assert "RE-2026-00123" in text_of(person.get(f"{ANNA}/reminder.pdf").content)
    first = person.of(119_00)
    person.do(f"{first}/confirm", proposal=proposals(person.get(first).text)[0])
    shown = person.get(ANNA).text
    assert "matched" in shown
    assert links(shown, first), "the match is linked"
    assert "of which matched: €119.00" in person.get("/dashboard/open-items").text
    document = person.get(f"{ANNA}/document?beleg=RE-2026-00123").text
    assert ">matched</span>" in document
    assert f'href="{first}"' in document
    assert ">matched</span>" not in person.get(f"{ANNA}/document?beleg=RE-2026-00124").text
    assert links(person.get("/dashboard/open-items/due").text, first)
    transaction = person.get(first.replace("reconciliation", "transactions")).text
    assert "RE-2026-00123" in transaction
    assert "handed over" not in transaction
    letter = text_of(person.get(f"{ANNA}/reminder.pdf?level=2").content)
    assert "RE-2026-00123" not in letter
    assert "RE-2026-00124" in letter
    assert "119,00" not in letter
    key = re.findall(r'name="once" value="([^"]+)"', person.get("/dashboard/handovers").text)[0]
    person.do("/dashboard/handovers", account_id=person.desk.account, once=key)
    assert "handed over" in person.get(ANNA).text
    assert "handed over" in person.get(f"{ANNA}/document?beleg=RE-2026-00123").text
    assert "handed over" in person.get(first.replace("reconciliation", "transactions")).text


@one_engine
def test_letters_have_address_iban_due_dates_and_a_code(person: Person) -> None:
    refused = person.get(f"{ANNA}/reminder.pdf")
    assert (refused.status_code, "Your letterhead lacks: Name" in refused.text) == (400, True)
    person.service.request("PUT", "/v2/mobility/seller", person.desk.owner.key, json=SELLER)
    opos = person.desk.books.read("/v2/ledger-rewe-read/faelligkeiten", kontonummer="10010")["konten"][0]
    overdue = sum(Decimal(str(item["saldo"])) for item in opos["posten"] if item["tageUeberfaellig"])
    letter = person.get(f"{ANNA}/reminder.pdf?level=1")
    text = text_of(letter.content)
    amount = f"{overdue:,.2f}".translate(str.maketrans(",.", ".,"))
    for part in ("Zahlungserinnerung", "Musterweg 1", "DE02 1203 0000 0000 2020 51", f"Gesamtbetrag {amount}", "12.03.2026",
                 "GiroCode", "Seite 1 von 1", "Ihr Konto 10010"):  # fmt: skip
        assert part in text, (part, text)
    assert "Letzte Mahnung" in text_of(person.get(f"{ANNA}/reminder.pdf?level=3").content)
    statement = text_of(person.get(f"{ANNA}/statement.pdf").content)
    assert "Kontoauszug" in statement
    assert "Bitte überweisen Sie umgehend:" in statement
    assert "Sollten Sie inzwischen bezahlt haben" in statement
    assert all(item["beleg"] in statement for item in opos["posten"])
    # A supplier is told what is open, and asked for nothing.
    supplier = text_of(person.get("/dashboard/open-items/700010000/statement.pdf").content)
    assert "GiroCode" not in supplier
    assert "bezahlt haben" not in supplier
    assert "−" not in supplier
    assert person.get("/dashboard/open-items/700010000/reminder.pdf").status_code == 400


@one_engine
def test_a_mail_to_a_partner_lists_rows_that_add_up_to_its_sum(person: Person) -> None:
    """However many there are, and whether they are owed or credited."""
    books = person.desk.books
    record = {**PERSON, "personenkontoNummer": "10077", "firmenname": "Viel GmbH", "emailAdressen": [
        {"email": "post@viel.example", "typ": "INVOICE"}]}  # fmt: skip
    assert books.send(PERSONENKONTO, record).status_code == 201
    books.post("\n".join(f"2026-02-{day:02} S 10077 8400 {day},00 V-{day} Ware" for day in range(1, 25)))
    books.post("2026-02-25 H 10077 8400 30,50 G-1 Gutschrift")
    [link] = links(person.get("/dashboard/open-items/100770000").text, "mailto:post@viel.example")
    body = parse_qs(urlsplit(link).query)["body"][0]
    amounts = re.findall(r"(−?)€([\d.]+)", body)
    *rows, total = [Decimal(sign.replace("−", "-") + number) for sign, number in amounts]
    assert len(rows) == 21, "twenty documents, and what the others come to"
    assert sum(rows) == total == Decimal("269.50")


@one_engine
def test_documents_of_one_supplier_become_one_payment(person: Person) -> None:
    page = person.get("/dashboard/open-items/700010000").text
    assert sorted(re.findall(r'name="item" value="([^"]+)"', page)) == [
        "700010000 ER-8",
        "700010000 ER/7",
        "700010000 L-4711",
    ]
    answer = person.get("/dashboard/open-items/pay?item=700010000+ER/7&item=700010000+ER-8")
    fields = {name: values[0] for name, values in parse_qs(urlsplit(answer.headers["location"]).query).items()}
    assert fields == {
        "creditor_name": "Papier Paul KG", "creditor_iban": OTHER, "amount": "71.40", "description": "ER/7 ER-8"
    }  # fmt: skip
    form = person.get(answer.headers["location"]).text
    assert f'value="{OTHER}"' in form
    key = re.findall(r'name="once" value="([^"]+)"', form)[0]
    made = person.do("/dashboard/payments/new", **fields, account_id=person.desk.account, once=key)
    assert "The payment has been created." in made
    refused = person.get("/dashboard/open-items/pay?item=700010000+NOTHING")
    assert refused.status_code == 400
    # What customers owe is not paid.
    assert person.get("/dashboard/open-items/pay?item=100100000+RE-2026-00123").status_code == 400


@one_engine
def test_documents_of_several_suppliers_become_a_payment_each_and_none_twice(person: Person) -> None:
    address = "/dashboard/open-items/pay?item=700010000+ER/7&item=700020000+D-1"
    page = person.get(address).text
    assert "€83.30" in page
    key = re.findall(r'name="once" value="([^"]+)"', page)[0]
    items = ["700010000 ER/7", "700020000 D-1"]
    sent = {"item": items, "account_id": person.desk.account, "once": key}
    for _ in range(2):
        answer = person.post("/dashboard/open-items/pay", sent)
        assert answer.status_code == 303, answer.text
    made = person.service.get("/v2/banking/payments", person.desk.owner.key).json()["data"]
    assert sorted((one["creditor_name"], one["amount"], one["description"]) for one in made) == [
        ("Druck Dora GmbH", 23.8, "D-1"), ("Papier Paul KG", 59.5, "ER/7")
    ]  # fmt: skip
    assert "There is a payment already that names ER/7, D-1." in person.get(address).text


@one_engine
def test_a_payee_is_found_among_the_partners(person: Person) -> None:
    page = person.get("/dashboard/payments/new?payee=papier&amount=5.00").text
    [link] = links(page, "creditor_name=Papier")
    assert f'value="{OTHER}"' in person.get(link).text
    assert 'value="5.00"' in person.get(link).text
    assert "No partner with an IBAN fits." in person.get("/dashboard/payments/new?payee=nobody").text
