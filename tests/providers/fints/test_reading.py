"""The strict client at the fake bank, without a service around it: what it reads, what it never swallows, and many of it at once."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta
from typing import Any

import pytest

from kontobahn.bank_providers.fints import client, wire
from kontobahn.bank_providers.fints.client import BankError, FinTSConnectionError
from kontobahn.bank_providers.fints.rules import failure, snapshot_of
from kontobahn.bank_providers.fints.wire import Challenge, Documents, Login, SeenAccount, Work
from kontobahn.banking.provider import LOCKED, PERSON_NEEDED, ProviderDown, ProviderRefused, Snapshot
from simulators.fints_bank import Account, FakeBank, camt_document
from tests.providers.fints.person import GIRO, MT940, PIN, TAGESGELD, TAN, open_bank

DAY = date(2026, 3, 2)
# Where a bank may refuse: at the first contact, at the start of a dialog, an order, a TAN.
PLACES = ("sync", "start", "HKSPA", "HKSAL", "HKCAZ", "HKKAZ", "tan")
CLASSES = {
    "3931": LOCKED, "3938": LOCKED, "9930": LOCKED, "9931": LOCKED, "9340": "InvalidCredentials", "9910": "InvalidCredentials",
    "9942": "InvalidCredentials", "9941": "InvalidInteractiveCredentials", "9943": "InvalidInteractiveCredentials",
    "9951": "InteractiveTimeout", "9391": PERSON_NEEDED, "9075": PERSON_NEEDED, "9078": "ProviderError", "9010": "ProviderError",
    "9050": "ProviderError", "9110": "ProviderError", "9160": "ProviderError", "9185": "ProviderError", "9800": "ProviderError",
    "9998": "ProviderError", "9997": "down",
}  # fmt: skip


def work_for(user: str = "muster", pin: str = PIN, **more: Any) -> Work:
    return Work(Login("99990000", "https://bank.example/fints", "Fakebank", user), pin, "PRODUCT0000", **more)


def post_to(bank: FakeBank) -> Callable[[str, bytes], bytes]:
    def post(url: str, body: bytes) -> bytes:
        with bank._lock:
            return bank.answer(body)

    return post


def read_all(bank: FakeBank, work: Work) -> Documents:
    """From the first contact to the last page, with a TAN wherever the bank wants one, and everything through the sealed state."""
    post = post_to(bank)
    client.find_methods(work, post)
    client.find_devices(work, post, "920")
    found = client.read(work, post)
    while isinstance(found, Challenge):
        found = client.go_on(work, post, TAN)
    return found


def snapshot(bank: FakeBank, work: Work) -> Snapshot:
    documents = read_all(bank, work)
    return snapshot_of(
        work.login, work.accounts or [], documents, provider_ref="r", provider_code="c", next_refresh_possible_at=0
    )


# At the first contact 9075 only says that more is needed for the rest, so it does not come first.
CASES = [(PLACES[number % len(PLACES)], code) for number, code in enumerate(CLASSES)]


@pytest.mark.parametrize(("place", "code"), CASES)
def test_no_code_is_swallowed_wherever_it_comes(place: str, code: str) -> None:
    bank = open_bank()
    bank.errors = {place: [(code, "Nein.")]}
    if place in ("HKCAZ", "HKKAZ"):
        bank.accounts = [account for account in bank.accounts if account.has_camt == (place == "HKCAZ")]
    bank.start = "tan" if place == "tan" else "none"
    with pytest.raises(BankError) as refused:
        read_all(bank, work_for())
    assert code in [found for found, _ in refused.value.codes]
    error = failure(refused.value.codes)
    assert ("down" if isinstance(error, ProviderDown) else getattr(error, "error_class", "")) == CLASSES[code]
    assert "Nein" in str(error)
    assert bank.faults == []


@pytest.mark.parametrize("start", ["none", "tan"])
def test_how_the_goodbye_ends_does_not_matter(start: Any) -> None:
    bank = open_bank()
    bank.start, bank.errors = start, {"HKEND": [("9010", "Kein Abschied.")]}
    assert len(snapshot(bank, work_for()).transactions) == 5


@pytest.mark.parametrize(
    ("pages", "found"),
    [
        ([], 0),
        ([b'<?xml version="1.0"?><Document xmlns="urn:iso:std:iso:20022:tech:xsd:camt.052.001.08"></Document>'], 0),
        ([camt_document(GIRO, DAY, [])], 0),
        ([camt_document(GIRO, DAY, []), camt_document(GIRO, DAY, [("1.00", "SVWZ+Da")])], 1),
        # Two bookings alike are two, also if the bank numbers them alike in two documents.
        ([camt_document(GIRO, DAY, [("1.00", "SVWZ+Da")])] * 2, 2),
    ],
)  # fmt: skip
def test_empty_and_repeated_documents(pages: list[bytes], found: int) -> None:
    bank = open_bank()
    bank.accounts = [Account(GIRO, "202051", camt=pages)]
    transactions = list(snapshot(bank, work_for()).transactions)
    assert [facts.amount_minor for facts in transactions] == [100] * found
    references = [facts.provider_ref for facts in transactions if facts.provider_ref]
    assert len(references) == len(set(references))
    assert bank.faults == []


def test_a_bank_that_has_only_mt940_and_cuts_it_anywhere() -> None:
    for size in (31, 1000):
        bank = open_bank()
        parts = [MT940[at : at + size] for at in range(0, len(MT940), size)]
        bank.accounts = [Account(TAGESGELD, "532013000", mt940=parts, has_camt=False)]
        found = snapshot(bank, work_for())
        assert [(one.amount_minor, one.made_on) for one in found.transactions] == [(500, date(2026, 3, 1))]
        assert bank.faults == []


def test_a_long_history_is_read_page_by_page_and_loses_nothing_at_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    # Small, so that everything goes to disk.
    monkeypatch.setattr(wire, "IN_MEMORY", 1000)
    bank = open_bank()
    pages = [
        camt_document(GIRO, DAY - timedelta(days=page % 50), [(f"{page}.{n:02d}", f"SVWZ+Seite {page}") for n in range(3)])
        for page in range(40)
    ]  # fmt: skip
    bank.accounts = [Account(GIRO, "202051", camt=pages)]
    found = list(snapshot(bank, work_for()).transactions)
    assert sorted(one.amount_minor for one in found) == [page * 100 + n for page in range(40) for n in range(3)]
    # Each page with a TAN of its own: what was read before it comes back out of the sealed state.
    bank.accounts = [Account(GIRO, "202051", camt=pages[:4])]
    bank.confirmed_orders = {"HKCAZ"}
    work = work_for()
    assert len(snapshot(bank, work).transactions) == 12
    assert bank.faults == []


def test_pages_that_do_not_end_end_the_reading() -> None:
    bank = open_bank()
    bank.repeats_page = True
    with pytest.raises(FinTSConnectionError, match="does not end"):
        read_all(bank, work_for())


def test_more_than_can_be_kept_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MAX_BYTES", 1000)
    with pytest.raises(ProviderRefused, match="more transactions than"):
        read_all(open_bank(), work_for())


@pytest.fixture
def fast_switching() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("fast_switching")
def test_five_logins_in_five_threads_spoil_no_message_and_no_pin() -> None:
    bank = open_bank()
    bank.users = {f"nutzer{number}": f"pin-{number:05d}" for number in range(5)}
    with ThreadPoolExecutor(5) as threads:
        found = list(threads.map(lambda login: len(snapshot(bank, work_for(*login)).transactions), bank.users.items()))
    assert found == [5] * 5
    assert bank.faults == []
    assert bank.messages >= 5 * 10


def test_devices_are_asked_for_without_a_confirmation_and_without_them_the_bank_knows_which() -> None:
    bank = open_bank()
    bank.start, bank.devices = "decoupled", ["Handy", "Tablet"]
    for is_free, devices in ((True, ["Handy", "Tablet"]), (False, [])):
        bank.lists_devices_freely = is_free
        work = work_for()
        client.find_methods(work, post_to(bank))
        assert client.find_devices(work, post_to(bank), "922") == devices
    assert bank.faults == []
    # Of a single one nobody has to say which.
    bank.devices = ["Handy"]
    work, asked = work_for(), bank.messages
    client.find_methods(work, post_to(bank))
    told = bank.messages - asked
    assert client.find_devices(work, post_to(bank), "922") == []
    assert bank.messages - asked == told


# --- Habits of banks that are no faults, and faults that are one account's


EVERYTHING = {11_900, -500, -1_234, -700, 500}


def amounts(found: Snapshot) -> set[int]:
    return {facts.amount_minor for facts in found.transactions}


def balances(found: Snapshot) -> list[int | None]:
    return [facts.balance_minor for facts in found.accounts]


@pytest.mark.parametrize(
    "change",
    [
        {"writes_lines": True}, {"balance_version": 8}, {"lists_accounts": "long"}, {"lists_accounts": "short"},
        {"lists_accounts": "old"}, {"confirms_sync": True}, {"confirms_sync": True, "start": "tan"},
        {"confirms_sync": True, "start": "decoupled", "open_polls": 1},
    ],
)  # fmt: skip
def test_what_banks_do_otherwise_is_read_all_the_same(change: dict[str, Any]) -> None:
    bank = open_bank()
    for name, value in change.items():
        setattr(bank, name, value)
    if bank.lists_accounts == "short":
        # Without a list of rights all accounts are asked for camt.
        bank.accounts[1].has_camt = True
        bank.accounts[1].camt = [camt_document(TAGESGELD, DAY, [("5.00", "SVWZ+Zinsen")])]
    work = work_for()
    post = post_to(bank)
    client.find_methods(work, post)
    client.find_devices(work, post, "922" if bank.start == "decoupled" else "920")
    found = client.read(work, post)
    while isinstance(found, Challenge):
        found = client.go_on(work, post, "" if found.is_decoupled else TAN)
    read = snapshot_of(
        work.login, work.accounts or [], found, provider_ref="r", provider_code="c", next_refresh_possible_at=0
    )
    assert amounts(read) == EVERYTHING
    assert balances(read) == [104_250, -50]
    assert (list(read.not_read), bank.faults) == ([], [])


def test_an_account_without_rights_is_shown_as_such_and_blocks_no_other() -> None:
    bank = open_bank()
    bank.accounts[1].rights = ("HKSPA",)
    found = snapshot(bank, work_for())
    assert amounts(found) == EVERYTHING - {500}
    assert balances(found) == [104_250, None]
    assert [(told.account_ref, told.is_lost) for told in found.not_read] == [(TAGESGELD, False)] * 2
    assert ["balance" in told.sentence for told in found.not_read] == [True, False]
    assert bank.faults == []
    # A list of rights that says that it may not be complete is no reason not to try.
    bank.lists_some_orders = True
    assert amounts(snapshot(bank, work_for())) == EVERYTHING


@pytest.mark.parametrize("order", ["HKSAL", "HKKAZ"])
def test_an_account_that_the_bank_refuses_blocks_no_other(order: str) -> None:
    bank = open_bank()
    bank.accounts.reverse()
    bank.accounts[0].errors = {order: [("9210", f"Für dieses Konto nicht möglich, {PIN}.")]}
    found = snapshot(bank, work_for())
    assert amounts(found) == EVERYTHING - {500}
    [told] = found.not_read
    assert (told.account_ref, told.is_lost) == (TAGESGELD, True)
    assert "nicht möglich" in told.sentence
    assert PIN not in told.sentence
    assert bank.faults == []


def test_one_bad_document_fails_one_account() -> None:
    bank = open_bank()
    bank.accounts[0].camt.append(b"<Document xmlns='urn:iso:std:iso:20022:tech:xsd:camt.052.001.08'><Rpt>")
    found = snapshot(bank, work_for())
    assert amounts(found) == {500}
    [told] = found.not_read
    assert (told.account_ref, told.is_lost) == (GIRO, True)
    assert "cannot be read" in told.sentence
    # The booked ones are there, even if the pending ones cannot be read.
    bank = open_bank()
    bank.accounts[0].camt_pending = b"<Document xmlns='urn:iso:std:iso:20022:tech:xsd:camt.052.001.08'><Rpt>"
    found = snapshot(bank, work_for())
    assert amounts(found) == EVERYTHING - {-700}
    assert [told.account_ref for told in found.not_read] == [GIRO]


@pytest.mark.parametrize("balance", ["C:1042,505:EUR:20260302", "C:1e3:EUR:20260302", "C:5,:USD:20260302"])
def test_a_balance_that_is_not_in_cents_is_told_and_never_rounded(balance: str) -> None:
    bank = open_bank()
    bank.accounts = [Account(GIRO, "202051", camt=[camt_document(GIRO, DAY, [("1.00", "SVWZ+Da")])], balance=balance)]
    found = snapshot(bank, work_for())
    assert (amounts(found), balances(found)) == ({100}, [None])
    assert [told.is_lost for told in found.not_read] == [False]


@pytest.mark.parametrize("name", ["532013000", "0532013000", "37040044/532013000", "70020001/0532013000", "532013000EUR",
                                  "99990000532013000", "COBADEFF/532013000", TAGESGELD])  # fmt: skip
@pytest.mark.parametrize("newline", [b"\r\n", b"@@"])
def test_the_account_is_known_whatever_the_statement_calls_it(name: str, newline: bytes) -> None:
    bank = open_bank()
    document = MT940.replace(b"99990000/532013000", name.encode()).replace(b"\r\n", newline)
    bank.accounts = [Account(TAGESGELD, "532013000", mt940=[document], has_camt=False)]
    found = snapshot(bank, work_for())
    assert (amounts(found), list(found.not_read)) == ({500}, [])


def test_a_statement_of_another_account_is_left_out_and_told() -> None:
    bank = open_bank()
    bank.accounts = [Account(GIRO, "202051", camt=[camt_document(TAGESGELD, DAY, [("1.00", "SVWZ+Da")])])]
    found = snapshot(bank, work_for())
    assert amounts(found) == set()
    assert [TAGESGELD in told.sentence for told in found.not_read] == [True]


@pytest.mark.parametrize("before", [b"", b":34F:EURD0,\r\n:13D:2603021000+0100\r\n", b":60F:C260301EUR105,00\r\n"])
def test_what_is_pending_in_mt940_needs_no_floor_and_is_never_booked(before: bytes) -> None:
    bank = open_bank()
    pending = b"\r\n:20:VMK\r\n:25:99990000/532013000\r\n:28C:0/1\r\n" + before + (
        b":61:2603020302D7,00NTRFNONREF\r\n:86:177?00VORMERKUNG?20SVWZ+Bald\r\n"
        + (b":62F:C260302EUR98,00\r\n" if b":60F:" in before else b"") + b"-\r\n"
    )  # fmt: skip
    bank.accounts = [Account(TAGESGELD, "532013000", mt940=[MT940], mt940_pending=pending, has_camt=False, balance="")]
    found = snapshot(bank, work_for())
    assert [(one.amount_minor, one.status) for one in found.transactions] == [(500, "posted"), (-700, "pending")]
    assert (balances(found), list(found.not_read)) == ([10_500], [])


def test_camt_in_latin_1_and_with_a_number_of_the_banks_own_is_read() -> None:
    document = camt_document(GIRO, DAY, [("1.00", "SVWZ+Käse")]).replace(b' encoding="ISO-8859-1"', b"")
    document = document.replace(f"<IBAN>{GIRO}</IBAN>".encode(), b"<Othr><Id>0000202051</Id></Othr>")
    bank = open_bank()
    bank.accounts = [Account(GIRO, "202051", camt=[document])]
    found = snapshot(bank, work_for())
    assert [one.description for one in found.transactions] == ["SVWZ+Käse"]
    assert list(found.not_read) == []


# --- What was handed out, by itself


def account_of(kind: int = 1) -> SeenAccount:
    return SeenAccount(TAGESGELD, "", "532013000", "", "99990000", type=kind)


def read_of(accounts: list[SeenAccount], *handed_out: bytes) -> Snapshot:
    """Reads documents of the first account."""
    documents = Documents()
    for document in handed_out:
        documents.add(0, document, is_pending=False)
    return snapshot_of(
        work_for().login, accounts, documents, provider_ref="r", provider_code="c", next_refresh_possible_at=0
    )


def test_the_tens_of_its_type_say_what_an_account_is() -> None:
    expected = {
        1: "checking", 9: "checking", 10: "savings", 19: "savings", 20: "account", 30: "investment", 39: "investment",
        40: "loan", 49: "loan", 50: "credit_card", 59: "credit_card", 60: "investment", 69: "investment", 70: "account", 99: "account",
    }  # fmt: skip
    found = read_of([account_of(kind) for kind in expected])
    assert [facts.nature for facts in found.accounts] == list(expected.values())


def test_a_statement_is_read_from_its_first_byte_and_what_is_shorter_than_any_is_none() -> None:
    assert amounts(read_of([account_of()], MT940.lstrip())) == {500}
    assert list(read_of([account_of()], b"\r\n:20:-" + b" " * 12).not_read) == []
    [told] = read_of([account_of()], b":20:" + b"x" * 16).not_read
    assert "cannot be read" in told.sentence
