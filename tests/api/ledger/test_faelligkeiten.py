"""GET /v2/ledger-rewe-read/faelligkeiten."""

from __future__ import annotations

from calendar import monthrange
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kontobahn.books import open_items
from kontobahn.db.database import CHUNK
from kontobahn.formats import extf
from kontobahn.ledger.faelligkeiten import as_answer, as_row, day_of_column, due
from tests.harness import Service
from tests.journeys.test_books_command_line import satz
from tests.ledger_builder import Books, refusal

PATH = "/v2/ledger-rewe-read/faelligkeiten"
BY_DAYS = extf.Zahlungsbedingung(
    line=0, nummer=11, bezeichnung="5 Tage 3 %, 10 Tage 2 %, 30 Tage netto", faelligkeitstyp=1, skonto1_prozent=Decimal("3.00"),
    skonto1_tage=5, skonto2_prozent=Decimal("2.00"), skonto2_tage=10, faellig_tage=30, zeitraeume=(), verwendung=0,
)  # fmt: skip
# Up to the 10th: due at the end of the month; up to the 20th: on the 10th of the next; up to the 31st: on the 20th after next.
BY_PERIOD = BY_DAYS._replace(
    nummer=14, faelligkeitstyp=2, skonto2_prozent=Decimal("0.00"), skonto1_tage=0, skonto2_tage=0, faellig_tage=0,
    zeitraeume=(extf.Zeitraum(10, 20, 0, 0, 0, 31, 0), extf.Zeitraum(20, 0, 0, 0, 0, 10, 1), extf.Zeitraum(31, 0, 0, 0, 0, 20, 2)),
)  # fmt: skip


@pytest.fixture
def books(service: Service) -> Books:
    return Books(service, service.organization(), years=("2025-01-01", "2026-01-01"))


def header(category: Any) -> Any:
    return extf.make_header(
        category, erzeugt_am=datetime(2026, 1, 2, 12), berater=29098, mandant=55003, wj_beginn=date(2026, 1, 1), sachkontenlaenge=4,
        datum_von=date(2026, 1, 1), datum_bis=date(2026, 12, 31), skr="03",
    )  # fmt: skip


def partner(konto: str, terms: int) -> extf.Personenkonto:
    return extf.Personenkonto(
        line=0, konto=konto, name="", vorname="", firmenname=f"Firma {konto}", name_ohne_angabe="", adressattyp="2", anrede="",
        ust_id="", adressen=(), telefon="", email="", fax="", bankverbindungen=(), zahlungsbedingung=terms, kurzbezeichnung="",
        weitere="",
    )  # fmt: skip


def import_terms(books: Books, folder: Path) -> None:
    terms, partners = folder / "EXTF_terms.csv", folder / "EXTF_partners.csv"
    extf.write_zahlungsbedingungen(terms, header(extf.ZAHLUNGSBEDINGUNGEN), [BY_DAYS, BY_PERIOD])
    rows = [partner("10010", 11), partner("10020", 14), partner("10030", 99), partner("70001", 11)]
    extf.write_personenkonten(partners, header(extf.PERSONENKONTEN), rows)
    for path in (terms, partners):
        books.import_extf(path.read_bytes(), path.name)


def posten(books: Books, **query: str) -> dict[str, dict[str, Any]]:
    konten = books.read(PATH, **query)["konten"]
    return {item["beleg"]: item for konto in konten for item in konto["posten"]}


def test_each_source_of_a_due_date_in_its_order(books: Books, tmp_path: Path) -> None:
    import_terms(books, tmp_path)
    path = tmp_path / "EXTF_bookings.csv"
    extf.write_buchungsstapel(
        path, header(extf.BUCHUNGSSTAPEL),
        [
            satz(11_900, "10010", "8400", "2026-01-10", "ROW", weitere='{"117":"05022026"}'),
            satz(11_900, "10010", "8400", "2026-01-10", "TERMS"),
            satz(1, "10010", "8400", "2026-01-10", "CENT"),
            satz(11_900, "10020", "8400", "2026-01-15", "PERIOD"),
            satz(11_900, "10030", "8400", "2026-01-15", "NO-SUCH-TERMS"),
            satz(11_900, "10040", "8400", "2026-01-15", "NO-PARTNER"),
            satz(11_900, "3400", "70001", "2026-01-15", "CREDITOR"),
            satz(5_000, "1200", "10010", "2026-01-20", "PREPAID"),
        ],
    )  # fmt: skip
    books.import_extf(path.read_bytes(), path.name)
    found = {
        beleg: (item["faelligAm"], item["faelligkeitsquelle"], item["tageUeberfaellig"])
        for beleg, item in posten(books, stichtag="2026-02-09").items()
    }
    assert found == {
        "ROW": ("2026-02-05", "zeile", 4),
        "TERMS": ("2026-02-09", "zahlungsbedingung", 0),
        "CENT": ("2026-02-09", "zahlungsbedingung", 0),
        "PERIOD": ("2026-02-10", "zahlungsbedingung", 0),
        "NO-SUCH-TERMS": ("2026-01-15", "belegdatum", 25),
        "NO-PARTNER": ("2026-01-15", "belegdatum", 25),
        "CREDITOR": ("2026-02-14", "zahlungsbedingung", 0),
        # A payment is due when it is there, whatever the partner's terms.
        "PREPAID": ("2026-01-20", "belegdatum", 20),
    }
    terms = posten(books, stichtag="2026-02-09")["TERMS"]
    assert terms["skonto"] == [
        {"bis": "2026-01-15", "prozent": 3.0, "betrag": 3.57},
        {"bis": "2026-01-20", "prozent": 2.0, "betrag": 2.38},
    ]


@pytest.mark.parametrize("engine", ["sqlite"])
def test_due_dates_of_bookings_are_found_by_document_whatever_the_history_holds(service: Service) -> None:
    """Reading every booking of a client with a million of them took 20 seconds."""
    plan = service.db.read_now(lambda tx: tx.all(f"EXPLAIN QUERY PLAN {open_items.INVOICES}", 1, *["10001"] * CHUNK))
    (search,) = [line for *_, line in plan if "books_items" in line]
    assert search.startswith("SEARCH")
    assert "books_items_open" in search


def test_sums_by_age_for_each_account_and_side(books: Books) -> None:
    """At the cut-off 2026-03-01: due on the day itself, and 1, 30, 31, 60, 61, 90 and 91 days before."""
    for number, day in enumerate(
        ("2026-03-01", "2026-02-28", "2026-01-30", "2026-01-29", "2025-12-31", "2025-12-30", "2025-12-01", "2025-11-30")
    ):
        books.post(f"{day} S 10010 8400 {2**number},00 R{number}\n{day} H 70001 3400 {2**number},00 E{number}")
    answer = books.get(PATH, stichtag="2026-03-01")
    assert answer.headers["x-credits-charged"] == "5"
    data = answer.json()["data"]
    ages = {"nichtFaellig": 1, "bis30Tage": 6, "bis60Tage": 24, "bis90Tage": 96, "ueber90Tage": 128}
    assert data["debitoren"] == ages
    assert data["kreditoren"] == {name: -value for name, value in ages.items()}
    by_konto = {konto["kontonummer"]: konto for konto in data["konten"]}
    assert by_konto["100100000"]["altersklassen"] == ages
    assert by_konto["100100000"]["totalSaldo"] == sum(ages.values()) == 255


def test_the_items_are_those_of_the_open_items(books: Books) -> None:
    books.post(
        "2025-03-01 S 10010 8400 595,00 RE-2\n2025-01-01 S 10010 9008 100,00 EB\n2026-01-01 S 10010 9008 695,00 EB"
    )
    books.post("2026-02-01 S 1200 10010 595,00 RE-2\n2026-02-02 H 70001 3400 10,00 ER-1")
    for query in (
        {},
        {"stichtag": "2026-01-15"},
        {"filter": "creditors"},
        {"ebModus": "raw"},
        {"kontonummer": "10010"},
    ):
        items = books.read("/v2/ledger-rewe-read/opos", **query)
        with_dates = books.read(PATH, **query)
        assert [konto["totalSaldo"] for konto in with_dates["konten"]] == [
            item["totalSaldo"] for item in items["konten"]
        ]
        for konto, plain in zip(with_dates["konten"], items["konten"], strict=True):
            assert [{name: item[name] for name in plain["posten"][0]} for item in konto["posten"]] == plain["posten"]
    refusal(books.get(PATH, stichtag="heute"), 400, "stichtag")


@pytest.mark.parametrize(
    ("belegdatum", "day"),
    [
        ("2026-02-10", "2026-02-28"),
        ("2026-02-11", "2026-03-10"),
        ("2026-11-30", "2027-01-20"),
        ("2026-01-31", "2026-03-20"),
    ],
)
def test_terms_by_period(belegdatum: str, day: str) -> None:
    found = due(date.fromisoformat(belegdatum), None, as_answer(BY_PERIOD))
    assert found == (date.fromisoformat(day), "zahlungsbedingung")


@given(
    st.lists(
        st.tuples(*(st.integers(0, maximum) for maximum in (31, 31, 9, 31, 9, 31, 9))).map(extf.Zeitraum._make),
        min_size=1,
        max_size=3,
    )
)
@settings(deadline=None, max_examples=200)
def test_terms_by_period_are_written_as_they_were_read(zeitraeume: list[extf.Zeitraum]) -> None:
    """Also those of before the rows of files were kept. Without a day a month says nothing."""
    plain = [
        item._replace(
            **{f"{name}_monat": 0 for name in ("skonto1", "skonto2", "faellig") if not getattr(item, f"{name}_tag")}
        )
        for item in zeitraeume
    ]
    terms = BY_PERIOD._replace(zeitraeume=tuple(plain))
    assert as_row(as_answer(terms)) == terms
    for item in plain:
        one = as_answer(BY_PERIOD._replace(zeitraeume=(item._replace(rechnung_bis=31),)))
        months = date(2026, 1, 15).month - 1 + item.faellig_monat
        day = due(date(2026, 1, 15), None, one).day
        assert (day.month - 1, day.day) == (
            (months, min(item.faellig_tag, monthrange(2026, months + 1)[1])) if item.faellig_tag else (0, 15)
        )


@pytest.mark.parametrize(
    ("text", "day"), [("05022026", date(2026, 2, 5)), ("5022026", date(2026, 2, 5)), ("31022026", None), ("bald", None)]
)
def test_a_due_date_of_a_row_is_read_or_left(text: str, day: date | None) -> None:
    assert day_of_column(text) == day
