"""Accounts kept by files: statements in, orders out, status reports in; gaps and repeats are reported, nothing is imported twice."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import pytest

from kontobahn.formats.statements import StatementError
from tests.bank_builder import order
from tests.file_bank import FileBank, account, import_file, transactions
from tests.harness import Organization, Service
from tests.statement_builder import DAY, IBAN, OTHER_IBAN, Booking, Sheet, archive, camt, follow_up, mt940, pain002

PAYMENTS = "/v2/banking/payments"


@pytest.fixture
def owner(service: Service) -> Organization:
    return service.organization()


FIRST = Sheet(
    [
        Booking(-12_34, "Miete März", end_to_end_id="E2E-1", mandate="M-1", creditor_id="DE98ZZZ09999999999"),
        Booking(50_00),
    ]
)
SECOND = follow_up(FIRST, Booking(-1_00, "Gebühr"), Booking(-1_00, "Gebühr"))


@pytest.mark.parametrize("version", ["02", "08"])
def test_a_statement_creates_account_and_transactions(service: Service, owner: Organization, version: str) -> None:
    result = import_file(service, owner, camt(FIRST, version=version))
    assert (result.accounts, result.statements, result.added) == (1, 1, 2)
    kept = account(service, owner)
    assert (kept["extra"]["iban"], kept["balance"], kept["currency_code"]) == (IBAN, 1037.66, "EUR")
    assert kept["extra"]["transactions_count"] == {"posted": 2, "pending": 0}
    rent, income = transactions(service, owner)
    assert (rent["amount"], rent["made_on"], rent["status"]) == (-12.34, DAY.isoformat(), "posted")
    assert "Miete März" in rent["description"]
    assert rent["description_parsed"]["mref"] == "M-1"
    assert rent["description_parsed"]["cred"] == "DE98ZZZ09999999999"
    assert rent["extra"]["end_to_end_id"] == "E2E-1"
    assert (rent["extra"]["account_balance_snapshot"], income["extra"]["account_balance_snapshot"]) == (987.66, 1037.66)
    assert rent["extra"]["payee"] == "Muster GmbH"
    assert rent["extra"]["payee_information"] == OTHER_IBAN
    [connection] = service.get("/v2/banking/connections", owner.key).json()["data"]
    assert (connection["status"], connection["country_code"]) == ("active", "DE")
    assert "Commerzbank" in connection["provider_name"]


def test_mt940_is_imported_alike(service: Service, owner: Organization) -> None:
    assert import_file(service, owner, mt940(FIRST), "umsaetze.sta").added == 2
    assert account(service, owner)["balance"] == 1037.66


def test_the_same_file_twice_does_no_harm(service: Service, owner: Organization) -> None:
    import_file(service, owner, camt(FIRST, SECOND))
    before = transactions(service, owner)
    again = import_file(service, owner, camt(FIRST, SECOND))
    assert (again.statements, again.repeated, again.added, again.modified) == (0, 2, 0, 0)
    later = import_file(service, owner, camt(SECOND, follow_up(SECOND, Booking(7))))
    assert (later.statements, later.repeated, later.added) == (1, 1, 1)
    assert transactions(service, owner)[:-1] == before


def test_equal_entries_of_two_statements_are_two_bookings(service: Service, owner: Organization) -> None:
    coffee = Booking(-2_50, "Kaffee")
    one = Sheet([coffee, coffee])
    same_day = follow_up(one, coffee, days=0)
    import_file(service, owner, camt(one))
    import_file(service, owner, camt(same_day))
    assert [item["amount"] for item in transactions(service, owner)] == [-2.5] * 3


@pytest.mark.either_engine
def test_a_gap_is_refused_and_says_what_is_missing(service: Service, owner: Organization) -> None:
    import_file(service, owner, camt(FIRST))
    third = follow_up(SECOND, Booking(9_99))
    with pytest.raises(StatementError, match="missing"):
        import_file(service, owner, camt(third), "spaeter.xml")
    assert len(transactions(service, owner)) == 2
    import_file(service, owner, camt(SECOND))
    assert import_file(service, owner, camt(third)).added == 1


def test_a_gap_left_on_purpose_can_be_filled(service: Service, owner: Organization) -> None:
    third = follow_up(SECOND, Booking(9_99))
    import_file(service, owner, camt(FIRST))
    import_file(service, owner, camt(third), allow_gaps=True)
    balance = account(service, owner)["balance"]
    import_file(service, owner, camt(SECOND))
    assert len(transactions(service, owner)) == 5
    assert account(service, owner)["balance"] == balance
    wrong = SECOND._replace(id="S-X", opening=1, bookings=[Booking(1)], number=None)
    with pytest.raises(StatementError, match="a statement between the two is missing"):
        import_file(service, owner, camt(wrong))


def test_the_same_statement_in_other_words_changes_nothing_and_says_so(service: Service, owner: Organization) -> None:
    import_file(service, owner, camt(FIRST))
    before = transactions(service, owner)
    reworded = FIRST._replace(
        bookings=[FIRST.bookings[0]._replace(text="Miete Maerz", end_to_end_id=None), FIRST.bookings[1]]
    )
    result = import_file(service, owner, camt(reworded))
    assert (result.added, result.modified, result.repeated) == (0, 0, 1)
    assert "1 bookings are known in other words" in result.warnings[0].found
    assert transactions(service, owner) == before


@pytest.mark.either_engine
def test_a_file_whose_second_statement_is_wrong_is_not_imported_at_all(service: Service, owner: Organization) -> None:
    with pytest.raises(StatementError, match="do not add up"):
        import_file(service, owner, camt(FIRST, SECOND._replace(closing=1)))
    assert service.get("/v2/banking/accounts", owner.key).json() == {"data": []}
    assert service.get("/v2/banking/connections", owner.key).json() == {"data": []}


def test_intraday_entries_become_what_the_statement_says(service: Service, owner: Organization) -> None:
    """camt.052 during the day, camt.053 at its end."""
    card = Booking(-5_00, "Karte", status="PDNG")
    gone = Booking(-8_00, "Irrtum")
    import_file(service, owner, camt(Sheet([FIRST.bookings[0], card, gone], balances=""), kind="052"))
    assert [item["status"] for item in transactions(service, owner)] == ["posted", "pending", "posted"]
    before = {item["id"]: item["description"] for item in transactions(service, owner)}
    result = import_file(service, owner, camt(FIRST._replace(bookings=[*FIRST.bookings, card._replace(status="BOOK")])))
    assert (result.added, result.removed) == (1, 1)
    now = transactions(service, owner)
    assert [(item["amount"], item["status"]) for item in now] == [
        (-12.34, "posted"),
        (-5.0, "posted"),
        (50.0, "posted"),
    ]
    assert {item["id"] for item in now[:2]} <= set(before)


@pytest.mark.parametrize(("days", "stays"), [(0, True), (13, True), (14, False), (30, False)])
def test_what_no_statement_mentions_for_two_weeks_is_pending_no_more(
    service: Service, owner: Organization, days: int, stays: bool
) -> None:
    other = service.organization("Andere GmbH")
    card = Booking(-5_00, "Karte", status="PDNG")
    for who in (owner, other):
        import_file(service, who, camt(Sheet([card], balances=""), kind="052"))
    later = DAY + timedelta(days)
    result = import_file(service, owner, camt(Sheet([Booking(1, booked=later, valued=later)], day=later)))
    assert (result.added, result.removed) == (1, 0 if stays else 1)
    assert [item["status"] for item in transactions(service, owner)] == ["pending", "posted"][not stays :]
    count = account(service, owner)["extra"]["transactions_count"]
    assert count == {"posted": 1, "pending": int(stays)}
    assert len(transactions(service, other)) == 1


def test_an_advice_is_ignored_if_there_are_statements(service: Service, owner: Organization) -> None:
    import_file(service, owner, camt(FIRST))
    advice = import_file(service, owner, camt(Sheet([FIRST.bookings[1]], balances="", id="A-1"), kind="054"))
    assert (advice.added, advice.left_out) == (0, 1)


def test_archives_of_several_days(service: Service, owner: Organization) -> None:
    days = [FIRST, SECOND, follow_up(SECOND, Booking(3))]
    content = archive(**{f"{number}.xml": camt(sheet) for number, sheet in enumerate(days)})
    assert import_file(service, owner, content, "auszuege.zip").statements == 3


def test_a_transfer_to_an_own_account_is_recognised(service: Service, owner: Organization) -> None:
    import_file(service, owner, camt(Sheet([Booking(1)], iban=OTHER_IBAN)))
    import_file(service, owner, camt(Sheet([Booking(-1, iban=OTHER_IBAN)])))
    listed = service.get("/v2/banking/accounts", owner.key).json()["data"]
    own = next(item for item in listed if item["extra"]["iban"] == IBAN)
    [item] = service.get("/v2/banking/transactions", owner.key, params={"account_id": own["id"]}).json()["data"]
    assert item["mode"] == "transfer"


# --- Orders and their reports


def pay(service: Service, owner: Organization, **more: Any) -> dict[str, Any]:
    answer = service.post(PAYMENTS, owner.key, json=order(account(service, owner)["id"], **more))
    assert answer.status_code == 201, answer.text
    return dict(answer.json()["data"])


def test_an_order_is_a_file_to_upload(service: Service, owner: Organization) -> None:
    import_file(service, owner, camt(FIRST))
    payment = pay(service, owner)
    file = service.get(f"{PAYMENTS}/{payment['id']}/order", owner.key)
    assert file.status_code == 200
    assert file.headers["content-type"] == "application/xml"
    text = file.text
    assert "pain.001.001.09" in text
    assert f"<EndToEndId>{payment['end_to_end_id']}</EndToEndId>" in text
    assert "<Nm>Mueller + Soehne</Nm>" in text
    assert '<InstdAmt Ccy="EUR">12.34</InstdAmt>' in text


def test_the_booked_debit_settles_it(service: Service, owner: Organization) -> None:
    import_file(service, owner, camt(FIRST))
    payment = pay(service, owner)
    debit = Booking(-12_34, "Rechnung 4711", end_to_end_id=payment["end_to_end_id"])
    import_file(service, owner, camt(follow_up(FIRST, debit)))
    [row] = service.get(PAYMENTS, owner.key).json()["data"]
    assert row["status"] == "settled"
    assert service.balance(owner).spent == 3
    assert transactions(service, owner)[-1]["payment_id"] == payment["id"]


@pytest.mark.parametrize(
    ("code", "expected"), [("ACSP", "processing"), ("ACSC", "executed"), ("RJCT", "rejected"), ("XXXX", "initiated")]
)
@pytest.mark.either_engine
def test_a_status_report_moves_it_on(service: Service, owner: Organization, code: str, expected: str) -> None:
    import_file(service, owner, camt(FIRST))
    payment = pay(service, owner)
    assert (
        import_file(
            service, owner, pain002((payment["end_to_end_id"], code, ""), message_id=payment["end_to_end_id"])
        ).payments
        == 1
    )
    [row] = service.get(PAYMENTS, owner.key).json()["data"]
    assert (row["status"], row["raw_provider_status"]) == (expected, code)


@pytest.mark.either_engine
def test_a_report_on_another_s_payment_is_refused(service: Service, owner: Organization) -> None:
    with pytest.raises(StatementError, match="not a payment of this organisation"):
        import_file(service, owner, pain002(("FREMD", "ACSC", ""), message_id="FREMD"))


def test_another_s_payment_among_ours_is_left_out_and_named(service: Service) -> None:
    bank = FileBank(service)
    payment = bank.pay()
    name = payment["end_to_end_id"]
    content = pain002(("FREMD", "RJCT", "AC04"), (name, "ACSC", ""), message_id=name)
    result = bank.take(content, "status.xml")
    assert result.payments == 1
    [warning] = result.warnings
    assert "“FREMD”, which is not a payment of this organisation" in warning.found
    assert bank.payment(payment)["status"] == "executed"


@pytest.mark.either_engine
def test_files_cannot_be_refreshed_or_reconnected(service: Service, owner: Organization) -> None:
    import_file(service, owner, camt(FIRST))
    [row] = service.get("/v2/banking/connections", owner.key).json()["data"]
    for action in ("refresh", "reconnect"):
        refused = service.post(f"/v2/banking/connections/{row['id']}/{action}", owner.key)
        assert refused.status_code == 409
        assert "import statements" in refused.json()["error"]
    [row] = service.get("/v2/banking/connections", owner.key).json()["data"]
    assert (row["status"], row["error_class"]) == ("active", None)


def test_a_year_of_statements(service: Service, owner: Organization) -> None:
    sheet = Sheet([Booking(1)], day=date(2026, 1, 1))
    sheets = [sheet]
    for _ in range(200):
        sheets.append(follow_up(sheets[-1], Booking(-1, "a"), Booking(2, "b")))
    assert import_file(service, owner, camt(*sheets)).added == 401
    assert sheets[-1].day - sheet.day == timedelta(days=200)
    assert account(service, owner)["balance"] == sheets[-1].end / 100


def test_new_statements_emit_one_event(service: Service, owner: Organization) -> None:
    import_file(service, owner, camt(FIRST))
    import_file(service, owner, camt(FIRST))
    events = service.get("/v2/banking/events", owner.key).json()["data"]
    assert [event["event"] for event in events] == ["refresh_complete"]
    [reported] = events[0]["data"]["accounts"]
    assert (reported["iban"], reported["balance"]) == (IBAN, 1037.66)
