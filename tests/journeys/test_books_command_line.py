"""EXTF files in and out, and the built-in books, by the command line.

A command calls what the API calls, which is tested on both engines; that commands reach either is seen by the first test.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest

from kontobahn.formats import extf
from tests.journeys.process import answer, kontobahn, place_demo, serving
from tests.spec_pages import on_sqlite

HEADER = extf.make_header(
    extf.BUCHUNGSSTAPEL, erzeugt_am=datetime(2024, 12, 31, 12), berater=1234, mandant=1, wj_beginn=date(2024, 1, 1),
    sachkontenlaenge=4, datum_von=date(2024, 1, 1), datum_bis=date(2024, 12, 31), skr="03",
)  # fmt: skip


@pytest.fixture
def settings(engine: str, request: pytest.FixtureRequest) -> dict[str, Any]:
    return {} if engine == "sqlite" else {"database_url": request.getfixturevalue("database_url")}


@pytest.fixture
def connection(tmp_path: Path, settings: dict[str, Any]) -> str:
    place_demo(tmp_path, **settings)
    made = answer(
        "books", "create", "--name", "Muster GmbH", "--skr", "SKR03", "--length", "4", "--client", "1234-1",
        "--year-start", "2024-01-01", data=tmp_path, **settings,
    )  # fmt: skip
    return str(made["connection_id"])


def satz(umsatz: int, konto: str, gegenkonto: str, datum: str, beleg: str, **more: Any) -> extf.Buchungssatz:
    values: dict[str, Any] = {
        "line": 0, "umsatz": umsatz, "soll": True, "waehrung": "EUR", "kurs": "", "basis_umsatz": None, "konto": konto,
        "gegenkonto": gegenkonto, "bu_schluessel": "", "belegdatum": datum, "belegfeld1": beleg, "belegfeld2": "", "skonto": 0,
        "buchungstext": "Büromöbel „Größe L“", "kost1": "", "kost2": "", "generalumkehr": False, "weitere": "",
    }  # fmt: skip
    return extf.Buchungssatz(**{**values, **more})


def bookings() -> Iterator[extf.Buchungssatz]:
    yield satz(119_000, "10001", "8400", "2024-03-01", "RE-1")
    yield satz(116_620, "1200", "10001", "2024-03-10", "RE-1", skonto=2_380)
    yield satz(20_000, "10002", "8400", "2024-04-01", "RE-2", waehrung="CHF", kurs="0,95", basis_umsatz=21_053)
    yield satz(
        11_900,
        "4930",
        "70001",
        "2024-04-02",
        "ER-1",
        bu_schluessel="9",
        kost1="VERTRIEB",
        weitere='{"20":"BEDI \\"x\\""}',
    )
    yield satz(11_900, "4930", "70001", "2024-04-03", "ER-1", bu_schluessel="29", soll=False, generalumkehr=True)


def test_a_batch_is_imported_once_and_exported_unchanged(
    tmp_path: Path, connection: str, settings: dict[str, Any]
) -> None:
    file = tmp_path / "EXTF_in.csv"
    extf.write_buchungsstapel(file, HEADER, bookings())
    taken = answer("import", "extf", str(file), "--connection", connection, data=tmp_path, **settings)
    assert [(item["imported"], item["refused"], item["error"]) for item in taken] == [(5, [], None)]
    again = kontobahn(
        "import", "extf", str(file), "--connection", connection, "--json", data=tmp_path, expect=1, **settings
    )
    assert "imported before" in json.loads(again.stdout)[0]["error"]
    written = answer(
        "export", "extf", "--connection", connection, "--year-start", "2024-01-01", "--to", str(tmp_path / "out"),
        data=tmp_path, **settings,
    )["files"]  # fmt: skip
    assert [Path(name).name.partition("_1234_1_")[0] for name in written] == [
        "EXTF_Buchungsstapel", "EXTF_Kontenbeschriftungen", "Protokoll",
    ]  # fmt: skip
    with extf.open_extf(written[0]) as back:
        assert [item._replace(line=0) for item in back.buchungssaetze()] == list(bookings())
    findings = answer("doctor", "--books", data=tmp_path, **settings)
    assert [item["state"] for item in findings if item["area"] == "books"] == ["ok"]
    with serving(tmp_path, **settings) as server:
        found = server.get("/v2/ledger-rewe-read/opos", params={"connectionId": connection}).json()["data"]
        assert [(konto["kontonummer"], konto["totalSaldo"]) for konto in found["konten"]] == [("100020000", 210.53)]
        server.stop()


@on_sqlite
def test_every_refused_row_is_named_and_nothing_imported(
    tmp_path: Path, connection: str, settings: dict[str, Any]
) -> None:
    file = tmp_path / "EXTF_bad.csv"
    extf.write_buchungsstapel(file, HEADER, bookings())
    lines = file.read_bytes().decode("cp1252").split("\r\n")
    fields = lines[2].split(";")
    lines[3] = ";".join(["12,345", *lines[3].split(";")[1:]])
    lines[4] = ";".join(fields[:8])
    lines.insert(5, lines[2].replace(";0103;", ";3102;"))
    lines.insert(6, ";".join([*fields[:6], fields[7], *fields[7:]]))
    file.write_bytes("\r\n".join(lines).encode("cp1252"))
    refused = kontobahn(
        "import", "extf", str(file), "--connection", connection, "--json", data=tmp_path, expect=1, **settings
    )
    outcome = json.loads(refused.stdout)[0]
    assert (outcome["imported"], "nothing was imported" in outcome["error"]) == (0, True)
    rows = [(row["zeile"], row["spalte"]) for row in outcome["refused"]]
    assert rows == [
        (4, "Umsatz (ohne Soll/Haben-Kz)"),
        (5, "Belegdatum"),
        (6, "Belegdatum"),
        (7, "Gegenkonto (ohne BU-Schlüssel)"),
    ]
    assert all(row["grund"] for row in outcome["refused"])
    partly = kontobahn(
        "import",
        "extf",
        str(file),
        "--connection",
        connection,
        "--partial",
        "--json",
        data=tmp_path,
        expect=1,
        **settings,
    )
    assert json.loads(partly.stdout)[0]["imported"] == 3
    shown = kontobahn("doctor", "--books", data=tmp_path, **settings)
    assert "every read model equals its bookings" in shown.stdout


@on_sqlite
@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"sachkontenlaenge": 5}, "account numbers of 5 digits"),
        ({"skr": "04"}, "SKR04"),
        ({"mandant": 2}, "--client"),
        ({"wj_beginn": date(2024, 7, 1), "datum_von": date(2024, 7, 1), "datum_bis": date(2025, 6, 30)}, "overlap"),
    ],
)
def test_a_file_of_other_books_is_refused(
    tmp_path: Path, connection: str, settings: dict[str, Any], change: dict[str, Any], sentence: str
) -> None:
    file = tmp_path / "EXTF_other.csv"
    extf.write_buchungsstapel(file, HEADER._replace(**change), [])
    refused = kontobahn(
        "import", "extf", str(file), "--connection", connection, "--json", data=tmp_path, expect=1, **settings
    )
    assert sentence in json.loads(refused.stdout)[0]["error"]


@on_sqlite
def test_master_data_comes_in_and_person_accounts_go_out(
    tmp_path: Path, connection: str, settings: dict[str, Any]
) -> None:
    person = extf.Personenkonto(
        line=0, konto="10001", name="", vorname="", firmenname="Käufer & Söhne GmbH", name_ohne_angabe="", adressattyp="2",
        anrede="Firma", ust_id="DE136695976",
        adressen=(extf.Adresse("Hauptstraße 1", "", "10115", "Berlin", "DE", ""),), telefon="030 1", email="a@b.example", fax="",
        bankverbindungen=(extf.Bankverbindung(1, "DE02120300000000202051", "BYLADEM1001", "Bank", True),), zahlungsbedingung=20,
        kurzbezeichnung="Käufer", weitere='{"21":"z. Hd."}',
    )  # fmt: skip
    term = extf.Zahlungsbedingung(
        0, 20, "10 Tage 2 %, 30 Tage netto", extf.NACH_TAGEN, _percent("2"), 10, _percent("0"), 0, 30, (), 0
    )
    label = extf.Kontobeschriftung(0, "8400", "Erlöse Laden", "de-DE")
    files = [tmp_path / f"EXTF_{number}.csv" for number in range(3)]
    extf.write_personenkonten(files[0], _header(extf.PERSONENKONTEN), [person])
    extf.write_zahlungsbedingungen(files[1], _header(extf.ZAHLUNGSBEDINGUNGEN), [term])
    extf.write_kontenbeschriftungen(files[2], _header(extf.KONTENBESCHRIFTUNGEN), [label])
    taken = answer("import", "extf", *map(str, files), "--connection", connection, data=tmp_path, **settings)
    assert [item["imported"] for item in taken] == [1, 1, 1]
    made = answer(
        "export", "extf", "--connection", connection, "--year-start", "2024-01-01", "--to", str(tmp_path), data=tmp_path,
        **settings,
    )  # fmt: skip
    assert (made["protocol"], made["protocol_count"]) == ([], 0)
    for name, records in zip(made["files"], ([person], [label], [term]), strict=False):
        with extf.open_extf(name) as back:
            assert [item._replace(line=0) for item in back] == records
    assert "The files hold everything" in Path(made["files"][-1]).read_text()
    again = kontobahn(
        "export", "extf", "--connection", connection, "--year-start", "2024-01-01", "--to", str(tmp_path), data=tmp_path,
        expect=1, **settings,
    )  # fmt: skip
    assert "never overwrites" in again.stderr
    with serving(tmp_path, **settings) as server:
        query = {"connectionId": connection, "geschaeftsjahrStartDatum": "2024-01-01"}
        konten = server.get("/v2/ledger-rewe-read/konten", params=query).json()["data"]
        names = {konto["kontonummer"]: konto["kontobeschriftung"] for konto in konten}
        assert (names["100010000"], names["84000000"]) == ("Käufer & Söhne GmbH", "Erlöse Laden")
        terms = server.get("/v2/ledger-rewe-read/zahlungsbedingungen", params=query).json()["data"]
        assert [(item["id"], item["skontoFrist1"], item["skontoSatz1"], item["nettoFrist"]) for item in terms] == [
            ("20", 10, 2, 30)
        ]
        server.stop()


def _percent(text: str) -> Any:
    from decimal import Decimal

    return Decimal(text)


def _header(category: extf.Category) -> extf.Header:
    return extf.make_header(
        category,
        erzeugt_am=datetime(2024, 12, 31),
        berater=1234,
        mandant=1,
        wj_beginn=date(2024, 1, 1),
        sachkontenlaenge=4,
        skr="03",
    )


@on_sqlite
def test_connections_expire_and_are_renewed_and_services_decide(
    tmp_path: Path, connection: str, settings: dict[str, Any]
) -> None:
    with serving(tmp_path, **settings) as server:

        def opos() -> Any:
            found = server.get("/v2/ledger-rewe-read/opos", params={"connectionId": connection})
            return found.status_code, found.json().get("code")

        assert opos() == (200, None)
        kontobahn("books", "expire", connection, data=tmp_path, **settings)
        assert opos() == (409, "ledger_connection_invalid")
        kontobahn("books", "reconnect", connection, data=tmp_path, **settings)
        kontobahn("books", "right", connection, "buchungen", "--off", data=tmp_path, **settings)
        assert opos() == (403, "ledger_endpoint_not_authorized")
        kontobahn("books", "right", connection, "buchungen", data=tmp_path, **settings)
        service = "Exportdatenservice Rechnungswesen"
        kontobahn("books", "service", connection, service, "--off", data=tmp_path, **settings)
        assert opos() == (403, "ledger_export_service_missing")
        server.stop()


@on_sqlite
def test_a_cash_book_entry_is_reversed_and_never_changed(tmp_path: Path, settings: dict[str, Any]) -> None:
    facts = answer("demo", data=tmp_path, **settings)["ledger"]
    undone = answer(
        "books",
        "reverse",
        facts["connection_id"],
        "Hauptkasse",
        "2",
        "--reason",
        "falsch gebucht",
        data=tmp_path,
        **settings,
    )
    assert undone["reverses"] == 2
    twice = kontobahn(
        "books",
        "reverse",
        facts["connection_id"],
        "Hauptkasse",
        "2",
        "--reason",
        "x",
        data=tmp_path,
        expect=1,
        **settings,
    )
    assert f"by entry {undone['number']}" in twice.stderr
    states = {item["area"]: item["state"] for item in answer("doctor", "--books", data=tmp_path, **settings)}
    assert states["books"] == "ok"


def test_the_doctor_sees_a_cent_that_differs(tmp_path: Path) -> None:
    import sqlite3

    place_demo(tmp_path)
    database = sqlite3.connect(tmp_path / "kontobahn.sqlite3")
    with database:
        database.execute("UPDATE books_items SET soll = soll + 1 WHERE beleg = (SELECT MIN(beleg) FROM books_items)")
        database.execute("DROP TRIGGER books_cash_entries_no_update")
        database.execute("UPDATE books_cash_entries SET record = replace(record, 'Porto', 'Wein')")
    database.close()
    found = kontobahn("doctor", "--books", data=tmp_path, expect=1).stdout
    assert "open item" in found
    assert "the chain is broken" in found


@on_sqlite
def test_retax_has_nothing_to_do_where_books_were_split_by_the_rules_of_today(
    tmp_path: Path, connection: str, settings: dict[str, Any]
) -> None:
    file = tmp_path / "EXTF_in.csv"
    extf.write_buchungsstapel(file, HEADER, bookings())
    answer("import", "extf", str(file), "--connection", connection, data=tmp_path, **settings)
    for more in ((), ("--apply",)):
        assert answer("books", "retax", connection, "--year", "2024-01-01", *more, data=tmp_path, **settings) == []
    told = kontobahn("books", "retax", connection, "--year", "2023-01-01", data=tmp_path, expect=1, **settings)
    assert "no fiscal year that starts on 2023-01-01" in told.stderr + told.stdout
