"""Random ledgers, posted in random order: open items and balances must be what a plain reckoning says, to the cent."""

from __future__ import annotations

import itertools
import json
import random
import tempfile
from collections.abc import Iterator
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kontobahn.access import organizations
from kontobahn.api.wire import encode
from kontobahn.clock import ManualClock
from kontobahn.db import Database, Tx, open_database
from kontobahn.db.migrate import migrate
from kontobahn.ids import new_id
from kontobahn.ledger import connections
from kontobahn.ledger.books import posting, reading, store, verify
from kontobahn.ledger.books.posting import Satz
from kontobahn.ledger.books.store import Client
from kontobahn.ledger.provider import OposFrage
from kontobahn.settings import load
from tests.harness import ACTOR, START
from tests.unit.ledger.reckoning import CARRY, PERSONS, Booking, balance, carried_years, open_items, person_legs

MODES = ("reconcile", "raw")
EXAMPLES = {"sqlite": 400, "postgres": 80}
# Few numbers and small amounts, so that documents meet, clear each other and stand in several accounts.
DOCUMENTS = ("RE-1", "RE-2", "re-1", "R/3", "", "0")
TEXTS = ("Rechnung", "Zahlung", "Ausgleich", "ä")
OTHERS = ("12000000", "13600000", "84000000", "34000000", "49300000", *PERSONS)
_numbers = itertools.count(1)


class Books(NamedTuple):
    db: Database
    connection_id: str
    examples: int


@pytest.fixture
def books(engine: str, request: pytest.FixtureRequest) -> Iterator[Books]:
    url: str = request.getfixturevalue("database_url")
    with tempfile.TemporaryDirectory() as folder:
        db = open_database(
            load({}, data=str(Path(folder)), database_url=url, database_connections=2), ManualClock(START)
        )
        migrate(db)
        owner = db.write_now(organizations.create, "Zufall", ACTOR)
        connection_id = db.write_now(connections.create, owner.id, bezeichnung="Bücher", provider="books")
        yield Books(db, connection_id, EXAMPLES[engine])
        db.close()


# --- Ledgers


class Ledger(NamedTuple):
    """Fiscal years (first and last day), and bookings in the order in which they are to be posted, batch by batch."""

    years: list[tuple[str, str]]
    bookings: list[Booking]
    order: int

    @property
    def batches(self) -> list[list[Booking]]:
        """In an order of their own; a batch is of one year, as a file is."""
        chance = random.Random(self.order)
        shuffled = chance.sample(self.bookings, len(self.bookings))
        batches: list[list[Booking]] = []
        while shuffled:
            size = chance.randint(1, 12)
            taken, shuffled = shuffled[:size], shuffled[size:]
            for jahr in dict.fromkeys(item.jahr for item in taken):
                batches.append([item for item in taken if item.jahr == jahr])
        return batches


@st.composite
def fiscal_years(draw: st.DrawFn) -> list[tuple[str, str]]:
    """One to four years, of the calendar or not; one of them may be a short one."""
    start = date(2022, draw(st.sampled_from((1, 1, 7, 10))), 1)
    short = draw(st.integers(0, 6))
    years = []
    for number in range(draw(st.integers(1, 4))):
        following = _months_on(start, 6 if number == short else 12)
        years.append((start.isoformat(), (following - timedelta(days=1)).isoformat()))
        start = following
    return years


def _months_on(day: date, months: int) -> date:
    month = day.month - 1 + months
    return date(day.year + month // 12, month % 12 + 1, 1)


@st.composite
def movements(draw: st.DrawFn, years: list[tuple[str, str]]) -> list[Booking]:
    first, last = date.fromisoformat(years[0][0]), date.fromisoformat(years[-1][1])
    booking = st.tuples(
        st.integers(0, (last - first).days), st.sampled_from(PERSONS), st.sampled_from(OTHERS), st.booleans(),
        st.integers(1, 40), st.sampled_from(DOCUMENTS), st.sampled_from(TEXTS), st.integers(-20, 5), st.integers(-6, 1),
    )  # fmt: skip
    found = []
    for days, person, other, soll, units, beleg, text, skonto, reversal in draw(st.lists(booking, max_size=40)):
        if person == other:
            continue
        tag = (first + timedelta(days=days)).isoformat()
        jahr = next(start for start, end in years if start <= tag <= end)
        konto, gegenkonto = (person, other) if units % 2 else (other, person)
        discount = max(skonto, 0) if other == "12000000" else 0
        found.append(Booking(tag, jahr, konto, gegenkonto, soll, units * 25, beleg, text, discount, reversal > 0))
    return found


def opening(jahr: str, konto: str, betrag: int, *, turned: bool = False) -> Booking:
    """An opening balance of an account: written from its side or from the side of the carry-over account."""
    contra = CARRY[0] if len(konto) == 8 else CARRY[1] if konto < "7" else CARRY[2]
    sides = (contra, konto) if turned else (konto, contra)
    text = "Saldovortrag" if betrag % 4 else "EB-Wert"
    return Booking(jahr, jahr, *sides, (betrag > 0) != turned, abs(betrag), "EB" if turned else "", text)


def consistent(bookings: list[Booking], jahr: str) -> list[Booking]:
    """What the documents of the years before come to, account by account."""
    found = []
    for konto in PERSONS:
        before = sum(leg.betrag for leg in person_legs(bookings) if leg.konto == konto and leg.jahr < jahr)
        if before:
            found.append(opening(jahr, konto, before, turned=bool(before % 2)))
    return found


@st.composite
def any_ledger(draw: st.DrawFn) -> Ledger:
    """With carry-overs that agree with the documents, that do not, that are half there or missing."""
    years = draw(fiscal_years())
    bookings = draw(movements(years))
    openings: list[Booking] = []
    for jahr, _ in years:
        kind = draw(st.sampled_from(("none", "none", "consistent", "some", "free", "ledger accounts only")))
        if kind in ("consistent", "some"):
            agreed = consistent(bookings, jahr)
            openings += agreed if kind == "consistent" else agreed[::2]
        if kind in ("some", "free"):
            amounts = st.tuples(st.sampled_from(PERSONS), st.integers(-60, 60), st.booleans())
            for konto, units, turned in draw(st.lists(amounts, max_size=5)):
                if units:
                    openings.append(opening(jahr, konto, units * 25, turned=turned))
        if kind in ("some", "ledger accounts only"):
            openings.append(opening(jahr, "12000000", 100_000))
    return Ledger(years, bookings + openings, draw(st.integers(0, 2**32)))


@st.composite
def complete_history(draw: st.DrawFn) -> tuple[Ledger, list[Booking]]:
    """A ledger from its first day on, and consistent carry-overs into some of its years."""
    years = draw(fiscal_years())
    bookings = [item for item in draw(movements(years)) if not item.is_opening]
    carried = draw(st.lists(st.sampled_from(years), unique=True))
    openings = [item for jahr, _ in carried for item in consistent(bookings, jahr)]
    return Ledger(years, bookings, draw(st.integers(0, 2**32))), openings


# --- Posting and asking


def post(books: Books, ledger: Ledger) -> Client:
    return books.db.write_now(_post, books.connection_id, ledger)


def _post(tx: Tx, connection_id: str, ledger: Ledger) -> Client:
    connection = connections.find_for_operator(tx, connection_id)
    client = store.create_client(
        tx, connection, client_id=f"1001-{next(_numbers)}", bezeichnung="Zufall", kontenrahmen="SKR03", konto_laenge=4
    )
    for start, end in ledger.years:
        store.ensure_year(tx, client, date.fromisoformat(start), date.fromisoformat(end))
    add(tx, client, ledger.batches)
    return client


def add(tx: Tx, client: Client, batches: list[list[Booking]]) -> None:
    for batch in batches:
        jahr = store.year_of_start(tx, client, date.fromisoformat(batch[0].jahr))
        poster = posting.Poster(
            tx, client, posting.open_batch(tx, client, jahr, kind="test", source="test", sha256=new_id())
        )
        for item in batch:
            poster.add(
                Satz(
                    umsatz=item.betrag, soll=item.soll, konto=item.konto, gegenkonto=item.gegenkonto, belegdatum=item.tag,
                    belegfeld1=item.beleg, buchungstext=item.text, skonto=item.skonto, generalumkehr=item.reversal,
                )
            )  # fmt: skip
        poster.finish()


def ask(books: Books, client: Client, stichtag: str, mode: str, side: str = "all", konto: str | None = None) -> Any:
    frage = OposFrage(date.fromisoformat(stichtag), side, mode, konto)
    return plain(books.db.read_now(reading.offene_posten, client, frage))


def plain(answer: Any) -> Any:
    return json.loads(encode(answer), parse_float=Decimal)


def cents(amount: Decimal) -> int:
    scaled = amount * 100
    assert scaled == int(scaled)
    return int(scaled)


def cut_offs(ledger: Ledger) -> list[str]:
    """Around every turn of the year, and some days in between."""
    chance = random.Random(ledger.order + 1)
    first, last = date.fromisoformat(ledger.years[0][0]), date.fromisoformat(ledger.years[-1][1])
    days = [first - timedelta(days=1), last + timedelta(days=400)]
    for start, end in ledger.years:
        days += [date.fromisoformat(start), date.fromisoformat(end)]
    days += [first + timedelta(days=chance.randint(0, (last - first).days)) for _ in range(2)]
    return [day.isoformat() for day in days]


def expected(bookings: list[Booking], stichtag: str, mode: str, side: str = "all", konto: str | None = None) -> Any:
    """The whole answer as the reckoning has it, with amounts in cents."""
    konten = []
    sums = {True: 0, False: 0}
    for name, items in open_items(bookings, stichtag, mode).items():
        debitor = name[0] in "123456"
        if (side == "debitors" and not debitor) or (side == "creditors" and debitor) or konto not in (None, name):
            continue
        total = sum(item["saldo"] for item in items)
        sums[debitor] += total
        konten.append({
            "kontonummer": name, "bezeichnung": "", "isDebitor": debitor, "totalSaldo": total,
            "posten": [{key: item[key] for key in ("beleg", "belegdatum", "buchungstext", "saldo")} for item in items],
        })  # fmt: skip
    konten.sort(key=lambda entry: (-abs(entry["totalSaldo"]), entry["kontonummer"]))
    return {"stichtag": stichtag, "konten": konten, "sumDebitoren": sums[True], "sumKreditoren": sums[False]}


def in_cents(answer: Any) -> Any:
    for konto in answer["konten"]:
        konto["totalSaldo"] = cents(konto["totalSaldo"])
        for item in konto["posten"]:
            item["saldo"] = cents(item["saldo"])
    for name in ("sumDebitoren", "sumKreditoren"):
        answer[name] = cents(answer[name])
    return answer


def without_dates_of_zero(answer: Any, bookings: list[Booking]) -> Any:
    """A document that is really called “0” shares its item with the openings; whose date the item has is left open."""
    shared = {leg.konto for leg in person_legs(bookings) if leg.beleg == "0" and not leg.is_opening}
    for konto in answer["konten"]:
        for item in konto["posten"]:
            if item["beleg"] == "0" and konto["kontonummer"] in shared:
                item["belegdatum"] = item["buchungstext"] = ""
    return answer


# --- The guarantees


def run(examples: int, check: Any) -> None:
    """Hypothesis with as many examples as the engine is given."""
    settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))(check)()


def test_open_items_are_what_a_plain_reckoning_says(books: Books) -> None:
    @given(ledger=any_ledger())
    def check(ledger: Ledger) -> None:
        client = post(books, ledger)
        chance = random.Random(ledger.order)
        for stichtag in cut_offs(ledger):
            for mode in MODES:
                question = (stichtag, mode)
                must = expected(ledger.bookings, *question)
                have = in_cents(ask(books, client, *question))
                if mode == "raw":
                    must, have = (without_dates_of_zero(answer, ledger.bookings) for answer in (must, have))
                assert have == must
                for konto in have["konten"]:
                    assert konto["totalSaldo"] == sum(item["saldo"] for item in konto["posten"])
            totals = [
                {
                    konto["kontonummer"]: konto["totalSaldo"]
                    for konto in expected(ledger.bookings, stichtag, mode)["konten"]
                }
                for mode in MODES
            ]
            for konto in PERSONS:
                assert totals[0].get(konto, 0) == totals[1].get(konto, 0)
        narrowed = (chance.choice(cut_offs(ledger)), "reconcile", chance.choice(("debitors", "creditors")))
        assert in_cents(ask(books, client, *narrowed)) == expected(ledger.bookings, *narrowed)
        one = (narrowed[0], "reconcile", "all", chance.choice(PERSONS))
        assert in_cents(ask(books, client, *one)) == expected(ledger.bookings, *one)

    run(books.examples, check)


def test_open_items_at_a_year_s_end_are_the_trial_balance_of_the_years_since_the_carry_over(books: Books) -> None:
    @given(ledger=any_ledger())
    def check(ledger: Ledger) -> None:
        client = post(books, ledger)
        susa = {start: trial_balance(books, client, start) for start, _ in ledger.years}
        for start, end in ledger.years:
            carried = carried_years(ledger.bookings, end)
            since = [jahr for jahr, _ in ledger.years if (not carried or jahr >= carried[-1]) and jahr <= start]
            answer = in_cents(ask(books, client, end, "reconcile"))
            totals = {konto["kontonummer"]: konto["totalSaldo"] for konto in answer["konten"]}
            for konto in PERSONS:
                assert totals.get(konto, 0) == sum(susa[jahr].get(konto, 0) for jahr in since)

    run(books.examples // 2, check)


def trial_balance(books: Books, client: Client, jahr: str) -> dict[str, int]:
    """Account → balance; every line agrees with itself, and all of them come to nothing."""
    rows = plain(books.db.read_now(reading.susa, client, date.fromisoformat(jahr), None))
    found = {}
    for row in rows:
        moved = sum(signed(item["saldo"]) for item in row["periodenwerte"])
        assert moved == cents(row["umsatzSoll"]) - cents(row["umsatzHaben"])
        assert signed(row["saldo"]) == signed(row["ebWert"]) + moved
        found[row["kontonummer"]] = signed(row["saldo"])
    assert sum(found.values()) == 0
    return found


def signed(saldo: Any) -> int:
    if saldo is None:
        return 0
    return cents(saldo["betrag"]) * (1 if saldo["sollHabenKennzeichen"] == "SOLL" else -1)


def test_the_trial_balance_of_person_accounts_is_what_a_plain_reckoning_says(books: Books) -> None:
    @given(ledger=any_ledger())
    def check(ledger: Ledger) -> None:
        client = post(books, ledger)
        for jahr, _ in ledger.years:
            trial_balance(books, client, jahr)
            rows = plain(books.db.read_now(reading.susa, client, date.fromisoformat(jahr), None))
            by_konto = {row["kontonummer"]: row for row in rows}
            for konto in PERSONS:
                must = balance(ledger.bookings, konto, jahr)
                row = by_konto.get(konto)
                assert (row is None) == (must is None)
                if row is None or must is None:
                    continue
                assert signed(row["saldo"]) == must.saldo
                assert (row["ebWert"] is None) == (must.eb is None)
                assert signed(row["ebWert"]) == (must.eb or 0)
                assert {item["periode"]: signed(item["saldo"]) for item in row["periodenwerte"]} == {
                    number: soll - haben for number, (soll, haben) in must.periods.items()
                }
                assert cents(row["umsatzSoll"]) == sum(soll for soll, _ in must.periods.values())
                assert cents(row["umsatzHaben"]) == sum(haben for _, haben in must.periods.values())

    run(books.examples // 2, check)


def test_a_complete_history_has_no_residual_and_carrying_it_over_changes_nothing(books: Books) -> None:
    @given(both=complete_history())
    def check(both: tuple[Ledger, list[Booking]]) -> None:
        ledger, openings = both
        client = post(books, ledger)
        questions = [(stichtag, mode) for stichtag in cut_offs(ledger) for mode in MODES]
        before = [ask(books, client, *question) for question in questions]
        for jahr in dict.fromkeys(item.jahr for item in openings):
            batch = [item for item in openings if item.jahr == jahr]
            books.db.write_now(add, client, [batch])
        assert [ask(books, client, *question) for question in questions] == before
        belege = {item["beleg"] for answer in before for konto in answer["konten"] for item in konto["posten"]}
        assert "EB-RESIDUAL" not in belege

    run(books.examples // 2, check)


def test_the_order_in_which_bookings_arrive_leaves_no_trace(books: Books) -> None:
    @given(ledger=any_ledger(), other=st.integers(0, 2**32))
    def check(ledger: Ledger, other: int) -> None:
        first, second = post(books, ledger), post(books, ledger._replace(order=other))
        assert books.db.read_now(read_models, first) == books.db.read_now(read_models, second)
        for client in (first, second):
            assert books.db.read_now(verify.find_differences, client.mandant) == []

    run(books.examples // 3, check)


def read_models(tx: Tx, client: Client) -> dict[str, list[tuple[Any, ...]]]:
    tables = {
        "books_years": "jahr, has_eb",
        "books_periods": "jahr, konto, periode, soll, haben",
        "books_items": "konto, beleg, soll, haben, belegdatum, buchungstext",
        "books_item_years": "konto, jahr, eb, eb_text, bewegung",
        "books_carry_rests": "jahr, konto, rest",
        "books_item_moves": "belegdatum, konto, beleg, betrag",
    }
    return {
        table: sorted(tx.all(f"SELECT {columns} FROM {table} WHERE mandant = ?", client.mandant))
        for table, columns in tables.items()
    }
