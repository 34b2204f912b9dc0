"""A data folder of an earlier version is brought up to date by whatever is started on it."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

from kontobahn.app import Application
from kontobahn.settings import load
from tests.journeys.process import serving
from tests.tidy_rules import ROOT

BASE_LINE = ROOT / "tests" / "base_line" / "sqlite.sql"
# A cash book with two bookings on its account, and an agency whose people had their clients from a key: steps make rows of them.
ROWS = """
INSERT INTO books_cash_books VALUES (900001, 'Kasse', '1000', 0, '', 7000);
INSERT INTO books_bookings (mandant, id, jahr, periode, batch, umsatz, soll, waehrung, kurs, konto, gegenkonto, bu_schluessel,
  belegdatum, belegfeld1, belegfeld2, skonto, buchungstext, kost1, kost2, generalumkehr, weitere, aufteilung)
  VALUES (900001, 1, '2026-01-01', 2, 'b', 5000, 1, 'EUR', '', '1000', '8400', '', '2026-02-10', 'B-1', '', 0, '', '', '', 0, '', '-'),
         (900001, 2, '2026-01-01', 3, 'b', 2000, 0, 'EUR', '', '8400', '1000', '', '2026-03-20', 'B-2', '', 0, '', '', '', 0, '', 'U19k');
INSERT INTO organizations (id, name, created_at) VALUES ('agency', 'Kanzlei', 7), ('client', 'Mandant', 7);
INSERT INTO users (organization_id, id, email, name, role, password_hash, created_at)
  VALUES ('agency', 'u', 'u@kanzlei.example', 'U', 'member', 'x', 7);
INSERT INTO api_keys (organization_id, id, name, token_hash, hint, role, is_agency, created_at)
  VALUES ('agency', 'k', 'k', 'k', 'h', 'admin', 1, 7);
INSERT INTO agency_clients VALUES ('agency', 'k', 'client');
"""


def older_data(folder: Path) -> Path:
    folder.mkdir()
    with closing(sqlite3.connect(load({}, data=str(folder)).sqlite_path)) as file:
        file.executescript(BASE_LINE.read_text("utf-8") + ROWS)
    return folder


def rows(folder: Path) -> set[tuple[object, ...]]:
    """Every row with its table, but without moments: those of the steps differ."""
    with closing(sqlite3.connect(load({}, data=str(folder)).sqlite_path)) as file:
        tables = [name for (name,) in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        found = [(name, *row) for name in tables for row in file.execute(f'SELECT * FROM "{name}"')]
    return {tuple("moment" if isinstance(value, int) and value > 10**12 else value for value in row) for row in found}


async def serve_once(folder: Path) -> None:
    """Does what `serve` does before it answers, and when it is told to stop."""
    application = Application(load({}, data=str(folder), run_jobs=False))
    await application.startup()
    await application.shutdown()


def test_the_demo_brings_older_data_up_to_date_as_serving_does(tmp_path: Path) -> None:
    plain, demo = older_data(tmp_path / "plain"), older_data(tmp_path / "demo")
    asyncio.run(serve_once(plain))
    with serving(demo, "--no-jobs", fresh=True) as server:
        server.stop()
    wanted = rows(plain)
    assert {("books_cash_rows", 900001, "Kasse", *row) for row in (("2026-02-10", 1), ("2026-03-20", 2))} <= wanted
    first, second = (2, "2026-02-10", 1), (3, "2026-03-20", 2)
    places = {(sheet, *place) for sheet in ("1000", "8400") for place in (first, second)} | {("U19k", *second)}
    assert {row[3:] for row in wanted if row[:3] == ("books_sheets", 900001, "2026-01-01")} == places
    assert wanted - rows(demo) == set()
