"""The simulated bank understands a client that others wrote, and is understood by it; every message is valid by the official schemas."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from datetime import date

import pytest
from painfree import ebics3
from painfree.ebics3 import envelope_schema, requests

from simulators.ebics_bank import Break, EbicsBank, Line
from tests.providers.ebics.files import GIRO, OTHER_PAYEE, PAYEE, transfers
from tests.providers.ebics.foreign import CAMT053, CHECKED_TRANSFERS, TRANSFERS, ForeignClient

RIGHTS = ("C53", "C52", "C54", "CRZ", "VPZ", "CCT", "CTV", "HVE", "HVS")
PAYMENTS = (("E2E-1", "12.34", "Müller GmbH", PAYEE), ("E2E-2", "100.00", "Anders AG", OTHER_PAYEE))


@pytest.fixture(scope="module")
def line() -> Iterator[tuple[EbicsBank, Line]]:
    bank = EbicsBank()
    bank.today = date(2026, 3, 2)
    line = Line(bank)
    yield bank, line
    line.hang_up()


@pytest.fixture(scope="module")
def introduced(line: tuple[EbicsBank, Line]) -> ForeignClient:
    bank, connection = line
    bank.add_user("PARTNER1", "USER1", *RIGHTS, level="E", name="Erika Muster")
    bank.add_account("PARTNER1", GIRO)
    client = ForeignClient(bank, connection)
    client.introduce()
    return client


@pytest.fixture
def client(introduced: ForeignClient) -> ForeignClient:
    partner = introduced.bank.partners["PARTNER1"]
    partner.deliveries.clear()
    partner.orders.clear()
    account = partner.accounts[0]
    account.bookings.clear()
    account.stated = 0
    introduced.bank.segment_size = 1_000_000
    introduced.bank.payees = {PAYEE: "Müller GmbH", OTHER_PAYEE: "Andere AG"}
    introduced.bank.faults.clear()
    return introduced


def unzipped(content: bytes) -> list[str]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return [archive.read(name).decode() for name in archive.namelist()]


def test_a_user_that_is_not_activated_gets_no_keys(line: tuple[EbicsBank, Line]) -> None:
    bank, connection = line
    bank.add_user("PARTNER1", "USER2")
    client = ForeignClient(bank, connection, user="USER2")
    for _ in ("INI", "HIA"):
        client.setup.feed(client.send(client.setup.next_request(), is_signed=False))
    with pytest.raises(ebics3.BankRefusedError) as refused:
        client.setup.feed(client.send(client.setup.next_request(), is_signed=False))
    assert refused.value.return_code == "091002"
    with pytest.raises(ValueError, match="another hash"):
        bank.activate("PARTNER1", "USER2", {"Signature": bytes(32)})


def test_keys_that_are_not_on_the_banks_letter_are_noticed(client: ForeignClient) -> None:
    with pytest.raises(ebics3.BankKeyMismatchError):
        client.setup.confirm_bank_keys(authentication="00" * 32, encryption=client.bank.letter()["Encryption"])


def test_statements_come_in_segments_and_again_until_they_are_acknowledged(client: ForeignClient) -> None:
    account = client.bank.partners["PARTNER1"].accounts[0]
    for number in range(40):
        account.book(date(2026, 3, 2), "1.00", f"Eingang {number}", end_to_end_id=f"IN-{number}")
    client.bank.close_day("PARTNER1")
    client.bank.segment_size = 500
    first = client.download(CAMT053, acknowledged=False)
    assert client.download(CAMT053) == first
    (statement,) = unzipped(first)
    assert statement.count("<Ntry>") == 40
    assert client.download(CAMT053) == b""
    assert client.codes[-1] == ("000000", "090005")
    assert client.download(CAMT053, date_range=("2026-03-02", "2026-03-02")) == first
    assert client.bank.faults == []


def test_a_signed_order_is_executed_and_stands_in_the_next_statement(
    client: ForeignClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = client.upload(TRANSFERS, transfers(*PAYMENTS), request_eds=False)
    client.bank.close_day("PARTNER1")
    (statement,) = unzipped(client.download(CAMT053))
    assert "<EndToEndId>E2E-1</EndToEndId>" in statement
    assert "<EndToEndId>E2E-2</EndToEndId>" in statement
    monkeypatch.setitem(requests.ADMIN_DOWNLOADS, "HAC", "the protocol")
    protocol = client.download("HAC").decode()
    assert f"<Id>{sent.order_id}</Id>" in protocol
    assert "ORDER_HAC_FINAL_POS" in protocol
    with pytest.raises(ebics3.BankRefusedError) as refused:
        client.upload(TRANSFERS, transfers(*PAYMENTS), request_eds=False)
    assert refused.value.return_code == "091115"


def test_an_order_without_a_releasing_signature_waits(client: ForeignClient) -> None:
    sent = client.upload(TRANSFERS, transfers(*PAYMENTS))
    partner = client.bank.partners["PARTNER1"]
    assert [(order.id, order.state) for order in partner.orders] == [(sent.order_id, "waiting")]
    assert partner.accounts[0].bookings == []
    client.bank.release("PARTNER1", sent.order_id)
    assert len(partner.accounts[0].bookings) == 2


def test_names_of_payees_are_compared(client: ForeignClient) -> None:
    client.upload(CHECKED_TRANSFERS, transfers(*PAYMENTS), request_eds=True)
    results = ebics3.Service("REP", "pain.002", scope="DE", option="VOP", container="ZIP")
    (report,) = unzipped(client.download(results))
    assert "<TxSts>RCVC</TxSts>" in report
    assert "<TxSts>RVNM</TxSts>" in report
    assert client.bank.partners["PARTNER1"].orders[0].state == "waiting"


@pytest.mark.parametrize("order", ["HTD", "HPD", "HAA", "HKD", "HVU", "HVZ"])
def test_what_the_bank_tells_of_itself_is_valid(
    client: ForeignClient, order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(requests.ADMIN_DOWNLOADS, order, "more than it asks for by itself")
    client.upload(TRANSFERS, transfers(*PAYMENTS))
    client.bank.deliver("PARTNER1", "C53", b"<Document/>")
    content = client.download(order)
    assert envelope_schema.schema_failures(content) == []


def test_the_rights_are_read(client: ForeignClient) -> None:
    told = ebics3.parse_htd_order_data(client.download("HTD"))
    assert [account.iban for account in told.accounts] == [GIRO]
    services = {(order.admin_order_type, order.service.msg_name) for order in told.orders if order.service}
    assert {("BTD", "camt.053"), ("BTU", "pain.001")} <= services


def test_after_a_lost_answer_the_bank_says_where_to_go_on(client: ForeignClient) -> None:
    client.bank.breaks.append(Break("lost", phase="Transfer", order="CCT", segment=2))
    client.upload(TRANSFERS, transfers(*PAYMENTS), segment_size=200)
    assert ("061101", "000000") in client.codes
    assert [order.content for order in client.bank.partners["PARTNER1"].orders] == [transfers(*PAYMENTS)]


def test_another_key_of_the_bank_has_to_be_fetched_first(client: ForeignClient) -> None:
    bank, known = client.bank, client.bank.encryption
    bank.encryption = bank.authentication
    try:
        with pytest.raises(ebics3.BankRefusedError) as refused:
            client.download(CAMT053)
    finally:
        bank.encryption = known
    assert refused.value.return_code == "091008"
