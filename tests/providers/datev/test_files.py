"""DATEV-format files that are sent to DATEV: person accounts, bookings with their documents, and batches that are handed over."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import httpx
import pytest

from kontobahn.dashboard import todo
from kontobahn.errors import Conflict
from kontobahn.formats import extf
from kontobahn.ledger import transmissions
from kontobahn.ledger.provider import Author
from kontobahn.reconciliation import batch_store
from simulators.datev import ALL_SERVICES, BATCHES, EXPORT, Datev
from tests.api.ledger.files import file
from tests.ledger_builder import PERSONENKONTO
from tests.providers.datev.office import CLIENT, NewOffice, Office, books_of
from tests.received_invoices import FILES, as_xml
from tests.reconciliation_desk import Office as Desk
from tests.reconciliation_desk import item, paid
from tests.unit.formats.extf.files import satz

BUCHUNGEN = "/v2/ledger-rewe/buchungen"
PERSON: dict[str, Any] = {
    "personenkontoNummer": "10099", "kontaktTyp": "COMPANY", "kontenrahmen": "SKR03", "kontonummernLaenge": 4,
    "geschaeftsjahrStartDatum": "2026-01-01", "firmenname": "Bäckerei Süß GmbH",
    "bankkonten": [{"iban": "DE02120300000000202051", "istHauptkonto": True}],
}  # fmt: skip
BOOKING = {
    "umsatz": 119, "sollHabenKennzeichen": "SOLL", "konto": "10010", "gegenkonto": "8400", "belegdatum": "2026-02-15",
    "belegfeld1": "RE-7", "buchungstext": "Rechnung",
}  # fmt: skip


class Sender:
    def __init__(self, office: Office) -> None:
        self.office, self.service, self.files = office, office.service, office.datev.files

    def send(self, path: str, body: dict[str, Any], key: str = "") -> httpx.Response:
        return self.service.post(
            path, self.office.owner.key, params={"connectionId": self.office.connection_id}, json=body,
            headers={"Idempotency-Key": key} if key else {},
        )  # fmt: skip

    def time_passes(self, times: int = 1) -> None:
        for _ in range(times):
            self.service.clock.advance(seconds=1800)
            self.service.run(transmissions.carry_on(self.service.application.context))

    def payables(self, method: str, path: str, **options: Any) -> Any:
        answer = self.service.request(method, f"/v2/payables{path}", self.office.owner.key, **options)
        assert answer.status_code in (200, 201), answer.text
        return answer.json()["data"]

    def receive(self, number: str) -> dict[str, Any]:
        """An invoice arrives, and a person says whose it is and accepts its accounts."""
        headers, query = {"Content-Type": "application/octet-stream"}, {"file_name": "rechnung.xml"}
        sent = self.service.post(
            FILES, self.office.owner.key, content=as_xml(number=number), headers=headers, params=query
        )
        payable = dict(sent.json()["data"])
        self.payables("POST", f"/{payable['id']}/creditor", json={"konto": "70001"})
        accounts = [{"konto": "3300", "amount": 33.02, "steuer": ""}]
        self.payables("PUT", f"/{payable['id']}/booking", json={"accounts": accounts})
        self.time_passes()
        return payable

    @property
    def states(self) -> list[str]:
        found = self.office.get("uebermittlungen", area="/v2/ledger-duo").json()["data"]
        return [one["status"] for one in found]

    @property
    def spent(self) -> int:
        balance = self.service.balance(self.office.owner)
        assert balance.reserved == 0
        return 1_000_000 - balance.available

    def rows(self, *, of_all: bool = False) -> list[Any]:
        """The rows of the files that lie ready, or of all that were sent."""
        found: list[Any] = []
        for job in self.files.jobs.values() if of_all else self.files.ready:
            with extf.open_extf(BytesIO(job.content)) as opened:
                assert opened.header.client_id == CLIENT
                found += opened.buchungssaetze() if job.category == 21 else opened.personenkonten()
        return found


@pytest.fixture
def sender(new_office: NewOffice, datev: Datev) -> Sender:
    datev.companies[CLIENT].services = list(ALL_SERVICES)
    return Sender(new_office().sign_in())


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transmissions, "WAIT_SECONDS", 0.0)


def test_a_person_account_is_a_file_of_one_row_with_the_result_of_its_job(sender: Sender) -> None:
    books_of(sender.office.datev).captions["100100000"] = "Kundin"
    made = sender.send(PERSONENKONTO, PERSON, "k1")
    assert made.status_code == 201, made.text
    body = made.json()
    assert (body["data"]["eintraege"][0]["nummer"], body["ledgerAntwort"]["status"]) == ("100990000", "SUCCESS")
    assert "liegt bei DATEV bereit" in body["ledgerAntwort"]["meldungen"][0]["nachricht"]
    (row,) = sender.rows()
    assert (row.konto, row.firmenname, row.bankverbindungen[0].iban) == (
        "10099",
        "Bäckerei Süß GmbH",
        "DE02120300000000202051",
    )
    assert sender.send(PERSONENKONTO, PERSON, "k1").json() == body
    # Known by now, whether or not DATEV lists it yet.
    assert sender.send(PERSONENKONTO, {**PERSON, "firmenname": "Süß"}).status_code == 200
    assert sender.send(PERSONENKONTO, {**PERSON, "personenkontoNummer": "10010"}).status_code == 200
    sender.files.usual = ["failed"]
    failed = sender.send(PERSONENKONTO, PERSON)
    assert (failed.status_code, "Try again" in failed.json()["message"]) == (409, True)
    wrong = sender.send(PERSONENKONTO, {**PERSON, "kontenrahmen": "SKR04"})
    assert (wrong.status_code, wrong.json()["field"]) == (400, "kontenrahmen")
    assert (len(sender.files.ready), sender.spent) == (3, 3)


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("how", ["lost", "unheard", "500"])
@pytest.mark.either_engine
def test_a_file_whose_answer_was_lost_is_found_and_bookings_are_never_sent_twice(sender: Sender, how: str) -> None:
    sender.office.datev.breaks = [("POST /extf", how)]  # type: ignore[list-item]
    assert sender.send(PERSONENKONTO, PERSON).json()["ledgerAntwort"]["status"] == "IN_PROGRESS"
    sender.time_passes(6)
    assert (sender.states, len(sender.files.ready)) == (["SUCCESS"], 1)
    sender.office.sign_in().datev.breaks = [("POST /extf", how)]  # type: ignore[list-item]
    answer = sender.send(BUCHUNGEN, {"buchungen": [BOOKING]}, "k2")
    assert answer.json()["ledgerAntwort"]["status"] == "IN_PROGRESS"
    sender.time_passes(6)
    arrived = how == "lost"
    assert sender.states[0] == ("SUCCESS" if arrived else "UNKNOWN")
    again = sender.send(BUCHUNGEN, {"buchungen": [BOOKING]}, "k2")
    assert again.status_code == (201 if arrived else 409)
    assert (len(sender.files.ready), sender.spent) == ((2, 2) if arrived else (1, 1))


@pytest.mark.usefixtures("hurried")
@pytest.mark.either_engine
def test_an_account_that_never_arrives_is_sent_some_times_and_then_given_up(sender: Sender) -> None:
    sender.office.datev.breaks = [("POST /extf", "500")] * 50
    assert sender.send(PERSONENKONTO, PERSON).json()["ledgerAntwort"]["status"] == "IN_PROGRESS"
    for _ in range(15):
        sender.time_passes()
        sender.office.sign_in()
    assert (sender.states, sender.spent) == (["UNKNOWN"], 0)
    assert 1 < 50 - len(sender.office.datev.breaks) < 10


def test_bookings_lie_ready_as_they_were_sent(sender: Sender) -> None:
    more = {
        **BOOKING, "umsatz": 59.5, "sollHabenKennzeichen": "HABEN", "konto": "70001", "gegenkonto": "3400", "skonto": 1.19,
        "faelligkeit": "2026-03-16", "kostenstellen": {"kost1": "Laden"}, "buSchluessel": "9",
    }  # fmt: skip
    made = sender.send(BUCHUNGEN, {"buchungen": [BOOKING, more]})
    assert (made.status_code, made.json()["ledgerAntwort"]["status"]) == (201, "SUCCESS"), made.text
    first, second = sender.rows()
    assert (first.umsatz, first.soll, first.konto, first.gegenkonto, first.belegfeld1) == (
        11900,
        True,
        "10010",
        "8400",
        "RE-7",
    )
    assert (second.skonto, second.kost1, second.bu_schluessel, second.soll) == (119, "Laden", "9", False)
    assert extf.decode_weitere(second.weitere) == {"117": "16032026"}
    for wrong, field in (({"konto": "10"}, "konto"), ({"belegdatum": "2031-02-15"}, "belegdatum")):
        refused = sender.send(BUCHUNGEN, {"buchungen": [BOOKING, {**BOOKING, **wrong}]})
        assert (refused.status_code, refused.json()["field"]) == (400, f"buchungen[1].{field}")
    assert sender.spent == 1


def test_a_received_invoice_goes_with_its_document_under_one_guid(sender: Sender) -> None:
    office, datev = sender.office, sender.office.datev
    books_of(datev).captions["700010000"] = "Rösterei Hafen"
    sender.payables("PUT", "/settings", json={"book_on": "acceptance", "connection_id": office.connection_id})
    payable = sender.receive("R-7")
    (row,) = sender.rows()
    assert extf.decode_weitere(row.weitere)["20"] == f'BEDI "{payable["document_guid"]}"'
    assert list(datev.documents) == [payable["document_guid"]]
    assert datev.documents[payable["document_guid"]]["content"] == as_xml(number="R-7")
    # Somebody has put the next one there by hand: it is told, and no reason to try for ever.
    datev.documents["0193b2a0-0000-7000-8000-000000000099"] = {
        "client": CLIENT, "name": "rechnung.xml", "content": as_xml(number="R-8"),
    }  # fmt: skip
    sender.receive("R-8")
    latest = office.get("uebermittlungen", area="/v2/ledger-duo").json()["data"][0]
    assert latest["status"] == "SUCCESS"
    assert [one["typ"] for one in latest["meldungen"]] == ["WARNUNG", "INFO"]
    assert (len(sender.rows()), len(datev.documents)) == (2, 2)
    datev.breaks = [("PUT /documents", "500")] * 20
    sender.receive("R-9")
    assert (len(sender.rows()), len(datev.documents)) == (2, 2), "no booking goes before its document"


def test_invoices_are_handed_over_together_with_their_documents(sender: Sender) -> None:
    office, datev = sender.office, sender.office.datev
    books_of(datev).captions["700010000"] = "Rösterei Hafen"
    sender.payables("PUT", "/settings", json={"book_on": None, "connection_id": office.connection_id})
    together = [sender.receive(number) for number in ("R-9", "R-10")]
    for payable in together:
        for stop in sender.payables("GET", f"/{payable['id']}")["stops"]:
            sender.payables("POST", f"/{payable['id']}/confirmations", json={"stop": stop})
        sender.payables("POST", f"/{payable['id']}/release", json={})
    sender.files.usual = ["failed"]
    made = sender.payables("POST", "/handovers", json={"connection_id": office.connection_id})
    sender.time_passes()
    assert [row.belegfeld1 for row in sender.rows(of_all=True)] == ["R-9", "R-10"]
    assert {payable["document_guid"] for payable in together} == set(datev.documents)
    # It failed: whoever saves the files hands them over, and nobody sends them again.
    (sent,) = sender.office.get("uebermittlungen", area="/v2/ledger-duo").json()["data"]
    saved = sender.service.get(f"/v2/payables/handovers/{made['id']}/file", office.owner.key)
    assert saved.status_code == 200
    with pytest.raises(Conflict):
        sender.service.db.write_now(transmissions.send_again, office.ref, sent["id"], Author("req", "Dashboard"))


def desk_with_payments(sender: Sender, *amounts: int) -> Desk:
    """A desk at which these invoices of a client at DATEV were paid."""
    owed = {f"RE-2026-00{amount}": amount for amount in amounts}
    invoices = [satz(f"{amount},00;S;;;;;10010;8400;;1002;{one};;;Rechnung") for one, amount in owed.items()]
    books_of(sender.office.datev).feed(file(*invoices))
    payments = [paid(amount * 100, one) for one, amount in owed.items()]
    connection_id = sender.office.connection_id
    return Desk(
        sender.service, *payments, owner=sender.office.owner, connection_id=connection_id, booked_by="kontobahn"
    )


def hand_over(sender: Sender, desk: Desk, amount: int) -> tuple[str, str]:
    """Returns the batch of a payment, and its transmission; looking at the file on the way is no decision."""
    matched = desk.by_hand(amount, item(f"RE-2026-00{amount}", amount))
    assert matched.status_code == 201, matched.text
    made = desk.made()
    assert to_fetch(sender) == frozenset(), "it is on its way"
    assert desk.call("GET", f"batches/{made['id']}/extf").status_code == 200
    sender.time_passes()
    return made["id"], made["import_ids"][0]


def to_fetch(sender: Sender) -> frozenset[str]:
    return sender.service.db.read_now(batch_store.to_fetch, sender.office.owner.id)


def to_look_at(sender: Sender) -> list[todo.Todo]:
    found = sender.service.db.read_now(todo.find, sender.office.owner.id)
    return [one for one in found if one.kind == "transmission"]


def test_a_batch_that_failed_is_to_be_fetched_or_sent_again_and_never_both(sender: Sender) -> None:
    office, db = sender.office, sender.service.db
    desk, author = desk_with_payments(sender, 119, 238, 357), Author("req", "Dashboard")
    sender.files.usual = ["failed"]
    first, sent = hand_over(sender, desk, 119)
    assert to_fetch(sender) == {first}
    assert sender.files.ready == []
    sender.time_passes(3)
    assert sender.states == ["FAILED"], "it was sent again by itself"
    sender.files.usual = ["succeeded"]
    seen_before = db.read_now(transmissions.find, office.ref, sent)
    assert seen_before is not None
    again = db.write_now(transmissions.send_again, office.ref, sent, author)
    assert not db.write_now(transmissions._follow_by, seen_before, "file"), "two people at once"
    assert to_fetch(sender) == frozenset()
    for decide in (
        lambda: db.write_now(transmissions.send_again, office.ref, sent, author),
        lambda: db.write_now(transmissions.take_file, office.ref, sent),
    ):
        with pytest.raises(Conflict):
            decide()
    sender.time_passes()
    assert (sender.states, len(sender.files.ready)) == (["SUCCESS", "FAILED"], 1)
    with pytest.raises(Conflict):
        db.write_now(transmissions.send_again, office.ref, again.id, author)
    assert sender.files.ready[0].content == desk.call("GET", f"batches/{first}/extf").content
    # The second is fetched as a file, so that it is not sent again.
    sender.files.usual = ["failed"]
    second, sent = hand_over(sender, desk, 238)
    desk.call("GET", f"batches/{second}/extf")
    assert to_fetch(sender) == frozenset()
    with pytest.raises(Conflict):
        db.write_now(transmissions.send_again, office.ref, sent, author)
    # The third is lost on the way: nobody knows, so a person decides, once.
    office.datev.breaks = [("POST /extf", "unheard")]
    third, sent = hand_over(sender, desk, 357)
    sender.time_passes(6)
    assert sender.states[0] == "UNKNOWN"
    taken = db.write_now(transmissions.take_file, office.ref, sent)
    assert taken.content == desk.call("GET", f"batches/{third}/extf").content
    assert to_look_at(sender) == []
    assert len(sender.files.ready) == 1


@pytest.mark.either_engine
def test_a_batch_that_was_paid_for_is_sent_again_by_its_caller_alone(sender: Sender) -> None:
    sender.files.usual = ["failed"]
    assert sender.send(BUCHUNGEN, {"buchungen": [BOOKING]}, "k1").status_code == 409
    (sent,) = sender.office.get("uebermittlungen", area="/v2/ledger-duo").json()["data"]
    with pytest.raises(Conflict):
        sender.service.db.write_now(transmissions.send_again, sender.office.ref, sent["id"], Author("req", "Dashboard"))
    assert sum(one.number for one in to_look_at(sender)) == 1
    sender.files.usual = ["succeeded"]
    assert sender.send(BUCHUNGEN, {"buchungen": [BOOKING]}, "k1").status_code == 201
    assert (len(sender.files.ready), sender.spent) == (1, 1)
    assert to_look_at(sender) == []


@pytest.mark.usefixtures("hurried")
def test_a_paid_batch_that_fails_after_its_call_waits_in_the_list_of_what_to_do_until_it_was_sent_again(
    sender: Sender,
) -> None:
    sender.files.usual = ["failed"]
    sender.office.datev.breaks = [("POST /extf", "lost"), ("/extf-files/jobs/", "500")]
    assert sender.send(BUCHUNGEN, {"buchungen": [BOOKING]}, "k1").json()["ledgerAntwort"]["status"] == "IN_PROGRESS"
    assert to_look_at(sender) == []
    sender.time_passes(6)
    assert (sender.states, sender.spent) == (["FAILED"], 0)
    (waiting,) = to_look_at(sender)
    assert waiting.url.endswith(f"{sender.office.connection_id}/transmissions")
    sender.files.usual = ["succeeded"]
    assert sender.send(BUCHUNGEN, {"buchungen": [BOOKING]}, "k1").status_code == 201
    assert (sender.states, len(sender.files.ready), sender.spent) == (["SUCCESS", "FAILED"], 1, 1)
    assert to_look_at(sender) == []


def test_matches_are_handed_over_by_the_service_where_it_is_booked_and_as_a_file_elsewhere(sender: Sender) -> None:
    office = sender.office
    books_of(office.datev).feed(
        file(
            satz("119,00;S;;;;;10010;8400;;1002;RE-2026-00123;;;Rechnung"),
            satz("238,00;S;;;;;10010;8400;;1102;RE-2026-00124;;;Rechnung"),
        )
    )
    payments = paid(119_00, "Rechnung RE-2026-00123"), paid(238_00, "RE-2026-00124")
    desk = Desk(
        sender.service, *payments, owner=office.owner, connection_id=office.connection_id, booked_by="kontobahn"
    )
    trial = desk.run(connection_id=office.connection_id)
    proposed = [one["proposals"][0]["lines"][0]["beleg"] for one in trial["data"] if one["proposals"]]
    assert sorted(proposed) == ["RE-2026-00123", "RE-2026-00124"]
    assert desk.by_hand(119, item("RE-2026-00123", 119)).status_code == 201
    made = desk.made()
    sender.time_passes()
    (sent,) = sender.files.ready
    assert sent.content == desk.call("GET", f"batches/{made['id']}/extf").content
    assert (sender.states, len(made["import_ids"])) == (["SUCCESS"], 1)
    assert to_fetch(sender) == frozenset()
    office.datev.companies[CLIENT].services = [EXPORT]
    sender.service.run(office.provider.look_again(office.ref))
    assert desk.by_hand(238, item("RE-2026-00124", 238)).status_code == 201
    by_hand = desk.made()
    sender.time_passes()
    assert (by_hand["import_ids"], len(sender.files.ready)) == ([], 1)
    assert to_fetch(sender) == {by_hand["id"]}
    # What has reached DATEV is kept in mind no longer.
    assert office.rows("SELECT batch_id FROM recon_batches_to_fetch") == [(by_hand["id"],)]
    assert desk.call("GET", f"batches/{by_hand['id']}/extf").status_code == 200
    assert to_fetch(sender) == frozenset()
    refused = sender.send(BUCHUNGEN, {"buchungen": [BOOKING]})
    assert (refused.status_code, refused.json()["code"]) == (403, "ledger_export_service_missing")
    assert BATCHES in refused.json()["error"]
