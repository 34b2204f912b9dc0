"""Bookings that come several ways, in any order and in any dress: in the end each is there once, and the balance agrees."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Literal, NamedTuple
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kontobahn.banking.connections.store import ConnectionRow
from kontobahn.banking.imports.files import entry_facts, reference_of
from kontobahn.banking.provider import AccountFacts, Snapshot, TransactionFacts
from kontobahn.banking.reports import intake as reports
from kontobahn.banking.transactions import arrivals, ingest
from kontobahn.formats.bank_files import read
from kontobahn.formats.statements import Entry
from tests.bank_builder import Bank, account_facts
from tests.file_bank import account, import_file, stored_in_slices, transactions
from tests.harness import Organization, Service
from tests.statement_builder import DAY, OTHER_IBAN, Booking, Sheet, camt, mt940

DAYS = 4
FIRST = DAY - timedelta(days=DAYS - 1)
OPENING = 1_000_00
Way = Literal["camt.053", "MT940", "camt.052", "FinTS camt", "FinTS MT940", "EBICS camt", "aggregator"]
WHOLE: tuple[Way, ...] = ("camt.053", "MT940")


class Real(NamedTuple):
    """A booking that happened; `parts` are the payments of a batch."""

    day: int
    amount: int
    text: str
    name: str
    end_to_end_id: str | None
    parts: tuple[int, ...] = ()


class Told(NamedTuple):
    """A delivery: which days, up to which booking of the last one, and how."""

    way: Way
    first: int
    last: int
    # References of the bank, of which a re-issue has others; None for a bank that gives none.
    issue: int | None
    in_parts: bool
    # Only the beginning of the last day, and how many of these as announced.
    cut: int | None = None
    announced: int = 0


kinds = st.tuples(
    st.integers(0, DAYS - 1), st.sampled_from((-3_50, 3_50, -1_00, 70_00)), st.sampled_from(("Kaffee am Markt", "Miete Haus 3")),
    st.sampled_from(("Muster GmbH", "Erika Muster")), st.booleans(),
)  # fmt: skip
batches = st.tuples(st.integers(0, DAYS - 1), st.lists(st.integers(1_00, 9_00), min_size=2, max_size=3))
ways = st.builds(
    Told, st.sampled_from(("camt.053", "MT940", "camt.052", "FinTS camt", "FinTS MT940", "EBICS camt", "aggregator")),
    st.integers(0, DAYS - 1),
    st.integers(0, DAYS - 1), st.sampled_from((None, 0, 0, 1)), st.booleans(), st.one_of(st.none(), st.integers(0, 5)),
    st.integers(0, 2),
)  # fmt: skip


def real_bookings(rows: Sequence[tuple[int, int, str, str, bool]], sums: Sequence[tuple[int, list[int]]]) -> list[Real]:
    single = [
        Real(day, amount, text, name, f"E-{number}" if has_id else None)
        for number, (day, amount, text, name, has_id) in enumerate(rows)
    ]
    whole = []
    for number, (day, some) in enumerate(sums):
        # The last part tells batches apart.
        parts = (*(-part for part in some), -1_000_00 * (number + 1))
        whole.append(Real(day, sum(parts), "Lohn", "", None, parts))
    return sorted([*single, *whole], key=lambda one: one.day)


class World:
    def __init__(self, service: Service, real: list[Real]) -> None:
        self.service = service
        self.real = real
        self.owner: Organization = service.organization(credits_granted=100)
        self.bank = Bank(service)
        self.connections: dict[str, ConnectionRow] = {}

    @property
    def balance(self) -> int:
        return OPENING + sum(one.amount for one in self.real)

    def tell(self, told: Told) -> None:
        if told.way.startswith(("FinTS", "EBICS", "agg")):
            self._fetch(told)
        elif told.way == "camt.052":
            self._report(told)
        else:
            self._import(told)

    def _sheet(self, told: Told, chosen: Sequence[tuple[int, Real]]) -> Sheet:
        first = min(told.first, told.last)
        opening = OPENING + sum(one.amount for one in self.real if one.day < first)
        bookings = [self._dressed(number, one, told) for number, one in chosen]
        announced = told.announced if told.way == "camt.052" else 0
        bookings[:announced] = [booking._replace(status="PDNG") for booking in bookings[:announced]]
        day = FIRST + timedelta(days=max(told.first, told.last))
        return Sheet(bookings, opening, id=f"S-{told}"[:30], number=None, day=day)

    def _dressed(self, number: int, one: Real, told: Told) -> Booking:
        day = FIRST + timedelta(days=one.day)
        reference = None if told.issue is None else f"R{told.issue}-{number}"
        booking = Booking(
            one.amount, one.text, one.name or None, OTHER_IBAN if one.name else None, end_to_end_id=one.end_to_end_id,
            reference=reference, booked=day, valued=day,
        )  # fmt: skip
        if one.parts and told.in_parts and "MT940" not in told.way:
            parts = [
                booking._replace(amount=part, text=f"Lohn {place}", end_to_end_id=f"L-{number}-{place}")
                for place, part in enumerate(one.parts)
            ]
            booking = booking._replace(parts=tuple(parts))
        return booking

    def _chosen(self, told: Told) -> list[tuple[int, Real]]:
        first, last = sorted((told.first, told.last))
        return [(number, one) for number, one in enumerate(self.real) if first <= one.day <= last]

    def _import(self, told: Told) -> None:
        sheet = self._sheet(told, self._chosen(told))
        content = camt(sheet) if told.way == "camt.053" else mt940(sheet)
        import_file(self.service, self.owner, content, allow_gaps=True)

    def _report(self, told: Told) -> None:
        """During a day: what was booked so far, the first of it only announced."""
        today = [(number, one) for number, one in enumerate(self.real) if one.day == told.last]
        sheet = self._sheet(told, today[: told.cut])._replace(balances="")
        import_file(self.service, self.owner, camt(sheet, kind="052"))

    def _fetch(self, told: Told) -> None:
        first = min(told.first, told.last)
        told = told._replace(first=first, last=DAYS - 1)
        chosen = self._chosen(told)
        if told.way == "aggregator":
            found = [self._aggregated(number, one, told) for number, one in chosen]
        else:
            sheet = self._sheet(told, chosen)
            found = fetched(mt940(sheet) if "MT940" in told.way else camt(sheet))
        accounts = [account_facts(balance_minor=self.balance)]
        name = told.way.split()[0]
        if name in self.connections and name == "EBICS":
            self._store_in_slices(self.connections[name], found, accounts)
        elif name in self.connections:
            self.bank.report(self.connections[name], *found, accounts=accounts)
        else:
            ref = f"{name}-{self.owner.id}"
            self.connections[name] = self.bank.connected(self.owner, *found, ref=ref, accounts=accounts)

    def _store_in_slices(self, row: ConnectionRow, found: list[TransactionFacts], accounts: list[AccountFacts]) -> None:
        """As if it were a large fetch."""
        db = self.service.db
        snapshot = Snapshot(self.bank.connection_facts(row.provider_ref), accounts, reports.Gathered(found))
        with patch.object(arrivals, "LARGE", 1), patch.object(ingest, "CHUNK", 2):
            written = reports.arrive(db, "scripted", snapshot, None)
        db.write_now(reports.apply_finished, "scripted", snapshot, None, written)

    def _aggregated(self, number: int, one: Real, told: Told) -> TransactionFacts:
        side = "payer" if one.amount >= 0 else "payee"
        extra: dict[str, Any] = {side: one.name, f"{side}_information": OTHER_IBAN} if one.name else {}
        return TransactionFacts(
            "giro", FIRST + timedelta(days=one.day), one.amount, "EUR", one.text, provider_ref=f"id-{told.issue}-{number}", extra=extra
        )  # fmt: skip

    def check(self) -> None:
        rows = transactions(self.service, self.owner)
        found = Counter((row["extra"]["posting_date"] or row["made_on"], round(row["amount"] * 100)) for row in rows)
        expected: Counter[tuple[str, int]] = Counter()
        for one in self.real:
            day = (FIRST + timedelta(days=one.day)).isoformat()
            parts = Counter((day, part) for part in one.parts)
            in_parts = bool(parts) and parts[day, one.parts[-1]] <= found[day, one.parts[-1]]
            expected += parts if in_parts else Counter([(day, one.amount)])
        assert found == expected
        assert {row["status"] for row in rows} <= {"posted"}
        kept = account(self.service, self.owner)
        assert round(kept["balance"] * 100) == self.balance
        assert kept["extra"]["transactions_count"] == {"posted": len(rows), "pending": 0}


def fetched(content: bytes) -> list[TransactionFacts]:
    items = read(io.BytesIO(content), "fetch", unbalanced=True)
    return [entry_facts(item, "giro", (), reference=reference_of(item)) for item in items if isinstance(item, Entry)]


LAST = DAYS - 1
RENT = Real(LAST, 500_00, "Miete Haus 3", "Muster GmbH", "E-1")
COFFEE = Real(LAST, -3_50, "Kaffee am Markt", "Erika Muster", None)
WAGES = Real(LAST, -3_000_00, "Lohn", "", None, (-1_000_00, -2_000_00))


def told(way: Way, issue: int | None = 0, *, in_parts: bool = False, announced: int = 0) -> Told:
    return Told(way, 0 if way != "camt.052" else LAST, LAST, issue, in_parts, None, announced)


# Each in this order and in the other.
PAIRS = {
    "intraday and final": (told("camt.052", 1), told("camt.053")),
    "intraday without references": (told("camt.052", None), told("camt.053")),
    "intraday and MT940": (told("camt.052"), told("MT940", None)),
    "announced and final": (told("camt.052", 1, announced=3), told("camt.053")),
    "announced and MT940": (told("camt.052", announced=3), told("MT940")),
    "both formats": (told("camt.053"), told("MT940", None)),
    "issued again": (told("camt.053"), told("camt.053", 1)),
    "sum and payments": (told("camt.053"), told("camt.053", 1, in_parts=True)),
    "MT940 and payments": (told("MT940"), told("camt.053", in_parts=True)),
    "intraday sum and payments": (told("camt.052"), told("camt.053", 1, in_parts=True)),
    "file and fetch": (told("camt.053"), told("FinTS MT940", None)),
    "file and aggregator": (told("MT940", None), told("aggregator")),
    "two fetches": (told("FinTS camt"), told("aggregator")),
    "two ways to a bank": (told("FinTS MT940", None), told("EBICS camt", in_parts=True)),
    "one fetch and the same in slices": (told("EBICS camt"), told("EBICS camt", 1)),
    "aggregator with other ids": (told("aggregator"), told("aggregator", 1)),
}


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_two_ways_in_either_order(service: Service, pair: tuple[Told, Told]) -> None:
    for order in (pair, pair[::-1]):
        world = World(service, [RENT, COFFEE, COFFEE, WAGES])
        for one in order:
            world.tell(one)
        world.check()


@pytest.mark.either_engine
def test_what_is_new_beside_a_sum_whose_parts_are_known_is_added(service: Service) -> None:
    world = World(service, [WAGES])
    world.tell(told("camt.053", in_parts=True))
    world.real.append(COFFEE)
    world.tell(told("FinTS camt", None))
    world.check()


def announced_under_one_reference(deliveries: list[Told]) -> list[Told]:
    """An announcement that comes again under another reference is a second one: intraday reports may have only what is new."""
    issues = [one.issue for one in deliveries if one.way == "camt.052" and one.announced]
    return [one._replace(issue=issues[0]) if one.way == "camt.052" and one.announced else one for one in deliveries]


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(kinds, min_size=1, max_size=8), st.lists(batches, max_size=2), st.lists(ways, max_size=6),
    st.sampled_from(WHOLE), st.integers(0, 6), st.booleans(), st.booleans(),
)  # fmt: skip
def test_each_booking_is_there_once(
    service: Service,
    rows: list[tuple[int, int, str, str, bool]],
    sums: list[tuple[int, list[int]]],
    before: list[Told],
    whole: Way,
    place: int,
    in_parts: bool,
    in_slices: bool,
) -> None:
    """Transactions that statements do not prove may be told in other words: there is a whole one somewhere among the others."""
    world = World(service, real_bookings(rows, sums))
    before = announced_under_one_reference(before)
    before.insert(place, told(whole, in_parts=in_parts))
    with stored_in_slices(in_slices):
        for one in before:
            world.tell(one)
    world.check()
