"""Invoices for books that others keep: handed over once, as rows and documents under one GUID, and booked nowhere here."""

from __future__ import annotations

import io
import zipfile
from datetime import date
from typing import Any

import httpx
import pytest
from pypdf import PdfReader

from kontobahn.formats.invoices.model import Note
from tests.api.payables.test_booking import COFFEE_ACCOUNT, Bookkeeper, assert_row_and_document
from tests.harness import Service
from tests.paid_invoices import credit_note, without_skonto
from tests.received_invoices import COFFEE, as_xml

HANDOVERS = "/v2/payables/handovers"


class Client(Bookkeeper):
    """One whose books are kept by an adviser elsewhere."""

    def hand_over(self, key: str = "") -> httpx.Response:
        body = {"connection_id": self.books.connection_id}
        return self.service.post(HANDOVERS, key or self.owner.key, json=body)

    def accepted(
        self, content: bytes | None = None, amount: float = 33.02, name: str = "rechnung 7.xml"
    ) -> dict[str, Any]:
        payable = self.received(content, name=name)
        assert self.accept(payable, {**COFFEE_ACCOUNT, "amount": amount}).status_code == 200
        return payable

    def file(self, handover: dict[str, Any]) -> bytes:
        answer = self.service.get(f"{HANDOVERS}/{handover['id']}/file", self.owner.key)
        assert (answer.status_code, answer.headers["content-type"]) == (200, "application/zip"), answer.text
        assert handover["file_name"] in answer.headers["content-disposition"]
        return answer.content


@pytest.fixture
def client(service: Service) -> Client:
    return Client(service)


def test_an_invoice_is_handed_over_once_with_its_document(client: Client) -> None:
    content = as_xml() + b"\n<!-- as it came -->"
    payable = client.accepted(content)
    assert client.hand_over().status_code == 409, "it is not released"
    assert client.decide(payable, "release").status_code == 200
    made = client.hand_over()
    assert made.status_code == 201, made.text
    handover = made.json()["data"]
    assert (handover["payable_ids"], handover["total"], handover["left_out"]) == ([payable["id"]], 33.02, [])
    export = client.file(handover)
    assert_row_and_document(export, payable, content)
    assert (client.state(payable), client.open_items()) == ("handed_over", {}), "nothing is booked here"
    assert client.hand_over().status_code == 409
    refused = client.accept(payable)
    assert (refused.status_code, client.file(handover)) == (409, export)
    listed = client.service.get(HANDOVERS, client.owner.key).json()["data"]
    assert [one["id"] for one in listed] == [handover["id"]]
    history = client.service.get(f"/v2/payables/{payable['id']}/history", client.owner.key).json()["data"]
    assert [step["action"] for step in history] == ["receive", "accept", "release", "hand_over"]


def rendered(client: Client, content: bytes) -> list[tuple[str, int]]:
    """The texts of the PDF that the adviser gets beside the file, each with the place where it begins from the left."""
    payable = client.accepted(content)
    assert client.decide(payable, "release").status_code == 200
    with zipfile.ZipFile(io.BytesIO(client.file(client.hand_over().json()["data"]))) as archive:
        package = next(archive.read(name) for name in archive.namelist() if name.startswith("Belege_"))
    with zipfile.ZipFile(io.BytesIO(package)) as archive:
        pages = PdfReader(io.BytesIO(archive.read("00002_rechnung 7.xml.pdf"))).pages
    found: list[tuple[str, int]] = []

    def note(text: str, cm: list[float], tm: list[float], *font: Any) -> None:
        found.append((text.strip(), round(tm[4] * cm[0] + cm[4])))

    for page in pages:
        page.extract_text(visitor_text=note)
    return found


@pytest.mark.either_engine
def test_the_rendering_has_narrow_names_and_wide_descriptions(client: Client) -> None:
    """The seller stands beside the facts; in a table the second column is the widest, and figures end at the right."""
    invoice = as_xml(notes=[Note("Vielen Dank für Ihren Auftrag und bis zum nächsten Mal")])
    begins: dict[str, int] = {}
    for text, begin in rendered(client, invoice):
        begins.setdefault(text, begin)
    left = begins["Rechnungsnummer"]
    assert [begins[name] for name in ("Angaben", "Käufer", "Pos.", "Kategorie")] == [left] * 4
    quarter = (595 - 2 * left) / 4
    assert begins["Verkäufer"] == begins["Name"] > left + 2 * quarter
    assert begins["Zahlbetrag"] > left + 2 * quarter
    assert begins["R-7"] == begins["02.03.2026"]
    assert left + quarter / 2 < begins["R-7"] < left + quarter
    assert left < begins["Kaffee & Tee"] < left + quarter / 2
    assert begins["Menge"] > left + 2 * quarter
    assert begins["33,02 €"] > left + 3 * quarter
    assert begins["steuerpflichtig (S)"] == left
    assert begins["Satz"] < begins["Grund"] < left + 3 * quarter, "the reason is the wide column of taxes"
    assert begins["SEPA-Überweisung (58)"] == begins["R-7"]
    assert begins["Vielen Dank für Ihren Auftrag und bis zum nächsten Mal"] == left


@pytest.mark.either_engine
def test_no_word_of_the_rendering_is_cut_or_runs_into_the_next_column(client: Client) -> None:
    digit, inset = 4.3, 4  # in points
    line = COFFEE.lines[0]._replace(name="3" * 150, id="9" * 30)
    found = rendered(client, as_xml(buyer_reference="4" * 110, notes=[Note("5" * 200)], lines=[line]))
    places = dict(reversed(found))
    left, right = places["Rechnungsnummer"], 595 - places["Rechnungsnummer"]
    for sign, count, edge in (
        ("9", 30, places["Bezeichnung"]),
        ("3", 150, places["Menge"]),
        ("4", 110, places["Verkäufer"]),
        ("5", 200, right),
    ):
        pieces = [(len(text), begin) for text, begin in found if text and not text.strip(sign)]
        assert sum(length for length, _ in pieces) == count, "nothing is lost"
        assert all(begin >= left and begin + length * digit < edge - inset for length, begin in pieces)


def test_each_year_has_its_file_and_what_has_none_waits_on(client: Client) -> None:
    late, early = client.accepted(without_skonto("R-8", 1000), 10), client.accepted(credit_note("G-1", 500), 5)
    for payable in (late, early):
        assert client.decide(payable, "release").status_code == 200
    before = client.accepted(as_xml(number="R-0", issued_on=date(2019, 5, 4)))
    assert client.decide(before, "release").status_code == 200
    unfit = client.accepted(as_xml(number="R\t9"))
    assert client.decide(unfit, "release").status_code == 200
    handover = client.hand_over().json()["data"]
    assert (handover["invoices"], handover["total"]) == (2, 5)
    [left, odd] = handover["left_out"]
    assert (odd["payable_id"], client.state(unfit)) == (unfit["id"], "accepted"), "a tab is in no DATEV file"
    assert left["payable_id"] == before["id"]
    assert "2019-05-04" in left["reason"]
    with zipfile.ZipFile(io.BytesIO(client.file(handover))) as archive:
        [name] = [one for one in archive.namelist() if "Buchungsstapel" in one]
        rows = archive.read(name).decode("cp1252").splitlines()[2:]
    assert [row.split(";")[1].strip('"') for row in rows] == ["H", "S"], "a credit note stands on the other side"
    assert client.state(before) == "accepted"


@pytest.mark.either_engine
def test_years_stand_in_their_order_and_what_is_booked_here_is_not_handed_over(client: Client) -> None:
    client.books.open_year("2025-01-01")
    client.book_on("acceptance")
    booked = client.accepted(as_xml(number="R-6"))
    client.book_on(None)
    late, early = client.accepted(), client.accepted(as_xml(number="R-0", issued_on=date(2025, 5, 4)))
    for payable in (booked, late, early):
        assert client.decide(payable, "release").status_code == 200
    handover = client.hand_over().json()["data"]
    assert (sorted(handover["payable_ids"]), client.state(booked)) == (sorted([late["id"], early["id"]]), "booked")
    with zipfile.ZipFile(io.BytesIO(client.file(handover))) as archive:
        files = [archive.read(name).decode("cp1252") for name in archive.namelist() if "Buchungsstapel" in name]
    assert ["R-0" in text for text in files] == [True, False]
    assert client.hand_over().status_code == 409


def test_nobody_hands_over_or_fetches_what_is_of_others(client: Client) -> None:
    payable = client.accepted()
    client.decide(payable, "release")
    other = client.service.organization("Andere GmbH")
    assert client.hand_over(other.key).status_code == 404
    handover = client.hand_over().json()["data"]
    assert client.service.get(f"{HANDOVERS}/{handover['id']}/file", other.key).status_code == 404
    assert client.service.get(HANDOVERS, other.key).json()["data"] == []
