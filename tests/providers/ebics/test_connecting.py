"""From the bank's data sheet to the first statement, over HTTP at a simulated bank."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from kontobahn import db
from kontobahn.bank_providers.ebics import adapter, store
from kontobahn.db import Tx
from kontobahn.formats.ebics import keys
from simulators.ebics_bank import Break
from tests.providers.ebics.office import Office
from tests.providers.ebics.person import GIRO, PARTNER, USER, Person
from tests.received_invoices import plain_pdf

SCHEMA = Path(db.__file__).parent / "schema"
_TABLE = re.compile(r"^CREATE TABLE (\w+)", re.MULTILINE)


def test_from_the_data_sheet_to_the_first_statement(person: Person) -> None:
    bank = person.bank
    account = bank.partners[PARTNER].accounts[0]
    account.book(date(2026, 2, 27), "119.00", "Rechnung 1")
    account.book(date(2026, 3, 2), "-12.34", "Strom")
    bank.close_day(PARTNER)
    page = person.begin()
    assert "Bankparameterblatt" in page
    page = person.send_sheet()
    assert "Brief an die Bank" in page
    letter = person.letter()
    assert letter.headers["content-type"] == "application/pdf"
    assert letter.content.startswith(b"%PDF")
    assert person.letter("en").content != letter.content
    # Before the bank has the letter, the page says so in its own language, and waits.
    page = person.send()
    assert "Brief an die Bank" in page
    assert "noch nicht freigeschaltet, oder sie hat den Zugang gesperrt (Code 091002)" in page
    assert "Ihre Bank schreibt" not in page
    # Whoever comes back another day goes on with the same keys.
    person.begin()
    [ref] = person.waiting()
    page = person.send(access=ref)
    assert "Brief an die Bank" in page
    assert bank.heard.count(("INI", "")) == bank.heard.count(("HIA", "")) == 1
    bank.activate(PARTNER, USER)
    assert "Schlüssel der Bank vergleichen" in person.send()
    assert "Das Konto ist verbunden" in person.compare()
    assert person.connection()["status"] == "active"
    [found] = person.accounts()
    assert (found["extra"]["iban"], found["balance"], found["extra"]["holder_name"]) == (GIRO, 10106.66, "Muster GmbH")
    assert person.bookings() == [(-12.34, "Strom", "posted"), (119.0, "Rechnung 1", "posted")]
    assert bank.faults == []


@pytest.mark.either_engine
def test_a_data_sheet_is_uploaded_and_proposes_what_a_person_confirms(person: Person) -> None:
    bank, told = person.bank, person.bank.letter()
    person.begin()
    assert "nichts gefunden" in person.upload(b"%PDF-1.7 broken")
    assert "nichts gefunden" in person.upload("Sehr geehrte Damen und Herren".encode("cp1252"))
    assert "Datei aus" in person.upload(b"")
    sheet = plain_pdf(
        "Bank: Fakebank", f"Host-ID: {bank.host}", f"Kunden-ID: {PARTNER}", f"Teilnehmer-ID: {USER}", f"URL: `{person.line.url}`",
        f"Hash X002 (SHA-256): {told['Authentication']}", f"Hash E002 (SHA-256): {told['Encryption']}",
    )  # fmt: skip
    page = person.upload(sheet)
    assert page.count("Vorschlag aus Ihrem Datenblatt") == 5
    shown = {name: person.shown()[name] for name in ("bank", "url", "host", "partner", "user", "company")}
    assert shown == {
        "bank": "Fakebank", "url": person.line.url, "host": bank.host, "partner": PARTNER, "user": USER, "company": "",
    }  # fmt: skip
    # Nothing was asked of the bank, and nothing is kept, before the person has confirmed.
    assert bank.heard == []
    assert "Brief an die Bank" in person.send(**{**shown, "company": "Muster GmbH"})
    bank.activate(PARTNER, USER)
    page = person.send()
    assert page.count("Vorschlag aus Ihrem Datenblatt") == 2
    shown = person.shown()
    assert (shown["x002"], shown["e002"]) == (told["Authentication"], told["Encryption"])
    # A sheet that lies connects nothing: what the person confirms is compared with the bank's answer.
    assert "Das Konto ist verbunden" in person.send(x002=shown["x002"], e002=shown["e002"])


def test_a_bank_whose_hash_differs_is_not_connected(person: Person) -> None:
    person.begin()
    person.send_sheet()
    person.bank.activate(PARTNER, USER)
    person.send()
    heard = len(person.bank.heard)
    page = person.compare(e002="AB" * 32)
    assert "nothing was connected" in page
    assert "E002" in page
    assert len(person.bank.heard) == heard
    # The access waits with its keys, and nothing of the bank's is trusted.
    person.begin()
    [ref] = person.waiting()
    assert "Brief an die Bank" in person.send(access=ref)
    assert "64 digits" in (person.send(), person.compare(x002="kein Hash"))[1]


@pytest.mark.either_engine
def test_a_data_sheet_that_is_wrong_is_refused_before_keys_are_made(person: Person) -> None:
    for wrong, told in (({"host": "NOBANK"}, "091011"), ({"partner": "FIRMA 1"}, "Partner ID")):
        person.begin()
        page = person.send_sheet(**wrong)
        assert told in page, page
    assert person.waiting() == []
    person.begin()
    assert "Bankparameterblatt" in person.look()


@pytest.mark.either_engine
@pytest.mark.parametrize("order", ["INI", "HIA"])
def test_an_answer_about_keys_that_was_lost_does_no_harm(person: Person, order: str) -> None:
    person.bank.breaks.append(Break("lost", order=order))
    person.begin()
    person.send_sheet()
    person.begin()
    [ref] = person.waiting()
    assert "Brief an die Bank" in person.send(access=ref)
    person.bank.activate(PARTNER, USER)
    person.send()
    assert "Das Konto ist verbunden" in person.compare()
    assert person.bank.faults == []


def test_keys_statements_orders_and_letters_are_nowhere_to_be_read(
    person: Person, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """In no row of any table, which is what a dump or a backup holds, nor in the log, nor in what is printed of them; also when the bank
    answers with nonsense."""
    made: list[keys.OwnKey] = []
    make = keys.new_key

    def new_key(*args: Any) -> keys.OwnKey:
        made.append(make(*args))
        return made[-1]

    monkeypatch.setattr(adapter, "new_key", new_key)
    person.book("-12.34", "Geheimer Zweck")
    person.begin()
    person.send_sheet()
    letter = person.letter().content
    person.bank.activate(PARTNER, USER)
    person.send()
    person.compare()
    office = Office(person)
    office.send(office.file())
    [order] = office.at_bank()
    for how in ("nonsense", "wrong_signature", "short_segment", "503"):
        person.book("-1.00", "Geheimer Zweck")
        person.bank.breaks.append(Break(how, order="C53"))
        person.refresh()
    assert len(made) == 3
    stored, dump = (person.service.db.read_now(rows_of, tables) for tables in (OF_EBICS, every_table()))
    assert person.connection()["id"].encode() in dump
    told = "".join(capfd.readouterr()).encode() + repr(made).encode()
    for key in made:
        numbers = key.private_key().private_numbers()
        for number in (numbers.p, numbers.q, numbers.d):
            raw = number.to_bytes(256, "big").lstrip(b"\0")
            for spelling in (raw, raw.hex().encode(), base64.b64encode(raw)[:-4], repr(raw)[2:-1].encode()):
                assert spelling not in dump + told
    # What it comes to is a booking like any other; the bank's own document is sealed.
    assert b"Geheimer Zweck" not in stored + told
    assert letter.startswith(b"%PDF")
    assert b"BkToCstmr" in person.bank.partners[PARTNER].deliveries[0].content
    assert b"CstmrCdtTrfInitn" in order.content
    for document in (letter[:64], b"%PDF", b"BkToCstmr", b"CstmrCdtTrfInitn"):
        for spelling in (document, document.hex().encode(), base64.b64encode(document)[:-4]):
            assert spelling not in dump + told


OF_EBICS = ("ebics_accesses", "ebics_downloads", "ebics_segments", "ebics_orders")


def every_table() -> list[str]:
    return [
        name
        for file in SCHEMA.glob("*.sql")
        if file.name.count(".") == 1
        for name in _TABLE.findall(file.read_text("utf-8"))
    ]


def rows_of(tx: Tx, tables: Iterable[str]) -> bytes:
    """All rows of these tables, as bytes and as text."""
    rows = [row for name in tables for row in tx.all(f"SELECT * FROM {name}")]
    return b"".join(
        bytes(one) if isinstance(one, bytes | memoryview) else str(one).encode() for row in rows for one in row
    )


@pytest.mark.either_engine
def test_another_organisation_sees_nothing_of_an_access(person: Person) -> None:
    person.begin()
    person.send_sheet()
    person.begin()
    [ref] = person.waiting()
    other = Person(person.service, person.service.organization("Zweite GmbH"), person.bank, person.line)
    other.begin()
    assert other.waiting() == []
    assert "Bankparameterblatt" in other.send(access=ref)
    # Of several that wait, the newest comes first.
    service, owner = person.service, person.owner.id
    [(_, access)] = service.db.read_now(store.unfinished, service.vault, owner)
    service.clock.advance(seconds=1)
    service.db.write_now(store.create, service.vault, owner, "later", access)
    person.begin()
    assert person.waiting() == ["later", ref]


@pytest.mark.either_engine
def test_version_two_is_spoken_where_the_bank_has_no_newer_one(person: Person) -> None:
    person.bank.versions = {"H004": "02.50"}
    account = person.bank.partners[PARTNER].accounts[0]
    account.book(date(2026, 3, 2), "-12.34", "Strom")
    person.bank.close_day(PARTNER)
    person.begin()
    person.send_sheet()
    person.bank.activate(PARTNER, USER)
    person.send()
    told = person.bank.letter("H004")
    assert "Das Konto ist verbunden" in person.send(x002=told["Authentication"], e002=told["Encryption"])
    assert person.bookings() == [(-12.34, "Strom", "posted")]
    assert person.bank.faults == []


@pytest.mark.either_engine
def test_new_keys_of_the_bank_are_compared_again(person: Person) -> None:
    connection = person.connect()
    person.bank.change_keys()
    assert person.refresh().status_code == 409
    assert person.connection()["status"] == "inactive"
    person.begin(f"/v2/banking/connections/{connection['id']}/reconnect")
    assert "Das Konto ist verbunden" in person.compare()
    assert person.connection()["status"] == "active"
