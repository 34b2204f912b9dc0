"""Large statements and first fetches for accounts that are there are stored in slices: others write between them, a file that is refused
leaves nothing, and one that was broken off comes once when it is sent again."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

import pytest

from kontobahn.banking.imports import importer, store
from kontobahn.banking.provider import Snapshot
from kontobahn.banking.reports import intake as reports
from kontobahn.banking.transactions import arrivals, ingest
from kontobahn.db import Tx
from kontobahn.errors import Unavailable
from tests.api.banking.test_connections import begin
from tests.api.banking.test_large_deliveries import ACCOUNTS, Anybody, count, few_are_many, listed, shown
from tests.api.banking.test_statement_calls import report, send
from tests.bank_builder import Bank, account_facts, events, facts
from tests.harness import Organization, Service
from tests.statement_builder import DAY, IBAN, OTHER_IBAN, Booking, Sheet, archive, camt, follow_up, mt940
from tests.waiting import eventually

__all__ = ["few_are_many"]

T = TypeVar("T")
FIRST = Sheet([Booking(-12_34, "Miete", reference="M1"), Booking(50_00, "Gutschrift", reference="M2")])


def later(day: int, first: int, size: int) -> list[Booking]:
    booked = DAY + timedelta(day)
    return [
        Booking(-100 - number, f"Rechnung {number}", reference=f"R{number}", booked=booked, valued=booked)
        for number in range(first, first + size)
    ]


SECOND = follow_up(FIRST, *later(1, 0, 9))
THIRD = follow_up(SECOND, *later(2, 9, 7))
ALL = sorted(booking.amount / 100 for sheet in (FIRST, SECOND, THIRD) for booking in sheet.bookings)
UNKNOWN = "SELECT COUNT(*) FROM banking_transactions WHERE statement NOT IN (SELECT identity FROM banking_statements)"


@pytest.fixture
def owner(service: Service) -> Organization:
    made = service.organization()
    report(send(service, made, camt(FIRST)))
    return made


def amounts(service: Service, owner: Organization, iban: str = IBAN) -> list[float]:
    return sorted(row["amount"] for row in listed(service, owner, iban))


def balance(service: Service, owner: Organization, iban: str = IBAN) -> float:
    return float(
        next(row["balance"] for row in service.get(ACCOUNTS, owner.key).json()["data"] if row["extra"]["iban"] == iban)
    )


def between_slices(monkeypatch: pytest.MonkeyPatch, do: Callable[[], T]) -> list[T]:
    """Does something after each slice, and returns what came of it."""
    found = list[T]()

    def noted(*args: Any) -> int:
        found.append(do())
        return 1

    monkeypatch.setattr(arrivals, "fitting_length", noted)
    return found


def break_off(monkeypatch: pytest.MonkeyPatch, after: int = 2) -> None:
    """As a process that dies after some slices: nobody tidies up after it."""
    stored, store_some = list[Any](), arrivals._store_some

    def dying(tx: Tx, *args: Any) -> arrivals.Ahead | None:
        if len(stored) == after:
            raise Unavailable("The process has died.")
        stored.append(args)
        return store_some(tx, *args)

    monkeypatch.setattr(arrivals, "_store_some", dying)
    monkeypatch.setattr(arrivals, "give_up", lambda *args: None)


def mend(monkeypatch: pytest.MonkeyPatch, service: Service) -> None:
    """The process is started again, and the claims of the one that died have ended."""
    monkeypatch.undo()
    monkeypatch.setattr(arrivals, "LARGE", 5)
    service.clock.advance(seconds=arrivals.LEASE_SECONDS)
    arrivals.sweep(service.db)


def test_statements_for_an_account_that_is_there_are_stored_in_slices_and_end_as_if_they_came_at_once(
    service: Service, owner: Organization, monkeypatch: pytest.MonkeyPatch
) -> None:
    follower, before = Anybody(service, owner.key), balance(service, owner)
    longest, insert = list[int](), ingest.TransactionIngest._insert

    def noted(self: Any, new: list[Any]) -> None:
        longest.append(len(new))
        insert(self, new)

    monkeypatch.setattr(ingest.TransactionIngest, "_insert", noted)
    seen = between_slices(monkeypatch, lambda: (len(listed(service, owner)), balance(service, owner)))
    done = report(send(service, owner, camt(SECOND, THIRD)))
    assert (done["statements"], done["added"], done["warnings"]) == (2, 16, [])
    numbers = [number for number, _ in seen]
    assert len(seen) > 6, "others can write in between"
    assert numbers == sorted(numbers)
    assert {one for _, one in seen} == {before}, "the balance comes with the statement"
    assert max(longest) <= 2
    mine = listed(service, owner)
    assert sorted(row["amount"] for row in mine) == ALL
    assert balance(service, owner) == THIRD.end / 100
    follower.finish({row["id"]: row for row in mine})
    assert len(events(service, owner)) == 2
    assert report(send(service, owner, camt(SECOND, THIRD)))["repeated"] == 2
    monkeypatch.setattr(arrivals, "LARGE", 1_000)
    neighbour = service.organization()
    for file in (camt(FIRST), camt(SECOND, THIRD)):
        report(send(service, neighbour, file))
    assert shown(listed(service, neighbour)) == shown(mine)
    assert count(service, "SELECT COUNT(*) FROM banking_arrivals") == 0


@pytest.mark.parametrize("again", ["same", "mt940", "parts"])
def test_statements_that_were_broken_off_bring_each_booking_once_when_they_are_sent_again(
    service: Service, owner: Organization, monkeypatch: pytest.MonkeyPatch, again: str
) -> None:
    break_off(monkeypatch)
    assert send(service, owner, camt(SECOND, THIRD)).status_code == 503
    assert len(FIRST.bookings) < len(listed(service, owner)) < len(ALL)
    # Nothing is compared with a part of a statement.
    assert send(service, owner, mt940(SECOND)).status_code == 409
    mend(monkeypatch, service)
    assert count(service, UNKNOWN) == 0
    assert len(events(service, owner)) == 2, "what came is told, once"
    if again == "parts":
        monkeypatch.setattr(arrivals, "LARGE", 1_000)
    files = {
        "same": [camt(SECOND, THIRD)], "mt940": [archive(a=mt940(SECOND), b=mt940(THIRD))],
        "parts": [camt(SECOND), mt940(THIRD)],
    }  # fmt: skip
    for file in files[again]:
        report(send(service, owner, file))
    assert amounts(service, owner) == ALL
    assert balance(service, owner) == THIRD.end / 100
    for file in (camt(SECOND), camt(THIRD), camt(SECOND, THIRD)):
        report(send(service, owner, file))
    assert amounts(service, owner) == ALL


@pytest.mark.either_engine
def test_a_large_file_that_is_refused_leaves_nothing_in_an_account_that_is_there(
    service: Service, owner: Organization
) -> None:
    before, told = listed(service, owner), len(events(service, owner))
    gap = THIRD._replace(opening=THIRD.opening + 1)
    # Its days are those of all three, without what came between.
    contradicting = Sheet([*FIRST.bookings, *THIRD.bookings], FIRST.opening, id="S-9", number=None, day=THIRD.day)
    elsewhere = Sheet([Booking(1_00)], iban=OTHER_IBAN)
    for file in (
        camt(SECOND, gap), camt(SECOND, THIRD, contradicting),
        camt(SECOND, elsewhere, follow_up(elsewhere, Booking(2_00))._replace(opening=7_00, number=None)),
    ):  # fmt: skip
        assert send(service, owner, file).status_code == 400
        assert listed(service, owner) == before
    assert len(events(service, owner)) == told
    assert report(send(service, owner, camt(SECOND, THIRD)))["added"] == 16


def test_another_file_for_the_account_waits_for_a_large_one_and_other_accounts_do_not(
    service: Service, owner: Organization, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Sheet([Booking(3_00)], iban=OTHER_IBAN)
    report(send(service, owner, camt(other)))
    answers = between_slices(
        monkeypatch,
        lambda: [
            send(service, owner, file).status_code for file in (mt940(SECOND), camt(follow_up(other, Booking(1_00))))
        ],
    )
    report(send(service, owner, camt(SECOND)))
    assert answers[0] == [409, 201]
    assert report(send(service, owner, mt940(SECOND)))["added"] == 0
    assert amounts(service, owner) == sorted(one.amount / 100 for sheet in (FIRST, SECOND) for one in sheet.bookings)


def test_a_statement_of_what_was_fetched_confirms_it_in_slices(
    service: Service, owner: Organization, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched = [
        facts(one.amount, f"SVWZ+{one.text}", str(one.booked), provider_ref=f"F{number}")
        for number, one in enumerate(SECOND.bookings)
    ]
    bank = Bank(service)
    bank.connected(owner, *fetched, accounts=[account_facts(iban=IBAN)])
    assert len(listed(service, owner)) == len(FIRST.bookings) + len(fetched)
    seen = between_slices(monkeypatch, lambda: None)
    done = report(send(service, owner, camt(SECOND)))
    assert (done["added"], len(seen) > 3) == (0, True)
    assert amounts(service, owner) == sorted(one.amount / 100 for sheet in (FIRST, SECOND) for one in sheet.bookings)


def test_several_statements_of_a_new_account_are_written_where_nobody_sees_them(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    new, before = service.organization(), count(service, "SELECT COUNT(*) FROM banking_transactions")
    overlap = Sheet([*SECOND.bookings, *THIRD.bookings], opening=SECOND.opening, id="S-2-3", number=None, day=THIRD.day)
    seen, run = list[int](), importer.StatementImporter.import_file

    def noted(self: Any, file: Any) -> store.ImportResult:
        seen.append(count(service, "SELECT COUNT(*) FROM banking_transactions") - before)
        return run(self, file)

    monkeypatch.setattr(importer.StatementImporter, "import_file", noted)
    done = report(send(service, new, camt(FIRST, SECOND, overlap, THIRD)))
    assert (done["added"], seen) == (len(ALL), [len(ALL)])
    assert amounts(service, new) == ALL
    [account] = service.get(ACCOUNTS, new.key).json()["data"]
    assert account["extra"]["transactions_count"] == {"posted": len(ALL), "pending": 0}
    assert count(service, "SELECT COUNT(*) FROM banking_transactions") - before == len(ALL)


# --- The first fetch of a connection to an account that is there


BOOKED = [facts(-100 - number, f"SVWZ+Rechnung {number}", provider_ref=f"R{number}") for number in range(9)]
EQUAL = [facts(-7_00, "SVWZ+Porto") for _ in range(3)]
ANNOUNCED = facts(-55_00, "SVWZ+Vorgemerkt", status="pending", provider_ref="P")


def reported(service: Service, owner: Organization) -> tuple[Bank, Snapshot, str]:
    """A bank whose connection is finished by its flow, with an account that statements have filled."""
    bank = Bank(service)
    token = begin(service, owner)["pending_token"]
    snapshot = Snapshot(
        bank.connection_facts(f"bank-{owner.id}"), [account_facts(iban=IBAN, balance_minor=1_00)],
        reports.Gathered([*BOOKED, ANNOUNCED, *EQUAL]),
    )  # fmt: skip
    bank.provider.snapshots[snapshot.connection.provider_ref] = snapshot
    return bank, snapshot, token


def fetch(service: Service, owner: Organization, bank: Bank, snapshot: Snapshot, token: str) -> None:
    ref = snapshot.connection.provider_ref
    told = bank.deliver(owner.id, kind="ConnectionFinished", provider_ref=ref, pending_token=token)
    assert told.status_code == 200
    eventually(lambda: balance(service, owner) == 1)


FETCHED = sorted(one.amount_minor / 100 for one in [*BOOKED, ANNOUNCED, *EQUAL])


def test_the_first_fetch_for_an_account_that_is_there_is_stored_in_slices(
    service: Service, owner: Organization, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, (bank, snapshot, token) = amounts(service, owner), reported(service, owner)
    seen = between_slices(monkeypatch, lambda: (len(listed(service, owner)), balance(service, owner)))
    fetch(service, owner, bank, snapshot, token)
    assert len(seen) > 3
    assert {one for _, one in seen} == {FIRST.end / 100}
    assert amounts(service, owner) == sorted(before + FETCHED)
    [account] = service.get(ACCOUNTS, owner.key).json()["data"]
    assert account["extra"]["transactions_count"] == {"posted": len(before) + len(FETCHED) - 1, "pending": 1}
    assert len(events(service, owner)) == 2
    monkeypatch.setattr(arrivals, "LARGE", 1_000)
    neighbour = service.organization()
    report(send(service, neighbour, camt(FIRST)))
    fetch(service, neighbour, *reported(service, neighbour))
    by_text = [sorted(shown(listed(service, who)), key=str) for who in (owner, neighbour)]
    assert by_text[0] == by_text[1]


def test_a_first_fetch_that_broke_off_brings_each_booking_once(
    service: Service, owner: Organization, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, (bank, snapshot, token) = amounts(service, owner), reported(service, owner)
    break_off(monkeypatch)
    with pytest.raises(Unavailable):
        reports.arrive(service.db, "scripted", snapshot, token)
    assert len(before) < len(amounts(service, owner)) < len(before) + len(FETCHED)
    mend(monkeypatch, service)
    fetch(service, owner, bank, snapshot, token)
    assert amounts(service, owner) == sorted(before + FETCHED)
    bank.provider.snapshots[snapshot.connection.provider_ref] = snapshot._replace(
        transactions=[*BOOKED, *EQUAL], accounts=[account_facts(iban=IBAN, balance_minor=2_00)]
    )
    bank.deliver(kind="ConnectionFinished", provider_ref=snapshot.connection.provider_ref)
    eventually(lambda: balance(service, owner) == 2)
    # What was announced can be withdrawn by whoever announced it.
    assert amounts(service, owner) == sorted(before + FETCHED[1:])
