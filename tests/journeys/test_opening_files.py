"""The worked example of carry-overs, from files with pairs of opening balances to the answers of a server.

Once, on SQLite: what the commands and the server call is tested on both engines.
"""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path

import pytest

from kontobahn.formats import extf
from tests.journeys.process import answer, kontobahn, place_demo, serving
from tests.journeys.test_books_command_line import satz

BATCHES = {
    2024: [
        satz(30_000, "10010", "9008", "2024-01-01", "0"),
        satz(30_000, "10010", "9008", "2024-01-01", "0", soll=False),
        satz(20_000, "1200", "10010", "2024-02-10", "RE-ALT"),
        satz(119_000, "10010", "8400", "2024-03-01", "RE-1"),
        satz(119_000, "1200", "10010", "2024-04-01", "RE-1"),
        satz(59_500, "10010", "8400", "2024-11-15", "RE-2"),
    ],
    2025: [
        satz(69_500, "10010", "9008", "2025-01-01", "0", soll=False),
        satz(69_500, "10010", "9008", "2025-01-01", "0"),
        satz(59_500, "1200", "10010", "2025-02-01", "RE-2"),
    ],
}
EXPECTED = {
    "2024-12-31": ({"RE-2": 595, "EB-RESIDUAL": 100}, {"RE-2": 595, "0": 300, "RE-ALT": -200}),
    "2025-01-31": ({"RE-2": 595, "EB-RESIDUAL": 100}, {"RE-2": 595, "0": 300, "RE-ALT": -200}),
    "2025-12-31": ({"EB-RESIDUAL": 100}, {"0": 300, "RE-ALT": -200}),
}


def write(folder: Path, year: int) -> Path:
    path = folder / f"EXTF_{year}.csv"
    header = extf.make_header(
        extf.BUCHUNGSSTAPEL, erzeugt_am=datetime(2026, 1, 2, 12), berater=1234, mandant=1, wj_beginn=date(year, 1, 1),
        sachkontenlaenge=4, datum_von=date(year, 1, 1), datum_bis=date(year, 12, 31), skr="03",
    )  # fmt: skip
    extf.write_buchungsstapel(path, header, BATCHES[year])
    return path


@pytest.mark.parametrize("years", [(2024, 2025), (2025, 2024)])
def test_pairs_from_files_come_to_the_worked_example(tmp_path: Path, years: tuple[int, ...]) -> None:
    place_demo(tmp_path)
    connection = answer(
        "books", "create", "--name", "Muster GmbH", "--skr", "SKR03", "--length", "4", "--client", "1234-1",
        "--year-start", "2024-01-01", data=tmp_path,
    )["connection_id"]  # fmt: skip
    for year in years:
        kontobahn("import", "extf", str(write(tmp_path, year)), "--connection", connection, data=tmp_path)
    findings = answer("doctor", "--books", data=tmp_path)
    assert [item["state"] for item in findings if item["area"] == "books"] == ["ok"]
    with serving(tmp_path) as server:
        for stichtag, both in EXPECTED.items():
            for mode, expected in zip(("reconcile", "raw"), both, strict=True):
                query = {"connectionId": connection, "stichtag": stichtag, "ebModus": mode}
                (konto,) = server.get("/v2/ledger-rewe-read/opos", params=query).json()["data"]["konten"]
                assert {item["beleg"]: item["saldo"] for item in konto["posten"]} == expected
        server.stop()
