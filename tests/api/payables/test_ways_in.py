"""One invoice, whatever it comes as and by whichever way; and the whole way of one, from the mail to the payment that closes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.api.payables.test_folder import Watched
from tests.api.payables.test_settlement import Bookkeeper
from tests.harness import Service
from tests.invoice_corpus import written
from tests.mailbox_builder import Reader, mail, mail_server
from tests.received_invoices import COFFEE, Inbox, as_pdf, as_xml


@pytest.mark.either_engine
def test_one_invoice_as_cii_by_mail_as_ubl_by_call_and_as_pdf_from_a_folder_is_one(
    service: Service, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    inbox = Inbox(service)
    watched = Watched(inbox, tmp_path)
    with mail_server(service, monkeypatch, tmp_path) as server:
        reader = Reader(service, inbox.owner, server)
        server.deliver(bytes(mail(("rechnung.xml", as_xml()))))
        assert reader.fetch().invoices == 1
        (first,) = reader.payables()
        as_ubl = inbox.send(written(COFFEE, "ubl"))
        assert (as_ubl.status_code, as_ubl.json()["data"]) == (200, first)
        watched.put("rechnung.pdf", as_pdf(as_xml()))
        watched.look()
        assert watched.names("done") == ["rechnung.pdf"]
        server.deliver(bytes(mail(("rechnung.pdf", as_pdf(written(COFFEE, "ubl"), "xrechnung.xml")))))
        assert reader.fetch().invoices == 0
        assert reader.payables() == [first]


@pytest.mark.either_engine
def test_an_invoice_comes_by_mail_is_released_paid_by_a_run_and_closed_by_its_booking(
    service: Service, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    keeper = Bookkeeper(service, "2026-03-02 H 70001 3300 33,02 R-7")
    with mail_server(service, monkeypatch, tmp_path) as server:
        reader = Reader(service, keeper.owner, server)
        server.deliver(bytes(mail(("rechnung.xml", as_xml()))))
        reader.fetch()
        (coffee,) = reader.payables()
    assert (coffee["status"], coffee["creditor"]["konto"]) == ("to_release", "700010000")
    assert keeper.decide(coffee, "release").status_code == 200
    keeper.run(coffee)
    (payment,) = keeper.payments()
    keeper.bank.book_debit(payment)
    (match,) = keeper.match()
    shown = keeper.shown(coffee)
    assert (match["evidence_class"], shown["status"], shown["match_id"]) == ("A1", "paid", match["id"])
    assert keeper.events() == ["payable.received", "payable.released", "payable.paid"]
