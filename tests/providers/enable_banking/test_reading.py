"""Enable Banking from the first page to the last booking, and how it may refuse, break or take its time on the way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kontobahn.bank_providers.enable_banking import adapter
from kontobahn.banking.connections import routes
from kontobahn.banking.reports import refresh, webhooks
from kontobahn.clock import DAY, to_datetime
from kontobahn.db import Tx
from simulators.enable_banking import EnableBanking
from simulators.enable_banking_data import Account, transaction
from simulators.enable_banking_server import How
from simulators.enable_banking_wire import key_pair
from tests.harness import START, Organization, Service, ServiceFactory
from tests.providers.enable_banking.person import BANK, EVERYTHING, GIRO, TAGESGELD, Person, open_bank, service_for
from tests.providers.fints.test_connecting import everything_stored
from tests.sandbox_visitor import query_of, words


@pytest.fixture
def bank() -> Iterator[EnableBanking]:
    made = open_bank()
    yield made
    made.stop()


@pytest.fixture
def service(start_service: ServiceFactory, bank: EnableBanking, tmp_path: Path) -> Service:
    return service_for(start_service, bank, tmp_path)


@pytest.fixture
def owner(service: Service) -> Organization:
    return service.organization()


@pytest.fixture
def person(service: Service, owner: Organization, bank: EnableBanking) -> Person:
    return Person(service, owner, bank)


on_one_engine = pytest.mark.parametrize("engine", ["sqlite"])


def test_a_person_connects_and_a_reconnect_finds_the_same_accounts(
    person: Person, bank: EnableBanking, service: Service, owner: Organization
) -> None:
    connection = person.connect(holder="personal", language="de")
    assert (connection["status"], connection["provider_name"], connection["country_code"]) == (
        "active",
        "Musterbank",
        "DE",
    )
    assert connection["consent_expires_at"] == to_datetime(START + 180 * DAY - 300_000_000).strftime(
        "%Y-%m-%dT%H:%M:%SZ"
    )
    before = person.accounts()
    assert [(one["extra"]["iban"], one["nature"], one["balance"], one["name"]) for one in before] == [
        (GIRO, "checking", 1042.5, "Geschäftskonto"), (TAGESGELD, "savings", -0.05, "Tagesgeld"),
    ]  # fmt: skip
    assert person.bookings() == EVERYTHING
    modes = service.get("/v2/banking/transactions", owner.key, params={"account_id": before[1]["id"]}).json()["data"]
    assert [one["mode"] for one in modes] == ["transfer"]
    # The consent ends; the person signs in again, and the accounts have other references in the new session.
    bank.end_session()
    service.clock.advance(seconds=7200)
    assert person.refresh().status_code == 409
    assert (person.connection()["status"], person.connection()["error_class"]) == ("inactive", "AispConsentExpired")
    again = service.post(f"/v2/banking/connections/{connection['id']}/reconnect", owner.key, json={})
    assert again.status_code in (200, 201), again.text
    bank.accounts[0].transactions.append(transaction("3.00", "Danach", "2026-03-02", "a-9"))
    # Not even the IBAN is told for one of them: it is known by its hash.
    bank.accounts[1].number = "532013000"
    person.arrive(bank.sign_in(again.json()["connect_url"]))
    assert (person.connection()["id"], person.connection()["status"]) == (connection["id"], "active")
    assert [one["id"] for one in person.accounts()] == [one["id"] for one in before]
    assert person.bookings() == sorted([*EVERYTHING, (3.0, "Danach", "posted")])
    flows = [one["flow"] for one in bank.sessions.values()]
    assert [(flow["psu_type"], flow["psu_id"]) for flow in flows] == [("personal", owner.id)] * 2, "as the first time"
    # What nobody uses any more is ended there as well, once the flow cannot come back to it.
    service.db.write_now(adapter.end_orphans)
    assert service.db.read_now(lambda tx: tx.all("SELECT * FROM banking_removals")) == []
    service.clock.advance(seconds=7200)
    service.db.write_now(adapter.end_orphans)
    service.run(routes.end_accesses(service.application.context))
    assert sorted(one["status"] for one in bank.sessions.values()) == ["AUTHORIZED", "CLOSED"]
    assert bank.faults == []


@on_one_engine
def test_removing_a_connection_ends_its_session_and_one_that_has_ended_is_no_failure(
    person: Person, bank: EnableBanking, service: Service, owner: Organization
) -> None:
    for _ in range(2):
        connection = person.connect()
        assert service.request("DELETE", f"/v2/banking/connections/{connection['id']}", owner.key).status_code < 300
        service.run(routes.end_accesses(service.application.context))
        assert {one["status"] for one in bank.sessions.values()} == {"CLOSED"}
        assert service.db.read_now(lambda tx: tx.all("SELECT * FROM banking_removals")) == []
        assert service.db.read_now(lambda tx: tx.all("SELECT * FROM enable_banking_sessions")) == []
        person.connect()
        bank.end_session("CLOSED")
        service.request("DELETE", f"/v2/banking/connections/{person.connection()['id']}", owner.key)
        service.run(routes.end_accesses(service.application.context))
    assert bank.faults == []


@on_one_engine
def test_a_person_without_a_bank_chooses_one_on_our_page(
    person: Person, bank: EnableBanking, service: Service, owner: Organization
) -> None:
    listed = service.get("/v2/banking/providers", owner.key, params={"country": "DE"}).json()["data"]
    assert [(one["name"], one["supports"], one["consent_days"]) for one in listed] == [
        ("Musterbank", ["accounts", "payments", "instant_payments"], 180),
        ("Sparkasse Köln/Bonn", ["accounts", "payments", "instant_payments"], 180),
    ]  # fmt: skip
    person.begin(provider_code=None)
    assert person.url.startswith(service.base_url)
    page = service.http.get(person.url)
    assert "Sparkasse Köln/Bonn" in words(page)
    service.http.post(person.url, data={"step": "1", "bank": BANK})
    flow = service.http.get(person.url)
    there = flow.headers["refresh"].partition("url=")[2]
    assert there.startswith(bank.address)
    person.arrive(bank.sign_in(there))
    assert person.connection()["status"] == "active"
    assert person.bookings() == EVERYTHING
    assert service.post("/v2/banking/connect", owner.key, json={"provider_code": "x"}).status_code == 400


@on_one_engine
def test_a_person_who_says_no_is_told_so(person: Person, bank: EnableBanking) -> None:
    person.begin(return_to="https://app.example/zurueck")
    answer = person.come_back(bank.refuse(person.url))
    assert query_of(answer) == {"pending_token": person.token, "error_class": "Cancelled"}
    # A code that is not theirs.
    person.begin(return_to="https://app.example/zurueck")
    address = bank.sign_in(person.url)
    answer = person.come_back(address[:-5] + "00000")
    assert query_of(answer)["error_class"] == "ProviderError"


@on_one_engine
def test_a_return_survives_whatever_breaks_after_the_session_was_made(
    person: Person, bank: EnableBanking, service: Service, capfd: pytest.CaptureFixture[str]
) -> None:
    addresses = []
    breaks: list[tuple[str, How]] = [
        ("/transactions", "half"), ("/transactions", "nonsense"), ("/balances", "500"), ("/sessions/", "502"), ("/transactions", "408"),
    ]  # fmt: skip
    for number, broken in enumerate(breaks, 1):
        person.begin()
        bank.breaks = [broken]
        addresses.append(bank.sign_in(person.url))
        assert person.come_back(addresses[-1]).status_code == 503
        assert person.connection()["status"] == "pending_connect"
        service.clock.advance(seconds=5)
        service.run(webhooks.apply_waiting(service.application.context))
        assert person.connection()["status"] == "active"
        assert person.bookings() == EVERYTHING
        # The code was used once: the session was kept before anything could break.
        assert bank.asked.count(("POST", "/sessions")) == number
    assert bank.faults == []
    # No code, token or key is kept or logged in clear.
    told = everything_stored(service) + capfd.readouterr().err.encode()
    for secret in (*(address.rpartition("=")[2] for address in addresses), "eyJ0eXAi", "PRIVATE KEY"):
        assert secret.encode() not in told


@on_one_engine
def test_a_lost_answer_to_the_code_is_told_and_the_person_signs_in_again(
    person: Person, bank: EnableBanking, service: Service
) -> None:
    person.begin()
    bank.breaks = [("/sessions", "lost")]
    address = bank.sign_in(person.url)
    assert person.come_back(address).status_code == 503
    service.clock.advance(seconds=5)
    service.run(webhooks.apply_waiting(service.application.context))
    assert "ALREADY_AUTHORIZED" in person.connection()["error_message"]
    assert person.connect()["status"] == "active"


@on_one_engine
def test_limits_are_obeyed_the_bank_s_and_theirs(
    person: Person, bank: EnableBanking, service: Service, owner: Organization
) -> None:
    person.connect()
    bank.readings_per_day = 0
    service.clock.advance(seconds=3700)
    assert person.refresh().status_code == 503
    bank.readings_per_day = None
    asked = len(bank.asked)
    # For as long as the bank said, it is left alone, also by the next process.
    assert person.refresh().status_code == 503
    assert len(bank.asked) == asked
    service.clock.advance(seconds=601)
    assert person.refresh().status_code == 202
    service.clock.advance(seconds=3700)
    bank.breaks = [("/sessions/", "429")]
    assert [person.refresh().status_code, person.refresh().status_code] == [503, 503]
    service.clock.advance(seconds=31)
    assert person.refresh().status_code == 202
    assert (person.connection()["status"], person.bookings()) == ("active", EVERYTHING)
    assert bank.faults == []


@on_one_engine
def test_the_bank_is_told_of_a_person_only_while_one_waits(
    person: Person, bank: EnableBanking, service: Service
) -> None:
    def told(**body: str) -> set[tuple[str, str]]:
        """Returns what was said with every reading of a refresh: from where, and with which browser."""
        bank.people.clear()
        service.clock.advance(seconds=3700)
        path = f"/v2/banking/connections/{person.connection()['id']}/refresh"
        assert service.post(path, person.owner.key, json=body).status_code == 202
        assert {what for what, _ in bank.people} == {"balances", "transactions"}
        return {(said.get("psu-ip-address", ""), said.get("psu-user-agent", "")) for _, said in bank.people}

    person.connect()
    # Whoever comes back from the bank waits for the page, and every reading is that person's.
    assert {said["psu-ip-address"] for _, said in bank.people} == {"127.0.0.1"}
    assert {said["psu-user-agent"][:12] for _, said in bank.people} == {"python-httpx"}
    assert told() == {("", "")}
    assert told(customer_ip_address="192.0.2.7", customer_user_agent="Mozilla/5.0 für\tmich") == {
        ("192.0.2.7", "Mozilla/5.0 frmich")
    }
    bank.banks[0]["required_psu_headers"] = ["Psu-Ip-Address", "Psu-Referer"]
    service.clock.advance(seconds=7 * 3600)
    bank.people.clear()
    service.run(refresh.refresh_automatically(service.application.context))
    assert {len(said) for _, said in bank.people} == {0}
    # A bank that requires more than is known is told nothing, and reads all the same.
    assert told(customer_ip_address="192.0.2.7") == {("", "")}
    assert bank.faults == []


@on_one_engine
def test_what_the_description_leaves_open_is_taken_either_way(
    person: Person, bank: EnableBanking, service: Service
) -> None:
    # Where pages overlap, only the bank's ids tell what is a repeat and what are two bookings that look alike.
    for number, one in enumerate(bank.accounts[0].transactions):
        one["entry_reference"] = f"b-{number}"
    person.connect()
    for name in ("signs_amounts", "leaves_out_nulls", "repeats_pages"):
        setattr(bank, name, True)
        service.clock.advance(seconds=3700)
        assert person.refresh().status_code == 202
        assert person.bookings() == EVERYTHING
        assert Person(service, service.organization(), bank).connect()["status"] == "active"
    fresh = Person(service, service.organization(), bank)
    fresh.connect()
    assert fresh.bookings() == EVERYTHING
    assert bank.faults == []


@on_one_engine
def test_each_session_state_means_what_the_table_says(person: Person, bank: EnableBanking, service: Service) -> None:
    person.connect()
    for status, error_class, becomes in (
        ("REVOKED", "AispConsentRevoked", "disabled"), ("CLOSED", "InteractionRequired", "inactive"),
        ("INVALID", "InteractionRequired", "inactive"), ("CANCELLED", "InteractionRequired", "inactive"),
    ):  # fmt: skip
        service.clock.advance(seconds=3700)
        bank.end_session(status)
        assert person.refresh().status_code == 409
        assert (person.connection()["status"], person.connection()["error_class"]) == (becomes, error_class)
        person.connect()
    service.clock.advance(seconds=3700)
    bank.end_session("PENDING_AUTHORIZATION")
    assert person.refresh().status_code == 503
    assert person.connection()["status"] == "active"


@on_one_engine
def test_an_account_that_cannot_be_read_does_not_hold_up_the_others(
    person: Person, bank: EnableBanking, service: Service
) -> None:
    person.connect()
    bank.accounts[0].is_readable = False
    bank.accounts[1].transactions.append(transaction("1.00", "Zinsen", "2026-03-02", "a-2"))
    service.clock.advance(seconds=3700)
    assert person.refresh().status_code == 202
    # What was pending on the account that was not read is still there.
    assert person.bookings() == sorted([*EVERYTHING, (1.0, "Zinsen", "posted")])
    giro, savings = person.accounts()
    assert giro["extra"]["not_read"] == [
        "The bank does not let this login read the account's balance.",
        "The bank does not let this login read the account's transactions.",
    ]
    assert (giro["balance"], "not_read" in savings["extra"]) == (None, False)
    assert "not_read" not in person.connection(), "its accounts say it"
    # The session does not tell of the account: then nothing is known of it but what was read before.
    service.db.write_now(lambda tx: tx.run("UPDATE enable_banking_sessions SET accounts = '[]'"))
    service.clock.advance(seconds=3700)
    assert person.refresh().status_code == 202
    assert person.accounts()[0]["extra"]["not_read"] == ["The bank does not let this login read the account."]
    # Booked under the same reference: the pending one is gone, nothing is there twice.
    bank.accounts[0].is_readable = True
    bank.accounts[0].transactions[5] = transaction("-7.00", "Vorgemerkt", "2026-03-02", "a-7")
    service.clock.advance(seconds=3700)
    assert person.refresh().status_code == 202
    assert [one[2] for one in person.bookings() if one[1] == "Vorgemerkt"] == ["posted"]
    assert "not_read" not in person.accounts()[0]["extra"]
    assert bank.faults == []


@on_one_engine
def test_an_account_that_was_never_read_is_told_with_its_connection(
    person: Person, bank: EnableBanking, service: Service
) -> None:
    bank.accounts.append(Account("DE75512108001245126199", is_readable=False))
    person.connect()

    refused = int(person.accounts()[-1]["id"])

    def never_read(tx: Tx) -> None:
        """The session does not tell of the account, so that there is nothing to call it by."""
        tx.run("UPDATE enable_banking_sessions SET accounts = '[]'")
        for table, column in (("banking_account_sources", "account_id"), ("banking_accounts", "id")):
            tx.run(f"DELETE FROM {table} WHERE {column} = ?", refused)

    service.db.write_now(never_read)
    service.clock.advance(seconds=3700)
    assert person.refresh().status_code == 202
    assert person.connection()["not_read"] == ["The bank does not let this login read the account."]
    assert len(person.accounts()) == 2
    bank.accounts[-1].is_readable = True
    service.clock.advance(seconds=3700)
    assert person.refresh().status_code == 202
    assert "not_read" not in person.connection()
    assert len(person.accounts()) == 3
    assert bank.faults == []


@on_one_engine
def test_money_is_never_guessed(person: Person, bank: EnableBanking, service: Service) -> None:
    person.connect()
    bank.accounts[0].transactions.append(transaction("2.00", "Mehr", "2026-03-02", "a-8"))
    expected = sorted([*EVERYTHING, (2.0, "Mehr", "posted")])
    for one, said in (
        (transaction("1.005", "x"), "not in whole cents"), (transaction("1e3", "x"), "not in whole cents"),
        (transaction("1.00", "x", None), "has no date"), (transaction("1.00", "x", ""), "has no date"),
        ({**transaction("1.00", "x"), "credit_debit_indicator": "BOTH"}, "not clear who was paid"),
        ({**transaction("1.00", "x"), "transaction_amount": {"currency": "EUR", "amount": "-1.00"}}, "not clear who was paid"),
        ({**transaction("1.00", "x"), "transaction_amount": {"currency": "EUR", "amount": 1.0}}, "cannot be read"),
        ({**transaction("1.00", "x"), "value_date": "2026-02-30"}, "cannot be read"),
    ):  # fmt: skip
        bank.accounts[1].transactions[1:] = [one]
        service.clock.advance(seconds=3700)
        assert person.refresh().status_code == 202
        # The odd row is laid aside and told; everything else is read.
        assert person.bookings() == expected
        [told] = [sentence for account in person.accounts() for sentence in account["extra"].get("not_read", ())]
        assert said in told
        assert person.connection()["status"] == "active"
    # An empty text is none, and a row that can be read later is read.
    bank.accounts[1].transactions[1:] = [
        {
            **transaction("1.00", "x", "2026-03-02"),
            "booking_date": "",
            "remittance_information": ["x", None],
            "note": "",
        }
    ]
    service.clock.advance(seconds=3700)
    assert person.refresh().status_code == 202
    assert person.bookings() == sorted([*expected, (1.0, "x", "posted")])
    assert not any("not_read" in account["extra"] for account in person.accounts())


@on_one_engine
def test_another_key_is_refused_and_costs_nobody_the_connection(
    person: Person, bank: EnableBanking, service: Service
) -> None:
    person.connect()
    bank.key = key_pair("another")
    service.clock.advance(seconds=3700)
    answer = person.refresh()
    assert answer.status_code == 503
    assert "refuses this installation" in answer.text
    assert person.connection()["status"] == "active"


@on_one_engine
def test_a_bank_that_does_not_go_so_far_back_is_asked_for_what_it_has(
    person: Person, bank: EnableBanking, service: Service
) -> None:
    bank.accounts = [Account(GIRO, transactions=[transaction("1.00", "Alt", "2026-02-01", "a-1")])]
    person.connect()
    bank.max_days = 1
    bank.accounts[0].transactions.append(transaction("2.00", "Neu", "2026-03-02", "a-2"))
    service.clock.advance(seconds=3700)
    assert person.refresh().status_code == 202
    assert [one[1] for one in person.bookings()] == ["Alt", "Neu"]
