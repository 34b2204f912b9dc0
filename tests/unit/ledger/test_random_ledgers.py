"""Random ledgers, posted in random order: open items and balances must agree with a plain recalculation, to the cent.

RANDOM_LEDGERS=5000 takes so many on each engine; a failure names the seed and the smallest ledger that still fails.
"""

from __future__ import annotations

import io
import json
import os
import random
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest

from kontobahn.access import organizations
from kontobahn.books import bookings as account_sheets
from kontobahn.books import export, posting, read_models, reports, store, verification
from kontobahn.books.batches import open_batch
from kontobahn.books.imports import Job, import_file
from kontobahn.books.open_items import joined_offene_posten, offene_posten
from kontobahn.books.satz import Satz
from kontobahn.books.store import Client
from kontobahn.clock import ManualClock
from kontobahn.db import Database, Tx, open_database
from kontobahn.db.migrate import migrate
from kontobahn.db.sqlite import SqliteTx
from kontobahn.formats.extf import open_extf
from kontobahn.ids import new_id
from kontobahn.json_text import encode
from kontobahn.ledger import connections
from kontobahn.ledger.opos import EbModus, JoinedOpos, OposSelection, Side
from kontobahn.ledger.wire import SheetLine, SheetSelection
from kontobahn.settings import load
from tests.harness import ACTOR, START, place_migrated_sqlite
from tests.services import PostgresServer
from tests.unit.ledger.random_ledgers import Ledger, any_ledger, complete_history, cut_offs, smallest
from tests.unit.ledger.recalculation import (
    PERSONS,
    Booking,
    balance,
    carried_years,
    counted_legs,
    open_items,
    person_legs,
)

MODES = ("reconcile", "raw")
LEDGERS = {"sqlite": 100, "postgres": 33}
# Others every day; a failure names its seed.
FIRST_SEED = int(os.environ.get("RANDOM_LEDGERS_FROM") or f"{date.today():%y%m%d}000")
LEDGERS_A_TRANSACTION = 20


class Books(NamedTuple):
    db: Database
    connection_id: str
    ledgers: int


@pytest.fixture
def books(engine: str, request: pytest.FixtureRequest) -> Iterator[Books]:
    url: str = request.getfixturevalue("database_url")
    with Opened(url) as found:
        yield found._replace(ledgers=int(os.environ.get("RANDOM_LEDGERS", LEDGERS[engine])))


class Opened:
    """A migrated database with one connection to make clients in."""

    def __init__(self, url: str) -> None:
        self._folder = tempfile.TemporaryDirectory()
        settings = load({}, data=str(Path(self._folder.name)), database_url=url, database_connections=2)
        place_migrated_sqlite(settings)
        self._db = open_database(settings, ManualClock(START))

    def __enter__(self) -> Books:
        migrate(self._db)
        owner = self._db.write_now(organizations.create, "Zufall", ACTOR)
        connection_id = self._db.write_now(connections.create, owner.id, bezeichnung="Bücher", provider="books")
        return Books(self._db, connection_id, 0)

    def __exit__(self, *_: object) -> None:
        self._db.close()
        self._folder.cleanup()


# --- Posting and asking


def create(tx: Tx, connection_id: str, ledger: Ledger) -> Client:
    connection = connections.find_for_operator(tx, connection_id)
    number = store.next_number(tx, "books_clients")
    client = Client(connection.organization_id, connection.id, f"1001-{number}", number, "Zufall", "SKR03", 4, 0)
    tx.run(
        f"INSERT INTO books_clients ({', '.join(Client._fields)}, last_buchung, edition, created_at)"
        f" VALUES ({', '.join('?' * len(Client._fields))}, 0, ?, ?)",
        *client, number, tx.now,
    )  # fmt: skip
    for start, end in ledger.years:
        store.ensure_year(tx, client, date.fromisoformat(start), date.fromisoformat(end))
    return client


def post(tx: Tx, connection_id: str, ledger: Ledger) -> Client:
    client = create(tx, connection_id, ledger)
    add(tx, client, ledger.batches)
    return client


def post_all(tx: Tx, connection_id: str, ledgers: list[Ledger]) -> list[Client]:
    return [post(tx, connection_id, ledger) for ledger in ledgers]


def add(tx: Tx, client: Client, batches: list[list[Booking]]) -> None:
    for batch in batches:
        jahr = store.year_of_start(tx, client, date.fromisoformat(batch[0].jahr))
        poster = posting.begin(tx, client, open_batch(tx, client, jahr, kind="test", source="test", sha256=new_id()))
        for item in batch:
            poster.add(
                Satz(
                    umsatz=item.betrag, soll=item.soll, konto=item.konto, gegenkonto=item.gegenkonto, belegdatum=item.tag,
                    belegfeld1=item.beleg, buchungstext=item.text, skonto=item.skonto, generalumkehr=item.reversal,
                )
            )  # fmt: skip
        poster.finish()


def ask(tx: Tx, client: Client, stichtag: str, mode: str, side: str = "all", konto: str | None = None) -> Any:
    selection = OposSelection(date.fromisoformat(stichtag), cast(Side, side), cast(EbModus, mode), konto)
    answer = plain(offene_posten(tx, client, selection))
    if isinstance(tx, SqliteTx):
        joined = joined_offene_posten(tx, client, selection)
        assert plain(joined.whole() if isinstance(joined, JoinedOpos) else joined) == answer
    return answer


def plain(answer: Any) -> Any:
    return json.loads(encode(answer), parse_float=Decimal)


def cents(amount: Decimal) -> int:
    scaled = amount * 100
    assert scaled == int(scaled)
    return int(scaled)


def expected(bookings: list[Booking], stichtag: str, mode: str, side: str = "all", konto: str | None = None) -> Any:
    """The whole answer as recalculated, with amounts in cents."""
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


# --- What holds of every ledger


def check_ledger(tx: Tx, client: Client, ledger: Ledger) -> None:
    check_open_items(tx, client, ledger)
    check_trial_balances(tx, client, ledger)
    check_account_sheets(tx, client, ledger)
    assert verification.find_differences(tx, client.mandant) == []


def check_open_items(tx: Tx, client: Client, ledger: Ledger) -> None:
    chance = random.Random(ledger.order)
    for stichtag in cut_offs(ledger, 3):
        totals = []
        for mode in MODES:
            must = expected(ledger.posted, stichtag, mode)
            have = in_cents(ask(tx, client, stichtag, mode))
            totals.append(
                {konto["kontonummer"]: konto["totalSaldo"] for konto in have["konten"] if konto["totalSaldo"]}
            )
            if mode == "raw":
                must, have = (without_dates_of_zero(answer, ledger.posted) for answer in (must, have))
            assert have == must
        assert totals[0] == totals[1]
    narrowed = (chance.choice(cut_offs(ledger, 3)), "reconcile", chance.choice(("debitors", "creditors")))
    assert in_cents(ask(tx, client, *narrowed)) == expected(ledger.posted, *narrowed)
    one = (narrowed[0], "reconcile", "all", chance.choice(PERSONS))
    assert in_cents(ask(tx, client, *one)) == expected(ledger.posted, *one)


def check_trial_balances(tx: Tx, client: Client, ledger: Ledger) -> None:
    """Each line agrees with the recalculation; and open items at a year's end are the balances since the last carry-over."""
    susa = {start: trial_balance(tx, client, ledger, start) for start, _ in ledger.years}
    start, end = random.Random(ledger.order).choice(ledger.years)
    carried = carried_years(ledger.posted, end)
    since = [jahr for jahr, _ in ledger.years if (not carried or jahr >= carried[-1]) and jahr <= start]
    answer = in_cents(ask(tx, client, end, "reconcile"))
    totals = {konto["kontonummer"]: konto["totalSaldo"] for konto in answer["konten"]}
    for konto in PERSONS:
        assert totals.get(konto, 0) == sum(susa[jahr].get(konto, 0) for jahr in since)


def trial_balance(tx: Tx, client: Client, ledger: Ledger, jahr: str) -> dict[str, int]:
    """Account → balance; every line is consistent, and all of them add up to zero."""
    rows = plain(reports.susa(tx, client, date.fromisoformat(jahr), None))
    for row in rows:
        moved = sum(signed(item["saldo"]) for item in row["periodenwerte"])
        assert moved == cents(row["umsatzSoll"]) - cents(row["umsatzHaben"])
        assert signed(row["saldo"]) == signed(row["ebWert"]) + moved
    by_konto = {row["kontonummer"]: row for row in rows}
    assert list(by_konto) == sorted(by_konto, key=lambda konto: (len(konto), konto))
    for konto in PERSONS:
        must = balance(ledger.posted, konto, jahr)
        row = by_konto.get(konto)
        assert (row is None) == (must is None)
        if row is not None and must is not None:
            check_line(row, must)
    found = {konto: signed(row["saldo"]) for konto, row in by_konto.items()}
    assert sum(found.values()) == 0
    return found


def check_account_sheets(tx: Tx, client: Client, ledger: Ledger) -> None:
    """The lines of an account add up to its line of the trial balance, in each period and in the order of days."""
    chance = random.Random(ledger.order)
    start = date.fromisoformat(chance.choice(ledger.years)[0])
    rows = plain(reports.susa(tx, client, start, None))
    for row in chance.sample(rows, min(4, len(rows))):
        lines = sheet_lines(tx, client, SheetSelection(start, row["kontonummer"], limit=chance.randint(1, 5)))
        assert [line.place for line in lines] == list(dict.fromkeys(line.place for line in lines))
        assert lines == sorted(lines, key=lambda line: (line.periode, line.belegdatum, int(line.booking)))
        opening = [line for line in lines if line.periode == 0]
        assert sum(line.soll - line.haben for line in opening) == signed(row["ebWert"])
        assert sum(line.soll for line in lines[len(opening) :]) == cents(row["umsatzSoll"])
        assert sum(line.haben for line in lines[len(opening) :]) == cents(row["umsatzHaben"])
        assert lines[-1].saldo == signed(row["saldo"])
        for item in row["periodenwerte"]:
            of_period = sheet_lines(tx, client, SheetSelection(start, row["kontonummer"], item["periode"], limit=2))
            assert of_period == [line for line in lines if line.periode == item["periode"]]
            assert sum(line.soll - line.haben for line in of_period) == signed(item["saldo"])


def sheet_lines(tx: Tx, client: Client, selection: SheetSelection) -> list[SheetLine]:
    found: list[SheetLine] = []
    after: str | None = ""
    while after is not None:
        page = account_sheets.sheet_page(tx, client, selection._replace(after=after))
        assert not found or page.saldo_davor == found[-1].saldo
        found += page.lines
        after = page.next
    return found


def check_line(row: Any, must: Any) -> None:
    assert signed(row["saldo"]) == must.saldo
    assert (row["ebWert"] is None) == (must.eb is None)
    assert signed(row["ebWert"]) == (must.eb or 0)
    assert {item["periode"]: signed(item["saldo"]) for item in row["periodenwerte"]} == {
        number: soll - haben for number, (soll, haben) in must.periods.items()
    }
    assert cents(row["umsatzSoll"]) == sum(soll for soll, _ in must.periods.values())
    assert cents(row["umsatzHaben"]) == sum(haben for _, haben in must.periods.values())


def signed(saldo: Any) -> int:
    if saldo is None:
        return 0
    return cents(saldo["betrag"]) * (1 if saldo["sollHabenKennzeichen"] == "SOLL" else -1)


# --- The guarantees


def for_each_ledger(books: Books, count: int, check: Callable[[Tx, Client, Ledger], None]) -> None:
    """Post many ledgers in each transaction, then ask; a failure is reduced and reported with its seed."""
    seeds = range(FIRST_SEED, FIRST_SEED + count)
    for start in range(0, len(seeds), LEDGERS_A_TRANSACTION):
        ledgers = [any_ledger(seed) for seed in seeds[start : start + LEDGERS_A_TRANSACTION]]
        clients = books.db.write_now(post_all, books.connection_id, ledgers)
        for ledger, client in zip(ledgers, clients, strict=True):
            try:
                books.db.read_now(check, client, ledger)
            except AssertionError as failure:
                least = smallest(ledger, lambda fewer: fails(books, fewer, check))
                raise AssertionError(f"Seed {ledger.order}: {failure}\nThe smallest: {least}") from failure


def fails(books: Books, ledger: Ledger, check: Callable[[Tx, Client, Ledger], None]) -> bool:
    client = books.db.write_now(post, books.connection_id, ledger)
    try:
        books.db.read_now(check, client, ledger)
    except AssertionError:
        return True
    return False


def test_open_items_and_trial_balances_agree_with_a_plain_recalculation(books: Books) -> None:
    for_each_ledger(books, books.ledgers, check_ledger)


def test_so_they_are_where_accounts_have_too_many_items_to_be_kept_as_text(
    books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_models, "MAX_STORED_ITEMS", 1)
    for_each_ledger(books, books.ledgers // 10, check_ledger)


def test_a_complete_history_has_no_residual_and_carrying_it_over_changes_nothing(books: Books) -> None:
    for seed in range(FIRST_SEED, FIRST_SEED + books.ledgers // 5):
        ledger, openings = complete_history(seed)
        client = books.db.write_now(post, books.connection_id, ledger)
        questions = [(stichtag, mode) for stichtag in cut_offs(ledger, 3) for mode in MODES]
        before = books.db.read_now(ask_all, client, questions)
        years = dict.fromkeys(item.jahr for item in openings)
        books.db.write_now(add, client, [[item for item in openings if item.jahr == jahr] for jahr in years])
        assert books.db.read_now(ask_all, client, questions) == before, f"seed {seed}"
        belege = {item["beleg"] for answer in before for konto in answer["konten"] for item in konto["posten"]}
        assert "EB-RESIDUAL" not in belege


def ask_all(tx: Tx, client: Client, questions: list[tuple[str, str]]) -> list[Any]:
    return [ask(tx, client, *question) for question in questions]


def test_the_order_in_which_bookings_arrive_leaves_no_trace(books: Books) -> None:
    compared = 0
    seeds = range(FIRST_SEED, FIRST_SEED + books.ledgers // 5)
    for seed in seeds:
        ledger = any_ledger(seed)
        orders = [ledger, ledger._replace(order=seed + 1_000_000_007)]
        # Of a pair out of nowhere the first leg opens the account: there the order is the meaning.
        one, other = (sorted(counted_legs(item.posted)) for item in orders)
        if one != other:
            continue
        compared += 1
        both = [books.db.write_now(post, books.connection_id, item) for item in orders]
        first, second = (books.db.read_now(stored_models, client) for client in both)
        assert first == second, f"seed {seed}"
    assert compared > len(seeds) * 0.9


def stored_models(tx: Tx, client: Client) -> dict[str, list[tuple[Any, ...]]]:
    tables = {
        "books_years": "jahr, has_eb",
        "books_periods": "jahr, konto, periode, soll, haben",
        "books_balances": "jahr, konto, wire",
        "books_items": "konto, beleg, soll, haben, belegdatum, buchungstext",
        "books_open_accounts": "konto, saldo, wire",
        "books_item_years": "konto, jahr, eb, eb_text, bewegung",
        "books_carry_rests": "jahr, konto, rest",
        "books_item_moves": "belegdatum, konto, beleg, betrag",
        "books_openings": "konto, jahr, betrag, gegenkonto, beleg, is_reversal, is_twin",
    }
    numbers = dict.fromkeys(read_models.TABLES, ("edition", store.edition_of(tx, client)))
    found = {}
    for table, columns in tables.items():
        owner, number = numbers.get(table, ("mandant", client.mandant))
        found[table] = sorted(tx.all(f"SELECT {columns} FROM {table} WHERE {owner} = ?", number))
    return found


def test_exported_and_imported_again_every_ledger_is_the_same(books: Books) -> None:
    for seed in range(FIRST_SEED, FIRST_SEED + max(books.ledgers // 25, 1)):
        ledger = any_ledger(seed)
        client, fresh = (books.db.write_now(make, books.connection_id, ledger) for make in (post, create))
        for start, _ in ledger.years:
            jahr = books.db.read_now(store.year_of_start, client, date.fromisoformat(start))
            target = io.BytesIO()
            assert not export.export_zip(books.db, client, jahr, target, START, with_receipts=True).notes.count
            with zipfile.ZipFile(target) as archive:
                for name in archive.namelist():
                    if "Buchungsstapel" in name:
                        books.db.write_now(take_in, fresh, archive.read(name))
        first, second = (books.db.read_now(stored_models, item) for item in (client, fresh))
        assert first == second, f"seed {seed}"


def take_in(tx: Tx, client: Client, content: bytes) -> None:
    with open_extf(io.BytesIO(content)) as file:
        report = import_file(tx, client, file, Job("export", "test", another=True))
    assert (report.refused_count, report.imported > 0) == (0, True)


def test_a_database_made_for_a_language_answers_the_same(postgres: PostgresServer) -> None:
    """Documents and texts stand in the order of their bytes, where German would put `re-1` before `RE-1`."""
    url = postgres.create_database("german", icu_locale="de-DE")
    try:
        with Opened(url) as books:
            alphabet = books.db.read_now(
                lambda tx: tx.all("SELECT x FROM (VALUES ('RE-1'), ('re-1')) t (x) ORDER BY x")
            )
            assert alphabet == [("re-1",), ("RE-1",)]
            for_each_ledger(books, 60, check_ledger)
    finally:
        postgres.drop_database("german")
