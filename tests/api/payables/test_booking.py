"""Invoices are booked with the accounts that a person has accepted, once, and the adviser gets row and document under one GUID."""

from __future__ import annotations

import io
import xml.etree.ElementTree as ET
import zipfile
from typing import Any

import httpx
import pytest

from kontobahn.db import Tx
from kontobahn.formats import extf
from kontobahn.payables import booking, store
from kontobahn.payables.store import PayableRow, SettingsRow
from tests.harness import Service
from tests.paid_invoices import credit_note
from tests.received_invoices import Inbox, as_xml, from_seller

OPOS = "/v2/ledger-rewe-read/opos"
COFFEE_ACCOUNT = {"konto": "3300", "amount": 33.02, "steuer": ""}


class Bookkeeper(Inbox):
    def book_on(self, when: str | None) -> None:
        body = {"book_on": when, "connection_id": self.books.connection_id}
        answer = self.service.request("PUT", "/v2/payables/settings", self.owner.key, json=body)
        assert (answer.status_code, answer.json()["data"]["book_on"]) == (200, when), answer.text

    def accept(self, payable: dict[str, Any], *accounts: dict[str, Any]) -> httpx.Response:
        body = {"accounts": list(accounts or (COFFEE_ACCOUNT,))}
        return self.service.request("PUT", f"/v2/payables/{payable['id']}/booking", self.owner.key, json=body)

    def state(self, payable: dict[str, Any]) -> str:
        answer = self.service.get(f"/v2/payables/{payable['id']}/booking", self.owner.key)
        return str(answer.json()["data"]["state"])

    def open_items(self) -> dict[str, float]:
        konten = self.books.read(OPOS)["konten"]
        return {posten["beleg"]: posten["saldo"] for konto in konten for posten in konto["posten"]}


@pytest.fixture
def keeper(service: Service) -> Bookkeeper:
    return Bookkeeper(service)


def test_accepted_at_once_it_is_booked_at_once(keeper: Bookkeeper) -> None:
    keeper.book_on("acceptance")
    payable = keeper.received()
    assert keeper.state(payable) == "none"
    booked = keeper.accept(payable)
    assert booked.status_code == 200, booked.text
    data = booked.json()["data"]
    assert (data["state"], data["accounts"]) == ("booked", [{"konto": "33000000", "amount": 33.02, "steuer": ""}])
    assert keeper.open_items() == {"R-7": -33.02}
    assert keeper.accept(payable).status_code == 409
    assert keeper.open_items() == {"R-7": -33.02}, "never twice"
    [row] = keeper.books.rows("SELECT belegfeld1, weitere, belegdatum FROM books_bookings")
    assert (row[0], row[2]) == ("R-7", "2026-03-02")
    assert extf.decode_weitere(row[1]) == {"20": f'BEDI "{payable["document_guid"]}"', "117": "16032026"}
    history = keeper.service.get(f"/v2/payables/{payable['id']}/history", keeper.owner.key).json()["data"]
    assert [step["action"] for step in history] == ["receive", "accept", "book"]


@pytest.mark.either_engine
def test_with_the_release_it_is_booked_with_the_release(keeper: Bookkeeper) -> None:
    keeper.book_on("release")
    payable = keeper.received()
    assert keeper.accept(payable).json()["data"]["state"] == "accepted"
    assert keeper.open_items() == {}
    assert keeper.decide(payable, "release").status_code == 200
    assert (keeper.state(payable), keeper.open_items()) == ("booked", {"R-7": -33.02})
    later = keeper.received(as_xml(number="R-8"))
    keeper.decide(later, "release")
    assert keeper.state(later) == "none", "nothing is booked by a proposal"
    assert keeper.accept(later).json()["data"]["state"] == "booked"


@pytest.mark.either_engine
def test_what_is_not_to_be_booked_is_not(keeper: Bookkeeper) -> None:
    payable = keeper.received()
    assert keeper.accept(payable).json()["data"]["state"] == "accepted"
    keeper.decide(payable, "release")
    assert (keeper.state(payable), keeper.open_items()) == ("accepted", {})
    rejected = keeper.received(as_xml(number="R-8"))
    assert keeper.decide(rejected, "reject", reason="nicht bestellt").status_code == 200
    refused = keeper.accept(rejected)
    assert (refused.status_code, "A rejected invoice" in refused.text, keeper.state(rejected)) == (409, True, "none")


@pytest.mark.either_engine
@pytest.mark.parametrize("change", ["rejected", "creditor", "settings"])
def test_what_changes_while_the_books_are_asked_is_not_booked(
    keeper: Bookkeeper, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    payable = keeper.received(as_xml(from_seller(vat_id="DE811569869")))
    assert keeper.decide(payable, "creditor", konto="70001").status_code == 200
    accept = booking._accept

    def changed_before(tx: Tx, found: PayableRow, *given: Any) -> Any:
        if change == "settings":
            store.save_settings(
                tx, SettingsRow(keeper.owner.id, None, found.connection_id, found.client_id, "x", tx.now, "acceptance")
            )
        else:
            changes = {"status": "rejected"} if change == "rejected" else {"konto": "700020000"}
            store.PAYABLES.update(tx, found, **changes)
        return accept(tx, found, *given)

    monkeypatch.setattr(booking, "_accept", changed_before)
    assert (keeper.accept(payable).status_code, keeper.state(payable)) == (409, "none")


@pytest.mark.either_engine
def test_several_accounts_and_a_credit_note(keeper: Bookkeeper) -> None:
    keeper.book_on("acceptance")
    payable = keeper.received()
    parts = ({"konto": "3300", "amount": "30.00"}, {"konto": "4930", "amount": 3.02, "steuer": "9"})
    assert keeper.accept(payable, *parts).status_code == 200
    credit = keeper.received(credit_note("G-1", 2001))
    assert keeper.accept(credit, {"konto": "3300", "amount": 20.01}).status_code == 200
    assert keeper.open_items() == {"R-7": -33.02, "G-1": 20.01}


@pytest.mark.either_engine
def test_what_the_books_have_already_is_not_booked_again(keeper: Bookkeeper) -> None:
    keeper.book_on("acceptance")
    keeper.books.post("2026-03-02 H 70001 4930 33,02 R-7")
    assert keeper.accept(keeper.received()).json()["data"]["state"] == "known"
    assert keeper.open_items() == {"R-7": -33.02}


@pytest.mark.either_engine
def test_accounts_that_cannot_be_booked_are_named_and_nothing_is_written(keeper: Bookkeeper) -> None:
    keeper.book_on("acceptance")
    payable = keeper.received()
    for accounts, field in (
        ([{"konto": "3300", "amount": 33.01}], "accounts"),
        ([{"konto": "3300", "amount": 33.02}, {"konto": "4930", "amount": 0}], "accounts"),
        ([{"konto": "3300", "amount": 33.025}], "accounts[0].amount"),
        ([{"konto": "3300", "amount": 1e300}], "accounts[0].amount"),
        ([{"konto": "70001", "amount": 33.02}], "accounts[0].konto"),
        ([{"konto": "123456789", "amount": 33.02}], "accounts[0].konto"),
    ):
        refused = keeper.accept(payable, *accounts)
        assert (refused.status_code, refused.json()["field"]) == (400, field), refused.text
    assert (keeper.state(payable), keeper.open_items()) == ("none", {})
    other = Bookkeeper(keeper.service, keeper.service.organization("Andere GmbH"))
    assert other.accept(payable).status_code == 404


def assert_row_and_document(export: bytes, payable: dict[str, Any], content: bytes) -> None:
    """The one row has number, due day and GUID of the invoice; the package has the untouched file under it, and a rendering."""
    with zipfile.ZipFile(io.BytesIO(export)) as archive:
        rows = next(archive.read(name) for name in archive.namelist() if "Buchungsstapel" in name).decode("cp1252")
        package = next(archive.read(name) for name in archive.namelist() if name.startswith("Belege_"))
    [cells] = [line.split(";") for line in rows.splitlines()[2:]]
    guid = payable["document_guid"]
    assert cells[19] == f'"BEDI ""{guid}"""'
    assert (cells[0], cells[1].strip('"'), cells[6], cells[7]) == ("33,02", "H", "70001", "3300")
    assert (cells[10].strip('"'), cells[116].strip('"')) == ("R-7", "16032026")
    assert cells[117].strip('"') in ("", "0"), "it reverses nothing"
    with zipfile.ZipFile(io.BytesIO(package)) as archive:
        manifest = ET.fromstring(archive.read("document.xml"))
        [document] = manifest.iter("{http://xml.datev.de/bedi/tps/document/v06.0}document")
        names = [one.get("name", "") for one in document]
        assert (document.get("guid"), names) == (guid, ["00001_rechnung 7.xml", "00002_rechnung 7.xml.pdf"])
        assert archive.read(names[0]) == content, "untouched"
        assert archive.read(names[1]).startswith(b"%PDF-")


def test_row_and_document_of_the_adviser_share_a_guid(keeper: Bookkeeper) -> None:
    keeper.book_on("acceptance")
    content = as_xml() + b"\n<!-- as it came -->"
    payable = keeper.received(content, name="rechnung 7.xml")
    assert keeper.accept(payable).status_code == 200
    answer = keeper.books.get("/v2/ledger-rewe/exports", geschaeftsjahrStartDatum="2026-01-01")
    assert answer.status_code == 200, answer.text
    assert_row_and_document(answer.content, payable, content)
    without = keeper.books.get("/v2/ledger-rewe/exports", geschaeftsjahrStartDatum="2026-01-01", belege="false")
    with zipfile.ZipFile(io.BytesIO(without.content)) as export:
        assert not [name for name in export.namelist() if name.startswith("Belege_")]
