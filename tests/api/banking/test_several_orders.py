"""Several orders in one file: each in one file only, the same file every time, and every report finds its payments."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from lxml import etree

from kontobahn.access import keys
from kontobahn.banking.payments import order_files
from kontobahn.banking.payments.bank import poll_due_payments
from kontobahn.banking.payments.order_files import OrderFileRow
from kontobahn.banking.provider import Banking
from kontobahn.db import Tx
from kontobahn.errors import Conflict
from kontobahn.formats.pain.messages import NAMESPACE
from tests.bank_builder import SECOND_IBAN, Bank, account_facts, account_id, order
from tests.file_bank import PAYMENTS, FileBank
from tests.harness import Service
from tests.interleaving import on_postgres, overlap
from tests.sandbox_visitor import words
from tests.statement_builder import Booking, pain002
from tests.unit.formats.statements.test_pain001 import find, texts, walk

FILES = "/v2/banking/order-files"


@pytest.fixture
def bank(service: Service) -> FileBank:
    return FileBank(service)


def make(bank: FileBank, *payments: dict[str, Any], status: int = 201, **more: Any) -> dict[str, Any]:
    body = {"payment_ids": [one["id"] for one in payments], **more} if payments else {"account_id": bank.account_id()}
    answer = bank.service.post(FILES, bank.key, json={**body, **more})
    assert answer.status_code == status, answer.text
    return dict(answer.json().get("data") or answer.json())


def content(bank: FileBank, file: dict[str, Any]) -> etree._Element:
    answer = bank.service.get(f"{FILES}/{file['id']}/file", bank.key)
    assert answer.status_code == 200, answer.text
    document = etree.fromstring(answer.content)
    walk(document)
    return document


def statuses(bank: FileBank) -> list[str]:
    listed = bank.service.get(PAYMENTS, bank.key, params={"sort": "id"}).json()["data"]
    return [row["status"] for row in listed]


@pytest.mark.either_engine
def test_a_file_that_only_people_can_upload_is_not_sent(service: Service, bank: FileBank) -> None:
    bank.pay()
    file = make(bank)
    refused = service.post(f"{FILES}/{file['id']}/submission", bank.key)
    assert (refused.status_code, "upload the file at the bank" in refused.text) == (409, True)
    assert service.get(f"{FILES}/{file['id']}", bank.key).json()["data"] == file


def test_orders_of_an_account_become_one_file(service: Service, bank: FileBank) -> None:
    today = [bank.pay(amount="10.00"), bank.pay(amount="0.05", reference="RE-1")]
    dated = bank.pay(date="2026-03-09", amount="1.00")
    file = make(bank)
    assert file["payment_ids"] == [one["id"] for one in (*today, dated)]
    assert (file["status"], file["amount"], file["currency_code"]) == ("open", 11.05, "EUR")
    document = content(bank, file)
    header = find(document, "GrpHdr")[0]
    assert (texts(header, "NbOfTxs"), texts(header, "CtrlSum"), texts(header, "MsgId")) == (
        ["3"],
        ["11.05"],
        [file["message_id"]],
    )
    groups = [texts(group, "EndToEndId") for group in find(document, "PmtInf")]
    assert groups == [[one["end_to_end_id"] for one in group] for group in (today, [dated])]
    for group in find(document, "PmtInf"):
        amounts = [Decimal(text) for text in texts(group, "InstdAmt")]
        assert group.findtext(f"{{{NAMESPACE}}}NbOfTxs") == str(len(amounts))
        assert Decimal(group.findtext(f"{{{NAMESPACE}}}CtrlSum") or "") == sum(amounts)
    assert service.get(f"{FILES}/{file['id']}", bank.key).json()["data"] == file
    assert service.get(FILES, bank.key).json()["data"] == [file]
    assert service.get(FILES, bank.key, params={"account_id": bank.account_id()}).json()["data"] == [file]


def test_it_is_the_same_file_until_a_day_in_it_has_passed(service: Service, bank: FileBank) -> None:
    bank.pay(date="2026-03-14")
    file = make(bank)
    first = service.get(f"{FILES}/{file['id']}/file", bank.key).content
    service.clock.advance(seconds=10 * 86_400)
    bank.book(Booking(1))
    assert service.get(f"{FILES}/{file['id']}/file", bank.key).content == first
    assert service.http.get(f"{file['file_url']}/file").content == first


def test_an_order_is_in_one_file_only(service: Service, bank: FileBank) -> None:
    first, second = bank.pay(), bank.pay()
    file = make(bank, first)
    assert f"order file {file['id']}" in make(bank, first, second, status=409)["error"]
    assert f"order file {file['id']}" in bank.order_file(first).json()["error"]
    assert "payment_url" not in bank.payment(first)
    page = service.http.get(first["payment_url"])
    assert "Sammeldatei" in words(page)
    assert service.http.get(f"{first['payment_url']}/file").status_code == 303
    assert make(bank)["payment_ids"] == [second["id"]]
    assert "no open orders" in make(bank, status=409)["error"]


def test_an_order_fetched_by_itself_is_not_put_into_a_file_unasked(bank: FileBank) -> None:
    fetched, other = bank.pay(), bank.pay()
    bank.order_file(fetched)
    assert "fetched on its own" in make(bank, fetched, other, status=409)["error"]
    assert make(bank)["payment_ids"] == [other["id"]]
    assert make(bank, fetched, include_taken=True)["payment_ids"] == [fetched["id"]]


def test_a_file_with_a_cancelled_payment_is_not_handed_out_until_it_is_made_anew(
    service: Service, bank: FileBank
) -> None:
    kept, cancelled = bank.pay(), bank.pay()
    file = make(bank)
    service.post(f"{PAYMENTS}/{cancelled['id']}/cancel", bank.key)
    assert service.get(f"{FILES}/{file['id']}/file", bank.key).status_code == 409
    shown = service.get(f"{FILES}/{file['id']}", bank.key).json()["data"]
    assert (shown["status"], shown["file_url"]) == ("void", None)
    assert "nicht mehr hoch" in words(service.http.get(file["file_url"]))
    assert service.http.get(f"{file['file_url']}/file").status_code == 303
    for _ in range(2):
        gone = service.request("DELETE", f"{FILES}/{file['id']}", bank.key)
        assert (gone.status_code, gone.json()["data"]["status"]) == (200, "discarded")
    assert make(bank)["payment_ids"] == [kept["id"]]


def test_a_file_that_the_bank_has_is_not_discarded(service: Service, bank: FileBank) -> None:
    first, _ = bank.pay(), bank.pay()
    file = make(bank)
    bank.book_debit(first)
    assert service.request("DELETE", f"{FILES}/{file['id']}", bank.key).status_code == 409
    assert statuses(bank) == ["settled", "initiated"]


@pytest.mark.parametrize(("code", "expected"), [("ACTC", "authorized"), ("RJCT", "rejected")])
def test_a_report_on_the_whole_file_moves_all_of_it(bank: FileBank, code: str, expected: str) -> None:
    bank.pay(), bank.pay(), bank.pay(date="2026-03-09")
    file, outside = make(bank), bank.pay()
    assert bank.take(pain002(message_id=file["message_id"], group=code)).payments == 3
    assert statuses(bank) == [expected] * 3 + [bank.payment(outside)["status"]]


def test_what_is_said_of_one_order_counts_more_than_what_is_said_of_the_file(bank: FileBank) -> None:
    first, second = bank.pay(), bank.pay()
    file = make(bank)
    report = pain002((second["end_to_end_id"], "ACCP", ""), message_id=file["message_id"], group="RJCT")
    assert bank.take(report).payments == 2
    assert statuses(bank) == ["rejected", "authorized"]
    assert bank.history(first)[-1][2] == bank.history(second)[-1][2] == "moved"


def test_a_report_on_an_instruction_moves_its_orders_only(bank: FileBank) -> None:
    bank.pay(), bank.pay(date="2026-03-09")
    file = make(bank)
    report = pain002(message_id=file["message_id"], payment="RJCT")
    bank.take(report.replace(b">P-1<", f">{file['message_id']}-2<".encode()))
    assert statuses(bank) == ["initiated", "rejected"]


def test_orders_in_a_file_do_not_expire(service: Service, bank: FileBank) -> None:
    bank.pay()
    make(bank)
    service.clock.advance(seconds=60 * 86_400)
    service.run(poll_due_payments(service.application.context))
    assert statuses(bank) == ["initiated"]


def test_the_page_of_a_file_says_what_to_do(service: Service, bank: FileBank) -> None:
    bank.pay(amount="1234.50"), bank.pay(amount="1.00", creditor_name="Zweite GmbH")
    file = make(bank)
    shown = words(service.http.get(file["file_url"]))
    for text in ("1.235,50 EUR", "Aufträge 2", "Zweite GmbH", "DE75 5121 0800 1245 1261 99", "nur einmal"):
        assert text in shown
    assert service.http.get(f"{file['file_url']}/file").headers["content-type"] == "application/xml"


@pytest.mark.either_engine
def test_what_cannot_be_in_one_file_is_refused(service: Service, bank: FileBank) -> None:
    payment = bank.pay()
    assert service.post(FILES, bank.key, json={}).status_code == 400
    assert service.post(FILES, bank.key, json={"payment_ids": []}).status_code == 400
    assert service.post(FILES, bank.key, json={"payment_ids": ["777"]}).status_code == 404
    bank.book_debit(payment)
    assert "is settled" in make(bank, payment, status=409)["error"]
    # From another account, and from one whose bank is reached.
    reached = Bank(service)
    reached.connected(bank.owner, accounts=[account_facts(iban=SECOND_IBAN)])
    other = service.post(PAYMENTS, bank.key, json=order(account_id(service, bank.owner, 1))).json()["data"]
    assert make(bank, other, status=409)["error"].endswith("there are no files for them.")
    listed = service.get("/v2/banking/accounts", bank.key).json()["data"]
    mine = service.post(PAYMENTS, bank.key, json=order(listed[0]["id"])).json()["data"]
    assert make(bank, mine, other, status=400)["field"] == "payment_ids"
    assert service.get(FILES, bank.key).json()["data"] == []


def test_a_repeat_with_the_same_key_is_the_same_file(service: Service, bank: FileBank) -> None:
    body, key = {"payment_ids": [bank.pay()["id"]]}, {"idempotency-key": "monday"}
    first, again = (service.post(FILES, bank.key, json=body, headers=key).json() for _ in range(2))
    assert first == again
    assert len(service.get(FILES, bank.key).json()["data"]) == 1


@on_postgres
def test_two_files_made_at_once_share_no_order(service: Service, bank: FileBank) -> None:
    bank.pay()
    principal = service.db.read_now(keys.authenticate, service.vault.token_hash(bank.key), service.clock.now())
    banking = service.application.context.part(Banking)
    wanted = order_files.Selection(
        account_id=int(bank.account_id()), payment_ids=None, template=None, include_taken=True
    )

    def create(tx: Tx) -> OrderFileRow:
        return order_files.create(tx, principal, wanted, banking, 30)

    both = overlap(service.db, create, create)
    assert both.first.payments == 1
    assert isinstance(both.second, Conflict)
