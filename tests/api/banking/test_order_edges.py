"""The edges of order files: whose orders are in one, until when, and whose report moves them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from kontobahn.banking.payments import order_files
from kontobahn.clock import to_datetime
from tests.api.banking.test_several_orders import FILES, make, statuses
from tests.bank_builder import Bank, account_id, order
from tests.file_bank import PAYMENTS, FileBank, import_file
from tests.harness import Service
from tests.statement_builder import OTHER_IBAN, Booking, Sheet, camt, pain002

# What both engines do alike is tried on one: the statements are those of the other tests of order files.
pytestmark = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
DAYS = 86_400


@pytest.fixture
def bank(service: Service) -> FileBank:
    return FileBank(service)


def second_account(bank: FileBank) -> str:
    """The id of another account of the same organisation, kept by files too."""
    first = bank.account_id()
    bank.take(camt(Sheet([Booking(1)], iban=OTHER_IBAN)), "zweites.xml")
    listed = bank.service.get("/v2/banking/accounts", bank.key).json()["data"]
    [other] = [account["id"] for account in listed if account["id"] != first]
    return str(other)


def pay_from(bank: FileBank, account: str, **more: Any) -> dict[str, Any]:
    body = {"account_id": account, "amount": "1.00", "creditor_name": "A", "description": "B", **more}
    answer = bank.service.post(PAYMENTS, bank.key, json={"creditor_iban": "DE75512108001245126199", **body})
    assert answer.status_code == 201, answer.text
    return dict(answer.json()["data"])


def test_a_file_holds_the_orders_of_its_account_and_its_organisation(service: Service, bank: FileBank) -> None:
    stranger = FileBank(service, service.organization("Fremde GmbH"))
    theirs = stranger.pay()
    mine = bank.pay()
    account = bank.account_id()
    other_account = second_account(bank)
    elsewhere = pay_from(bank, other_account)
    assert make(bank, theirs, status=404)
    assert make(bank, mine, elsewhere, status=400)["field"] == "payment_ids"
    assert make(bank, mine, account_id=other_account, status=400)["field"] == "payment_ids"
    [first] = [service.post(FILES, bank.key, json={"account_id": account}).json()["data"]]
    assert first["payment_ids"] == [mine["id"]]
    service.clock.advance(seconds=1)
    second = service.post(FILES, bank.key, json={"payment_ids": [elsewhere["id"], elsewhere["id"]]}).json()["data"]
    assert (second["payment_ids"], second["amount"]) == ([elsewhere["id"]], 1.0)

    def listed(**query: Any) -> list[str]:
        return [file["id"] for file in service.get(FILES, bank.key, params=query).json()["data"]]

    assert listed() == [second["id"], first["id"]]
    assert listed(account_id=other_account) == [second["id"]]
    assert listed(limit="1") == [second["id"]]
    assert service.get(FILES, stranger.key).json()["data"] == []
    assert service.get(f"{FILES}/{first['id']}", stranger.key).status_code == 404


def test_an_order_can_be_put_into_a_file_until_its_page_ends(service: Service, bank: FileBank) -> None:
    early = bank.pay()
    service.clock.advance(seconds=DAYS)
    late = bank.pay()
    left = datetime.fromisoformat(early["expires_at"]) - to_datetime(service.clock.now())
    service.clock.advance(seconds=left.total_seconds())
    assert make(bank)["payment_ids"] == [late["id"]], "the page of the first has just ended"
    assert make(bank, early)["payment_ids"] == [early["id"]], "unless it is named"


def test_a_file_ends_with_the_last_of_its_orders_and_not_before_its_own_time(service: Service, bank: FileBank) -> None:
    bank.pay()
    service.clock.advance(seconds=5 * DAYS)
    file = make(bank)
    [row] = service.db.read_now(order_files.ORDER_FILES.all, "1 = 1")
    assert row.expires_at - row.created_at == 30 * DAYS * 1_000_000
    assert (row.payments, row.amount_minor, row.discarded_at) == (1, 1234, None)
    assert service.request("DELETE", f"{FILES}/{file['id']}", bank.key).status_code == 200
    [row] = service.db.read_now(order_files.ORDER_FILES.all, "1 = 1")
    assert row.discarded_at == service.clock.now()
    assert service.get(f"{FILES}/{file['id']}/file", bank.key).status_code == 409


def test_an_order_that_the_bank_does_not_have_yet_is_in_no_file(service: Service, bank: FileBank) -> None:
    payment = bank.pay()
    service.db.write_now(lambda tx: tx.run("UPDATE banking_payments SET provider_ref = NULL WHERE id > ?", 0))
    assert "not been accepted" in make(bank, payment, status=409)["error"]
    assert "no open orders" in make(bank, status=409)["error"]


@pytest.mark.parametrize("end", ["RJCT", "CANC"])
def test_a_file_with_a_payment_that_ended_is_not_uploaded(service: Service, bank: FileBank, end: str) -> None:
    ended, _ = bank.pay(), bank.pay()
    file = make(bank)
    assert service.get(f"{FILES}/{file['id']}", bank.key).json()["data"]["status"] == "open"
    bank.take(pain002((ended["end_to_end_id"], end, ""), message_id=file["message_id"]))
    assert service.get(f"{FILES}/{file['id']}", bank.key).json()["data"]["status"] == "void"
    assert service.get(f"{FILES}/{file['id']}/file", bank.key).status_code == 409


def test_a_report_moves_nothing_of_another_organisation_or_file(service: Service, bank: FileBank) -> None:
    stranger = FileBank(service, service.organization("Fremde GmbH"))
    stranger.pay()
    single, together = bank.pay(), bank.pay()
    another = bank.pay()
    file = make(bank, together)
    make(bank, another)
    message = file["message_id"]
    reports = [
        pain002((single["end_to_end_id"], "RJCT", ""), message_id="X"),
        pain002(message_id=single["end_to_end_id"], group="RJCT"),
        pain002(message_id=message, group="RJCT"),
        pain002(message_id=message, payment="RJCT").replace(b">P-1<", f">{message}-1<".encode()),
    ]
    for content in reports:
        with pytest.raises(Exception, match="not a payment of this organisation"):
            import_file(service, stranger.owner, content, "status.xml")
    assert statuses(bank) == ["initiated"] * 3
    bank.take(reports[2])
    assert statuses(bank) == ["initiated", "rejected", "initiated"], "those in the file alone"
    bank.take(reports[1])
    assert statuses(bank) == ["rejected", "rejected", "initiated"]
    assert statuses(stranger) == ["initiated"]


def test_a_payment_that_is_authorised_at_the_bank_has_no_file(service: Service) -> None:
    reached, owner = Bank(service), service.organization()
    reached.connected(owner)
    payment = service.post(PAYMENTS, owner.key, json=order(account_id(service, owner))).json()["data"]
    answer = service.get(f"{PAYMENTS}/{payment['id']}/order", owner.key)
    assert (answer.status_code, "no file" in answer.json()["error"]) == (409, True)
    assert service.post(f"{PAYMENTS}/{payment['id']}/cancel", owner.key).status_code == 200
    assert [call[0] for call in reached.provider.asked] == ["create_payment", "cancel_payment"], "and nothing else"
