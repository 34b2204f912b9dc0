"""Reading over a connection to DATEV: the job of the postings, what is kept of it, refusals, and the log of requests."""

from __future__ import annotations

import msgspec
import pytest

from kontobahn.clock import DAY, to_datetime
from kontobahn.datev import adapter, answers, postings, rows
from simulators.datev import Datev
from tests.api.ledger.files import file
from tests.providers.datev.office import CLIENT, NewOffice, Office, books_of
from tests.unit.formats.extf.files import satz

YEAR = {"geschaeftsjahrStartDatum": "2026-01-01"}


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for a job."""
    monkeypatch.setattr(postings, "WAIT_SECONDS", 0.0)


def jobs(office: Office) -> int:
    return len(office.datev.jobs)


@pytest.mark.usefixtures("hurried")
def test_a_question_that_takes_minutes_says_when_to_come_back_and_is_then_answered(office: Office) -> None:
    office.sign_in().datev.job_states = ["PENDING", "RUNNING", "COMPLETED"]
    for _ in range(2):
        answer = office.get("opos")
        assert answer.status_code == 503
        assert answer.headers["retry-after"].isdigit()
        assert "details" in answer.json()
        key = postings.JobKey(office.owner.id, office.connection_id, CLIENT, "2026-01-01")
        assert office.service.db.read_now(postings.kept_year, key) is None, "not a year without postings"
        office.service.clock.advance(seconds=60)
    assert office.get("opos").status_code == 200
    assert jobs(office) == 1


def test_the_same_question_within_twelve_hours_starts_no_second_job(office: Office) -> None:
    office.sign_in()
    first = office.read("opos", stichtag="2026-03-02")
    asked_at = f"{to_datetime(office.service.clock.now()):%Y-%m-%dT%H:%M:%SZ}"
    office.service.clock.advance(seconds=600)
    for what, query in (("opos", {}), ("faelligkeiten", {}), ("buchungen", YEAR)):
        assert office.get(what, **query).headers["x-data-as-of"] == asked_at
    assert "x-data-as-of" not in office.get("susa", **YEAR).headers
    books_of(office.datev).feed(file(satz("5,00;S;;;;;10010;8400;;0203;RE-7;;;spät")))
    assert office.read("opos", stichtag="2026-03-02") == first
    assert b"ER-1" not in office.read("opos", stichtag="2026-03-02", filter="debitors")
    assert office.get("buchungen", **YEAR).json()["data"][0]["buchungstext"] == "Rechnung Käse"
    assert jobs(office) == 1
    office.service.clock.advance(seconds=12 * 3600 - 600)
    office.sign_in()
    assert b"RE-7" in office.read("opos", stichtag="2026-03-02")
    assert jobs(office) == 2


@pytest.mark.usefixtures("hurried")
def test_a_job_that_datev_has_deleted_is_begun_again(office: Office) -> None:
    office.sign_in().datev.job_states = ["PENDING", "DELETED"]
    assert office.get("opos").status_code == 503
    office.datev.job_states = ["COMPLETED"]
    office.service.clock.advance(seconds=60)
    assert office.get("opos").status_code == 200
    assert jobs(office) == 2


@pytest.mark.usefixtures("hurried")
def test_a_job_that_does_not_end_is_given_up_after_twelve_hours(office: Office) -> None:
    office.sign_in().datev.job_states = ["PENDING"]
    pause = postings.pause_seconds(0)
    # The time that passes before each call; the jobs after it, and how often DATEV was asked how one of them is.
    for seconds, begun, asked in ((0, 1, 1), (pause - 1, 1, 1), (1, 1, 2), (12 * 3600 - 60 - pause, 1, 3), (60, 2, 4)):
        office.service.clock.advance(seconds=seconds)
        office.sign_in()
        assert office.get("opos").status_code == 503
        assert (jobs(office), office.asked("/state")) == (begun, asked)


@pytest.mark.usefixtures("hurried")
def test_a_job_that_failed_is_not_begun_again_at_once(office: Office) -> None:
    office.sign_in().datev.job_states = ["FAILED"]
    for _ in range(3):
        assert office.get("opos").status_code == 503
    assert jobs(office) == 1
    office.datev.job_states = ["COMPLETED"]
    office.service.clock.advance(seconds=900)
    assert office.get("opos").status_code == 200


@pytest.mark.usefixtures("hurried")
def test_a_job_is_asked_after_at_most_ten_times_an_hour(office: Office) -> None:
    office.sign_in().datev.job_states = ["PENDING"]
    asked = []
    for _ in range(4 * 60):
        before = office.asked("/state")
        assert office.get("opos").status_code in (503, 409)
        asked.append(office.asked("/state") - before)
        office.service.clock.advance(seconds=30)
    assert jobs(office) == 1
    assert max(sum(asked[start : start + 120]) for start in range(len(asked))) <= 10
    assert sum(asked) > 10


def test_pages_are_taken_one_after_the_other(office: Office) -> None:
    office.sign_in().datev.page_rows = 2
    found = office.get("buchungen", **YEAR).json()["data"]
    assert [row["id"] for row in found] == ["1", "2", "3"]
    assert office.asked("account-postings-jobs") == 2
    assert [row["id"] for row in office.get("buchungen", **YEAR, from_id="1", limit="1").json()["data"]] == ["2"]


@pytest.mark.parametrize("how", ["500", "502", "429"])
def test_a_failure_is_not_repeated_by_itself(office: Office, how: str) -> None:
    office.sign_in()
    office.datev.breaks = [("sums-and-balances", how)]  # type: ignore[list-item]
    answer = office.get("susa", **YEAR)
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == ("40" if how == "429" else "30")
    assert office.asked("sums-and-balances") == 1
    again = office.get("susa", **YEAR)
    assert again.status_code == (503 if how == "429" else 200)
    assert office.asked("sums-and-balances") == (1 if how == "429" else 2)


@pytest.mark.parametrize("is_taciturn", [True, False])
def test_a_right_that_is_missing_is_told_with_the_link_of_datev(office: Office, is_taciturn: bool) -> None:
    office.sign_in()
    office.datev.is_taciturn = is_taciturn
    office.datev.denied = {"exchange"}
    answer = office.get("susa", **YEAR)
    body = answer.json()
    assert (answer.status_code, body["code"]) == (403, "ledger_endpoint_not_authorized")
    assert body["details"]["helpUrl"].startswith("https://apps.datev.de/help-center/")
    assert ("1008829" in body["details"]["helpUrl"]) is not is_taciturn


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("question", ["20260101/account-postings", "/state"])
def test_what_datev_did_not_answer_about_a_job_is_not_asked_again_at_once(office: Office, question: str) -> None:
    office.sign_in().datev.breaks = [(question, "500")]
    for seconds, status, asked in ((0, 503, 1), (29, 503, 1), (1, 200, 2)):
        office.service.clock.advance(seconds=seconds)
        assert office.get("opos").status_code == status
        assert office.asked(question) == asked


def test_nobody_waits_for_what_takes_longer_than_a_call_may(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    # Shorter than the pause that DATEV wants; and whoever looked again would fail.
    monkeypatch.setattr(postings, "WAIT_SECONDS", postings.pause_seconds(0) - 1.0)
    monkeypatch.setattr(postings, "LOOK_SECONDS", None)
    office.sign_in().datev.job_states = ["PENDING"]
    answer = office.get("opos")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")


def test_answers_that_make_no_sense_are_no_answers(office: Office) -> None:
    office.sign_in()
    office.datev.breaks = [("/state", "nonsense")]
    assert office.get("opos").status_code == 503
    assert office.get("geschaeftsjahre").status_code == 404


@pytest.mark.either_engine
def test_books_in_another_currency_are_refused_and_said_so(office: Office) -> None:
    books_of(office.datev).currency = "CHF"
    office.sign_in()
    for what, query in (("susa", YEAR), ("opos", {}), ("buchungen", YEAR)):
        refused = office.get(what, **query)
        assert (refused.status_code, refused.json()["details"]["type"]) == (409, "currency")
        assert "not kept in euros" in refused.json()["error"]
        assert "is kept in CHF" in refused.json()["message"]
    assert jobs(office) == 0


def test_what_datev_does_not_offer_is_said_plainly(office: Office) -> None:
    office.sign_in()
    answer = office.get("umsatzsteuer", **YEAR)
    assert answer.status_code == 400
    assert "VAT figures" in answer.json()["message"]
    assert answer.json()["details"]["type"] == "not_supported"
    assert office.get("zahlungsbedingungen", geschaeftsjahrStartDatum="1999-01-01").status_code == 404
    assert office.asked("terms-of-payment") == 0, "there is no such year to ask about"
    before = office.service.balance(office.owner)
    office.get("umsatzsteuer", **YEAR)
    assert office.service.balance(office.owner) == before


@pytest.mark.parametrize("amount", ["NaN", "Infinity", 0.001, 1e15])
@pytest.mark.either_engine
def test_an_amount_that_is_none_is_not_guessed(office: Office, amount: object, monkeypatch: pytest.MonkeyPatch) -> None:
    office.sign_in()
    odd = {"accountNumber": 10000000, "balance": amount, "balanceDebitCreditIdentifier": "S"}
    monkeypatch.setattr(books_of(office.datev), "sums", lambda year: [odd])
    assert office.get("susa", **YEAR).status_code == 503


def with_rows(office: Office, monkeypatch: pytest.MonkeyPatch, *odd: dict[str, object]) -> None:
    """DATEV has these postings as well."""
    ledger = books_of(office.datev)
    told = ledger.postings
    monkeypatch.setattr(ledger, "postings", lambda year, **how: [*told(year, **how), *odd])


def row(**values: object) -> dict[str, object]:
    return {
        "accountNumber": 84000000, "contraAccountNumber": 100100000, "date": "2026-02-02", "amountCredit": 10, "documentField1": "RE-9",
        "postingDescription": "Rechnung", **values,
    }  # fmt: skip


@pytest.mark.either_engine
def test_an_amount_in_another_currency_is_never_taken_for_euros(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_rows(office, monkeypatch, row(contraAccountNumber=100200000, currencyCode="USD", exchangeRate=1.1))
    office.sign_in()
    for what in ("opos", "faelligkeiten"):
        refused = office.get(what)
        assert refused.status_code == 409
        assert refused.json()["details"]["type"] == "foreign_currency"
        assert "100200000 (USD)" in refused.json()["message"]
    # Accounts without such postings are answered, and so is the journal, which says the currency.
    assert b"RE-1" in office.read("opos", kontonummer="10010")
    assert office.get("opos", filter="creditors").status_code == 200
    told = office.get("buchungen", **YEAR).json()["data"]
    assert [one["waehrung"] for one in told] == ["EUR", "EUR", "EUR", "USD"]
    before = office.service.balance(office.owner)
    assert office.get("opos").status_code == 409
    assert office.service.balance(office.owner) == before


@pytest.mark.either_engine
def test_what_is_null_counts_as_left_out(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    with_rows(
        office,
        monkeypatch,
        row(amountDebit=None, currencyCode=None, documentField2=None, generalReversal=None, kost1CostCenterId=None),
    )
    office.sign_in()
    items = office.get("opos", kontonummer="10010").json()["data"]["konten"][0]["posten"]
    assert {"beleg": "RE-9", "belegdatum": "2026-02-02", "buchungstext": "Rechnung", "saldo": 10} in items


@pytest.mark.parametrize(
    "values",
    [{"amountCredit": 0.001}, {"amountCredit": 1e13}, {"accountNumber": 0}, {"contraAccountNumber": 10**9}, {"date": "2026-02-30"}],
)  # fmt: skip
@pytest.mark.either_engine
def test_a_posting_that_makes_no_sense_is_not_counted_with(
    office: Office, values: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    with_rows(office, monkeypatch, row(**values))
    office.sign_in()
    assert office.get("opos").status_code == 503
    assert office.rows("SELECT part FROM datev_postings") == []


def test_books_with_many_postings_are_read_in_pieces(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same answers, however small the blocks are that are packed, and what is read at once."""
    persons = [f"{100 + number}0000" for number in range(60)]
    many = [
        row(contraAccountNumber=int(f"1{person[:4]}0000"), documentField1=f"RE-{person}-{number}", amountCredit=number / 100)
        for number, person in enumerate(persons * 3, 1)
    ]  # fmt: skip
    with_rows(office, monkeypatch, *many, row(documentField1="RE-10"))
    office.sign_in()
    questions = [
        ("opos", {}),
        ("opos", {"filter": "debitors", "ebModus": "raw"}),
        ("faelligkeiten", {}),
        ("buchungen", YEAR),
    ]
    whole = [office.read(what, **query) for what, query in questions]
    office.service.db.write_now(postings.forget_all, office.ref)
    monkeypatch.setattr(rows, "BLOCK_BYTES", 1000)
    monkeypatch.setattr(answers, "BYTES_AT_ONCE", 300)
    office.datev.page_rows = 50
    assert [office.read(what, **query) for what, query in questions] == whole
    assert len(office.rows("SELECT part FROM datev_postings")) > 60
    walked: list[str] = []
    while page := office.get("buchungen", **YEAR, from_id=walked[-1] if walked else "0", limit="7").json()["data"]:
        walked += [one["id"] for one in page]
    assert walked == [str(number) for number in range(1, len(many) + 5)]


def test_a_page_of_postings_is_taken_apart_by_lines_and_never_within_an_array(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [msgspec.json.encode(row(documentField1=f"RE-{number}")) for number in range(9)]
    monkeypatch.setattr(rows, "BLOCK_BYTES", 3 * len(lines[0]))
    for content, parts in ((b"\n".join(lines), 3), (b"[" + b",\n".join(lines) + b"]", 1)):
        assert len(list(rows._blocks(content))) == parts
        assert rows.pack(content, 1)[1] == len(lines)


@pytest.mark.either_engine
def test_partners_come_in_pages_that_follow_each_other(office: Office) -> None:
    books_of(office.datev).feed(
        file(*(satz(f"1,00;S;;;;;{konto};8400;;1002;RE-{konto};;;Rechnung") for konto in range(10020, 10025)))
    )
    wanted = [f"{konto}0000" for konto in range(10020, 10025)]
    books_of(office.datev).captions.update({konto: f"Kunde {konto}" for konto in wanted})
    office.sign_in()
    books = office.service.run(office.provider.open(office.ref, CLIENT))
    walked: list[str] = []
    while page := office.service.run(books.partners("kunde", walked[-1] if walked else "", 2)):
        assert len(page) <= 2
        walked += [one.konto for one in page]
    assert walked == wanted


def test_the_probe_tells_what_can_be_read(office: Office) -> None:
    office.sign_in()
    found = office.get("permissions").json()["data"]
    reads = ("stammdaten", "konten", "buchungen", "susa", "zahlungsbedingungen")
    assert {area: found[area]["status"] for area in reads} == dict.fromkeys(reads, "ok")
    assert found["kassenbuch"]["status"] == "permission"


def test_of_forty_clients_one_is_the_default_and_each_can_be_asked_for(new_office: NewOffice, datev: Datev) -> None:
    for number in range(1, 140):
        datev.add(f"29098-{number}", f"Mandant {number}")
    office = new_office().sign_in()
    clients = office.service.run(office.provider.booked_clients(office.ref))
    assert len(clients) == 140
    assert [one.client_id for one in clients if one.is_default] == [CLIENT]
    office.service.run(office.provider.choose(office.ref, "29098-7"))
    assert office.get("opos").status_code == 404
    assert office.get("opos", clientId=CLIENT).status_code == 200
    assert office.get("opos", clientId="29098-4711").status_code == 400


def test_requests_are_kept_for_fourteen_days_without_a_secret(office: Office) -> None:
    office.sign_in()
    office.service.clock.advance(seconds=1000)
    office.datev.breaks = [("sums-and-balances", "echo")]
    echoed = office.get("susa", **YEAR)
    assert echoed.status_code == 400
    office.read("opos")
    office.sign_in()
    office.service.run(office.provider.disconnect(office.ref))
    kept = office.service.run(office.provider.sent_requests(office.ref, None, 1000))
    text = "\n".join(map(str, kept)) + echoed.text
    hidden = [*office.datev.sign_in.secrets, office.datev.sign_in.client_secret]
    assert [secret for secret in hidden if secret and secret in text] == []
    assert {one.status for one in kept} == {200, 202, 400}
    assert all(one.transaction_id and one.request_id for one in kept)
    assert any("COMPLETED" in one.body for one in kept)
    assert {one.method for one in kept} == {"GET", "POST"}
    office.service.clock.advance(seconds=13 * DAY / 1_000_000)
    office.service.db.write_now(adapter.tidy)
    assert len(office.rows("SELECT id FROM datev_requests")) == len(kept)
    office.service.clock.advance(seconds=DAY / 1_000_000 + 1)
    office.service.db.write_now(adapter.tidy)
    assert office.rows("SELECT id FROM datev_requests") == []
