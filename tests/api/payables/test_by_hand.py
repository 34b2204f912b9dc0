"""A payable typed by hand: from a file that is kept, held to what holds for every invoice, and refused with the field that is wrong."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.harness import Service
from tests.received_invoices import OTHER_IBAN, SELLER_IBAN, Inbox, as_xml, plain_pdf

TYPED: dict[str, Any] = {
    "creditor_name": "Rösterei Hafen GmbH", "number": "R-77", "issue_date": "2026-03-01", "total": "119.00", "iban": SELLER_IBAN,
}  # fmt: skip


@pytest.fixture
def inbox(service: Service) -> Inbox:
    return Inbox(service)


def _file(inbox: Inbox, text: str = "Rechnung") -> str:
    answer = inbox.send(plain_pdf(text), name="scan.pdf")
    assert answer.status_code == 422, answer.text
    return str(answer.json()["file_id"])


def _type(inbox: Inbox, file_id: str, key: str = "", **changes: Any) -> httpx.Response:
    fields = {name: value for name, value in {**TYPED, "file_id": file_id, **changes}.items() if value is not None}
    return inbox.service.post("/v2/payables", key or inbox.owner.key, json=fields)


def test_an_invoice_is_typed_once_and_is_one_like_any_other(inbox: Inbox) -> None:
    file_id = _file(inbox)
    answer = _type(inbox, file_id, skonto_percent=2, skonto_days=7, vat_amount=19, due_date="2026-03-15")
    assert answer.status_code == 201, answer.text
    payable = answer.json()["data"]
    assert (payable["format"], payable["status"], payable["total"]) == ("by_hand", "to_release", 119.0)
    assert payable["creditor"]["konto"].startswith("70001")
    assert [(term["until"], term["amount"]) for term in payable["terms"]] == [("2026-03-08", 2.38)]
    assert [finding["rule"] for finding in payable["findings"]] == ["no-xml"]
    assert inbox.service.get(f"/v2/payables/{payable['id']}/file", inbox.owner.key).content == plain_pdf("Rechnung")
    document = inbox.service.get(f"/v2/payables/{payable['id']}/document", inbox.owner.key)
    assert ("R-77" in document.text, "100,00\N{NO-BREAK SPACE}€" in document.text) == (True, True)
    again = _type(inbox, file_id)
    assert (again.status_code, again.json()["data"]["id"]) == (200, payable["id"])
    twin = _type(inbox, _file(inbox, "Rechnung, noch einmal"), number="r-77")
    assert (twin.status_code, twin.json()["data"]["id"]) == (200, payable["id"])
    assert inbox.decide(payable, "release").status_code == 200


@pytest.mark.either_engine
def test_another_iban_stops_it_and_a_credit_note_is_owed_to_us(inbox: Inbox) -> None:
    stopped = _type(inbox, _file(inbox), iban=OTHER_IBAN).json()["data"]
    assert (stopped["status"], stopped["stops"]) == ("needs_person", ["iban_changed"])
    note = _type(inbox, _file(inbox, "Gutschrift"), kind="credit_note", number="G-1").json()["data"]
    assert (note["kind"], note["payable_amount"], note["to_be_paid"]) == ("credit_note", -119.0, False)


@pytest.mark.either_engine
@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"total": 0}, "total"),
        ({"total": -1}, "total"),
        ({"total": 1_000_000_000}, "total"),
        ({"total": 1.001}, "total"),
        ({"vat_amount": 119}, "vat_amount"),
        ({"issue_date": "1999-12-31"}, "issue_date"),
        ({"issue_date": "2100-01-01"}, "issue_date"),
        ({"due_date": "2026-02-28"}, "due_date"),
        ({"due_date": "2100-01-01"}, "due_date"),
        ({"iban": "DE00123"}, "iban"),
        ({"skonto_percent": 2}, "skonto_days"),
        ({"skonto_days": 7}, "skonto_percent"),
        ({"skonto_days": 7, "skonto_percent": 100}, "skonto_percent"),
        ({"currency_code": "eur"}, "currency_code"),
        ({"number": " "}, "number"),
        ({"creditor_name": "a\nb"}, "creditor_name"),
        ({"creditor_name": None}, "creditor_name"),
    ],
)
def test_what_cannot_be_is_refused_with_its_field(inbox: Inbox, changes: dict[str, Any], field: str) -> None:
    answer = _type(inbox, _file(inbox), **changes)
    assert (answer.status_code, answer.json()["field"]) == (400, field), answer.text
    assert inbox.service.get("/v2/payables", inbox.owner.key).json()["data"] == []


@pytest.mark.either_engine
def test_the_first_and_the_last_day_are_taken_and_what_is_due_at_once(inbox: Inbox) -> None:
    for number, day in enumerate(("2000-01-01", "2099-12-31")):
        answer = _type(inbox, _file(inbox, day), number=f"R-{number}", issue_date=day, due_date=day)
        assert answer.status_code == 201, answer.text


@pytest.mark.either_engine
def test_a_file_of_another_or_with_an_invoice_in_it_is_not_typed(inbox: Inbox) -> None:
    stranger = inbox.service.organization("Fremd GmbH")
    assert _type(inbox, _file(inbox), key=stranger.key).status_code == 404
    inbox.received(as_xml())
    (first,) = inbox.service.db.read_now(
        lambda tx: tx.all("SELECT id FROM payables_files WHERE organization_id = ? AND refused = ''", inbox.owner.id)
    )
    assert _type(inbox, first[0]).status_code == 409
