"""The reading of a statement before its transaction is what the transaction would have made of it."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Any

import pytest

from kontobahn.banking.imports import files as statement_files
from kontobahn.banking.imports.files import ReadFile
from kontobahn.banking.imports.importer import StatementImporter
from kontobahn.banking.imports.store import ImportResult
from kontobahn.formats.bank_files import read
from tests.file_bank import FileBank, import_file
from tests.harness import Organization, Service
from tests.statement_builder import OTHER_IBAN, Booking, Sheet, camt, follow_up

FIRST = Sheet(
    [
        Booking(-12_34, "EREF+RE-1 SVWZ+Miete „März“", end_to_end_id="RE-1", reference="A1"),
        Booking(-12_34, "Miete", reference="A1"),
        Booking(50_00, "Gutschrift", status="PDNG"),
        Booking(70_00, "Rückgabe", reference="A2", reversal=True),
    ]
)
SECOND = follow_up(FIRST, Booking(-99, "Gebühr", name=None, iban=None), Booking(1_00, reference="A3"))
FILES = {
    "booked": camt(FIRST, SECOND),
    "intraday": camt(FIRST, kind="052"),
    "advice": camt(FIRST, kind="054"),
    "without an opening balance": camt(FIRST._replace(balances="CLBD")),
}
STALE = frozenset({"DE00"})


@pytest.fixture
def owner(service: Service) -> Organization:
    return service.organization()


@pytest.fixture(autouse=True)
def every_entry_is_a_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statement_files, "CHUNK", 1)


def take(service: Service, owner: Organization, content: bytes, own_ibans: Iterable[str]) -> ImportResult:
    with ReadFile(read(io.BytesIO(content), "auszug.xml"), own_ibans) as file:
        return service.db.write_now(lambda tx: StatementImporter(tx, owner.id, "auszug.xml").import_file(file))


def stored(service: Service, owner: Organization) -> list[dict[str, Any]]:
    """Without what differs between organisations."""
    rows = service.db.read_now(
        lambda tx: tx.all(
            "SELECT t.made_on, t.amount_minor, t.status, t.provider_ref, t.fingerprint, t.statement, t.end_to_end_id, t.booked_on,"
            " t.balance_minor, t.wire FROM banking_transactions t JOIN banking_accounts a ON a.id = t.account_id"
            " WHERE a.organization_id = ? ORDER BY t.id",
            owner.id,
        )
    )
    [account] = service.get("/v2/banking/accounts", owner.key).json()["data"]
    listed = service.get(
        "/v2/banking/transactions", owner.key, params={"account_id": account["id"], "sort": "id"}
    ).json()
    return [
        {"row": row[:-1], **item, "id": "", "account_id": ""} for row, item in zip(rows, listed["data"], strict=True)
    ]


@pytest.mark.parametrize("content", FILES.values(), ids=FILES.keys())
@pytest.mark.either_engine
def test_what_is_made_beforehand_is_what_the_transaction_makes(service: Service, content: bytes) -> None:
    ready, late = service.organization(), service.organization()
    assert take(service, ready, content, ()) == take(service, late, content, STALE)
    assert stored(service, ready) == stored(service, late)
    assert stored(service, ready)


def test_an_own_account_that_came_meanwhile_makes_a_transfer(service: Service, owner: Organization) -> None:
    with ReadFile(read(io.BytesIO(camt(FIRST)), "auszug.xml")) as file:
        import_file(service, owner, camt(Sheet([Booking(1)], iban=OTHER_IBAN)))
        service.db.write_now(lambda tx: StatementImporter(tx, owner.id, "auszug.xml").import_file(file))
    accounts = service.get("/v2/banking/accounts", owner.key).json()["data"]
    [account] = [item["id"] for item in accounts if item["extra"]["iban"] != OTHER_IBAN]
    listed = service.get("/v2/banking/transactions", owner.key, params={"account_id": account}).json()["data"]
    assert {item["mode"] for item in listed} == {"transfer"}


def test_the_transaction_may_run_again(service: Service, owner: Organization) -> None:
    class Again(Exception):
        """As a deadlock would have it."""

    with ReadFile(read(io.BytesIO(camt(FIRST, SECOND)), "auszug.xml")) as file:

        def failing(tx: Any) -> None:
            StatementImporter(tx, owner.id, "auszug.xml").import_file(file)
            raise Again

        with pytest.raises(Again):
            service.db.write_now(failing)
        result = service.db.write_now(lambda tx: StatementImporter(tx, owner.id, "auszug.xml").import_file(file))
    assert (result.statements, result.added) == (2, 6)


def test_a_booking_that_was_reported_during_the_day_gets_the_text_of_the_statement(service: Service) -> None:
    bank = FileBank(service)
    day = follow_up(bank.sheet, Booking(-5_00, "Karte vorgemerkt", end_to_end_id="K-1"))
    bank.take(camt(day, kind="052"))
    result = bank.take(camt(day._replace(bookings=[Booking(-5_00, "Karte gebucht", end_to_end_id="K-1")])))
    assert (result.added, result.modified) == (0, 1)
    assert stored(service, bank.owner)[-1]["description"] == "Karte gebucht"
