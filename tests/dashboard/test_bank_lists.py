"""Lists of the bank pages on both engines: every row once, however often a search has to stop; and what a search understands."""

from __future__ import annotations

import html
import re
from urllib.parse import quote

import pytest

from kontobahn.banking.connections import store as connections
from kontobahn.banking.payments import order_files
from kontobahn.banking.payments import store as payments
from kontobahn.banking.transactions import store
from kontobahn.db import Tx
from tests.bank_builder import Bank
from tests.dashboard.browsing import Browser
from tests.file_bank import FileBank, account, import_file
from tests.harness import Service
from tests.statement_builder import OTHER_IBAN, Booking, Sheet, camt

EMAIL = "erika@muster.example"
_ROW = re.compile(r'<tr id="([^"]+)"')
_NEXT = re.compile(r'href="([^"]+)" rel="next"')


def rows_of(browser: Browser, address: str) -> tuple[list[str], int]:
    """Walks to the end of a list. Returns its rows, and how many pages it had."""
    found: list[str] = []
    pages = 0
    following: str | None = address
    while following:
        answer = browser.get(following)
        assert answer.status_code == 200, answer.text
        found += _ROW.findall(answer.text)
        pages += 1
        match = _NEXT.search(answer.text)
        following = html.unescape(match[1]) if match else None
    return found, pages


def test_a_search_that_stops_goes_on_where_it_was(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "LOOKED_THROUGH", 15)
    monkeypatch.setattr(payments, "LOOKED_THROUGH", 2)
    monkeypatch.setattr(payments, "_CHUNK", 1)
    bank = FileBank(service)
    service.user(bank.owner, EMAIL)
    browser = Browser(service)
    browser.sign_in(EMAIL)
    bank.book(*(
        Booking(-(1000 + number), "Größe 42, Hauptstraße" if number % 20 == 0 else "Payer_100%", iban=None)
        for number in range(120)
    ))  # fmt: skip
    bank.book(Booking(250_000, 'Miete "Lager"', end_to_end_id="MIETE-1"))
    for typed, count in {
        "GRÖSSE hauptSTRASSE": 6, "größe payer_": 0, "payer_": 114, "10,07": 1, "-10,07": 1, "+10,07": 0,
        "2500": 1, "2.500,00 €": 1, "miete": 1, '"lager"': 1, "MIETE-1": 1, "description_parsed": 0, "_100%": 114,
        f"{OTHER_IBAN[:4]} {OTHER_IBAN[4:8]} {OTHER_IBAN[8:]}": 2,
    }.items():  # fmt: skip
        found, pages = rows_of(browser, f"/dashboard/transactions?q={quote(typed)}")
        assert (len(found), len(set(found))) == (count, count), typed
        assert pages > 1, typed
    everything, pages = rows_of(browser, "/dashboard/transactions")
    assert (len(everything), len(set(everything)), pages) == (122, 122, 3)
    assert rows_of(browser, "/dashboard/transactions?state=pending")[0] == []
    service.db.write_now(
        lambda tx: tx.run("UPDATE banking_transactions SET status = 'pending' WHERE amount_minor = ?", 250_000)
    )
    [waiting] = rows_of(browser, "/dashboard/transactions?state=pending")[0]
    booked, _ = rows_of(browser, "/dashboard/transactions?state=posted")
    assert {waiting, *booked} == set(everything)
    assert len(booked) == 121
    assert browser.get("/dashboard/transactions/999999999999999999").status_code == 404
    made = [bank.pay(creditor_name=name)["id"] for name in ("Eins", "Zwei", "Drei", "Zwei", "Fuenf", "Sechs", "Sieben")]
    found, pages = rows_of(browser, "/dashboard/payments?q=zwei")
    assert found == [f"p-{made[3]}", f"p-{made[1]}"]
    for path in ("accounts", "connections", "statements", "payments", "payments/order-files", f"payments/{made[0]}"):
        assert browser.get(f"/dashboard/{path}").status_code == 200, path
    assert browser.get("/dashboard/transactions.csv?q=miete").text.count("\r\n") == 2


def test_every_order_file_is_reached(service: Service) -> None:
    bank = FileBank(service)
    service.user(bank.owner, EMAIL)
    browser = Browser(service)
    browser.sign_in(EMAIL)
    bank.pay()
    made = bank.service.post("/v2/banking/order-files", bank.owner.key, json={"account_id": bank.account_id()})
    assert made.status_code == 201, made.text
    ((number,),) = service.db.read_now(lambda tx: tx.all("SELECT id FROM banking_order_files"))

    def copy(tx: Tx) -> None:
        found = order_files.look_up(tx, bank.owner.id, number)
        assert found is not None
        for step in range(1, 121):
            # Made in the order of their numbers, whatever the clock said.
            later = found._replace(id=number + step, message_id=f"KBF{step}", created_at=found.created_at - step)
            order_files.ORDER_FILES.insert(tx, later)

    service.db.write_now(copy)
    found, pages = rows_of(browser, "/dashboard/payments/order-files")
    assert found == [f"f-{number + step}" for step in range(120, -1, -1)]
    assert pages == 3
    assert browser.get("/dashboard/payments/order-files?after=nonsense").status_code == 200


@pytest.mark.either_engine
def test_a_balance_that_nobody_told_is_shown_as_such_and_added_to_nothing(service: Service) -> None:
    owner = service.organization()
    service.user(owner, EMAIL)
    browser = Browser(service)
    browser.sign_in(EMAIL)
    import_file(service, owner, camt(Sheet([Booking(250)], balances=""), kind="052"))
    found = account(service, owner)
    assert (found["balance"], found["extra"]["transactions_count"]["posted"]) == (None, 1)
    for path in ("", "/accounts", f"/accounts/{found['id']}", "/payments/new", "/connections"):
        page = browser.get(f"/dashboard{path}")
        assert page.status_code == 200, path
        # Nothing is expected either way, which is another matter.
        told = re.sub(r"direction=(in|out)\">€0.00", "", page.text.replace("10.00", ""))
        assert "0.00" not in told, path
    assert "The balance is not known" in browser.get(f"/dashboard/accounts/{found['id']}").text
    # The next statement tells it.
    import_file(service, owner, camt(Sheet([Booking(250)], opening=1_00)))
    assert account(service, owner)["balance"] == 3.5


@pytest.mark.either_engine
def test_deleting_a_connection_says_which_accounts_stay(service: Service) -> None:
    files = FileBank(service)
    service.user(files.owner, EMAIL)
    browser = Browser(service)
    browser.sign_in(EMAIL)
    [own] = service.get("/v2/banking/connections", files.key).json()["data"]
    address = f"/dashboard/connections/{own['id']}/delete"
    name = account(service, files.owner)["name"]
    stays = f"Not the account {name}: it stays"
    assert name in browser.get(address).text
    assert stays not in browser.get(address).text
    Bank(service).connected(files.owner)
    name = account(service, files.owner)["name"]
    assert f"Not the account {name}: it stays" in browser.get(address).text


@pytest.mark.either_engine
def test_a_connection_says_which_account_was_never_read(service: Service) -> None:
    owner = service.organization()
    service.user(owner, EMAIL)
    connection = Bank(service).connected(owner)
    refused = "The bank does not let this login read the account."
    service.db.write_now(connections.tell_not_read, connection, [refused, refused])
    browser = Browser(service)
    browser.sign_in(EMAIL)
    answer = browser.get(f"/dashboard/connections/{connection.id}")
    assert ("is not listed here" in answer.text, answer.text.count(refused)) == (True, 1)
    german = browser.get(f"/dashboard/connections/{connection.id}", **{"accept-language": "de"}).text
    assert ("ist hier nicht aufgeführt" in german, refused in german) == (True, False)
