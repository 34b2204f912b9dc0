"""Duties of every ledger provider: the built-in books and a remote one."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec
import pytest

from kontobahn.errors import BadRequest, Conflict, NotFound
from kontobahn.ids import new_id
from kontobahn.json_text import encode
from kontobahn.ledger import kassenbuch
from kontobahn.ledger.buchungen import NeueBuchung
from kontobahn.ledger.connections import find_for_operator
from kontobahn.ledger.errors import AREAS, ProviderError
from kontobahn.ledger.kassenbuch import NeueBelegzeile, NeuerKassenbucheintrag
from kontobahn.ledger.opos import EbModus, JoinedOpos, OposSelection, Side
from kontobahn.ledger.personenkonto import Personenkonto
from kontobahn.ledger.provider import Author, ClientBooks
from kontobahn.ledger.wire import SentFile, SheetSelection, TaxedBooking, TaxLine, TaxSelection
from simulators.datev import ALL_SERVICES
from tests.api.ledger.files import INVOICE
from tests.api.ledger.files import file as stapel
from tests.harness import Organization, Service
from tests.ledger_builder import KASSENBUCH, PERSONENKONTO, Books, entry, line
from tests.providers.datev.office import Office, running_datev
from tests.providers.scripted import ScriptedProvider
from tests.unit.formats.extf.files import satz

YEAR, UNKNOWN_YEAR = date(2026, 1, 1), date(2001, 1, 1)
WHO = Author("req", "API")
PERSON: dict[str, Any] = {
    "personenkontoNummer": "10010", "kontaktTyp": "COMPANY", "kontenrahmen": "SKR03", "kontonummernLaenge": 4,
    "geschaeftsjahrStartDatum": "2026-01-01", "firmenname": "Beispiel GmbH",
}  # fmt: skip
BOOKING: dict[str, Any] = {
    "umsatz": 5, "sollHabenKennzeichen": "SOLL", "konto": "1200", "gegenkonto": "8400", "belegdatum": "2026-02-02",
}  # fmt: skip
FILE = stapel(INVOICE)
LEDGER = """
    2026-01-15 S 10010 8400 119,00 RE-1
    2026-01-16 H 70001 3400 59,50 ER-1
    2026-02-01 S 1200 10010 19,00 RE-1
"""


DATEV_ROWS = (
    satz("119,00;S;;;;;10010;8400;;1501;RE-1;;;Rechnung"),
    satz("59,50;H;;;;;70001;3400;;1601;ER-1;;;Einkauf"),
    satz("19,00;S;;;;;1200;10010;;0102;RE-1;;;Zahlung"),
)


class Adapter(NamedTuple):
    """A provider with a connection to it."""

    service: Service
    owner: Organization
    connection_id: str
    provider_name: str

    def books(self, client_id: str | None = None) -> ClientBooks:
        connection = self.service.db.read_now(find_for_operator, self.connection_id)
        opened: ClientBooks = self.service.run(
            self.service.ledger_providers[self.provider_name].open(connection, client_id)
        )
        return opened

    def ask(self, coroutine: Any) -> Any:
        return self.service.run(coroutine)


@pytest.fixture(params=["books", "scripted", "datev"])
def adapter(service: Service, request: pytest.FixtureRequest) -> Iterator[Adapter]:
    if request.param == "datev":
        with running_datev() as datev:
            datev.add("29098-55003", services=ALL_SERVICES).feed(stapel(*DATEV_ROWS))
            datev.companies["29098-55003"].ledger.captions["100100000"] = "Beispiel GmbH"
            office = Office(service, datev).sign_in()
            yield Adapter(service, office.owner, office.connection_id, request.param)
            service.run(office.provider.close())
            assert datev.faults == []
        return
    owner = service.organization()
    if request.param == "books":
        books = Books(service, owner, years=("2025-01-01", "2026-01-01"))
        books.post(LEDGER)
        connection_id = books.connection_id
    else:
        service.ledger_providers["scripted"] = ScriptedProvider()
        connection_id = service.ledger_connection(owner, provider="scripted")
    yield Adapter(service, owner, connection_id, request.param)


# Of DATEV's online services: VAT figures, bookings by call and imports are not offered; cash entries and person accounts go there on a
# way of their own, with tests of their own.
not_at_datev = pytest.mark.parametrize("adapter", ["books", "scripted"], indirect=True)


def plain(answer: Any) -> Any:
    """As it goes over the wire, with exact amounts."""
    return json.loads(encode(answer), parse_float=Decimal)


# --- At the port


def test_the_default_client_opens_without_a_number_and_by_its_own(adapter: Adapter) -> None:
    default = adapter.books()
    assert adapter.books(default.client_id).client_id == default.client_id


@pytest.mark.either_engine
def test_an_unknown_client_is_a_bad_request_that_names_the_parameter(adapter: Adapter) -> None:
    with pytest.raises(BadRequest) as refused:
        adapter.books("9999-1")
    assert refused.value.extra["field"] == "clientId"


def test_fiscal_years_follow_each_other_and_say_how_accounts_are_numbered(adapter: Adapter) -> None:
    years = adapter.ask(adapter.books().geschaeftsjahre())
    assert years == sorted(years)
    for earlier, later in pairwise(years):
        assert earlier.end < later.start
    for year in years:
        assert year.start < year.end
        assert year.kontenrahmen.startswith("SKR")
        assert 4 <= year.konto_laenge <= 8


@pytest.mark.parametrize(("name", "cursor"), [("konten", "kontonummer"), ("buchungen", "id")])
@pytest.mark.either_engine
def test_pages_follow_each_other_without_gap_or_repeat(adapter: Adapter, name: str, cursor: str) -> None:
    read = getattr(adapter.books(), name)
    everything = plain(adapter.ask(read(YEAR, None, None)))
    assert everything
    walked: list[Any] = []
    while page := plain(adapter.ask(read(YEAR, walked[-1][cursor] if walked else None, 2))):
        assert len(page) <= 2
        walked += page
    assert walked == everything
    keys = [(len(row[cursor]), row[cursor]) for row in everything]
    assert keys == sorted(set(keys))


@pytest.mark.parametrize("name", ["konten", "buchungen", "susa", "zahlungsbedingungen", "umsatzsteuer", "bwa"])
@pytest.mark.either_engine
def test_an_unknown_fiscal_year_is_not_found(adapter: Adapter, name: str) -> None:
    arguments: dict[str, tuple[int | None, ...]] = {"susa": (None,), "zahlungsbedingungen": (), "bwa": (12,)}
    with pytest.raises(NotFound):
        adapter.ask(getattr(adapter.books(), name)(UNKNOWN_YEAR, *arguments.get(name, (None, None))))


def signed(item: dict[str, Any] | None) -> Decimal:
    if item is None:
        return Decimal(0)
    return Decimal(item["betrag"] if item["sollHabenKennzeichen"] == "SOLL" else -item["betrag"])


def test_a_trial_balance_agrees_with_itself(adapter: Adapter) -> None:
    rows = plain(adapter.ask(adapter.books().susa(YEAR, None)))
    assert rows
    for row in rows:
        moved = sum((signed(item["saldo"]) for item in row["periodenwerte"]), Decimal(0))
        assert signed(row["saldo"]) == signed(row["ebWert"]) + moved
        assert moved == row["umsatzSoll"] - row["umsatzHaben"]
        assert all(1 <= item["periode"] <= 14 for item in row["periodenwerte"])
    assert sum((signed(row["saldo"]) for row in rows), Decimal(0)) == 0
    only = plain(adapter.ask(adapter.books().susa(YEAR, "100100000")))
    assert only == [row for row in rows if row["kontonummer"] == "100100000"]


def test_a_profit_and_loss_agrees_with_itself_and_has_a_value_for_each_period(adapter: Adapter) -> None:
    for periods in (1, 12, 14):
        found = plain(adapter.ask(adapter.books().bwa(YEAR, periods)))
        assert all(
            len(row["perioden"]) == periods and sum(row["perioden"]) == row["kumuliert"] for row in found["zeilen"]
        )
        assert found["ergebnis"] == sum(row["kumuliert"] for row in found["zeilen"] if not row["istSumme"])
        assert found["zeilen"][-1]["kumuliert"] == found["ergebnis"]


@not_at_datev
def test_the_sums_of_vat_figures_are_those_of_their_lines(adapter: Adapter) -> None:
    found = plain(adapter.ask(adapter.books().umsatzsteuer(YEAR, None, date(2026, 12, 31))))
    for total, name in (("summeUmsatzsteuer", "umsatzsteuer"), ("summeVorsteuer", "vorsteuer")):
        assert found[total] == sum(row[name] for row in found["zeilen"])
    assert found["bisDatum"] == "2026-12-31"


@not_at_datev
def test_the_bookings_of_a_line_of_vat_figures_add_up_to_it(adapter: Adapter) -> None:
    books, last = adapter.books(), date(2026, 12, 31)
    lines = plain(adapter.ask(books.umsatzsteuer(YEAR, None, last)))["zeilen"]
    assert lines
    for row in lines:
        asked = TaxLine(row["art"], row["prozent"], row["buSchluessel"] or "", row["kontonummer"] or "")
        walked: list[TaxedBooking] = []
        selection = TaxSelection(YEAR, YEAR, last, asked, limit=1)
        while page := adapter.ask(books.steuerbuchungen(selection)):
            walked += page
            selection = selection._replace(after=page[-1].number)
        sums = [sum((one[place] for one in walked), Decimal(0)) for place in (-3, -2, -1)]
        assert sums == [row["bemessungsgrundlage"], row["umsatzsteuer"], row["vorsteuer"]]
        assert len(walked) == row["anzahl"]
    unknown = TaxSelection(YEAR, YEAR, last, TaxLine("VORSTEUER", 3, "77", ""))
    assert adapter.ask(books.steuerbuchungen(unknown)) == []


@pytest.mark.parametrize("mode", ["reconcile", "raw"])
@pytest.mark.either_engine
def test_open_items_add_up_and_sides_are_filtered(adapter: Adapter, mode: EbModus) -> None:
    stichtag = date(2026, 12, 31)

    def ask(side: Side) -> Any:
        found = adapter.ask(adapter.books().offene_posten(OposSelection(stichtag, side, mode, None)))
        return plain(found.whole() if isinstance(found, JoinedOpos) else found)

    everything = ask("all")
    assert everything["konten"]
    assert everything["stichtag"] == "2026-12-31"
    for konto in everything["konten"]:
        assert konto["totalSaldo"] == sum(item["saldo"] for item in konto["posten"])
        assert konto["isDebitor"] == (konto["kontonummer"][0] < "7")
        assert len(konto["kontonummer"]) == 9
    sides: tuple[tuple[Side, bool, str], ...] = (
        ("debitors", True, "sumDebitoren"),
        ("creditors", False, "sumKreditoren"),
    )
    for side, is_debitor, total in sides:
        wanted = [konto for konto in everything["konten"] if konto["isDebitor"] == is_debitor]
        assert ask(side)["konten"] == wanted
        assert everything[total] == ask(side)[total] == sum(konto["totalSaldo"] for konto in wanted)


def test_every_area_belongs_to_a_service_and_can_be_probed(adapter: Adapter) -> None:
    books = adapter.books()
    active = adapter.ask(books.active_subscriptions())
    for area in AREAS:
        assert books.needed_subscription(area) in active
        assert adapter.ask(books.probe(area, YEAR)) is None


def test_folders_are_of_the_kind_asked_for(adapter: Adapter) -> None:
    for kind in ("EINGANGSRECHNUNG", "AUSGANGSRECHNUNG"):
        folders = plain(adapter.ask(adapter.books().rechnungsordner(kind)))
        assert {folder["ordnertyp"] for folder in folders} <= {kind}


@not_at_datev
def test_a_cash_entry_is_answered_as_it_was_sent(adapter: Adapter) -> None:
    lines = [NeueBelegzeile(belegtext="A", gegenkonto="1360", betrag=Decimal(amount)) for amount in ("10.05", "-0.05")]
    given = kassenbuch.check(
        NeuerKassenbucheintrag(
            waehrung="EUR", kassenname="Hauptkasse", betrag=Decimal(10), belegzeilen=lines,
            transaktionsdatum=datetime(2026, 3, 2, 9, tzinfo=UTC),
        )
    )  # fmt: skip
    effect = adapter.ask(adapter.books().create_kassenbucheintrag(given, WHO))
    answer = plain(adapter.service.db.write_now(effect))
    assert (answer["betrag"], answer["kassenname"], answer["waehrung"]) == (10, "Hauptkasse", "EUR")
    assert [item["betrag"] for item in answer["belegzeilen"]] == [Decimal("10.05"), Decimal("-0.05")]


@not_at_datev
def test_a_person_account_is_created_and_then_updated(adapter: Adapter) -> None:
    person = msgspec.convert(PERSON, Personenkonto)
    for expected in (True, False, False):
        effect = adapter.ask(adapter.books().save_personenkonto(person, WHO))
        answer, created = adapter.service.db.write_now(effect)
        assert created is expected
        assert plain(answer)["data"]["kontonummernLaenge"] == 4


@pytest.mark.either_engine
def test_an_image_that_is_not_there_is_none(adapter: Adapter) -> None:
    assert adapter.ask(adapter.books().belegbild("0193b2a0-0000-7000-8000-00000000abcd")) is None


@not_at_datev
def test_bookings_have_an_id_each_in_their_order(adapter: Adapter) -> None:
    buchung = msgspec.convert(BOOKING, NeueBuchung)
    effect = adapter.ask(adapter.books().book([buchung, buchung], WHO, another=False))
    answer = adapter.service.db.write_now(effect)
    assert len(set(answer.ids)) == 2
    assert answer.ledgerAntwort is not None


@not_at_datev
def test_a_file_is_imported_found_and_undone_once(adapter: Adapter) -> None:
    books, import_id = adapter.books(), new_id()
    # One of its rows looks like one that is there, but for its text.
    sent = SentFile(io.BytesIO(FILE), "stapel.csv", partial=False, another=True)
    work = adapter.ask(books.import_file(sent, WHO))
    made = adapter.service.db.write_now(work.commit, import_id)
    assert (made.id, made.status, made.quelle) == (import_id, "done", "stapel.csv")
    assert adapter.ask(books.find_import(import_id)) == made
    assert [item.id for item in adapter.ask(books.imports(None, 1))] == [import_id]
    undoing = adapter.service.db.write_now(adapter.ask(books.undo_import(import_id, WHO)).commit, new_id())
    assert (undoing.stornoVon, undoing.art) == (import_id, "STORNO")
    assert adapter.ask(books.find_import(import_id)).stornoDurch == undoing.id
    with pytest.raises((Conflict, ProviderError)):
        adapter.service.db.write_now(adapter.ask(books.undo_import(import_id, WHO)).commit, new_id())


@not_at_datev
@pytest.mark.either_engine
def test_an_import_that_is_not_there_is_none(adapter: Adapter) -> None:
    unknown = "0193b2a0-0000-7000-8000-00000000abcd"
    assert adapter.ask(adapter.books().find_import(unknown)) is None
    assert adapter.service.db.write_now(adapter.ask(adapter.books().undo_import(unknown, WHO)).commit, new_id()) is None


@pytest.mark.either_engine
def test_clients_are_told_with_the_default_one_first(adapter: Adapter) -> None:
    connection = adapter.service.db.read_now(find_for_operator, adapter.connection_id)
    provider = adapter.service.ledger_providers[adapter.provider_name]
    [client, *others] = adapter.ask(provider.clients([connection]))
    assert (client.connection_id, client.client_id) == (adapter.connection_id, adapter.books().client_id)
    assert client.is_default
    assert not any(other.is_default for other in others)
    assert adapter.ask(provider.clients([])) == []


@not_at_datev
@pytest.mark.either_engine
def test_partners_are_found_by_number_and_name_and_walked_in_pages(adapter: Adapter) -> None:
    books = adapter.books()
    effect = adapter.ask(books.save_personenkonto(msgspec.convert(PERSON, Personenkonto), WHO))
    adapter.service.db.write_now(effect)
    found = adapter.ask(books.partners("", "", 100))
    assert [one.konto for one in found] == sorted({one.konto for one in found})
    assert adapter.ask(books.partners("", found[0].konto, 100)) == found[1:]
    assert len(adapter.ask(books.partners("", "", 1))) == 1
    by_name = adapter.ask(books.partners("", "", 100, "name"))
    assert sorted(one.konto for one in by_name) == sorted(one.konto for one in found)
    assert [one.name.lower() for one in by_name] == sorted(one.name.lower() for one in by_name)
    assert adapter.ask(books.partners("", by_name[0].konto, 100, "name")) == by_name[1:]
    backwards = adapter.ask(books.partners("", "", 100, "name", descending=True))
    assert backwards == by_name[::-1]
    assert adapter.ask(books.partners("", backwards[0].konto, 100, "name", descending=True)) == backwards[1:]
    assert adapter.ask(books.partners("", "", 100, descending=True)) == found[::-1]
    assert "100100000" in [one.konto for one in adapter.ask(books.partners("beispiel 10010", "", 100))]
    assert adapter.ask(books.partners("beispiel nobody", "", 100)) == []
    partner = adapter.ask(books.partner("100100000"))
    assert partner in found
    assert adapter.ask(books.partner("199990000")) is None


@pytest.mark.either_engine
def test_the_sheet_of_an_account_has_its_legs_page_by_page(adapter: Adapter) -> None:
    books = adapter.books()
    asked = SheetSelection(YEAR, "100100000")
    whole = adapter.ask(books.account_sheet(asked))
    assert (whole.saldo_davor, whole.next) == (0, None)
    assert [(one.soll, one.haben, one.saldo, one.gegenkonto) for one in whole.lines] == [
        (119_00, 0, 119_00, "84000000"),
        (0, 19_00, 100_00, "12000000"),
    ]
    first = adapter.ask(books.account_sheet(asked._replace(limit=1)))
    assert first.next is not None
    second = adapter.ask(books.account_sheet(asked._replace(limit=1, after=first.next)))
    assert (second.saldo_davor, second.next) == (119_00, None)
    assert [*first.lines, *second.lines] == whole.lines
    assert adapter.ask(books.account_sheet(asked._replace(periode=2))).lines == second.lines
    assert adapter.ask(books.account_sheet(asked._replace(konto="199990000"))).lines == []


@pytest.mark.either_engine
def test_the_bookings_of_a_document_are_told(adapter: Adapter) -> None:
    books = adapter.books()
    soll, haben, found = adapter.ask(books.bookings_of_document("100100000", "RE-1", "", 100))
    assert (soll, haben, [one.betrag for one in found]) == (119_00, 19_00, [119_00, -19_00])
    assert [one.other("100100000") for one in found] == ["84000000", "12000000"]
    assert adapter.ask(books.bookings_of_document("100100000", "RE-1", "", 1)) == (119_00, 19_00, found[:1])
    after = f"{found[0].day} {found[0].id}"
    assert adapter.ask(books.bookings_of_document("100100000", "RE-1", after, 1)).bookings == found[1:]
    assert adapter.ask(books.bookings_of_document("100100000", "RE-2", "", 100)) == (0, 0, [])


# --- Over HTTP

YEAR_QUERY = {"geschaeftsjahrStartDatum": "2026-01-01"}
READS: list[tuple[str, dict[str, str], int]] = [
    ("/v2/ledger-rewe-read/opos", {}, 5),
    ("/v2/ledger-rewe-read/faelligkeiten", {}, 5),
    ("/v2/ledger-rewe-read/susa", YEAR_QUERY, 1),
    ("/v2/ledger-rewe-read/umsatzsteuer", YEAR_QUERY, 1),
    ("/v2/ledger-rewe-read/bwa", YEAR_QUERY, 1),
    ("/v2/ledger-rewe-read/konten", YEAR_QUERY, 1),
    ("/v2/ledger-rewe-read/buchungen", YEAR_QUERY, 1),
    ("/v2/ledger-rewe-read/zahlungsbedingungen", YEAR_QUERY, 1),
    ("/v2/ledger-duo/kassenbuch", {"kassenname": "Hauptkasse"}, 1),
    ("/v2/ledger-duo/kassenbuecher", {}, 1),
    ("/v2/ledger-duo/rechnungsordner", {}, 1),
    ("/v2/ledger-duo/belegtypen", {}, 0),
]


@not_at_datev
def test_every_read_is_answered_and_charged_with_every_adapter(adapter: Adapter) -> None:
    left = 100
    for path, query, price in READS:
        answer = adapter.service.get(path, adapter.owner.key, params={"connectionId": adapter.connection_id, **query})
        assert answer.status_code == 200, answer.text
        left -= price
        assert answer.json()["platform"] == {"neuesGuthaben": left}
    assert adapter.service.balance(adapter.owner).available == left


@not_at_datev
def test_every_write_is_answered_and_charged_with_every_adapter(adapter: Adapter) -> None:
    query = {"connectionId": adapter.connection_id}
    for path, body, status, left in (
        (KASSENBUCH, entry(line(10, "1360"), line(-5, "1360")), 201, 99),
        ("/v2/ledger-duo/kassenbuch/2/storno", {"kassenname": "Hauptkasse", "grund": "Irrtum"}, 201, 98),
        (PERSONENKONTO, PERSON, 201, 97),
        (PERSONENKONTO, PERSON, 200, 96),
        ("/v2/ledger-rewe/buchungen", {"buchungen": [BOOKING]}, 201, 95),
    ):
        answer = adapter.service.post(path, adapter.owner.key, params=query, json=body)
        assert answer.status_code == status, answer.text
        assert answer.headers["x-credits-charged"] == "1"
        assert answer.json()["platform"] == {"neuesGuthaben": left}


def test_the_probe_of_sound_books_is_ok_with_every_adapter(adapter: Adapter) -> None:
    answer = adapter.service.get(
        "/v2/ledger-rewe-read/permissions", adapter.owner.key, params={"connectionId": adapter.connection_id}
    )
    assert {probe["status"] for probe in answer.json()["data"].values()} == {"ok"}
