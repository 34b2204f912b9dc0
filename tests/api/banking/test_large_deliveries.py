"""A large statement or fetch is written in slices before its account appears: nobody sees a part of it, and nobody waits for all of it.
An account that goes away with many transactions is gone at once, and they are removed in slices."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kontobahn.banking import ids
from kontobahn.banking.connections import store as connections
from kontobahn.banking.imports import importer, routes
from kontobahn.banking.imports.files import ReadFile
from kontobahn.banking.reports import intake as reports
from kontobahn.banking.transactions import arrivals, ingest
from kontobahn.db import Database, Tx
from kontobahn.errors import Unavailable
from tests.api.banking.test_feed_walks import Follower
from tests.api.banking.test_statement_calls import FIRST, report, send
from tests.api.banking.test_statement_calls import SECOND as SECOND_SHEET
from tests.bank_builder import IBAN as FETCHED
from tests.bank_builder import Bank, account_facts, events, facts
from tests.harness import Organization, Service
from tests.statement_builder import IBAN, OTHER_IBAN, Booking, Sheet, camt, follow_up
from tests.waiting import PATIENCE_SECONDS, eventually

LARGE = Sheet([Booking(-100 - number, f"Rechnung {number}", reference=f"R{number}") for number in range(11)])
OTHER = Sheet([Booking(7_00, "Gutschrift")], iban=OTHER_IBAN)
LATER = follow_up(OTHER, Booking(1_00, "Zinsen"))
LATEST = follow_up(LATER, Booking(2_00, "Storno"))
TRANSACTIONS, ACCOUNTS = "/v2/banking/transactions", "/v2/banking/accounts"
STORED = "SELECT COUNT(*) FROM banking_transactions"


@pytest.fixture
def owner(service: Service) -> Organization:
    return service.organization()


@pytest.fixture(autouse=True)
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrivals, "LARGE", 5)
    monkeypatch.setattr(arrivals, "ROWS_AT_ONCE", 2)
    monkeypatch.setattr(arrivals, "MAX_CHUNKS", 2)
    monkeypatch.setattr(ingest, "CHUNK", 2)
    monkeypatch.setattr(connections, "LARGE", 5)
    monkeypatch.setattr(connections, "ROWS_AT_ONCE", 4)


class Gate:
    """Holds a file when its entries are written and its account is not."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached, self.opened = threading.Event(), threading.Event()

        def held(db: Database, organization_id: str, found: ReadFile, **options: bool) -> None:
            importer.arrive(db, organization_id, found, **options)
            if found.arrivals.by_key and not self.reached.is_set():
                self.reached.set()
                assert self.opened.wait(PATIENCE_SECONDS)

        monkeypatch.setattr(routes, "arrive", held)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    made = Gate(monkeypatch)
    yield made
    made.opened.set()


def sent_meanwhile(
    service: Service, owner: Organization, gate: Gate, meanwhile: Callable[[], object]
) -> dict[str, Any]:
    """Sends the large statement, and does something else when it is written and not there."""
    answers: list[Any] = []
    sender = threading.Thread(target=lambda: answers.append(send(service, owner, camt(LARGE))))
    sender.start()
    try:
        assert gate.reached.wait(PATIENCE_SECONDS)
        meanwhile()
    finally:
        gate.opened.set()
        sender.join()
    return report(answers[0])


def listed(service: Service, owner: Organization, iban: str = IBAN) -> list[dict[str, Any]]:
    [account] = [row["id"] for row in service.get(ACCOUNTS, owner.key).json()["data"] if row["extra"]["iban"] == iban]
    query = {"account_id": account, "sort": "id"}
    return list(service.get(TRANSACTIONS, owner.key, params=query).json()["data"])


def shown(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without what differs from one organisation to another."""
    own = {"id", "account_id", "created_at", "updated_at"}
    return [{name: value for name, value in row.items() if name not in own} for row in rows]


def count(service: Service, sql: str) -> int:
    row = service.db.read_now(lambda tx: tx.one(sql))
    assert row is not None
    return int(row[0])


def everyone(service: Service, owner: Organization) -> dict[str, Any]:
    return {row["id"]: row for iban in (IBAN, OTHER_IBAN) for row in listed(service, owner, iban)}


class Anybody(Follower):
    """A follower of all accounts, also of those that are not there yet."""

    def __init__(self, service: Service, key: str) -> None:
        super().__init__(service, key, _All())  # type: ignore[arg-type]


class _All:
    def __contains__(self, account: object) -> bool:
        return True


def test_nobody_sees_a_large_statement_before_it_is_there_and_nobody_misses_it(
    service: Service, owner: Organization, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    report(send(service, owner, camt(OTHER)))
    follower, before = Anybody(service, owner.key), count(service, STORED)
    seen: list[int] = []

    def meanwhile() -> None:
        assert len(service.get(ACCOUNTS, owner.key).json()["data"]) == 1
        assert count(service, STORED) - before == len(LARGE.bookings)
        assert report(send(service, owner, camt(LATER)))["added"] == 1
        seen.extend(int(row["id"]) for row in listed(service, owner, OTHER_IBAN))
        while follower.read(1):
            pass
        assert sorted(map(int, follower.has)) == seen

    done = sent_meanwhile(service, owner, gate, meanwhile)
    assert (done["accounts"], done["statements"], done["added"]) == (1, 1, len(LARGE.bookings))
    mine = listed(service, owner)
    # Numbers rise in the order of appearing: whoever walks them misses nothing.
    assert min(int(row["id"]) for row in mine) == seen[0] + arrivals.HEADROOM + 1
    follower.finish(everyone(service, owner))
    again = report(send(service, owner, camt(LARGE)))
    assert (again["repeated"], again["added"]) == (1, 0)
    assert count(service, "SELECT COUNT(*) FROM banking_arrivals") == 0
    monkeypatch.setattr(arrivals, "LARGE", 1_000)
    neighbour = service.organization()
    report(send(service, neighbour, camt(OTHER)))
    assert report(send(service, neighbour, camt(LARGE)))["added"] == len(LARGE.bookings)
    assert shown(listed(service, neighbour)) == shown(mine)
    [one, other] = [
        next(row for row in service.get(ACCOUNTS, who.key).json()["data"] if row["extra"]["iban"] == IBAN)
        for who in (owner, neighbour)
    ]
    assert (one["balance"], one["extra"]) == (other["balance"], other["extra"])
    assert one["extra"]["transactions_count"] == {"posted": len(mine), "pending": 0}
    # The next number comes after those of the large statement.
    assert report(send(service, owner, camt(LATEST)))["added"] == 1
    assert int(listed(service, owner, OTHER_IBAN)[-1]["id"]) == int(mine[-1]["id"]) + 1
    follower.finish(everyone(service, owner))


def test_a_statement_of_which_a_part_was_written_leaves_nothing_and_comes_once(
    service: Service, owner: Organization, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, written = count(service, STORED), list[Any]()
    write = arrivals._write_some

    def dying(tx: Tx, *args: Any) -> bool:
        if len(written) == 2:
            raise Unavailable("The process has died.")
        written.append(args)
        return write(tx, *args)

    monkeypatch.setattr(arrivals, "_write_some", dying)
    # As a process that dies: nobody tidies up after it.
    monkeypatch.setattr(arrivals, "give_up", lambda *args: None)
    assert send(service, owner, camt(LARGE)).status_code == 503
    assert 0 < count(service, STORED) - before < len(LARGE.bookings)
    assert service.get(ACCOUNTS, owner.key).json() == {"data": []}
    # What it left stands in nobody's way.
    assert report(send(service, owner, camt(LARGE)))["added"] == len(LARGE.bookings)
    arrivals.sweep(service.db)
    assert count(service, STORED) - before > len(LARGE.bookings), "it may still be at work"
    service.clock.advance(seconds=arrivals.LEASE_SECONDS)
    arrivals.sweep(service.db)
    assert count(service, STORED) - before == len(LARGE.bookings) == len(listed(service, owner))
    assert count(service, "SELECT COUNT(*) FROM banking_arrivals") == 0


def test_whoever_was_given_up_while_it_stood_still_writes_all_of_it_itself(
    service: Service, owner: Organization, gate: Gate
) -> None:
    before = count(service, STORED)

    def meanwhile() -> None:
        service.clock.advance(seconds=arrivals.LEASE_SECONDS)
        arrivals.sweep(service.db)
        assert count(service, STORED) == before

    assert sent_meanwhile(service, owner, gate, meanwhile)["added"] == len(LARGE.bookings)
    assert len(listed(service, owner)) == count(service, STORED) - before == len(LARGE.bookings)


def numbers_of(service: Service, owner: Organization, iban: str = IBAN) -> list[int]:
    return [int(row["id"]) % ids.SPAN for row in listed(service, owner, iban)]


def hidden_numbers(count: int) -> list[int]:
    return list(range(arrivals.HEADROOM + 1, arrivals.HEADROOM + 1 + count))


def another_account(service: Service, owner: Organization) -> None:
    report(send(service, owner, camt(OTHER)))


def payment(service: Service, owner: Organization) -> None:
    service.db.write_now(ids.take, owner.id, "payment")


def end_of_the_lease(service: Service, owner: Organization) -> None:
    service.db.write_now(
        lambda tx: tx.run("UPDATE banking_arrivals SET lease_until = 0 WHERE organization_id = ?", owner.id)
    )


def one_transaction_too_many(service: Service, owner: Organization) -> None:
    service.db.write_now(ids.take, owner.id, "transaction", arrivals.HEADROOM + 1)


def one_change_too_many(service: Service, owner: Organization) -> None:
    service.db.write_now(ids.take, owner.id, "change", arrivals.HEADROOM + 1)


@pytest.mark.parametrize(
    "change", [another_account, payment, end_of_the_lease, one_transaction_too_many, one_change_too_many]
)
@pytest.mark.either_engine
def test_rows_that_depend_on_what_has_changed_meanwhile_are_written_anew(
    service: Service, owner: Organization, gate: Gate, change: Callable[[Service, Organization], None]
) -> None:
    done = sent_meanwhile(service, owner, gate, lambda: change(service, owner))
    assert done["added"] == len(LARGE.bookings)
    mine = listed(service, owner)
    assert sorted(row["amount"] for row in mine) == sorted(booking.amount / 100 for booking in LARGE.bookings)
    assert numbers_of(service, owner) != hidden_numbers(len(mine))
    [account] = [row for row in service.get(ACCOUNTS, owner.key).json()["data"] if row["extra"]["iban"] == IBAN]
    assert account["extra"]["transactions_count"] == {"posted": len(mine), "pending": 0}
    eventually(lambda: count(service, "SELECT COUNT(*) FROM banking_arrivals") == 0)


@pytest.mark.either_engine
def test_rows_that_are_written_stand_whatever_others_write_who_take_no_number_of_theirs(
    service: Service, owner: Organization, gate: Gate
) -> None:
    neighbour = service.organization()

    def meanwhile() -> None:
        service.db.write_now(ids.take, owner.id, "transaction", arrivals.HEADROOM)
        service.db.write_now(ids.take, owner.id, "change", arrivals.HEADROOM)
        report(send(service, neighbour, camt(LARGE)))

    assert sent_meanwhile(service, owner, gate, meanwhile)["added"] == len(LARGE.bookings)
    for who in (owner, neighbour):
        assert numbers_of(service, who) == hidden_numbers(len(LARGE.bookings))


@pytest.mark.either_engine
def test_large_statements_of_several_new_accounts_are_each_written_once(service: Service, owner: Organization) -> None:
    before, size = count(service, STORED), len(LARGE.bookings)
    assert report(send(service, owner, camt(LARGE, LARGE._replace(iban=OTHER_IBAN))))["added"] == 2 * size
    written = numbers_of(service, owner) + numbers_of(service, owner, OTHER_IBAN)
    assert sorted(written) == hidden_numbers(2 * size)
    assert count(service, STORED) - before == 2 * size
    assert count(service, "SELECT COUNT(*) FROM banking_arrivals") == 0


def test_an_account_that_another_file_has_made_meanwhile_gets_each_booking_once(
    service: Service, owner: Organization, gate: Gate
) -> None:
    before = count(service, STORED)
    done = sent_meanwhile(service, owner, gate, lambda: report(send(service, owner, camt(LARGE))))
    assert (done["repeated"], done["added"]) == (1, 0)
    assert len(listed(service, owner)) == len(LARGE.bookings)
    eventually(lambda: count(service, STORED) - before == len(LARGE.bookings))


def test_a_large_statement_that_is_refused_leaves_nothing(service: Service, owner: Organization) -> None:
    before = count(service, STORED)
    gap = camt(
        LARGE, FIRST._replace(iban=OTHER_IBAN), SECOND_SHEET._replace(iban=OTHER_IBAN, opening=99_00, closing=98_00)
    )
    assert send(service, owner, gap).status_code == 400
    assert service.get(ACCOUNTS, owner.key).json() == {"data": []}
    eventually(lambda: count(service, STORED) == before)


def test_a_large_fetch_is_there_at_once_with_its_account(
    service: Service, owner: Organization, monkeypatch: pytest.MonkeyPatch
) -> None:
    bank, before = Bank(service), count(service, STORED)
    bookings = [facts(-100 - number, f"SVWZ+Rechnung {number}", provider_ref=f"R{number}") for number in range(9)]
    row = bank.connected(owner, accounts=[account_facts("none", None)])
    new = account_facts()
    bank.provider.snapshots[row.provider_ref] = bank.provider.snapshots[row.provider_ref]._replace(
        accounts=[account_facts("none", None), new], transactions=bookings
    )
    written: list[int] = []
    arrive = reports.arrive

    def noted(*args: Any) -> arrivals.Arrivals:
        found = arrive(*args)
        written.append(count(service, STORED) - before)
        return found

    monkeypatch.setattr(reports, "arrive", noted)
    assert bank.deliver(kind="ConnectionFinished", provider_ref=row.provider_ref).status_code == 200
    eventually(lambda: len(service.get(ACCOUNTS, owner.key).json()["data"]) == 2)
    assert written == [len(bookings)]
    assert sorted(item["amount"] for item in listed(service, owner)) == sorted(
        item.amount_minor / 100 for item in bookings
    )
    assert count(service, STORED) - before == len(bookings)


def test_many_transactions_of_a_removed_connection_are_gone_at_once_and_reported_each_once(
    service: Service, owner: Organization
) -> None:
    before = count(service, STORED)
    report(send(service, owner, camt(OTHER)))
    report(send(service, owner, camt(LARGE)))
    follower = Anybody(service, owner.key)
    follower.finish(everyone(service, owner))
    for connection in service.get("/v2/banking/connections", owner.key).json()["data"]:
        removed = service.request("DELETE", f"/v2/banking/connections/{connection['id']}", owner.key)
        assert removed.status_code in (200, 204), removed.text
    assert service.get(ACCOUNTS, owner.key).json() == {"data": []}
    connections.sweep_departures(service.db)
    follower.finish({})
    assert count(service, STORED) == before
    assert count(service, "SELECT COUNT(*) FROM banking_departures") == 0
    assert report(send(service, owner, camt(LARGE)))["added"] == len(LARGE.bookings)


# --- A fetch for an account that is there


KNOWN = [facts(-100 - number, f"SVWZ+Rechnung {number}", provider_ref=f"R{number}") for number in range(3)]
# Equal ones, each of which is a booking of its own, and one that was announced and is withdrawn.
NEW = [
    *(facts(-7_00, "SVWZ+Porto") for _ in range(3)),
    *(facts(-100 - number, f"SVWZ+Rechnung {number}", provider_ref=f"R{number}") for number in range(3, 9)),
]
ANNOUNCED = facts(-55_00, "SVWZ+Vorgemerkt", status="pending", provider_ref="P")


class Grown:
    """A connection whose account has a few bookings, at a bank that has many by now."""

    def __init__(self, service: Service, owner: Organization) -> None:
        self._service, self._owner = service, owner
        self._bank = Bank(service)
        self.row = self._bank.connected(owner, *KNOWN, ANNOUNCED)
        snapshot = self._bank.provider.snapshots[self.row.provider_ref]
        self.snapshot = snapshot._replace(
            accounts=[account_facts(balance_minor=1_00)], transactions=reports.Gathered([*KNOWN, *NEW])
        )
        self._bank.provider.snapshots[self.row.provider_ref] = self.snapshot

    def fetch(self) -> None:
        told = self._bank.deliver(self._owner.id, kind="ConnectionFinished", provider_ref=self.row.provider_ref)
        assert told.status_code == 200
        eventually(lambda: self.balance() == 1)

    def balance(self) -> float:
        [account] = self._service.get(ACCOUNTS, self._owner.key).json()["data"]
        return float(account["balance"])


def test_a_large_fetch_for_an_account_that_is_there_is_stored_in_slices_and_ends_as_if_it_came_at_once(
    service: Service, owner: Organization, monkeypatch: pytest.MonkeyPatch
) -> None:
    grown, follower = Grown(service, owner), Anybody(service, owner.key)
    follower.finish({row["id"]: row for row in listed(service, owner, FETCHED)})
    slices = list[tuple[int, float]]()

    def between(*args: Any) -> int:
        slices.append((len(listed(service, owner, FETCHED)), grown.balance()))
        return 1

    monkeypatch.setattr(arrivals, "fitting_length", between)
    grown.fetch()
    assert len(slices) > 2
    # What was stored before is seen; the balance comes last.
    assert [number for number, _ in slices] == sorted({number for number, _ in slices})
    assert {balance for _, balance in slices} == {100.0}
    mine = listed(service, owner, FETCHED)
    assert sorted(row["amount"] for row in mine) == sorted(one.amount_minor / 100 for one in [*KNOWN, *NEW])
    follower.finish({row["id"]: row for row in mine})
    [account] = service.get(ACCOUNTS, owner.key).json()["data"]
    assert account["extra"]["transactions_count"] == {"posted": len(mine), "pending": 0}
    assert len(events(service, owner)) == 1
    monkeypatch.setattr(arrivals, "LARGE", 1_000)
    neighbour = service.organization()
    Grown(service, neighbour).fetch()
    assert shown(listed(service, neighbour, FETCHED)) == shown(mine)


def test_a_fetch_that_broke_off_between_two_slices_brings_each_booking_once(
    service: Service, owner: Organization, monkeypatch: pytest.MonkeyPatch
) -> None:
    grown, stored = Grown(service, owner), list[Any]()
    store = arrivals._store_some

    def dying(tx: Tx, *args: Any) -> arrivals.Ahead | None:
        if len(stored) == 2:
            raise Unavailable("The process has died.")
        stored.append(args)
        return store(tx, *args)

    monkeypatch.setattr(arrivals, "_store_some", dying)
    with pytest.raises(Unavailable):
        reports.arrive(service.db, "scripted", grown.snapshot, None)
    assert len(KNOWN) + 1 < len(listed(service, owner, FETCHED)) < len(KNOWN) + len(NEW)
    monkeypatch.undo()
    grown.fetch()
    amounts = sorted(row["amount"] for row in listed(service, owner, FETCHED))
    assert amounts == sorted(one.amount_minor / 100 for one in [*KNOWN, *NEW])


def test_a_fetch_goes_into_no_account_that_was_removed_between_two_slices(
    service: Service, owner: Organization, monkeypatch: pytest.MonkeyPatch
) -> None:
    grown, before = Grown(service, owner), count(service, STORED)
    store = arrivals._store_some

    def removed(tx: Tx, *args: Any) -> arrivals.Ahead | None:
        made = store(tx, *args)
        connections.remove(tx, owner.id, grown.row.id, at_once=True)
        return made

    monkeypatch.setattr(arrivals, "_store_some", removed)
    written = reports.arrive(service.db, "scripted", grown.snapshot, None)
    assert service.db.write_now(reports.apply_finished, "scripted", grown.snapshot, None, written) is None
    assert count(service, STORED) == before - len(KNOWN) - 1
    assert service.get(ACCOUNTS, owner.key).json() == {"data": []}
