"""Cash entries over a connection to DATEV: made once, whatever is lost on the way; charged when they are; and what became of each."""

from __future__ import annotations

import base64
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import msgspec
import pytest

from kontobahn.clock import HOUR, SECOND
from kontobahn.dashboard import todo
from kontobahn.ledger import kassenbuch, transmissions
from kontobahn.ledger.kassenbuch import NeuerKassenbucheintrag
from kontobahn.ledger.provider import Author, Transmission
from simulators.datev import ALL_SERVICES, Datev
from simulators.datev_jobs import DONE, FAILED, OPEN, PARTLY, RUNNING
from tests.interleaving import on_postgres, overlap
from tests.ledger_builder import KASSENBUCH, entry, line
from tests.providers.datev.office import CLIENT, NewOffice, Office

DUO = "/v2/ledger-duo"
PDF = b"%PDF-1.4 a receipt"
RECEIPT = {"dateiname": "Quittung.pdf", "content": base64.b64encode(PDF).decode()}
# The steps of an entry, as method and a part of the path.
STEPS = ("POST /dxso/v2/clients/29098-55003/dxso-jobs", "/files", "PUT /dxso", "GET /dxso", "/protocol-entries")


class Till:
    """An office with a cash book at DATEV."""

    def __init__(self, office: Office) -> None:
        self.office, self.service, self.jobs = office, office.service, office.datev.ledger_jobs

    def book(self, key: str = "", **fields: Any) -> httpx.Response:
        body = entry(line(119.0), **fields) if "belegzeilen" not in fields else fields
        return self.service.post(
            KASSENBUCH, self.office.owner.key, params={"connectionId": self.office.connection_id}, json=body,
            headers={"Idempotency-Key": key} if key else {},
        )  # fmt: skip

    def write_down(self) -> Transmission:
        """Writes an entry as a process that dies at once does."""
        books = self.service.run(self.office.provider.open(self.office.ref, None))
        checked = kassenbuch.check(msgspec.convert(entry(line(119.0)), NeuerKassenbucheintrag, strict=False))
        made = self.service.run(books.outgoing_cash_entry(checked))
        return self.service.db.write_now(transmissions.insert, made, Author("req", "API"), self.office.owner.id)

    def time_passes(self, seconds: int = 60) -> None:
        """The service goes on with what it has begun, a while later."""
        self.service.clock.advance(seconds=seconds)
        self.service.run(transmissions.carry_on(self.service.application.context))

    def until_done(self) -> None:
        for _ in range(20):
            self.time_passes(3600)

    @property
    def sent(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.office.get("uebermittlungen", area=DUO).json()["data"]
        return found

    @property
    def states(self) -> list[str]:
        return [one["status"] for one in self.sent]

    @property
    def spent(self) -> int:
        balance = self.service.balance(self.office.owner)
        assert balance.reserved == 0
        return 1_000_000 - balance.available


@pytest.fixture
def till(new_office: NewOffice, datev: Datev) -> Till:
    datev.companies[CLIENT].services = list(ALL_SERVICES)
    return Till(new_office().sign_in())


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for an outcome that is not there."""
    monkeypatch.setattr(transmissions, "WAIT_SECONDS", 0.0)


def test_an_entry_with_a_receipt_is_booked_and_its_protocol_kept(till: Till) -> None:
    till.jobs.cash_ledgers = ["Hauptkasse"]
    lines = [line(119.0, steuersatz={"prozent": 19}, kostenstelle1="Laden", belegNummer="K-1"), line(-19.5, "4930")]
    made = till.book("k1", **entry(*lines, belegbilder=[RECEIPT]))
    assert made.status_code == 201, made.text
    body = made.json()
    assert (body["betrag"], body["ledgerAntwort"]["status"]) == (99.5, "SUCCESS")
    texts = [(one["dateiname"], one["typ"], one["nachricht"]) for one in body["ledgerAntwort"]["meldungen"]]
    assert texts[0] == ("Quittung.pdf", "INFO", "Kassenbuch online: wurde empfangen!")
    booked = [(one.name, one.date, one.amount, one.account, one.images) for one in till.jobs.booked]
    assert booked == [
        ("Hauptkasse", "2026-03-02", 11900, "8400", ("Quittung.pdf",)),
        ("Hauptkasse", "2026-03-02", -1950, "4930", ("Quittung.pdf",)),
    ]
    image = till.office.get(f"belegbilder/{body['belegbilder'][0]['id']}", area=DUO)
    assert (image.content, image.headers["content-type"]) == (PDF, "application/pdf")
    assert till.book("k1", **entry(*lines, belegbilder=[RECEIPT])).json() == body
    (sent,) = till.sent
    assert (sent["id"], sent["meldungen"]) == (
        body["ledgerAntwort"]["uebermittlungId"],
        body["ledgerAntwort"]["meldungen"],
    )
    assert till.office.get(f"uebermittlungen/{sent['id']}", area=DUO).json()["data"] == sent
    assert (till.spent, body["platform"]["neuesGuthaben"]) == (1, 999_999)
    # The same receipt again, in another entry: told, and no reason to refuse the entry.
    again = till.book(belegbilder=[RECEIPT]).json()["ledgerAntwort"]
    assert again["status"] == "SUCCESS"
    assert ("Quittung.pdf", "WARNUNG") in [(one["dateiname"], one["typ"]) for one in again["meldungen"]]
    assert till.jobs.booked[-1].images == ()


@pytest.mark.usefixtures("hurried")
def test_an_entry_that_takes_minutes_is_answered_at_once_and_charged_when_it_is_done(till: Till) -> None:
    till.jobs.outcomes = [[RUNNING, RUNNING, DONE]]
    first = till.book("k1").json()
    assert first["ledgerAntwort"]["status"] == "IN_PROGRESS"
    assert till.service.balance(till.office.owner).reserved == 1
    assert till.book("k1").json()["ledgerAntwort"] == first["ledgerAntwort"]
    till.time_passes()
    assert till.states == ["IN_PROGRESS"]
    till.time_passes()
    assert till.states == ["SUCCESS"]
    assert till.book("k1").json()["ledgerAntwort"]["status"] == "SUCCESS"
    assert (len(till.jobs.booked), till.spent) == (1, 1)


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("how", ["lost", "unheard", "500", "429", "nonsense"])
@pytest.mark.either_engine
def test_whatever_is_lost_on_the_way_an_entry_is_booked_once(till: Till, how: str) -> None:
    for number, step in enumerate(STEPS):
        till.office.datev.breaks = [(step, how)]  # type: ignore[list-item]
        answer = till.book(f"k{number}")
        assert answer.status_code in (201, 503), answer.text
        if answer.status_code == 503:
            # Nothing was released, so nothing is on its way.
            assert len(till.jobs.booked) == number
            assert till.spent == number
        till.until_done()
        till.office.sign_in()
        repeated = till.book(f"k{number}")
        assert repeated.json()["ledgerAntwort"]["status"] == "SUCCESS", (step, repeated.text)
        assert (len(till.jobs.booked), till.spent) == (number + 1, number + 1), step


def test_what_becomes_of_an_entry_is_a_state_that_can_be_seen(till: Till) -> None:
    till.jobs.outcomes = [[FAILED], [PARTLY], [DONE]]
    failed = till.book("k1")
    assert (failed.status_code, failed.json()["details"]["type"]) == (409, "FAILED")
    assert "nicht verarbeitet" in failed.json()["message"]
    assert (till.jobs.booked, till.spent) == ([], 0)
    partly = till.book("k2", **entry(line(1.0), line(2.0)))
    assert (partly.status_code, partly.json()["ledgerAntwort"]["status"]) == (201, "PARTIAL_SUCCESS")
    assert "FEHLER" in [one["typ"] for one in partly.json()["ledgerAntwort"]["meldungen"]]
    assert ([one.amount for one in till.jobs.booked], till.spent) == ([100], 1)
    # Repeated, the one that took nothing is sent again; the one that took a part is not.
    assert till.book("k2", **entry(line(1.0), line(2.0))).json() == partly.json()
    assert till.book("k1").json()["ledgerAntwort"]["status"] == "SUCCESS"
    assert (till.states, till.spent) == (["SUCCESS", "PARTIAL_SUCCESS", "FAILED"], 2)
    # The caller was told of the one that failed; the other needs a person.
    waiting = till.service.db.read_now(todo.find, till.office.owner.id)
    assert [(one.kind, one.number) for one in waiting if one.kind == "transmission"] == [("transmission", 1)]
    till.service.clock.advance(seconds=15 * 86_400)
    assert "transmission" not in [one.kind for one in till.service.db.read_now(todo.find, till.office.owner.id)]


@pytest.mark.usefixtures("hurried")
def test_a_job_that_datev_has_forgotten_is_not_sent_again(till: Till) -> None:
    till.jobs.outcomes = [[RUNNING, DONE]]
    till.book("k1")
    till.jobs.jobs.clear()
    till.time_passes()
    assert till.states == ["UNKNOWN"]
    again = till.book("k1")
    assert again.status_code == 409
    assert again.json()["details"]["uebermittlungId"] == till.sent[0]["id"]
    assert (len(till.jobs.booked), till.spent) == (1, 0)


@pytest.mark.usefixtures("hurried")
def test_a_job_is_asked_after_at_most_ten_times_an_hour_and_given_up_after_two_days(till: Till) -> None:
    till.jobs.usual = [RUNNING]
    till.book()
    for _ in range(HOUR // SECOND // 10):
        till.time_passes(10)
    (job,) = till.jobs.jobs.values()
    assert 5 < len(job.asked_at) <= 10
    till.service.clock.advance(seconds=2 * 86_400)
    till.office.sign_in()
    till.time_passes()
    assert (till.states, till.spent) == (["UNKNOWN"], 0)


@pytest.mark.usefixtures("hurried")
def test_a_job_that_is_never_begun_is_released_again_and_then_withdrawn(till: Till) -> None:
    till.office.datev.breaks = [("PUT /dxso", "unheard")] * 9
    assert till.book("k1").json()["ledgerAntwort"]["status"] == "IN_PROGRESS"
    till.until_done()
    assert (till.states, till.jobs.booked, till.spent) == (["FAILED"], [], 0)
    assert not [job for job in till.jobs.jobs.values() if job.states != [OPEN]]


def test_entries_of_a_client_go_one_at_a_time_and_in_order(till: Till) -> None:
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda number: till.book(f"k{number}"), range(6)))
    assert {answer.status_code for answer in answers} == {201}
    till.until_done()
    assert till.states == ["SUCCESS"] * 6
    assert (len(till.jobs.booked), till.spent) == (6, 6)


def test_a_process_that_died_leaves_an_entry_that_another_finishes(till: Till) -> None:
    """As it is left: claimed, with a job that was begun, and nothing released."""
    context = till.service.application.context
    row = till.write_down()
    claimed = till.service.db.write_now(transmissions._claim, row)
    assert claimed is not None
    begun = till.service.run(
        till.office.provider._ledger_jobs.begin(till.office.ref, CLIENT, "cashLedgerImport", "2026-03")
    )
    till.service.db.write_now(transmissions._note, claimed, "OPEN", f'{{"job_id": "{begun.id}"}}')
    assert till.service.run(transmissions.step(context, row)) is None, "somebody holds it"
    till.time_passes()
    assert till.states == ["SUCCESS"]
    assert (len(till.jobs.booked), begun.id in till.jobs.jobs) == (1, False)
    # The one that was thought dead wakes up: it may not release anything any more.
    with pytest.raises(transmissions.LeaseLost):
        till.service.db.write_now(transmissions._note, claimed, "IN_PROGRESS", "")


@on_postgres
def test_of_two_processes_one_takes_an_entry(till: Till) -> None:
    row = till.write_down()
    outcome = overlap(
        till.service.db, lambda tx: transmissions._claim(tx, row), lambda tx: transmissions._claim(tx, row)
    )
    assert outcome.lock == "ledger_transmissions"
    assert outcome.first.attempt == 1
    assert outcome.second is None


@pytest.mark.either_engine
def test_an_entry_that_cannot_be_made_names_its_field_and_costs_nothing(till: Till) -> None:
    for fields, name in (
        ({"kassenname": "Keine"}, "kassenname"),
        ({"transaktionsdatum": "2026-03-04T10:00:00+01:00"}, "transaktionsdatum"),
        (entry(line(1.0, "840")), "belegzeilen[0].gegenkonto"),
    ):
        answer = till.book(**fields)
        assert (answer.status_code, answer.json()["field"]) == (400, name)
    till.office.datev.denied = {"dxso"}
    denied = till.book()
    assert (denied.status_code, denied.json()["code"]) == (403, "ledger_endpoint_not_authorized")
    assert denied.json()["details"]["helpUrl"].startswith("https://")
    assert (till.spent, till.jobs.booked) == (0, [])
    assert all(not job.is_released for job in till.jobs.jobs.values())


def test_disconnecting_ends_what_is_on_its_way(till: Till, hurried: None) -> None:
    till.jobs.usual = [RUNNING]
    till.book("k1")
    till.book("k2")
    assert till.states == ["OPEN", "IN_PROGRESS"]
    till.service.db.write_now(transmissions.give_up, till.office.ref)
    assert (till.states, till.spent) == (["FAILED", "UNKNOWN"], 0)
