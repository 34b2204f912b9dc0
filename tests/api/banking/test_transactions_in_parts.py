"""A long list of transactions is read and sent in parts: what arrives is the stored texts, in order, of one moment."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from kontobahn.api import exchange
from kontobahn.banking.transactions import store as transactions
from kontobahn.banking.transactions import wire as transaction_wire
from kontobahn.db import Tx
from tests.bank_builder import Bank, account_facts, account_id, facts
from tests.harness import Organization, Service, ServiceFactory
from tests.waiting import PATIENCE_SECONDS, eventually

LIST = "/v2/banking/transactions"
PLAIN = {"accept-encoding": "identity"}
# Ids rise as they are listed here; three share a day.
DAYS = ("2026-03-05", "2026-03-02", "2026-03-04", "2026-03-02", "2026-03-01", "2026-03-02", "2026-03-03", "2026-03-06")
BOTH = (account_facts("giro"), account_facts("savings", None, name="Tagesgeld", nature="savings"))
MEGABYTE, MANY = 1024 * 1024, 30


@pytest.fixture(autouse=True)
def parts_of_three(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of them, and then one that is longer."""
    monkeypatch.setattr(transactions, "_PART_ROWS", 3)
    monkeypatch.setattr(transactions, "_SMALL_PARTS", 2)


def stored(service: Service, sort: str) -> list[tuple[str, int, str]]:
    """The day, the id and the text of every transaction, sorted here and not by the database."""
    rows = service.db.read_now(lambda tx: tx.all("SELECT made_on, id, wire FROM banking_transactions"))
    return sorted(rows, key=lambda row: row[1] if sort == "id" else row[:2])


def body_of(rows: list[tuple[str, int, str]]) -> bytes:
    return f'{{"data":[{",".join(text for _, _, text in rows)}]}}'.encode()


def movements(count: int = len(DAYS), **more: Any) -> list[Any]:
    return [
        facts(number + 1, f"Bäckerei „Zur Brücke“ {number}", day, **more) for number, day in enumerate(DAYS[:count])
    ]


@pytest.mark.parametrize("sort", ["id", "made_on"])
def test_every_part_arrives_in_order(service: Service, sort: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "INLINE_ROWS", 4)
    owner = service.organization()
    row = Bank(service).connected(owner, *movements(), accounts=list(BOTH))
    account, rows = account_id(service, owner), stored(service, sort)

    def check(expected: list[tuple[str, int, str]], of: dict[str, str], *, continued: bool = False) -> None:
        answer = service.get(LIST, owner.key, params={"sort": sort, **of}, headers=PLAIN)
        assert answer.content == body_of(expected), of
        assert answer.headers["content-length"] == str(len(answer.content))
        assert ("link" in answer.headers) == continued, of

    for chosen in ({"account_id": account}, {"connection_id": row.id}):
        check(rows, chosen)
        for limit in range(1, len(rows) + 2):
            check(rows[:limit], {**chosen, "limit": str(limit)}, continued=sort == "id" and limit < len(rows))
        from_second = {**chosen, "from_date": "2026-03-02"}
        check([one for one in rows if one[0] >= "2026-03-02"], from_second)
        check([one for one in rows if "2026-03-02" <= one[0] < "2026-03-05"], {**from_second, "to_date": "2026-03-04"})
        for after in {rows[0][1], rows[4][1], rows[-1][1]}:
            check([one for one in rows if one[1] > after], {**chosen, "from_id": str(after)})
    check([], {"account_id": account_id(service, owner, 1)})
    packed = service.get(LIST, owner.key, params={"sort": sort, "account_id": account})
    assert (packed.headers["content-encoding"], packed.content) == ("gzip", body_of(rows))


class Watched:
    """Notes what a reader gets of transactions."""

    def __init__(self, tx: Tx, got: list[Any]) -> None:
        self._tx = tx
        self._got = got
        self.now = tx.now

    def one(self, sql: str, *params: Any) -> Any:
        row = self._tx.one(sql, *params)
        self._note(sql, [row])
        return row

    def all(self, sql: str, *params: Any) -> Any:
        rows = self._tx.all(sql, *params)
        self._note(sql, rows)
        return rows

    def _note(self, sql: str, rows: list[Any]) -> None:
        if "banking_transactions" in sql:
            self._got += rows


@pytest.mark.parametrize("sort", ["id", "made_on"])
@pytest.mark.either_engine
def test_a_list_that_is_too_long_is_refused_before_any_of_it_is_read(
    service: Service, sort: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    got: list[Any] = []
    read = transactions._read
    monkeypatch.setattr(transactions, "_read", lambda tx, *more, **joins: read(Watched(tx, got), *more, **joins))  # type: ignore[arg-type]
    monkeypatch.setattr(transactions, "MAX_ROWS", 5)
    monkeypatch.setattr(transactions, "INLINE_ROWS", 0)
    owner = service.organization()
    row = Bank(service).connected(owner, *movements(), accounts=list(BOTH))
    later, fewer = {"from_date": "2026-03-02"}, {"from_date": "2026-03-03"}
    for chosen in ({"account_id": account_id(service, owner)}, {"connection_id": row.id}):
        for filters in ({}, later):
            got.clear()
            answer = service.get(LIST, owner.key, params={"sort": sort, **chosen, **filters})
            assert (answer.status_code, answer.json()["field"]) == (400, "limit")
            # Of eight or seven, and no further than one more than allowed.
            assert got == [(6,)]
        assert len(service.get(LIST, owner.key, params={"sort": sort, **chosen, **fewer}).json()["data"]) == 4
        assert len(service.get(LIST, owner.key, params={"sort": sort, **chosen, "limit": "5"}).json()["data"]) == 5
    # Also if some have come since they were counted.
    service.db.write_now(lambda tx: tx.run("UPDATE banking_accounts SET posted = 1"))
    for chosen in ({"account_id": account_id(service, owner)}, {"connection_id": row.id}):
        assert service.get(LIST, owner.key, params={"sort": sort, **chosen}).status_code == 400
    assert service.balance(owner).spent == 4


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
@pytest.mark.parametrize("sort", ["id", "made_on"])
def test_all_parts_are_of_one_moment(service: Service, sort: str) -> None:
    owner, bank = service.organization(), Bank(service)
    row = bank.connected(owner, *movements())
    account, before = int(account_id(service, owner)), body_of(stored(service, sort))
    query = transaction_wire.TransactionsQuery(account_id=str(account), sort=sort)  # type: ignore[arg-type]
    interrupted: list[str] = []

    class Interrupted:
        """Another writes after each part."""

        def __init__(self, tx: Tx) -> None:
            self._tx = tx

        def one(self, sql: str, *params: Any) -> Any:
            found = self._tx.one(sql, *params)
            interrupted.append(sql)
            later = facts(1000 + len(interrupted), f"kam dazwischen, {len(interrupted)}", "2026-03-02")
            bank.report(row, *movements(), later)
            return found

    def read(tx: Tx) -> bytes:
        page = transactions._joined(Interrupted(tx), account, query)  # type: ignore[arg-type]
        return b"".join(page.answer.parts)

    assert service.db.read_now(read) == before
    assert len(interrupted) >= 3
    assert len(stored(service, sort)) > len(DAYS)


def take_the_beginning(service: Service, owner: Organization) -> socket.socket:
    """A connection that has asked for more than the server and the system keep for a caller, and has taken a few bytes."""
    Bank(service).connected(owner, *(facts(number, f"Nr. {number}") for number in range(1, MANY + 1)))
    text = f'"{"x" * (MEGABYTE - 3)}"'
    service.db.write_now(lambda tx: tx.put("UPDATE banking_transactions SET wire = ?", text))
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
    raw.settimeout(PATIENCE_SECONDS)
    raw.connect(("127.0.0.1", service.port))
    path = f"{LIST}?account_id={account_id(service, owner)}"
    raw.sendall(f"GET {path} HTTP/1.1\r\nhost: localhost\r\nx-api-key: {owner.key}\r\n\r\n".encode())
    assert b" 200 " in raw.recv(64)
    assert service.application.running._networks
    return raw


@pytest.fixture
def patient(start_service: ServiceFactory, monkeypatch: pytest.MonkeyPatch) -> Service:
    """A service that does not end idle connections during a test, and reads each transaction as a part of its own."""
    monkeypatch.setattr(transactions, "INLINE_ROWS", 0)
    monkeypatch.setattr(transactions, "_PART_ROWS", 1)
    monkeypatch.setattr(transactions, "_SMALL_PARTS", MANY)
    return start_service(idle_seconds=10 * PATIENCE_SECONDS)


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_who_takes_nothing_of_a_list_gets_no_more_of_it(patient: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "PART_SECONDS", 1)
    owner = patient.organization()
    with take_the_beginning(patient, owner) as raw:
        eventually(lambda: not patient.application.running._networks)
        taken = 0
        while some := raw.recv(MEGABYTE):
            taken += len(some)
    assert taken < (MANY - 1) * MEGABYTE
    answer = patient.get(LIST, owner.key, params={"account_id": account_id(patient, owner), "limit": 2})
    assert len(answer.content) > 2 * (MEGABYTE - 3)


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_a_caller_who_leaves_ends_its_list(patient: Service) -> None:
    with take_the_beginning(patient, patient.organization()):
        pass
    eventually(lambda: not patient.application.running._networks)
