"""Whole ledgers by every door: rows and files in any order, imports undone and made again, cash beside them, exported and read back.

Every figure must be that of `whole_ledgers`, to the cent. WHOLE_LEDGERS=100 takes so many on each engine; WHOLE_LEDGERS_FROM=seed
begins with another one, and a failure names its seed.
"""

from __future__ import annotations

import io
import os
import random
import zipfile
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

from kontobahn.books import bookings, store
from kontobahn.db import Tx
from kontobahn.formats import extf
from kontobahn.ledger.buchungen import DocumentBookings
from kontobahn.ledger.connections import find_for_operator
from kontobahn.ledger.wire import SheetSelection
from tests.api.ledger.files import IMPORTS, differences, send_file
from tests.api.ledger.test_exports import written
from tests.api.ledger.whole_ledgers import (
    AUTOMATIC,
    LAST_DAYS,
    TERMS,
    TODAY,
    YEARS,
    Chance,
    Figures,
    Row,
    full,
)
from tests.harness import Service
from tests.ledger_builder import KASSENBUCH, Books, entry, line
from tests.unit.formats.extf.files import text_of
from tests.unit.ledger.recalculation import open_items
from tests.unit.ledger.test_random_ledgers import sheet_lines

LEDGERS = int(os.environ.get("WHOLE_LEDGERS") or 2)
# Others every day; a failure names its seed.
FIRST_SEED = int(os.environ.get("WHOLE_LEDGERS_FROM") or f"{date.today():%y%m%d}000")
READ = "/v2/ledger-rewe-read"
COPY = "29098-7"


def test_every_figure_of_a_ledger_is_right_whatever_way_it_came(service: Service) -> None:
    for seed in range(FIRST_SEED, FIRST_SEED + LEDGERS):
        try:
            check(service, seed)
        except AssertionError as failure:
            raise AssertionError(f"Seed {seed}: {failure}") from failure


def check(service: Service, seed: int) -> None:
    chance, made = random.Random(seed), Chance(seed)
    rows = made.rows(chance.choice((5, 20, 60)), chance.randint(0, 5))
    wrong = made.rows(chance.choice((0, 5, 15)), 0)
    books = Books(service, service.organization(credits_granted=1_000_000), years=YEARS)
    for content in master_data():
        books.import_extf(content)
    bring_in(books, rows, wrong, chance)
    assert differences(books) == []
    compare(books, books.client.client_id, rows, chance)
    books.another_client(COPY, years=YEARS)
    read_back(books)
    compare(books, COPY, [as_exported(row) for row in rows], chance)


# --- Brought in


def master_data() -> list[bytes]:
    header = {
        "erzeugt_am": None,
        "berater": 29098,
        "mandant": 55003,
        "wj_beginn": date(2024, 1, 1),
        "sachkontenlaenge": 4,
        "skr": "03",
    }
    terms, partners = [], []
    for number, (konto, (net, days, percent)) in enumerate(TERMS.items(), 20):
        rate = Decimal(f"{percent}.00")
        terms.append(extf.Zahlungsbedingung(0, number, f"Ziel {net}", 1, rate, days, Decimal("0.00"), 0, net, (), 0))
        partners.append(
            extf.Personenkonto(
                line=0, konto=konto, name="", vorname="", firmenname=f"Firma {konto}", name_ohne_angabe="", adressattyp="2",
                anrede="", ust_id="", adressen=(), telefon="", email="", fax="", bankverbindungen=(), zahlungsbedingung=number,
                kurzbezeichnung="", weitere="",
            )
        )  # fmt: skip
    return [
        written(extf.write_zahlungsbedingungen, extf.make_header(extf.ZAHLUNGSBEDINGUNGEN, **header), terms),  # type: ignore[arg-type]
        written(extf.write_personenkonten, extf.make_header(extf.PERSONENKONTEN, **header), partners),  # type: ignore[arg-type]
    ]


def file_of(rows: list[Row]) -> bytes:
    year, kind = rows[0].tag[:4], "2" if rows[0].closing else "1"
    header = {11: "29098", 12: "55003", 13: f"{year}0101", 15: f"{year}0101", 16: f"{year}1231", 19: kind}
    return text_of(*(row.line() for row in rows), header=header).encode("cp1252")


def files_of(rows: list[Row], chance: random.Random) -> list[bytes]:
    """In an order of their own; a file is of one year, and of one kind."""
    left = chance.sample(rows, len(rows))
    found = []
    while left:
        size = chance.randint(1, 25)
        taken, left = left[:size], left[size:]
        for key in dict.fromkeys((row.jahr, row.closing) for row in taken):
            found.append(file_of([row for row in taken if (row.jahr, row.closing) == key]))
    return chance.sample(found, len(found))


def bring_in(books: Books, rows: list[Row], wrong: list[Row], chance: random.Random) -> None:
    """Files and cash entries in turn. Files of wrong rows are undone at once or later, some right ones as well, and come again."""
    steps: list[bytes | Row] = [*files_of([row for row in rows if not row.by_cash_book], chance)]
    mistakes = files_of(wrong, chance) if wrong else []
    steps += [*mistakes, *(row for row in rows if row.by_cash_book)]
    chance.shuffle(steps)
    waiting: list[tuple[str, bytes | None]] = []
    for step in steps:
        if isinstance(step, Row):
            cash_entry(books, step)
        elif step in mistakes:
            waiting.append((taken(books, step), None))
        elif chance.random() < 0.25:
            waiting.append((taken(books, step), step))
        else:
            taken(books, step)
        while waiting and chance.random() < 0.4:
            undo(books, *waiting.pop(chance.randrange(len(waiting))))
    for import_id, again in waiting:
        undo(books, import_id, again)


def taken(books: Books, content: bytes, **query: str) -> str:
    answer = send_file(books, content, **query)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["data"]["id"])


def undo(books: Books, import_id: str, again: bytes | None) -> None:
    answer = books.service.post(f"{IMPORTS}/{import_id}/undo", books.owner.key, params=books.query())
    assert answer.status_code == 201, answer.text
    if again is not None:
        taken(books, again)


def cash_entry(books: Books, row: Row) -> None:
    rate = {"steuersatz": {"buSchluessel": row.key}} if row.key else {}
    body = entry(
        line(row.umsatz / 100, row.gegenkonto, belegtext=row.text, **rate),
        transaktionsdatum=f"{row.tag}T09:00:00+01:00",
    )
    answer = books.send(KASSENBUCH, body)
    assert answer.status_code == 201, answer.text


def read_back(books: Books) -> None:
    for jahr in YEARS:
        answer = books.get("/v2/ledger-rewe/exports", geschaeftsjahrStartDatum=jahr)
        assert answer.status_code == 200, answer.text
        with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
            for name in archive.namelist():
                if name.startswith("EXTF_") and (jahr == YEARS[0] or "Buchungsstapel" in name):
                    taken(books, archive.read(name), clientId=COPY)


def as_exported(row: Row) -> Row:
    """Beside an automatic account no key is written that says the same."""
    if row.plain_key and row.plain_key != "40" and not row.skonto and {row.konto, row.gegenkonto} & AUTOMATIC.keys():
        return row._replace(key="20" if row.is_reversal and not row.reversal else "")
    return row


# --- Compared


def cents(amount: Any) -> int:
    scaled = Decimal(str(amount)) * 100
    assert scaled == int(scaled)
    return int(scaled)


def signed(saldo: Any) -> int:
    return 0 if saldo is None else cents(saldo["betrag"]) * (1 if saldo["sollHabenKennzeichen"] == "SOLL" else -1)


def compare(books: Books, client_id: str, rows: list[Row], chance: random.Random) -> None:
    figures, client = Figures(rows), {"clientId": client_id}
    for jahr, last in zip(YEARS, LAST_DAYS, strict=True):
        year = {**client, "geschaeftsjahrStartDatum": jahr}
        must = {konto: summed(zeile) for konto, zeile in figures.trial_balance(jahr).items()}
        assert trial_balance(books.read(f"{READ}/susa", **year)) == must
        for periods in (12, 13):
            bwa = books.read(f"{READ}/bwa", **year, bisPeriode=str(periods))
            lines = figures.profit_and_loss(jahr, periods)
            assert [(row["bezeichnung"], [cents(value) for value in row["perioden"]]) for row in bwa["zeilen"]] == lines
            assert [cents(row["kumuliert"]) for row in bwa["zeilen"]] == [sum(values) for _, values in lines]
            assert cents(bwa["ergebnis"]) == sum(lines[-1][1])
            assert sum(cents(row["kumuliert"]) for row in bwa["nichtZugeordnet"]) == sum(lines[-2][1])
        for first, until in ((jahr, last), some_days(jahr, chance)):
            days = {"vonDatum": first, "bisDatum": until}
            assert vat(books.read(f"{READ}/umsatzsteuer", **year, **days)) == figures.vat(first, until)
        check_bookings(books.read(f"{READ}/buchungen", **year), must)
        books.service.db.read_now(check_sheets, books, client_id, jahr, must)
    for stichtag in (TODAY, LAST_DAYS[-1], some_days(chance.choice(YEARS), chance)[1]):
        check_open_items(books, client, figures, stichtag)


def summed(zeile: dict[str, Any]) -> dict[str, Any]:
    turnover = [sum(sides[number] for sides in zeile["periods"].values()) for number in (0, 1)]
    return {
        "eb": zeile["eb"],
        "periods": {period: soll - haben for period, (soll, haben) in zeile["periods"].items()},
        "turnover": tuple(turnover),
        "saldo": (zeile["eb"] or 0) + turnover[0] - turnover[1],
    }


def trial_balance(answer: Any) -> dict[str, Any]:
    found = {}
    for row in answer:
        found[row["kontonummer"]] = {
            "eb": None if row["ebWert"] is None else signed(row["ebWert"]),
            "periods": {item["periode"]: signed(item["saldo"]) for item in row["periodenwerte"]},
            "turnover": (cents(row["umsatzSoll"]), cents(row["umsatzHaben"])),
            "saldo": signed(row["saldo"]),
        }
    return found


def some_days(jahr: str, chance: random.Random) -> tuple[str, str]:
    first = date.fromisoformat(jahr) + timedelta(days=chance.randint(0, 300))
    return first.isoformat(), (first + timedelta(days=chance.randint(0, 60))).isoformat()


def vat(answer: Any) -> dict[str, Any]:
    lines = {}
    for row in answer["zeilen"]:
        key = (row["buSchluessel"] or "", row["kontonummer"] or "", row["art"], row["prozent"])
        lines[key] = [
            cents(row["bemessungsgrundlage"]),
            cents(row["umsatzsteuer"]),
            cents(row["vorsteuer"]),
            row["anzahl"],
        ]
    sums = [sum(values[number] for values in lines.values()) for number in (1, 2)]
    assert sums == [cents(answer["summeUmsatzsteuer"]), cents(answer["summeVorsteuer"])]
    assert answer["bruttoAnzahl"] == 0
    return {"lines": lines, "direct": {"U": cents(answer["direktUmsatzsteuer"]), "V": cents(answer["direktVorsteuer"])}}


def check_sheets(tx: Tx, books: Books, client_id: str, jahr: str, must: dict[str, Any]) -> None:
    """The lines of every account add up to its line of the trial balance."""
    client = client_of(tx, books, client_id)
    for konto, zeile in must.items():
        lines = sheet_lines(tx, client, SheetSelection(date.fromisoformat(jahr), konto))
        turnover = [one for one in lines if one.periode]
        assert (sum(one.soll for one in turnover), sum(one.haben for one in turnover)) == zeile["turnover"], konto
        assert lines[-1].saldo == zeile["saldo"], konto


def client_of(tx: Tx, books: Books, client_id: str) -> store.Client:
    clients = store.clients(tx, find_for_operator(tx, books.connection_id))
    return next(client for client in clients if client.client_id == client_id)


def check_bookings(listed: Any, must: dict[str, Any]) -> None:
    """Readings of person accounts add up to their lines; a booking that was undone and its reversal are nothing together."""
    found: dict[str, int] = {}
    for item in listed:
        amount = item["buchungszeilen"][0]["umsatz"] if item["basisUmsatz"] is None else item["basisUmsatz"]
        for number, zeile in enumerate(item["buchungszeilen"]):
            konto = zeile["kontonummer"]
            sign = 1 if (item["sollHabenKennzeichen"] == "SOLL") == (number == 0) else -1
            if len(konto) == 9:
                found[konto] = found.get(konto, 0) + sign * (cents(amount) + cents(item["skonto"] or 0))
    persons = {konto: zeile["saldo"] for konto, zeile in must.items() if len(konto) == 9}
    assert {konto: saldo for konto, saldo in found.items() if saldo} == {
        konto: saldo for konto, saldo in persons.items() if saldo
    }


def check_open_items(books: Books, client: dict[str, str], figures: Figures, stichtag: str) -> None:
    plain = [row.booking for row in figures.rows]
    for mode in ("reconcile", "raw"):
        must = open_items(plain, stichtag, mode)
        answer = books.read(f"{READ}/opos", **client, stichtag=stichtag, ebModus=mode)
        have = {konto["kontonummer"]: [item_of(item) for item in konto["posten"]] for konto in answer["konten"]}
        assert have == {konto: [item_of(item, 1) for item in items] for konto, items in must.items()}
        if mode == "raw":
            continue
        due = books.read(f"{READ}/faelligkeiten", **client, stichtag=stichtag)
        for konto in due["konten"]:
            ages = [0] * 5
            for item, expected in zip(konto["posten"], must[konto["kontonummer"]], strict=True):
                day, source, discounts = figures.due(konto["kontonummer"][:5], expected, stichtag)
                found = [(one["bis"], cents(one["betrag"])) for one in item["skonto"]]
                assert (item["faelligAm"], item["faelligkeitsquelle"], found) == (day, source, discounts), item
                late = max((date.fromisoformat(stichtag) - date.fromisoformat(day)).days, 0)
                assert item["tageUeberfaellig"] == late
                ages[sum(late > limit for limit in (0, 30, 60, 90))] += expected["saldo"]
            assert [cents(value) for value in konto["altersklassen"].values()] == ages
    check_documents(books, client["clientId"], figures)


def item_of(item: Any, scale: int = 100) -> tuple[Any, ...]:
    saldo = item["saldo"] if scale == 1 else cents(item["saldo"])
    return item["beleg"], item["belegdatum"], item["buchungstext"], saldo


def check_documents(books: Books, client_id: str, figures: Figures) -> None:
    """The rows on the page of a document add up to the document."""
    client = books.service.db.read_now(client_of, books, client_id)
    for row in figures.rows[:10]:
        if not row.person or not row.beleg:
            continue
        must = sum(
            betrag
            for other in figures.rows
            if other.beleg == row.beleg and not other.is_opening
            for konto, betrag in figures.legs(other)
            if konto == row.person
        )
        found: DocumentBookings = books.service.db.read_now(
            bookings.of_document, client, full(row.person), row.beleg, "", 1_000
        )
        assert (found.soll - found.haben, sum(one.betrag for one in found.bookings)) == (must, must)
