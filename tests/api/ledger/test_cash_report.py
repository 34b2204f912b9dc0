"""The cash report of any month adds up and equals the account, whatever came in which order, in every view of it."""

from __future__ import annotations

import html
import os
import random
import re
from calendar import monthrange
from collections import defaultdict
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from kontobahn.books import cash_days, verification
from kontobahn.dashboard.pages import cash_book as cash_pages
from tests.api.ledger.files import file, imported, undone
from tests.command_line import CommandLine
from tests.dashboard.browsing import Browser
from tests.harness import Service
from tests.ledger_builder import KASSENBUCH, Books, entry, line
from tests.unit.formats.extf.files import satz

LISTING = "/v2/ledger-duo/kassenbuch"
TODAY = "2026-03-02"
YEARS = ("2025-01-01", "2026-01-01")
MONTHS = [f"2025-{month:02d}" for month in range(1, 13)] + ["2026-01", "2026-02", "2026-03"]
KONTEN = {"Hauptkasse": "1000", "Nebenkasse": "1010"}
# Others every day; a failure names its seed.
FIRST_SEED = int(os.environ.get("RANDOM_LEDGERS_FROM") or f"{date.today():%y%m%d}000")


@pytest.fixture
def books(service: Service) -> Books:
    made = Books(service, service.organization(credits_granted=100_000), years=YEARS)
    made.cash_book("Nebenkasse", "1010")
    return made


def report(books: Books, kasse: str, month: str = "", **query: str) -> dict[str, Any]:
    if month:
        year, number = map(int, month.split("-"))
        query |= {"from_date": f"{month}-01", "to_date": f"{month}-{monthrange(year, number)[1]}"}
    answer = books.get(LISTING, kassenname=kasse, **query)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def send(books: Books, betrag: float, day: str, gegenkonto: str = "1360", kasse: str = "Hauptkasse") -> Any:
    body = entry(line(betrag, gegenkonto), transaktionsdatum=f"{day}T10:00:00+01:00", kassenname=kasse)
    return books.send(KASSENBUCH, body)


def rows_of_year(jahr: str, *rows: str) -> bytes:
    return file(*rows, header={13: f"{jahr}0101", 15: f"{jahr}0101", 16: f"{jahr}1231"})


def test_balances_follow_the_day_and_not_the_order_of_entry(books: Books) -> None:
    for betrag, day in ((100, "2025-03-20"), (50, "2025-02-10"), (-30, "2025-03-25")):
        assert send(books, betrag, day).status_code == 201
    found = {month: report(books, "Hauptkasse", month) for month in MONTHS[:5]}
    assert [(item["anfangsbestand"], item["endbestand"]) for item in found.values()] == [
        (0, 0), (0, 50), (50, 120), (120, 120), (120, 120)
    ]  # fmt: skip
    assert [[row["saldo"] for row in item["data"]] for item in found.values()] == [[], [50], [150, 120], [], []]
    of_its_day = report(books, "Hauptkasse", from_date="2025-03-20", to_date="2025-03-20")
    assert [row["saldo"] for row in of_its_day["data"]] == [150], "also the first booking of all"


@pytest.mark.either_engine
def test_the_last_opening_balance_counts_whatever_was_before(books: Books) -> None:
    books.post("2025-01-01 S 1000 9000 100,00 EB\n2025-03-01 S 1000 1360 5,00 B1")
    books.post("2026-01-01 S 1000 9000 7,00 EB\n2026-01-02 S 1000 1360 1,00 B2")
    for day, cents in (("2025-04-01", 10_500), ("2026-01-01", 10_500), ("2026-01-02", 700), ("2026-02-01", 800)):
        found = books.service.db.read_now(cash_days.balance_before, books.client, "Hauptkasse", day)
        assert found == cents, day


def test_every_page_of_the_list_adds_up(books: Books) -> None:
    books.post("2026-01-01 S 1000 9000 500,00 EB")
    for number in range(7):
        assert send(books, 10 + number, f"2025-1{number % 3}-0{number % 2 + 1}").status_code == 201
        books.post(f"2026-0{number % 2 + 1}-15 S 1000 8400 {number + 1},00 A")
    whole, after = report(books, "Hauptkasse"), "0"
    walked: list[dict[str, Any]] = []
    for _ in range(5):
        page = report(books, "Hauptkasse", limit="3", from_id=after)
        assert page["anfangsbestand"] == (walked[-1]["saldo"] if walked else 0)
        assert page["endbestand"] == round(page["anfangsbestand"] + sum(row["betrag"] for row in page["data"]), 2)
        walked += page["data"]
        after = walked[-1]["id"]
    assert walked == whole["data"]
    assert len({row["id"] for row in walked}) == 15
    end = report(books, "Hauptkasse", from_id=after)
    assert (end["data"], end["anfangsbestand"], end["endbestand"]) == ([], whole["endbestand"], whole["endbestand"])


def test_an_opening_balance_opens_its_month_and_one_that_was_entered_is_a_row_of_it(books: Books) -> None:
    assert send(books, 107, "2025-06-01").status_code == 201
    imported(books, file(satz("100,00;S;;;;;1000;9000;;0101;EB;;;Saldovortrag")))
    assert send(books, 7, "2026-01-01", "9000").status_code == 201
    january = report(books, "Hauptkasse", "2026-01")
    assert (january["anfangsbestand"], january["endbestand"]) == (100, 107)
    assert [(row["nummer"], row["betrag"], row["saldo"]) for row in january["data"]] == [(2, 7, 107)]
    whole = report(books, "Hauptkasse")
    assert [(row["art"], row["betrag"], row["saldo"]) for row in whole["data"]] == [
        ("EINTRAG", 107, 107), ("SALDOVORTRAG", -7, 100), ("EINTRAG", 7, 107)
    ]  # fmt: skip
    assert whole["data"][1]["gegenkonto"] == "9000"


def test_a_month_that_is_longer_than_a_page_is_shown_in_parts_that_add_up(
    books: Books, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cash_pages, "MAX_ENTRIES", 2)
    for number in range(3):
        assert send(books, 10 + number, "2026-02-10").status_code == 201
    first = browser.get("/dashboard/cash-book?month=2026-02")
    assert facts_of(first.text) == [0, 21, 0, 21]
    following = re.search(r'href="(/dashboard/cash-book\?[^"]*after=[^"]*)"', first.text)
    assert following is not None
    second = browser.get(html.unescape(following[1]))
    assert facts_of(second.text) == [21, 12, 0, 33]
    assert "Next entries" not in second.text
    assert browser.get("/dashboard/cash-book?month=2026-02&after=2026-02-10.x").status_code == 400


# --- Every view of random cash books


class Model:
    """The cash accounts, written from the rule: a year's opening balance replaces what was before it, the rest adds up by day."""

    def __init__(self) -> None:
        # Cash book → day and cents of everything on its account but opening balances.
        self.moved: dict[str, list[tuple[str, int]]] = {name: [] for name in KONTEN}
        # Cash book → opening balance of 2026, if there is one.
        self.opened: dict[str, int] = {}

    def add(self, day: str, konto: str, cents: int) -> None:
        for name, own in KONTEN.items():
            if own == konto:
                self.moved[name].append((day, cents))

    def balance(self, name: str, before: str) -> int:
        """At the beginning of this day, and of the year if it begins on it."""
        is_opened = name in self.opened and before >= YEARS[1]
        since, saldo = (YEARS[1], self.opened[name]) if is_opened else ("", 0)
        return saldo + sum(cents for day, cents in self.moved[name] if since <= day < before)


class Scene:
    """Entries, files, calls, reversals and undone batches, at random, with the model beside them."""

    def __init__(self, books: Books, seed: int) -> None:
        self.books, self.random, self.model = books, random.Random(seed), Model()
        self._entries: dict[str, list[tuple[int, str, int]]] = defaultdict(list)
        self._files: list[tuple[str, list[tuple[str, str, int]]]] = []
        self._number = 0

    def play(self, steps: int) -> None:
        if self.random.random() < 0.7:
            self._open()
        kinds = (
            self._enter,
            self._enter,
            self._enter,
            self._import,
            self._import,
            self._book,
            self._reverse,
            self._undo,
        )
        for _ in range(steps):
            self.random.choice(kinds)()
        assert self.books.service.db.read_now(verification.find_differences, self.books.client.mandant) == []

    def _day(self, jahr: str = "") -> str:
        jahr = jahr or self.random.choice(("2025", "2026"))
        month = self.random.randint(1, 12 if jahr == "2025" else 2)
        return f"{jahr}-{month:02d}-{self.random.randint(1, 28):02d}"

    def _cents(self) -> int:
        return self.random.randint(1, 30_000)

    def _open(self) -> None:
        cents = self._cents()
        row = satz(f"{cents / 100:.2f};S;;;;;1000;9000;;0101;EB;;;Saldovortrag".replace(".", ","))
        imported(self.books, rows_of_year("2026", row))
        self.model.opened["Hauptkasse"] = cents

    def _enter(self) -> None:
        name, day, cents = self.random.choice([*KONTEN]), self._day(), self._cents() * self.random.choice((1, 1, -1))
        other = self.random.choice(("1360", "4930", "8400", *(set(KONTEN.values()) - {KONTEN[name]})))
        answer = send(self.books, cents / 100, day, other, name)
        if answer.status_code == 409:
            assert "negative" in answer.json()["error"], answer.text
            return
        assert answer.status_code == 201, answer.text
        self._keep_entry(name, day, other, cents)

    def _keep_entry(self, name: str, day: str, other: str, cents: int) -> None:
        self._entries[name].append((len(self._entries[name]) + 1, other, cents))
        self.model.add(day, KONTEN[name], cents)
        self.model.add(day, other, -cents)

    def _rows(self, jahr: str) -> list[tuple[str, str, str, int]]:
        """Day, debit account, credit account and cents."""
        rows = []
        for _ in range(self.random.randint(1, 4)):
            konten = [self.random.choice([*KONTEN.values()]), self.random.choice(("8400", "4930", "1360", "1010"))]
            if konten[0] == konten[1]:
                konten[1] = "1000"
            self.random.shuffle(konten)
            rows.append((self._day(jahr), konten[0], konten[1], self._cents()))
        return rows

    def _import(self) -> None:
        jahr = self.random.choice(("2025", "2026"))
        rows, texts, kept = self._rows(jahr), [], []
        for day, debit, credit, cents in rows:
            self._number += 1
            turned = self.random.random() < 0.5
            konten = f"H;;;;;{credit};{debit}" if turned else f"S;;;;;{debit};{credit}"
            amount = f"{cents / 100:.2f}".replace(".", ",")
            texts.append(satz(f"{amount};{konten};;{day[8:]}{day[5:7]};D{self._number};;;Zeile"))
            kept += [(day, debit, cents), (day, credit, -cents)]
        made = imported(self.books, rows_of_year(jahr, *texts))
        self._files.append((made["id"], kept))
        for move in kept:
            self.model.add(*move)

    def _book(self) -> None:
        ((day, debit, credit, cents),) = self._rows(self.random.choice(("2025", "2026")))[:1]
        self._number += 1
        booking = {
            "umsatz": cents / 100, "sollHabenKennzeichen": "SOLL", "konto": debit, "gegenkonto": credit, "belegdatum": day,
            "belegfeld1": f"D{self._number}",
        }  # fmt: skip
        answer = self.books.send("/v2/ledger-rewe/buchungen", {"buchungen": [booking]})
        assert answer.status_code == 201, answer.text
        self.model.add(day, debit, cents)
        self.model.add(day, credit, -cents)

    def _reverse(self) -> None:
        name = self.random.choice([*KONTEN])
        if not self._entries[name]:
            return
        nummer, other, cents = self.random.choice(self._entries[name])
        body = {"kassenname": name, "grund": "falsch"}
        answer = self.books.send(f"{LISTING}/{nummer}/storno", body)
        if answer.status_code == 201:
            self._keep_entry(name, TODAY, other, -cents)
        else:
            assert answer.status_code == 409, answer.text

    def _undo(self) -> None:
        if self._files:
            import_id, moves = self._files.pop(self.random.randrange(len(self._files)))
            undone(self.books, import_id)
            for day, konto, cents in moves:
                self.model.add(day, konto, -cents)


def facts_of(page: str) -> list[float]:
    """Opening balance, money in, money out and closing balance of the page."""
    card = page[page.index("<dl") : page.index("</dl>")]
    texts = [
        html.unescape(re.sub(r"<[^>]+>", "", found)) for found in re.findall(r"<dd[^>]*>(.*?)</dd>", card, re.DOTALL)
    ]
    return [_amount(text) for text in texts]


def _amount(text: str) -> float:
    return float(re.sub(r"[^0-9.]", "", text)) * (-1 if re.search(r"[-\u2212]", text) else 1)


def rows_of(page: str) -> list[tuple[str, float, float]]:
    """Number, movement and balance of each row of the page."""
    found = []
    for row in re.findall(r'<tr id="e-[^"]*">(.*?)</tr>', page, re.DOTALL):
        cells = [
            html.unescape(re.sub(r"<[^>]+>", "", cell)).strip()
            for cell in re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL)
        ]
        money_in, money_out, saldo = (_amount(cell) if cell else 0 for cell in cells[5:8])
        found.append((cells[0], round(money_in - money_out, 2), saldo))
    return found


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + 2))
def test_every_month_adds_up_to_the_account_in_every_view(
    books: Books, browser: Browser, cli: CommandLine, seed: int
) -> None:
    scene = Scene(books, seed)
    scene.play(25)
    for name, konto in KONTEN.items():
        closing = {}
        for month in MONTHS:
            found = report(books, name, month)
            check_month(scene.model, name, month, found)
            closing[month] = found["endbestand"]
        for month in scene.random.sample(MONTHS, 3):
            check_views(books, browser, cli, name, month)
        whole = report(books, name)
        check_rows(scene.model, name, whole)
        jahre = {"2025-01-01": closing["2025-12"], "2026-01-01": closing["2026-03"]}
        if name not in scene.model.opened:
            # Nothing was carried over: the trial balance of 2026 has the year alone.
            jahre["2026-01-01"] = round(closing["2026-03"] - closing["2025-12"], 2)
        for jahr, expected in jahre.items():
            assert susa(books, jahr, konto) == expected


def check_month(model: Model, name: str, month: str, found: dict[str, Any]) -> None:
    opening, closing = (model.balance(name, f"{month}-{end}") / 100 for end in ("01", "99"))
    assert (found["anfangsbestand"], found["endbestand"]) == (opening, closing), month
    amounts = [cents for day, cents in model.moved[name] if day.startswith(month)]
    assert sorted(round(row["betrag"] * 100) for row in found["data"]) == sorted(amounts)
    running = Decimal(str(opening))
    for row in found["data"]:
        running += Decimal(str(row["betrag"]))
        assert row["saldo"] == float(running)
    assert [row["datum"] for row in found["data"]] == sorted(row["datum"] for row in found["data"])


def check_rows(model: Model, name: str, whole: dict[str, Any]) -> None:
    """Everything on the account once, and every entry with its number."""
    booked = [row for row in whole["data"] if row["art"] != "SALDOVORTRAG"]
    assert sorted((row["datum"], round(row["betrag"] * 100)) for row in booked) == sorted(model.moved[name])
    numbers = [row["nummer"] for row in booked if row["art"] == "EINTRAG"]
    assert sorted(numbers) == list(range(1, len(numbers) + 1))
    assert all(row["nummer"] is None for row in booked if row["art"] == "BUCHUNG")


def check_views(books: Books, browser: Browser, cli: CommandLine, name: str, month: str) -> None:
    """The page, which is also what is printed, and the command line show what the call answers."""
    found = report(books, name, month)
    page = browser.get(f"/dashboard/cash-book?kasse={name}&month={month}").text
    facts = facts_of(page)
    assert (facts[0], facts[-1]) == (found["anfangsbestand"], found["endbestand"])
    assert round(facts[0] + facts[1] - facts[2], 2) == facts[3]
    listed = [(str(row["nummer"] or ""), row["betrag"], row["saldo"]) for row in found["data"]]
    assert rows_of(page) == listed
    told = cli.facts("books", "entries", books.connection_id, name, "--month", month)
    assert (float(told["anfangsbestand"]), float(told["endbestand"])) == (found["anfangsbestand"], found["endbestand"])
    rows = [(str(row["nummer"] or ""), float(row["betrag"]), float(row["saldo"])) for row in told["rows"]]
    assert rows == listed


def susa(books: Books, jahr: str, konto: str) -> float:
    rows = books.read("/v2/ledger-rewe-read/susa", geschaeftsjahrStartDatum=jahr, kontonummer=konto)
    if not rows:
        return 0
    saldo = rows[0]["saldo"]
    return float(saldo["betrag"]) * (1 if saldo["sollHabenKennzeichen"] == "SOLL" else -1)
