"""FinTS from the first page to the last: what a bank may want on the way, how it may refuse or break, and what stays secret."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from kontobahn.bank_providers.fints import adapter
from kontobahn.bank_providers.fints.rules import failure
from kontobahn.banking.connect import steps
from kontobahn.banking.provider import LOCKED, PERSON_NEEDED, Banking, PersonNeeded, ProviderRefused
from kontobahn.banking.reports import refresh
from kontobahn.clock import DAY
from simulators.fints_bank import FakeBank
from tests.harness import Organization, Service, ServiceFactory
from tests.providers.fints.person import EVERYTHING, GIRO, PIN, TAGESGELD, TAN, Person, open_bank, service_for


@pytest.fixture
def bank() -> Iterator[FakeBank]:
    made = open_bank()
    yield made
    made.stop()


@pytest.fixture
def address(bank: FakeBank) -> str:
    return bank.serve()


@pytest.fixture
def service(start_service: ServiceFactory, address: str) -> Service:
    return service_for(start_service, address)


@pytest.fixture
def owner(service: Service) -> Organization:
    return service.organization()


@pytest.fixture
def person(service: Service, owner: Organization, address: str) -> Person:
    return Person(service, owner, address)


on_one_engine = pytest.mark.parametrize("engine", ["sqlite"])


def everything_stored(service: Service) -> bytes:
    """All rows of all tables, as text."""

    def read(tx: Any) -> bytes:
        names = [name for (name,) in tx.all("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return b"".join(repr(tx.all(f"SELECT * FROM {name}")).encode() for name in names)

    return service.db.read_now(read)


def test_whoever_names_a_login_keeps_no_other_organisation_from_it(
    person: Person, bank: FakeBank, service: Service, owner: Organization
) -> None:
    bank.start = "tan"
    person.begin()
    person.sign_in()
    # The first waits for a TAN that never comes.
    assert person.send(method="920")
    other = Person(service, service.organization("Zweite GmbH"), person.address).begin()
    assert "smsTAN" in other.sign_in()


def test_an_attempt_that_the_bank_does_not_answer_leaves_the_login_free(
    person: Person, bank: FakeBank, service: Service, owner: Organization
) -> None:
    person.begin()
    bank.breaks = ["500"]
    assert "antwortet gerade nicht" in person.sign_in()
    assert service.db.read_now(lambda tx: tx.all("SELECT login FROM fints_dialogs")) == []
    assert "smsTAN" in Person(service, owner, person.address).begin().sign_in()


@on_one_engine
@pytest.mark.either_engine
def test_a_login_with_a_tan_becomes_a_connection_and_its_secrets_stay_secret(
    person: Person, bank: FakeBank, capfd: pytest.CaptureFixture[str]
) -> None:
    bank.start = "tan"
    person.begin()
    # To keep the PIN is a choice, made by the person.
    assert " checked>" not in person.service.http.get(person.url).text
    page = person.sign_in(keep="yes")
    assert [text in page for text in ("smsTAN", "pushTAN 2.0")] == [True, True]
    page = person.send(method="920")
    # In the bank's own words.
    assert "Bitte TAN eingeben: Auftrag HKIDN für Müller & Söhne" in page
    for secret in (PIN, TAN):
        assert secret not in page
        assert secret.encode() not in everything_stored(person.service)
    assert "Das Konto ist verbunden" in person.send(tan=TAN)
    assert bank.faults == []
    connection = person.connection()
    assert (connection["status"], connection["provider_name"]) == ("active", "Bank 99990000")
    assert (connection["consent_expires_at"], connection["automatic_refresh"]) == (None, True)
    accounts = person.service.get("/v2/banking/accounts", person.owner.key).json()["data"]
    assert [(one["extra"]["iban"], one["name"], one["nature"], one["balance"]) for one in accounts] == [
        (GIRO, "Girokonto", "checking", 1042.5), (TAGESGELD, "Tagesgeld", "savings", -0.5),
    ]  # fmt: skip
    assert person.bookings() == EVERYTHING
    stored = everything_stored(person.service)
    output = "".join(capfd.readouterr())
    for secret in (PIN, TAN):
        assert secret.encode() not in stored
        assert secret not in output


@on_one_engine
@pytest.mark.either_engine
@pytest.mark.parametrize("orders", [{"HKCAZ"}, {"HKKAZ", "HKSAL"}])
def test_an_order_on_the_way_may_want_a_tan_each_time(person: Person, bank: FakeBank, orders: set[str]) -> None:
    bank.confirmed_orders = orders
    person.begin()
    person.sign_in()
    page = person.send(method="920")
    asked = 0
    while "TAN eingeben" in page:
        asked += 1
        page = person.send(tan=TAN)
    assert asked == {"HKCAZ": 2, "HKSAL": 4}[sorted(orders)[-1]]
    assert person.bookings() == EVERYTHING
    assert bank.faults == []


@on_one_engine
@pytest.mark.either_engine
def test_a_confirmation_in_the_app_is_polled_at_the_banks_pace_on_a_chosen_device(
    person: Person, bank: FakeBank
) -> None:
    bank.start, bank.devices = "decoupled", ["Handy Erika", "Tablet"]
    person.begin()
    person.sign_in()
    assert "Handy Erika" in person.send(method="922")
    assert "Bitte in der App freigeben" in person.send(device="Tablet")
    before = bank.messages
    person.look()
    # The bank wants a second between two questions.
    assert bank.messages == before
    for _ in range(bank.open_polls + 1):
        person.service.clock.advance(seconds=1)
        person.look()
    assert "Das Konto ist verbunden" in person.look()
    assert person.bookings() == EVERYTHING
    assert bank.faults == []


@pytest.mark.either_engine
def test_a_refresh_without_the_person_ends_where_the_bank_wants_one(person: Person, bank: FakeBank) -> None:
    connection = person.connect(keep="yes")
    service, context = person.service, person.service.application.context
    service.clock.advance(seconds=6 * 3600)
    bank.accounts[0].camt.pop(0)
    bank.accounts[0].camt_pending = b""
    service.run(refresh.refresh_automatically(context))
    # What is pending no more is gone, and what was fetched before is not asked for again.
    assert len(person.bookings()) == len(EVERYTHING) - 1
    assert bank.asked_from == ["20251203", "20251203", "20260216", "20260216"]
    bank.start = "tan"
    service.clock.advance(seconds=6 * 3600)
    service.run(refresh.refresh_automatically(context))
    assert (person.connection()["status"], person.connection()["error_class"]) == ("inactive", PERSON_NEEDED)
    asked = bank.messages
    service.clock.advance(seconds=DAY // 1_000_000)
    service.run(refresh.refresh_automatically(context))
    assert bank.messages == asked
    # The person comes, signs in again, and everything goes on under the same id.
    again = service.post(f"/v2/banking/connections/{connection['id']}/reconnect", person.owner.key)
    person.url = again.json()["connect_url"]
    page = service.http.get(person.url).text
    assert ("muster" in page, page.count(" checked>")) == (True, 1)
    person.sign_in()
    person.send(method="920")
    assert "Das Konto ist verbunden" in person.send(tan=TAN)
    now = person.connection()
    assert (now["id"], now["status"], now["automatic_refresh"]) == (connection["id"], "active", False)
    # This time the PIN was not to be kept.
    service.clock.advance(seconds=600)
    refused = service.post(f"/v2/banking/connections/{now['id']}/refresh", person.owner.key)
    assert (refused.status_code, "PIN" in refused.json()["error"]) == (409, True)
    assert bank.faults == []
    # With the connection goes the login.
    assert service.request("DELETE", f"/v2/banking/connections/{now['id']}", person.owner.key).status_code == 200
    assert service.db.read_now(lambda tx: tx.all("SELECT ref FROM fints_logins")) == []


@on_one_engine
@pytest.mark.either_engine
@pytest.mark.parametrize(
    ("where", "code", "error_class"),
    [
        ("sync", "9942", "InvalidCredentials"), ("start", "9931", LOCKED), ("HKCAZ", "9010", "ProviderError"),
        ("tan", "9941", "InvalidInteractiveCredentials"),
    ],
)  # fmt: skip
def test_a_refusal_is_told_in_the_banks_words_and_nothing_is_tried_again(
    person: Person, bank: FakeBank, where: str, code: str, error_class: str
) -> None:
    bank.errors[where] = [(code, f"Absage {code}")]
    bank.start = "tan" if where == "tan" else "none"
    if where == "HKCAZ":  # an account that is refused spoils no other
        bank.accounts = [account for account in bank.accounts if account.has_camt]
    person.begin()
    page = person.sign_in()
    if where != "sync":
        page = person.send(method="920")
    if where == "tan":
        page = person.send(tan=TAN)
    assert f"Absage {code}" in page
    assert (person.connection()["status"], person.connection()["error_class"]) == ("pending_connect", error_class)
    assert ("Noch einmal versuchen" in page) is (error_class != LOCKED)
    assert bank.faults == []
    asked = bank.messages
    person.look()
    # Nothing is tried again but by the person.
    assert bank.messages == asked
    # The login is free for another dialog at once.
    assert person.service.db.read_now(lambda tx: tx.all("SELECT login FROM fints_dialogs")) == []


@on_one_engine
@pytest.mark.either_engine
@pytest.mark.parametrize("where", ["refusal", "question", "start"])
def test_what_the_bank_repeats_of_pin_and_tan_is_neither_shown_nor_kept(
    person: Person, bank: FakeBank, where: str, capfd: pytest.CaptureFixture[str]
) -> None:
    repeated = f"mit TAN {TAN} und PIN {PIN}"
    bank.confirmed_orders = set() if where == "start" else {"HKCAZ"}
    if where == "start":
        # It has not been told a TAN yet.
        bank.errors["start"] = [("9910", f"Abgewiesen mit PIN {PIN}")]
    elif where == "refusal":
        bank.errors["tan"] = [("9941", f"Abgewiesen {repeated}")]
    person.begin()
    person.sign_in()
    page = person.send(method="920")
    if where != "start":
        bank.adds = f", {repeated}" if where == "question" else ""
        page = person.send(tan=TAN)
    assert ("Abgewiesen mit" if where != "question" else "Bitte TAN eingeben: Auftrag") in page
    assert "•••" in page
    told = page + str(person.connection()) + "".join(capfd.readouterr())
    for secret in (PIN, TAN):
        assert secret not in told
        assert secret.encode() not in everything_stored(person.service)


@pytest.mark.parametrize(
    ("codes", "error_class"),
    [
        ([("9050", "Fehler"), ("9800", "Abbruch"), ("9942", "PIN falsch")], "InvalidCredentials"),
        ([("9942", "PIN falsch"), ("3938", "Gesperrt")], LOCKED),
        ([("9999", "Hausmitteilung")], "ProviderError"),
        ([("9050", "Nur das")], "ProviderError"),
    ],
)
def test_the_worst_code_counts_and_the_bank_is_quoted(codes: list[tuple[str, str]], error_class: str) -> None:
    error: Any = failure(codes)
    assert error.error_class == error_class
    assert codes[-1][1] in str(error) or codes[0][1] in str(error)
    # That there was a failure is said only where nothing else is.
    assert ("9050" in str(error)) is ({code for code, _ in codes} == {"9050"})
    assert not str(error).endswith(".")


@on_one_engine
@pytest.mark.either_engine
@pytest.mark.parametrize("fault", ["500", "nonsense", "cut", "huge"])
def test_a_broken_answer_loses_nothing(person: Person, bank: FakeBank, fault: Any) -> None:
    person.begin()
    bank.breaks = [fault]
    page = person.sign_in()
    assert "antwortet gerade nicht" in page
    # No field is marked: nothing is wrong with what was entered.
    assert "aria-invalid" not in page
    person.sign_in()
    bank.breaks = [fault]
    assert "antwortet gerade nicht" in person.send(method="920")
    assert "Das Konto ist verbunden" in person.send(method="920")
    assert person.bookings() == EVERYTHING


@on_one_engine
@pytest.mark.either_engine
def test_a_bank_that_does_not_answer_is_waited_for_only_so_long(
    person: Person, bank: FakeBank, monkeypatch: pytest.MonkeyPatch
) -> None:
    person.begin()
    with monkeypatch.context() as patch:
        patch.setattr(adapter, "SECONDS", 0.5)
        bank.breaks = ["silent"]
        assert "antwortet gerade nicht" in person.sign_in()
    assert "smsTAN" in person.sign_in()


@on_one_engine
@pytest.mark.either_engine
def test_a_page_does_not_wait_for_a_slow_bank_and_goes_on_by_itself(
    person: Person, bank: FakeBank, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "ANSWER_SECONDS", 0.05)
    person.begin()
    bank.pause.clear()
    page = person.send_at_once(user="muster", pin=PIN, blz="99990000", url=person.address)
    assert (page.headers["refresh"], "Wir warten auf Ihre Bank" in page.text) == ("3", True)
    # A second window does not ask a second time.
    assert "Wir warten auf Ihre Bank" in person.send_at_once(user="muster", pin=PIN).text
    bank.pause.set()
    assert "smsTAN" in person.look()
    assert "Das Konto ist verbunden" in person.send(method="920")
    assert (bank.faults, bank.open_at_once) == ([], 1)


@on_one_engine
def test_no_machine_tries_a_refused_pin_again_and_nothing_is_missing_after_months(
    person: Person, bank: FakeBank
) -> None:
    connection = person.connect(keep="yes")
    service, context = person.service, person.service.application.context
    bank.errors = {"start": [("9942", "PIN ungültig.")]}
    service.clock.advance(seconds=6 * 3600)
    service.run(refresh.refresh_automatically(context))
    assert (person.connection()["status"], person.connection()["error_class"]) == ("inactive", "InvalidCredentials")
    asked = bank.messages
    service.clock.advance(seconds=100 * 24 * 3600)
    service.run(refresh.refresh_automatically(context))
    assert bank.messages == asked
    bank.errors = {}
    again = service.post(f"/v2/banking/connections/{connection['id']}/reconnect", person.owner.key)
    person.url = again.json()["connect_url"]
    person.sign_in()
    assert "Das Konto ist verbunden" in person.send(method="920")
    # Further back than banks usually go without a TAN: from where it was read last.
    assert bank.asked_from[-1] == "20260216"


@on_one_engine
def test_a_refused_pin_stops_all_connections_of_the_login(
    person: Person, bank: FakeBank, service: Service, owner: Organization
) -> None:
    person.connect(keep="yes")
    Person(service, owner, person.address).connect(keep="yes")
    refs = service.db.read_now(lambda tx: [ref for (ref,) in tx.all("SELECT provider_ref FROM banking_connections")])
    assert len(refs) == 2
    provider = service.application.context.part(Banking).provider("fints")
    bank.users["muster"] = "another"
    with pytest.raises(ProviderRefused) as refusal:
        service.run(provider.fetch(refs[0]))
    assert refusal.value.error_class == "InvalidCredentials"
    asked = bank.messages
    for ref in refs:
        with pytest.raises(PersonNeeded):
            service.run(provider.fetch(ref))
    assert bank.messages == asked, "it is sent once, not by each connection"
    # The new one, entered for one of them, is not the old one for any other.
    person.pin = "another"
    person.connect(keep="yes")
    bank.users["muster"] = "third"
    Person(service, owner, person.address, pin="third").connect(keep="yes")
    read = 0
    for (ref,) in service.db.read_now(lambda tx: tx.all("SELECT ref FROM fints_logins")):
        with contextlib.suppress(PersonNeeded):
            read += bool(service.run(provider.fetch(ref)).accounts)
    assert read == 2


def test_a_login_has_one_dialog_at_a_time(
    person: Person, bank: FakeBank, service: Service, owner: Organization
) -> None:
    bank.start = "tan"
    person.begin()
    person.sign_in()
    person.send(method="920")
    # Another window.
    other = Person(service, owner, person.address).begin()
    assert "antwortet gerade nicht" in other.sign_in()
    assert person.service.http.post(person.url, data={"step": "x", "action": "cancel"}).status_code == 303
    person.send(action="cancel")
    assert "smsTAN" in other.sign_in()
    assert bank.open_at_once == 1
    # One that never came back is given up for.
    service.clock.advance(seconds=adapter.DIALOG_TIME // 1_000_000)
    assert "smsTAN" in Person(service, owner, person.address).begin().sign_in()
    service.clock.advance(seconds=7200)
    service.db.write_now(adapter.remove_orphans)
    assert service.db.read_now(lambda tx: tx.all("SELECT login FROM fints_dialogs")) == []


@on_one_engine
@pytest.mark.either_engine
@pytest.mark.parametrize("url", ["http://127.0.0.1:1/fints", "https://localhost/fints", "file:///etc/passwd"])
def test_an_address_that_is_not_public_is_not_reached(person: Person, bank: FakeBank, url: str) -> None:
    person.begin()
    person.look()
    assert "antwortet gerade nicht" in person.send(blz="99990000", url=url, user="muster", pin=PIN)
    assert bank.messages == 0


@on_one_engine
@pytest.mark.either_engine
def test_a_payment_from_such_an_account_is_an_order_file(person: Person, service: Service, owner: Organization) -> None:
    person.connect()
    account = service.get("/v2/banking/accounts", owner.key, params={"payments_supported": "true"}).json()["data"][0]
    body = {
        "account_id": account["id"], "amount": "12.34", "creditor_name": "Papier GmbH", "creditor_iban": TAGESGELD,
        "description": "Rechnung",
    }  # fmt: skip
    made = service.post("/v2/banking/payments", owner.key, json=body)
    assert made.status_code == 201, made.text
    assert "/banking/orders/" in made.json()["data"]["payment_url"]
