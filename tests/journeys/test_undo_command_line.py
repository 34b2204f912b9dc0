"""`kontobahn books batches` and `undo`: what was brought in, and taking it back, on the command line.

On SQLite alone: the commands call what the API calls, which is tested on both engines.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kontobahn.books.undo import SLICED_FROM_ROWS
from kontobahn.formats import extf
from tests.journeys.process import answer, kontobahn
from tests.journeys.test_books_command_line import HEADER, bookings, connection, satz, settings
from tests.spec_pages import on_sqlite

# Fixtures, by their names.
__all__ = ["connection", "settings"]

pytestmark = on_sqlite


def test_a_batch_is_listed_undone_and_imported_again(tmp_path: Path, connection: str, settings: dict[str, Any]) -> None:
    file = tmp_path / "EXTF_in.csv"
    extf.write_buchungsstapel(file, HEADER, bookings())
    [taken] = answer("import", "extf", str(file), "--connection", connection, data=tmp_path, **settings)
    undone = answer("books", "undo", taken["batch"], data=tmp_path, **settings)
    assert (undone["undoes"], undone["records"]) == (taken["batch"], 5)
    twice = kontobahn("books", "undo", taken["batch"], data=tmp_path, expect=1, **settings)
    assert "The batch was undone before on " in twice.stderr
    listed = answer("books", "batches", connection, data=tmp_path, **settings)
    facts = [(row["batch"], row["records"], row["by"], row["undone_by"], row["undoes"]) for row in listed]
    assert facts == [
        (undone["batch"], 5, "command line", None, taken["batch"]),
        (taken["batch"], 5, "command line", undone["batch"], None),
    ]
    [again] = answer("import", "extf", str(file), "--connection", connection, data=tmp_path, **settings)
    assert (again["imported"], again["error"]) == (5, None)
    findings = answer("doctor", "--books", data=tmp_path, **settings)
    assert [item["state"] for item in findings if item["area"] == "books"] == ["ok"]
    missing = kontobahn("books", "undo", "0193b2a0-0000-7000-8000-00000000abcd", data=tmp_path, expect=1, **settings)
    assert "There is no batch" in missing.stderr


def test_a_large_batch_is_undone_and_imported_again(tmp_path: Path, connection: str, settings: dict[str, Any]) -> None:
    file = tmp_path / "EXTF_in.csv"
    rows = [satz(1_00, "10010", "8400", "2024-05-01", f"R{number}") for number in range(SLICED_FROM_ROWS)]
    extf.write_buchungsstapel(file, HEADER, rows)
    [taken] = answer("import", "extf", str(file), "--connection", connection, data=tmp_path, **settings)
    undone = answer("books", "undo", taken["batch"], data=tmp_path, **settings)
    assert (undone["undoes"], undone["records"]) == (taken["batch"], len(rows))
    findings = answer("doctor", "--books", data=tmp_path, **settings)
    assert [item["state"] for item in findings if item["area"] == "books"] == ["ok"]
    [again] = answer("import", "extf", str(file), "--connection", connection, data=tmp_path, **settings)
    assert (again["imported"], again["error"]) == (len(rows), None)


def test_rows_that_look_booked_are_named_and_taken_when_they_are_meant(
    tmp_path: Path, connection: str, settings: dict[str, Any]
) -> None:
    first, more = tmp_path / "erste.csv", tmp_path / "mehr.csv"
    extf.write_buchungsstapel(first, HEADER, bookings())
    twin = next(bookings())
    extf.write_buchungsstapel(more, HEADER, [satz(1_00, "1200", "8200", "2024-05-01", "NEU"), twin])
    command = ("import", "extf", str(more), "--connection", connection)
    answer("import", "extf", str(first), "--connection", connection, data=tmp_path, **settings)
    refused = kontobahn(*command, data=tmp_path, expect=1, **settings)
    assert "1 row looks booked already" in refused.stdout
    assert "line 4 like booking 1 from erste.csv" in refused.stdout
    [partly] = json.loads(kontobahn(*command, "--partial", "--json", data=tmp_path, expect=1, **settings).stdout)
    assert (partly["imported"], partly["refused_count"]) == (1, 1)
    extf.write_buchungsstapel(more, HEADER, [twin])
    [meant] = answer(*command, "--another", data=tmp_path, **settings)
    assert meant["imported"] == 1


def test_warnings_are_printed_and_told_to_scripts(tmp_path: Path, connection: str, settings: dict[str, Any]) -> None:
    file = tmp_path / "EXTF_warn.csv"
    extf.write_buchungsstapel(file, HEADER, [satz(1_00, "1200", "8200", "2024-05-01", "A", bu_schluessel="777")])
    shown = kontobahn("import", "extf", str(file), "--connection", connection, data=tmp_path, **settings)
    assert "BU-Schlüssel" in shown.stdout
    assert "Warnings: 1." in shown.stdout
    extf.write_buchungsstapel(file, HEADER, [satz(2_00, "1200", "8200", "2024-05-01", "B", bu_schluessel="777")])
    [told] = answer("import", "extf", str(file), "--connection", connection, data=tmp_path, **settings)
    [warning] = told["warnings"]
    assert (warning["zeile"], warning["spalte"], told["warning_count"]) == (3, "BU-Schlüssel", 1)
