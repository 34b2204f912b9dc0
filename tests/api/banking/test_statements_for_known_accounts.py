"""Large statements and first fetches for accounts that are there are stored in slices: others write between them, a file that is refused
leaves nothing, and one that was broken off comes once when it is sent again."""

from __future__ import annotations

import io
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

import pytest

from kontobahn.banking.connections import accounts
from kontobahn.banking.connections import store as connections
from kontobahn.banking.imports import importer, store
from kontobahn.banking.imports.files import ReadFile
from kontobahn.banking.provider import Snapshot
from kontobahn.banking.reports import intake as reports
from kontobahn.banking.transactions import arrivals, ingest
from kontobahn.db import Tx
from kontobahn.errors import Unavailable
from kontobahn.formats.bank_files import read
from tests.api.banking.test_connections import begin
from tests.api.banking.test_large_deliveries import ACCOUNTS, Anybody, count, few_are_many, listed, shown
from tests.api.banking.test_statement_calls import report, send
from tests.bank_builder import Bank, account_facts, events, facts
from tests.harness import Organization, Service
from tests.interleaving import on_postgres, overlap
from tests.statement_builder import DAY, IBAN, OTHER_IBAN, Booking, Sheet, archive, camt, follow_up, mt940
from tests.twin_accounts import EARLIER, SHEET, Twins
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


def amid(monkeypatch: pytest.MonkeyPatch, do: Callable[[], T]) -> list[T]:
    """Does something once, after the first slice, and returns what came of it."""
    begun, found = list[bool](), list[T]()

    def once() -> None:
        if not begun:
            begun.append(True)
            found.append(do())

    between_slices(monkeypatch, once)
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


@pytest.mark.parametrize(("again", "after"), [("same", 1), ("mt940", 2), ("parts", 4)])
def test_statements_that_were_broken_off_bring_each_booking_once_when_they_are_sent_again(
    service: Service, owner: Organization, monkeypatch: pytest.MonkeyPatch, again: str, after: int
) -> None:
    break_off(monkeypatch, after)
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


def test_what_a_file_leaves_to_be_tidied_up_does_not_end_the_claim_of_the_next_one(
    service: Service, owner: Organization
) -> None:
    """It is tidied up after the answer, when the caller may have sent another file."""
    db = service.db
    (account,) = db.read_now(accounts.of_organization, owner.id)
    first = db.write_now(arrivals.claim, account)
    assert first is not None
    db.write_now(first.end)
    second = db.write_now(arrivals.claim, account)
    assert second is not None
    arrivals.give_up(db, arrivals.NONE._replace(claims={account.id: first}))
    assert db.read_now(second.is_held)
    arrivals.give_up(db, arrivals.NONE._replace(claims={account.id: second}))
    assert report(send(service, owner, camt(SECOND, THIRD)))["added"] == 16


def test_another_file_for_the_account_waits_for_a_large_one_and_other_accounts_do_not(
    service: Service, owner: Organization, monkeypatch: pytest.MonkeyPatch
) -> None:
    report(send(service, owner, camt(OTHER)))
    small = camt(SECOND._replace(bookings=SECOND.bookings[:2]))
    answers = between_slices(
        monkeypatch,
        lambda: [
            send(service, owner, file).status_code
            for file in (mt940(SECOND), small, camt(follow_up(OTHER, Booking(1_00))))
        ],
    )
    report(send(service, owner, camt(SECOND)))
    assert answers[0] == [409, 409, 201]
    assert report(send(service, owner, mt940(SECOND)))["added"] == 0
    assert amounts(service, owner) == sorted(one.amount / 100 for sheet in (FIRST, SECOND) for one in sheet.bookings)


OTHER = Sheet([Booking(3_00)], iban=OTHER_IBAN)


@pytest.mark.either_engine
def test_large_statements_of_several_accounts_that_are_there_are_each_counted_once(
    service: Service, owner: Organization
) -> None:
    report(send(service, owner, camt(OTHER)))
    more = follow_up(OTHER, *later(1, 0, 6))
    assert report(send(service, owner, camt(SECOND, more)))["added"] == len(SECOND.bookings) + len(more.bookings)
    for iban, sheets in ((IBAN, (FIRST, SECOND)), (OTHER_IBAN, (OTHER, more))):
        assert amounts(service, owner, iban) == sorted(one.amount / 100 for sheet in sheets for one in sheet.bookings)
    assert count(service, "SELECT COUNT(*) FROM banking_arrivals") == count(service, UNKNOWN) == 0


class Claims:
    """Claims to the accounts of an organisation, as processes that import large files have them."""

    def __init__(self, service: Service, owner: Organization) -> None:
        self._service = service
        held = service.get(ACCOUNTS, owner.key).json()["data"]
        self._accounts = {
            row["extra"]["iban"]: service.db.read_now(accounts.look_up, owner.id, int(row["id"])) for row in held
        }

    def claim(self, iban: str = IBAN) -> arrivals.Claim:
        account = self._accounts[iban]
        assert account is not None
        made = self._service.db.write_now(arrivals.claim, account)
        assert made is not None
        return made

    def held(self, *claims: arrivals.Claim) -> list[bool]:
        return [self._service.db.read_now(one.is_held) for one in claims]


@pytest.mark.either_engine
def test_a_claim_that_ended_takes_the_account_from_nobody(
    service: Service, owner: Organization, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims = Claims(service, owner)
    lost = claims.claim()
    service.clock.advance(seconds=arrivals.LEASE_SECONDS)
    arrivals.sweep(service.db)
    mine = claims.claim()
    service.clock.advance(seconds=1)
    monkeypatch.setattr(arrivals, "LEASE_SECONDS", 0)
    lost.keep(service.db)
    assert claims.held(lost, mine) == [False, True]
    mine.keep(service.db)
    assert claims.held(lost, mine) == [False, True]


@pytest.mark.either_engine
def test_who_gives_up_one_account_leaves_the_others_to_those_who_have_them(
    service: Service, owner: Organization
) -> None:
    report(send(service, owner, camt(OTHER)))
    claims = Claims(service, owner)
    given_up, kept = claims.claim(), claims.claim(OTHER_IBAN)
    service.clock.advance(seconds=arrivals.LEASE_SECONDS)
    arrivals.give_up(service.db, arrivals.NONE._replace(claims={given_up.account_id: given_up}))
    assert claims.held(given_up, kept) == [False, True]


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


WHOLE = Sheet([*SECOND.bookings, *THIRD.bookings], SECOND.opening, id="S-2-3", number=None, day=THIRD.day)
# Of the last day some in other words, and one that the statement lacks.
INTRADAY = THIRD._replace(
    bookings=[
        *(one._replace(reference=None, text=f"{one.text} an Muster") for one in THIRD.bookings[:3]),
        Booking(-77_00, "Irrtum", booked=THIRD.day, valued=THIRD.day),
    ],
    opening=THIRD.opening, id="I-1", number=None,
)  # fmt: skip
WAGES = Booking(-30_00, "Lohn", booked=SECOND.day, valued=SECOND.day)
PAID = follow_up(FIRST, *SECOND.bookings, WAGES)
PAID_IN_PARTS = PAID._replace(
    bookings=[*SECOND.bookings, WAGES._replace(parts=(WAGES._replace(amount=-10_00), WAGES._replace(amount=-20_00)))],
    id="S-2b", number=None,
)  # fmt: skip
MIXED = {
    "overlapping": camt(SECOND, WHOLE, THIRD),
    "with what is known": camt(WHOLE, FIRST, SECOND),
    "the last one first": camt(THIRD, SECOND),
    "without bookings": camt(SECOND, follow_up(SECOND), WHOLE._replace(id="S-9")),
    "intraday before": archive(a=camt(INTRADAY, kind="052"), b=camt(SECOND, THIRD)),
    "intraday after": archive(a=camt(SECOND), b=camt(INTRADAY, kind="052"), c=camt(THIRD)),
    "advice before": archive(a=camt(THIRD._replace(id="A-1"), kind="054"), b=camt(SECOND, THIRD)),
    "advice after": archive(a=camt(SECOND, THIRD), b=camt(THIRD._replace(id="A-1"), kind="054")),
    "equal bookings": camt(follow_up(FIRST, *[Booking(-3_50, "Kaffee", booked=SECOND.day, valued=SECOND.day)] * 7)),
    "pages with the balances of the whole": camt(
        WHOLE._replace(bookings=SECOND.bookings, closing=THIRD.end, number=2, page=(1, False)),
        WHOLE._replace(bookings=THIRD.bookings, closing=THIRD.end, number=2, page=(2, True)),
    ),
    "a sum and its payments": camt(PAID, PAID_IN_PARTS),
    "payments and their sum": camt(PAID_IN_PARTS, PAID),
}


@pytest.mark.either_engine
@pytest.mark.parametrize("file", MIXED.values(), ids=MIXED)
def test_any_mixture_in_a_file_ends_as_if_it_came_at_once(
    service: Service, monkeypatch: pytest.MonkeyPatch, file: bytes
) -> None:
    found = []
    for large in (1_000, 5):
        monkeypatch.setattr(arrivals, "LARGE", large)
        owner = service.organization()
        report(send(service, owner, camt(FIRST)))
        done = report(send(service, owner, file))
        mine = sorted(shown(listed(service, owner)), key=str)
        counts = {name: done[name] for name in ("statements", "repeated", "added", "removed", "left_out", "warnings")}
        found.append((counts, mine, balance(service, owner), len(events(service, owner))))
    assert found[0] == found[1]
    assert count(service, UNKNOWN) == 0


# --- Others amid a large file


def is_whole(service: Service, owner: Organization, *more: float) -> None:
    """All is there once, in its statements, and nothing is left of how it came."""
    assert amounts(service, owner) == sorted([*ALL, *more])
    assert balance(service, owner) == THIRD.end / 100
    assert count(service, UNKNOWN) == count(service, "SELECT COUNT(*) FROM banking_arrivals") == 0
    assert count(service, "SELECT COUNT(*) FROM banking_transactions WHERE statement IS NULL") == len(more)


def test_a_file_whose_machine_stood_still_is_judged_anew(
    service: Service, owner: Organization, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stand_still() -> None:
        service.clock.advance(seconds=arrivals.LEASE_SECONDS)
        arrivals.sweep(service.db)
        # Whoever comes now is not refused, and has the half of it that is stored.
        assert report(send(service, owner, mt940(SECOND)))["statements"] == 1

    amid(monkeypatch, stand_still)
    assert report(send(service, owner, camt(SECOND, THIRD)))["warnings"] == []
    is_whole(service, owner)


def test_a_file_that_takes_long_keeps_its_account(
    service: Service, owner: Organization, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrivals, "LEASE_SECONDS", 0)

    def pass_by() -> list[Any]:
        service.clock.advance(seconds=8)
        return service.db.read_now(arrivals._abandoned)

    abandoned = between_slices(monkeypatch, pass_by)
    report(send(service, owner, camt(SECOND, THIRD)))
    assert (len(abandoned) >= 8, any(abandoned)) == (True, False)
    is_whole(service, owner)


def test_an_account_that_is_removed_amid_a_file_is_made_anew_by_it(
    service: Service, owner: Organization, monkeypatch: pytest.MonkeyPatch
) -> None:
    follower = Anybody(service, owner.key)
    [connection] = service.get("/v2/banking/connections", owner.key).json()["data"]
    path = f"/v2/banking/connections/{connection['id']}"
    removed = amid(monkeypatch, lambda: service.request("DELETE", path, owner.key).status_code)
    assert report(send(service, owner, camt(SECOND, THIRD)))["added"] == 16
    assert (removed, balance(service, owner)) == ([200], THIRD.end / 100)
    mine = listed(service, owner)
    assert sorted(row["amount"] for row in mine) == sorted(
        booking.amount / 100 for sheet in (SECOND, THIRD) for booking in sheet.bookings
    )
    follower.finish({row["id"]: row for row in mine})
    assert count(service, "SELECT COUNT(*) FROM banking_arrivals") == count(service, UNKNOWN) == 0


def test_what_a_killed_file_left_in_an_account_that_is_then_removed_is_told_as_removed(
    service: Service, owner: Organization, monkeypatch: pytest.MonkeyPatch
) -> None:
    follower = Anybody(service, owner.key)
    break_off(monkeypatch, 4)
    assert send(service, owner, camt(SECOND, THIRD)).status_code == 503
    while follower.read(100):
        pass
    assert len(follower.has) > connections.LARGE
    [connection] = service.get("/v2/banking/connections", owner.key).json()["data"]
    assert service.request("DELETE", f"/v2/banking/connections/{connection['id']}", owner.key).status_code == 200
    mend(monkeypatch, service)
    connections.sweep_departures(service.db)
    follower.finish({})


def test_slices_end_with_the_connection_that_they_come_by_and_the_rest_comes_by_the_next(
    service: Service, owner: Organization, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The account stays, because a connection to the bank reaches it too."""
    [files] = service.get("/v2/banking/connections", owner.key).json()["data"]
    Bank(service).connected(owner, accounts=[account_facts(iban=IBAN)])
    by_it = f"SELECT COUNT(*) FROM banking_transactions WHERE source = '{files['id']}'"

    def remove() -> int:
        assert service.request("DELETE", f"/v2/banking/connections/{files['id']}", owner.key).status_code == 200
        return count(service, by_it)

    before = amid(monkeypatch, remove)
    report(send(service, owner, camt(SECOND, THIRD)))
    assert before == [count(service, by_it)] == [len(FIRST.bookings) + 2]
    is_whole(service, owner)


def test_a_fetch_goes_on_amid_a_file_and_adds_what_the_file_has_not(
    service: Service, owner: Organization, monkeypatch: pytest.MonkeyPatch
) -> None:
    bank, day = Bank(service), str(THIRD.day + timedelta(1))
    connection = bank.connected(owner, accounts=[account_facts(iban=IBAN)])
    fetched = [
        facts(one.amount, f"SVWZ+{one.text}", str(one.booked), provider_ref=f"F{number}")
        for number, one in enumerate([*SECOND.bookings, *THIRD.bookings])
    ]
    newer = facts(-3_00, "SVWZ+Porto", day, provider_ref="F-new")
    amid(monkeypatch, lambda: bank.report(connection, *fetched, newer, accounts=[account_facts(iban=IBAN)]))
    assert report(send(service, owner, camt(SECOND, THIRD)))["statements"] == 2
    is_whole(service, owner, -3.0)


def test_accounts_are_neither_merged_nor_parted_amid_a_file(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    twins = Twins(service, service.organization(credits_granted=1000), EARLIER)
    more = follow_up(SHEET, *later(1, 0, 9))
    merging = amid(monkeypatch, twins.send)
    report(send(service, twins.owner, camt(more)))
    made = twins.merge()
    parting = amid(monkeypatch, lambda: twins.undo(made))
    report(send(service, twins.owner, camt(follow_up(more, *later(2, 9, 7)))))
    assert [(one.status_code, "being imported" in one.text) for one in merging + parting] == [(409, True)] * 2
    expected = [EARLIER.amount_minor, *(one.amount for one in [*SHEET.bookings, *later(1, 0, 16)])]
    assert twins.amounts(twins.fetched) == sorted(amount / 100 for amount in expected)


def test_what_is_stored_of_a_file_that_fails_at_its_end_is_told_and_completed(
    service: Service, owner: Organization, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(self: Any, file: Any) -> store.ImportResult:
        raise Unavailable("The database is gone.")

    with monkeypatch.context() as patch:
        patch.setattr(importer.StatementImporter, "import_file", fails)
        assert send(service, owner, camt(SECOND, THIRD)).status_code == 503
    assert count(service, UNKNOWN) == count(service, "SELECT COUNT(*) FROM banking_arrivals") == 0
    assert (amounts(service, owner), balance(service, owner)) == (ALL, FIRST.end / 100)
    assert len(events(service, owner)) == 2
    assert report(send(service, owner, mt940(SECOND)))["added"] == 0
    assert report(send(service, owner, mt940(THIRD)))["added"] == 0
    is_whole(service, owner)


@on_postgres
def test_a_claim_waits_for_whoever_is_at_the_account(service: Service, owner: Organization) -> None:
    def import_small(tx: Tx) -> int:
        with ReadFile(read(io.BytesIO(mt940(SECOND)), "auszug.sta")) as file:
            return importer.StatementImporter(tx, owner.id, "auszug.sta").import_file(file).added

    [account] = service.db.read_now(lambda tx: accounts.ACCOUNTS.all(tx, "organization_id = ?", owner.id))
    outcome = overlap(service.db, import_small, lambda tx: arrivals.claim(tx, account))
    assert (outcome.first, outcome.lock) == (9, "banking_account")
    assert isinstance(outcome.second, arrivals.Claim)
    # One that was merged or removed before is claimed by nobody.
    assert service.db.write_now(arrivals.claim, account._replace(id=1)) is None


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
