"""GET /v2/ledger-rewe/exports: what comes out goes in again, and what the files have no room for is named."""

from __future__ import annotations

import base64
import io
import json
import zipfile
from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any
from xml.etree import ElementTree

import pytest

from kontobahn.api.tasks import Exports
from kontobahn.books import batches, posting, store, verification
from kontobahn.books.export import export_zip
from kontobahn.books.satz import Satz
from kontobahn.db import Database, Tx
from kontobahn.formats import extf
from kontobahn.formats.document_package import Document, PackedFile, beleglink
from kontobahn.ids import new_id
from kontobahn.ledger.routes import rewe
from tests.api.ledger.files import file, imported, send_file, undone
from tests.harness import Service
from tests.ledger_builder import KASSENBUCH, PERSONENKONTO, Books, entry, line
from tests.unit.formats.extf.files import satz

EXPORTS = "/v2/ledger-rewe/exports"
YEARS = ("2025-01-01", "2026-01-01")
FRESH = "29098-7"
IBANS = [
    "DE02120300000000202051", "DE02500105170137075030", "DE02100500000054540402", "DE02300209000106531065",
    "DE02200505501015871393", "DE02100100100006820101", "DE02300606010002474689", "DE02600501010002034304",
    "DE02700202700010108669", "DE02701500000000594937",
]  # fmt: skip
_NS = {"d": "http://xml.datev.de/bedi/tps/document/v06.0"}


@pytest.fixture
def books(service: Service) -> Books:
    return Books(service, service.organization(), years=YEARS)


def header(category: extf.Category) -> extf.Header:
    return extf.make_header(
        category, erzeugt_am=datetime(2026, 1, 2), berater=29098, mandant=55003, wj_beginn=date(2026, 1, 1),
        sachkontenlaenge=4, skr="03",
    )  # fmt: skip


def written(write: Callable[..., int], header: extf.Header, records: list[Any]) -> bytes:
    stream = io.BytesIO()
    write(stream, header, records)
    return stream.getvalue()


def exported(books: Books, jahr: str, **query: str) -> zipfile.ZipFile:
    answer = books.get(EXPORTS, geschaeftsjahrStartDatum=jahr, **query)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/zip"
    assert f"Kontobahn_{books.client.client_id}_{jahr.replace('-', '')}.zip" in answer.headers["content-disposition"]
    return zipfile.ZipFile(io.BytesIO(answer.content))


def partner(nummer: str, **fields: Any) -> dict[str, Any]:
    return {
        "personenkontoNummer": nummer, "kontaktTyp": "COMPANY", "kontenrahmen": "SKR03", "kontonummernLaenge": 4,
        "geschaeftsjahrStartDatum": "2026-01-01", "firmenname": f"Käufer {nummer}", **fields,
    }  # fmt: skip


def address(street: str, typ: str) -> dict[str, Any]:
    return {"adresszeile": street, "postleitzahl": "10115", "ort": "Berlin", "laendercode": "AT", "typ": typ}


FULL = partner(
    "10010",
    ustId="DE136695976",
    emailAdressen=[{"email": "a@x.example", "typ": "INVOICE"}],
    telefonnummern=[
        {"nummer": "030 1", "typ": "OFFICE"}, {"nummer": "030 2", "typ": "FAX"}, {"nummer": "0170 34567", "typ": "MOBILE"},
    ],
    bankkonten=[{"iban": iban, "bic": None, "name": f"Bank {n}", "istHauptkonto": n == 6} for n, iban in enumerate(IBANS)],
    kontaktpersonen=[{"nachname": "Muster", "vorname": "Anna", "anrede": "Frau"}],
    adressen=[address("Werkstraße 1", "WORK"), address("Rechnungsweg 2", "BILLING")],
)  # fmt: skip
PRIVATE = partner(
    "10020", kontaktTyp="CONTACT_PERSON", firmenname=None,
    emailAdressen=[{"email": "b@x.example", "typ": "BUSINESS"}, {"email": "c@x.example", "typ": "PAYMENT"}],
    kontaktpersonen=[{"nachname": "Beispiel", "vorname": "Bo", "anrede": "Herr"}, {"nachname": "Vertretung"}],
)  # fmt: skip
LEDGER = """
    2025-02-01 S 10010 8400 1190,00 RE-1
    2025-11-01 S 10020 8300 107,00 RE-2 bu=
    2025-12-01 S 4930 70010 119,00 ER-1 bu=9
    2026-01-01 S 10010 9008 1190,00 EB
    2026-01-01 S 10020 9008 107,00 EB
    2026-01-01 H 70010 9009 119,00 EB
    2026-01-01 S 1000 9000 500,00 EB
    2026-02-01 S 1200 10010 1166,20 RE-1 skonto=23,80
"""


def test_what_is_exported_and_imported_again_is_the_same(books: Books) -> None:
    books.post(LEDGER)
    books.post("2026-12-31 S 4830 0400 10,00 AFA Abschreibung", is_closing=True)
    master_data(books)
    for body in (FULL, PRIVATE):
        assert books.send(PERSONENKONTO, body).status_code == 201
    assert books.send(KASSENBUCH, entry(line(119, belegNummer="K-1"), line(-11.9, "4930"))).status_code == 201
    original = everything(books, books.client)
    fresh = books.another_client(FRESH, years=YEARS)
    assert everything(books, fresh) != original
    for jahr in YEARS:
        archive = exported(books, jahr)
        for name in archive.namelist():
            if name.startswith("EXTF_"):
                content = archive.read(name)
                made = send_file(books, content, name, clientId=FRESH)
                assert made.status_code in (201, 409), made.text
                # Master data is the same in both years.
                assert made.status_code == 201 or "Buchungsstapel" not in name, made.text
    assert everything(books, fresh) == original
    assert books.service.db.read_now(verification.find_differences, fresh.mandant) == []


KEYS = [
    # As it was sent, and as DATEV would take it.
    ("119,00;S;;;;;1000;8400;3;1501;RE-1;;;doppelt", ""),
    ("119,00;S;;;;;1000;8400;;1501;RE-2;;;Automatik", ""),
    ("119,00;S;;;;;1000;8400;40;1501;RE-3;;;aufgehoben", "40"),
    ("119,00;S;;;;;1000;8400;2;1501;RE-4;;;Widerspruch", "40"),
    ("119,00;S;;;;;1000;8400;777;1501;RE-5;;;unbekannt", "40"),
    ("119,00;S;;;;;1000;8400;1;1501;RE-6;;;steuerfrei", "40"),
    ("119,00;H;;;;;1000;8400;23;1501;RE-7;;;Umkehr im Schlüssel", "20"),
    ("119,00;H;;;;;1000;8400;22;1501;RE-8;;;Umkehr im Schlüssel", "80"),
    ("119,00;H;;;;;1000;8400;20;1501;RE-9;;;Umkehr im Schlüssel", "20"),
    ("119,00;S;;;;;8400;8300;;1501;RE-10;;;zwei Automatikkonten", "40"),
    ("119,00;S;;;;;4930;70001;9;1501;RE-11;;;kein Automatikkonto", "9"),
    ("119,00;S;;;;;1000;8700;3;1501;RE-12;;;kein Automatikkonto", "3"),
]


@pytest.mark.either_engine
def test_no_key_but_40_stands_beside_an_automatic_account(books: Books) -> None:
    books.import_extf(
        file(*(satz(row) for row, _ in KEYS), satz("1,00;H;;;;;1000;8400;3;1501;RE-13;;;Umkehr", {118: "1"}))
    )
    archive = exported(books, "2026-01-01")
    (name,) = [name for name in archive.namelist() if "Buchungsstapel" in name]
    with extf.open_extf(io.BytesIO(archive.read(name))) as opened:
        rows = [row for row in opened.buchungssaetze() if isinstance(row, extf.Buchungssatz)]
    assert [row.bu_schluessel for row in rows] == [*(key for _, key in KEYS), ""]
    assert [row.generalumkehr for row in rows] == [*("Umkehr" in row for row, _ in KEYS), True]
    (protocol,) = [archive.read(name).decode() for name in archive.namelist() if name.startswith("Protokoll")]
    told = [number for number in range(1, 14) if f"Buchung {number}, BU-Schlüssel" in protocol]
    assert told == [1, 4, 5, 6, 7, 8, 10, 13]
    for number, found in (
        (1, "The key 3 stands beside an account that carries tax by itself. It was left out"),
        (4, "The key 2 stands beside an account that carries tax by itself. The key was written as 40"),
        (10, "Both accounts carry tax by themselves. The key was written as 40"),
    ):
        assert f"Buchung {number}, BU-Schlüssel: {found}" in protocol
    fresh = books.another_client(FRESH, years=YEARS)
    assert send_file(books, archive.read(name), name, clientId=FRESH).status_code == 201
    first, second = (everything(books, client)["susa 2026-01-01"] for client in (books.client, fresh))
    assert first == second


@pytest.mark.either_engine
def test_what_was_undone_is_not_exported_and_leaves_no_trace_in_the_copy(books: Books) -> None:
    """The document has the day and the text of what came after, in the books and in those made from the export."""
    wrong = file(satz("119,00;S;;;;;10010;8400;;0201;RE-1;;;falsch", {117: "01022026"}))
    undone(books, imported(books, wrong)["id"])
    imported(books, file(satz("107,00;S;;;;;10010;8300;;1501;RE-1;;;richtig", {117: "28022026"})))
    imported(books, file(satz("50,00;H;;;;;10010;8300;;2001;RE-1;;;Storno", {118: "1"})))
    undone(books, imported(books, file(satz("9,00;S;;;;;1200;10010;;2101;RE-1;;1,00;falsch")))["id"])
    archive = exported(books, "2026-01-01")
    (name,) = [name for name in archive.namelist() if "Buchungsstapel" in name]
    fresh = books.another_client(FRESH, years=YEARS)
    made = send_file(books, archive.read(name), name, clientId=FRESH)
    assert (made.status_code, made.json()["data"]["uebernommen"]) == (201, 2)
    for path in ("susa", "umsatzsteuer", "bwa", "opos", "faelligkeiten"):
        query = (
            {"stichtag": "2026-12-31"} if path in ("opos", "faelligkeiten") else {"geschaeftsjahrStartDatum": YEARS[1]}
        )
        first, second = (
            books.read(f"/v2/ledger-rewe-read/{path}", clientId=client.client_id, **query)
            for client in (books.client, fresh)
        )
        assert first == second, path
    (item,) = books.read("/v2/ledger-rewe-read/faelligkeiten", stichtag="2026-12-31")["konten"][0]["posten"]
    assert (item["belegdatum"], item["buchungstext"], item["faelligAm"]) == ("2026-01-15", "richtig", "2026-02-28")


def master_data(books: Books) -> None:
    terms = [
        extf.Zahlungsbedingung(0, 20, "10 Tage 2 %", 1, _percent(2), 10, _percent(0), 0, 30, (), 3),
        extf.Zahlungsbedingung(
            0, 21, "Zeiträume", 2, _percent(3), 0, _percent(1), 0, 0,
            (extf.Zeitraum(15, 20, 0, 31, 0, 31, 1), extf.Zeitraum(31, 5, 1, 0, 0, 15, 2)), 0,
        ),
    ]  # fmt: skip
    books.import_extf(written(extf.write_zahlungsbedingungen, header(extf.ZAHLUNGSBEDINGUNGEN), terms))
    labels = [
        extf.Kontobeschriftung(0, konto, text, "de-DE") for konto, text in (("8400", "Laden"), ("4931", "x" * 200))
    ]
    books.import_extf(written(extf.write_kontenbeschriftungen, header(extf.KONTENBESCHRIFTUNGEN), labels))
    creditor = extf.Personenkonto(
        line=0, konto="70010", name="", vorname="", firmenname="Lieferant", name_ohne_angabe="", adressattyp="2",
        anrede="Firma", ust_id="", adressen=(), telefon="", email="", fax="", bankverbindungen=(), zahlungsbedingung=20,
        kurzbezeichnung="Lief", weitere='{"21":"z. Hd.","102":"Herr Meier"}',
    )  # fmt: skip
    books.import_extf(written(extf.write_personenkonten, header(extf.PERSONENKONTEN), [creditor]))


def _percent(number: int) -> Any:
    return Decimal(f"{number}.00")


def everything(books: Books, client: store.Client) -> dict[str, Any]:
    """The answers of the API, and partners and terms as they are kept."""
    found: dict[str, Any] = {}
    for jahr in YEARS:
        query = {"clientId": client.client_id, "geschaeftsjahrStartDatum": jahr}
        for path in ("susa", "konten", "zahlungsbedingungen"):
            found[f"{path} {jahr}"] = books.read(f"/v2/ledger-rewe-read/{path}", **query)
        bookings = books.read("/v2/ledger-rewe-read/buchungen", **query)
        # Closing entries are in a file of their own, so they may come later.
        found[f"buchungen {jahr}"] = sorted(json.dumps({**booking, "id": None}) for booking in bookings)
    for stichtag in ("2025-12-31", "2026-12-31"):
        query = {"clientId": client.client_id, "stichtag": stichtag}
        found[f"opos {stichtag}"] = books.read("/v2/ledger-rewe-read/faelligkeiten", **query)
    persons = books.rows(
        "SELECT konto, record, extf FROM books_persons WHERE mandant = ? ORDER BY konto", client.mandant
    )
    found["persons"] = [(konto, {**json.loads(record), "geschaeftsjahrStartDatum": ""}) for konto, record, _ in persons]
    found["further columns"] = [json.loads(row)[1:] for _, _, row in persons if "Lief" in row]
    found["terms"] = books.rows("SELECT nummer, extf FROM books_payment_terms WHERE mandant = ?", client.mandant)
    return found


@pytest.mark.either_engine
def test_one_note_is_one(books: Books) -> None:
    imported(books, file(satz("119,00;S;;;;;10010;8400;3;1501;RE-1;;;Rechnung")))
    archive = exported(books, "2026-01-01")
    assert "\r\n1 note on what" in archive.read(archive.namelist()[-1]).decode()


def test_what_the_format_has_no_room_for_is_named(books: Books) -> None:
    body = {
        **FULL,
        "emailAdressen": [{"email": f"{name}@x.example", "typ": "BUSINESS"} for name in "abc"],
        "telefonnummern": [{"nummer": "030 1"}],
        "bankkonten": [
            {"iban": IBANS[0], "name": "Eine sehr lange Bank in einer kleinen Stadt", "istHauptkonto": True}
        ],
        "kontaktpersonen": [
            {"nachname": "Muster", "emailAdressen": [{"email": "m@x.example"}]},
            {"nachname": "Zweite", "vorname": "Zoe"},
        ],
        "adressen": [address("Lager 7", "DELIVERY"), address("Werkstraße 1", "WORK"), address("Zuhause 3", "PRIVATE")],
    }
    assert books.send(PERSONENKONTO, body).status_code == 201
    archive = exported(books, "2026-01-01")
    (partners,) = [name for name in archive.namelist() if "Debitoren" in name]
    text = archive.read(partners).decode("cp1252")
    assert all(found in text for found in ("a@x.example", "b@x.example", "Werkstraße 1", "Muster"))
    assert not any(lost in text for lost in ("c@x.example", "Lager 7", "Zuhause 3", "Zweite", "m@x.example"))
    protocol = archive.read(archive.namelist()[-1]).decode()
    for field, lost in (
        ("emailAdressen", "c@x.example"), ("adressen", "Lager 7"), ("adressen", "Zuhause 3"), ("kontaktpersonen", "Zweite"),
        ("kontaktpersonen.emailAdressen", "m@x.example"), ("bankkonten.name", "Eine sehr lange Bank in einer kleinen Stadt"),
    ):  # fmt: skip
        assert any(f"Personenkonto 10010, {field}: " in row and lost in row for row in protocol.splitlines()), protocol
    assert "6 notes" in protocol
    nothing = exported(books, "2025-01-01", belege="false")
    assert nothing.namelist()[-1].startswith("Protokoll_29098_55003_2025")


@pytest.mark.either_engine
def test_a_partner_changed_by_call_keeps_what_the_call_cannot_say(books: Books) -> None:
    master_data(books)
    assert books.send(PERSONENKONTO, partner("70010", emailAdressen=[{"email": "neu@x.example"}])).status_code == 200
    (row,) = partners_of(exported(books, "2026-01-01"))
    assert (row.firmenname, row.email) == ("Käufer 70010", "neu@x.example")
    assert (row.zahlungsbedingung, row.kurzbezeichnung, row.weitere) == (20, "Lief", '{"21":"z. Hd."}')


def partners_of(archive: zipfile.ZipFile) -> list[extf.Personenkonto]:
    (name,) = [name for name in archive.namelist() if "Debitoren" in name]
    with extf.open_extf(io.BytesIO(archive.read(name))) as file:
        return [item for item in file.personenkonten() if isinstance(item, extf.Personenkonto)]


def test_a_bank_account_that_was_kept_as_a_further_column_comes_out(books: Books) -> None:
    """Rows that were imported before bank accounts 6 to 10 had fields of their own."""
    master_data(books)

    def grow_older(tx: Tx) -> None:
        ((row,),) = tx.all("SELECT extf FROM books_persons WHERE mandant = ?", books.client.mandant)
        row = row.replace('\\"21\\":', f'\\"169\\":\\"{IBANS[0]}\\",\\"21\\":')
        tx.run("UPDATE books_persons SET extf = ? WHERE mandant = ?", row, books.client.mandant)

    books.service.db.write_now(grow_older)
    (person,) = partners_of(exported(books, "2026-01-01"))
    assert [(bank.nummer, bank.iban) for bank in person.bankverbindungen] == [(6, IBANS[0])]


def test_receipts_lie_beside_the_bookings_that_link_to_them(books: Books) -> None:
    pdf, png = b"%PDF-1.7\nreceipt", b"\x89PNG\r\n\x1a\nother"
    images = [
        {"content": base64.b64encode(content).decode(), "dateiname": name}
        for content, name in ((pdf, "Quittung.pdf"), (png, "Quittung.png"))
    ]
    assert books.send(KASSENBUCH, entry(line(50), line(20), belegbilder=images)).status_code == 201
    other = {"content": base64.b64encode(pdf + b"2").decode(), "dateiname": "Quittung.pdf"}
    single = books.send(KASSENBUCH, entry(line(1), belegbilder=[other])).json()["belegbilder"][0]["id"]
    assert books.send(KASSENBUCH, entry(line(2))).status_code == 201
    archive = exported(books, "2026-01-01")
    links = [extf.decode_weitere(row.weitere).get("20") for row in bookings_of(archive)]
    assert links == [links[0], links[0], f'BEDI "{single}"', None]
    package = zipfile.ZipFile(io.BytesIO(archive.read("Belege_29098_55003_20260101.zip")))
    names = ["00001_Quittung.pdf", "00002_Quittung.png", "00003_Quittung.pdf", "document.xml"]
    assert sorted(package.namelist()) == names
    assert [package.read(name) for name in names[:3]] == [pdf, png, pdf + b"2"]
    manifest = ElementTree.fromstring(package.read("document.xml"))
    documents = {
        f'BEDI "{document.attrib["guid"]}"': [item.attrib["name"] for item in document.findall("d:extension", _NS)]
        for document in manifest.findall("d:content/d:document", _NS)
    }
    assert documents == {links[0]: names[:2], links[2]: names[2:3]}
    again = [extf.decode_weitere(row.weitere).get("20") for row in bookings_of(exported(books, "2026-01-01"))]
    assert again == links
    without = exported(books, "2026-01-01", belege="false")
    assert not any(name.startswith("Belege") for name in without.namelist())
    assert [row.weitere for row in bookings_of(without)] == [""] * 4


def test_of_documents_only_those_that_the_books_do_not_keep_are_asked_of_others(books: Books) -> None:
    own, theirs = b"%PDF-1.7\nown", b"%PDF-1.7\ntheirs"
    image = {"content": base64.b64encode(own).decode(), "dateiname": "Quittung.pdf"}
    kept = books.send(KASSENBUCH, entry(line(1), belegbilder=[image])).json()["belegbilder"][0]["id"]
    elsewhere, asked = new_id(), list[tuple[str, list[str]]]()
    imported(
        books,
        file(
            *(
                satz(f"1,00;S;;;;;10010;8400;;1501;RE-{number};;;Rechnung", {20: beleglink(guid).replace('"', '""').join('""')})
                for number, guid in enumerate((kept, elsewhere, elsewhere), 1)
            )
        ),
    )  # fmt: skip

    def documents(db: Database, organization_id: str, guids: Sequence[str]) -> list[Document]:
        asked.append((organization_id, list(guids)))
        return [Document(elsewhere, (PackedFile("Rechnung.pdf", len(theirs), lambda: theirs),))]

    db, target = books.service.db, io.BytesIO()
    year = db.read_now(store.year_of_start, books.client, date(2026, 1, 1))
    export_zip(db, books.client, year, target, books.service.clock.now(), with_receipts=True, documents=documents)
    assert asked == [(books.client.organization_id, [elsewhere])]
    (name,) = [name for name in zipfile.ZipFile(target).namelist() if name.startswith("Belege")]
    package = zipfile.ZipFile(io.BytesIO(zipfile.ZipFile(target).read(name)))
    assert [package.read(name) for name in sorted(package.namelist()) if name.endswith(".pdf")] == [own, theirs]


def bookings_of(archive: zipfile.ZipFile) -> list[extf.Buchungssatz]:
    (name,) = [name for name in archive.namelist() if "Buchungsstapel" in name]
    with extf.open_extf(io.BytesIO(archive.read(name))) as file:
        rows = list(file.buchungssaetze())
    assert all(isinstance(row, extf.Buchungssatz) for row in rows), rows
    return [row for row in rows if isinstance(row, extf.Buchungssatz)]


LARGE = 3 * 10**12 + 12_345


def test_older_bookings_that_no_file_can_hold_come_out_mended(books: Books) -> None:
    def post(tx: Tx) -> None:
        jahr = store.year_of_start(tx, books.client, date(2026, 1, 1))
        batch = batches.open_batch(tx, books.client, jahr, kind="test", source="test", sha256=new_id())
        poster = posting.begin(tx, books.client, batch)
        for umsatz, konto, gegenkonto, text, skonto in (
            (100, "100100000", "84000000", "Zwei\nZeilen", 0), (LARGE + 119, "100100000", "84000000", "Rechnung", 0),
            (LARGE, "12000000", "100100000", "Zahlung", 119), (10**15, "13600000", "12100000", "Zu viel", 0),
            (200, "100100000", "83000000", "Gut", 0),
        ):  # fmt: skip
            satz = Satz(umsatz=umsatz, soll=True, konto=konto, gegenkonto=gegenkonto, belegdatum="2026-03-01", belegfeld1="R",
                        buchungstext=text, skonto=skonto)  # fmt: skip
            poster.add(satz)
        poster.finish()

    books.service.db.write_now(post)
    archive = exported(books, "2026-01-01")
    rows = bookings_of(archive)
    texts = [(row.buchungstext, row.skonto) for row in rows]
    assert texts == [
        ("Zwei Zeilen", 0), *[("Rechnung", 0)] * 4, *[("Zahlung", 0)] * 3, ("Zahlung", 119), ("Gut", 0),
    ]  # fmt: skip
    told = [row for row in archive.read(archive.namelist()[-1]).decode().splitlines() if ": Buchung " in row]
    done = [(row.partition(": Buchung ")[2][0], row.rpartition(". ")[2]) for row in told]
    assert done == [
        ("1", "Each such character was replaced by a blank."),
        ("2", "It was written as 4 rows that add up to it."),
        ("3", "It was written as 4 rows that add up to it."),
        ("4", "The record was left out."),
    ]
    books.another_client(FRESH, years=YEARS)
    made = send_file(books, archive.read(archive.namelist()[0]), clientId=FRESH, another="true")
    assert made.status_code == 201, made.text
    query = {"geschaeftsjahrStartDatum": "2026-01-01"}
    whole, parts = (books.read("/v2/ledger-rewe-read/susa", **query, clientId=name) for name in ("29098-55003", FRESH))
    # To the cent, tax included; but for the accounts of what was left out.
    assert [row for row in whole if row["kontonummer"] not in ("13600000", "12100000")] == parts
    assert len(parts) == 7


def test_exports_are_bounded(books: Books, monkeypatch: pytest.MonkeyPatch) -> None:
    query = {"geschaeftsjahrStartDatum": "2026-01-01"}
    exports = books.service.application.context.part(Exports)
    exports.enter(books.owner.id)
    busy = books.get(EXPORTS, **query)
    assert (busy.status_code, busy.headers["retry-after"]) == (429, "15")
    exports.enter("another organisation")
    exports.leave(books.owner.id)
    assert books.get(EXPORTS, **query).status_code == 200
    exports.enter("a third")
    assert books.get(EXPORTS, **query).status_code == 429
    exports.leave("a third")
    image = {"content": base64.b64encode(b"%PDF-1.7\n").decode(), "dateiname": "a.pdf"}
    books.send(KASSENBUCH, entry(line(50), belegbilder=[image]))
    monkeypatch.setattr(rewe, "MAX_RECEIPT_BYTES", 8)
    assert refusal_of(books.get(EXPORTS, **query), 409)["field"] == "belege"
    assert books.get(EXPORTS, **query, belege="false").status_code == 200
    monkeypatch.setattr(rewe, "MAX_RECEIPT_BYTES", 9)
    assert books.get(EXPORTS, **query).status_code == 200


def refusal_of(answer: Any, status: int) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    return dict(answer.json())


@pytest.mark.either_engine
def test_an_export_needs_the_right_to_everything_in_it(books: Books) -> None:
    query = {"geschaeftsjahrStartDatum": "2026-01-01"}
    assert refusal_of(books.get(EXPORTS, geschaeftsjahrStartDatum="2024-01-01"), 404)["error"]
    books.unsubscribe(store.BELEGBILDER)
    assert books.get(EXPORTS, **query).status_code == 200
    books.unsubscribe(store.BUCHUNGSDATEN)
    assert refusal_of(books.get(EXPORTS, **query), 403)["code"] == "ledger_export_service_missing"
