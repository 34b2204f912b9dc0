"""Open items with the bookings of matches are what the matches say, to the cent: by file and by call, and after undoing."""

from __future__ import annotations

import random
from collections import defaultdict
from datetime import date, datetime, timedelta

import pytest

from kontobahn.books import bookings
from kontobahn.formats.extf import Buchungssatz
from kontobahn.ledger.buchungen import make_file
from kontobahn.ledger.provider import Author
from kontobahn.ledger.wire import Geschaeftsjahr
from kontobahn.reconciliation import booking_rows
from kontobahn.reconciliation.booking_rows import Transfer
from kontobahn.reconciliation.core.model import Key, Line
from tests.harness import Service
from tests.ledger_builder import Books

one_engine = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
BANK, FEES = "12000000", "49700000"
# As programs write them: what differs by a character is another document.
NUMBERS = ("RE-2026-00{n}", "re-2026-00{n}", "2026/{n}", "00{n}", "R.{n}_A", "{n}&7")


def open_items(books: Books) -> dict[Key, int]:
    found = books.read("/v2/ledger-rewe-read/opos", stichtag="2026-12-31")
    return {
        (konto["kontonummer"], item["beleg"]): round(item["saldo"] * 100)
        for konto in found["konten"]
        for item in konto["posten"]
    }


def file_of(books: Books, records: list[Buchungssatz]) -> bytes:
    jahr = Geschaeftsjahr(date(2026, 1, 1), date(2026, 12, 31), "SKR03", 4)
    return make_file(records, books.client.client_id, jahr, datetime(2026, 3, 2, 9), booking_rows.TITLE).content


def invoices(chance: random.Random) -> str:
    lines = []
    for n in range(10, 40):
        beleg = chance.choice(NUMBERS).format(n=n)
        amount = f"{chance.randint(10, 900)},{chance.randint(0, 99):02d}"
        lines.append(
            f"2026-02-10 S 100{n % 4}0 {chance.choice(('8400', '8300'))} {amount} {beleg} Rechnung"
            if chance.random() < 0.7
            else f"2026-02-10 H 7000{n % 4} 3400 {amount} {beleg} Wareneingang"
        )
    return "\n".join(lines)


def paid(chance: random.Random, before: dict[Key, int], number: int) -> Transfer:
    """A movement for one to three open documents: in full, in part, less a discount, too much; or returned, with a fee."""
    konto = chance.choice(sorted({konto for konto, _ in before}))
    of_konto = sorted(key for key in before if key[0] == konto)
    lines: list[Line] = []
    for key in chance.sample(of_konto, min(len(of_konto), chance.randint(1, 3))):
        left = before[key]
        kind = chance.choice(("full", "part", "discount"))
        amount = left // 2 if kind == "part" and abs(left) > 3 else left
        lines.append(Line("item", *key, amount))
        if kind == "discount" and abs(left) > 100:
            lines.append(Line("skonto", *key, -(left // 50)))
    if chance.random() < 0.3:
        lines.append(Line("on_account", konto, "", 777 if lines[0].amount_minor > 0 else -777))
    if chance.random() < 0.2:
        lines = [
            line._replace(kind="return" if line.kind == "item" else line.kind, amount_minor=-line.amount_minor)
            for line in lines
        ]
        lines.append(Line("fee", FEES, "", -350))
    day = date(2026, 3, 2) + timedelta(number)
    return Transfer(
        f"m{number}",
        1_000_000_000_000 + number,
        day,
        BANK,
        tuple(lines),
        f"Zahler\n{number}; „x“",
        "A2",
        f"E-{number}",
        "M-1",
    )


def taken(transfers: list[Transfer]) -> dict[Key, int]:
    """Straight from the lines: what each takes from a document, or gives back."""
    sums: dict[Key, int] = defaultdict(int)
    for line in (line for transfer in transfers for line in transfer.lines):
        if line.kind in ("item", "return", "on_account"):
            sums[line.konto, line.beleg] += line.amount_minor
    return sums


def expected(before: dict[Key, int], transfers: list[Transfer]) -> dict[Key, int]:
    sums = taken(transfers)
    after = {key: before.get(key, 0) - sums.get(key, 0) for key in {*before, *sums}}
    return {key: amount for key, amount in after.items() if amount}


@one_engine
@pytest.mark.parametrize("seed", [1, 2])
def test_open_items_after_the_batch_are_the_predicted_ones(service: Service, seed: int) -> None:
    chance = random.Random(seed)
    by_file, by_call = (Books(service, service.organization()) for _ in range(2))
    text = invoices(chance)
    for books in (by_file, by_call):
        books.post(text)
    before = open_items(by_file)
    assert len(before) == 30
    transfers = [paid(chance, before, number) for number in range(25)]
    assert [booking_rows.problem(transfer) for transfer in transfers] == [None] * 25
    rates = dict.fromkeys(before, ((7, 1),))
    records = [row for transfer in transfers for row in booking_rows.rows(transfer, rates)]
    assert sum(row.umsatz if row.soll else -row.umsatz for row in records) == sum(
        line.amount_minor for transfer in transfers for line in transfer.lines
    ), "the bank moves by what moved at the bank"
    report = by_file.import_extf(file_of(by_file, records))
    assert report.imported == len(records)
    author = Author("request", "test", "test")
    service.db.write_now(bookings.book, by_call.client, booking_rows.for_books(records), author, another=False)
    after = expected(before, transfers)
    assert open_items(by_file) == open_items(by_call) == after
    changed = booking_rows.changes(records)
    assert {key: -amount for key, amount in changed.items() if amount} == {
        key: amount for key, amount in taken(transfers).items() if amount
    }
    undone = [transfer._replace(is_undone=True) for transfer in transfers[::2]]
    reversals = [row for transfer in undone for row in booking_rows.rows(transfer, rates)]
    assert by_file.import_extf(file_of(by_file, reversals)).imported == len(reversals)
    assert open_items(by_file) == expected(before, transfers[1::2])


def test_a_row_says_what_was_paid_by_whom_and_for_what() -> None:
    lines = (
        Line("item", "100100000", "RE-2026-Ä 1", 119_00), Line("skonto", "100100000", "RE-2026-Ä 1", -2_38),
        Line("on_account", "100100000", "", 1_00), Line("transfer", "13600000", "", -5_00),
    )  # fmt: skip
    transfer = Transfer("m", 1_000_000_000_042, date(2026, 3, 2), BANK, lines, "Müller\tGmbH", "A3", "E-1", "M-9")
    first, second, third = booking_rows.rows(transfer, {("100100000", "RE-2026-Ä 1"): ((19, 1),)})
    assert (first.umsatz, first.soll, first.konto, first.gegenkonto) == (116_62, True, BANK, "100100000")
    assert (first.skonto, first.bu_schluessel, first.belegfeld1) == (2_38, "3", "RE-2026-Ä 1")
    assert (second.umsatz, second.soll, second.belegfeld1, second.bu_schluessel) == (1_00, True, "", "")
    assert (third.umsatz, third.soll, third.gegenkonto) == (5_00, False, "13600000")
    assert {row.belegfeld2 for row in (first, second, third)} == {"000000000042"}
    assert first.buchungstext == "Müller GmbH"
    assert all(text in first.weitere for text in ("1000000000042", "E-1", "A3", '"105":"M-9"'))
    [again, *_] = booking_rows.rows(transfer._replace(is_undone=True), {})
    assert (again.soll, again.generalumkehr, again.skonto) == (False, True, 2_38)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (Line("transfer", "", "", 5), "no account"),
        (Line("item", "K10001", "RE-1", 5), "no account"),
        (Line("ledger_account", BANK, "", 5), "bank itself"),
        (Line("skonto", "100100000", "RE-1", 5), "no account"),
    ],
)
def test_what_cannot_be_booked_says_why(line: Line, reason: str) -> None:
    transfer = Transfer("m", 1, date(2026, 3, 2), BANK, (line,))
    assert reason in (booking_rows.problem(transfer) or "")
    assert booking_rows.problem(transfer._replace(konto="")) == "The bank has no ledger account."
