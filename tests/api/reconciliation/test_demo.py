"""The demo's bank and books are one world: what a newcomer's first run of matching finds."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import pytest

from kontobahn.access import users
from kontobahn.app import make_context
from kontobahn.clock import berlin_date
from kontobahn.demo import trade, world
from tests.harness import Service
from tests.reconciliation_desk import lines

# What both engines do alike is tried on one; building the demo is most of the time.
pytestmark = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)


@pytest.fixture(params=["2026-11-16", "2027-01-03"])
def today(service: Service, request: pytest.FixtureRequest) -> date:
    """An ordinary day, and one on which most documents are of the year before."""
    days = date.fromisoformat(request.param) - berlin_date(service.clock.now())
    service.clock.advance(seconds=days.total_seconds())
    return berlin_date(service.clock.now())


def build(service: Service) -> dict[str, Any]:
    context = make_context(service.settings, service.db, service.vault, service.clock)
    return service.db.write_now(world.build, context, "secret", users.hash_password("secret"))


def run_of(service: Service, today: date) -> dict[str, Any]:
    """Builds the demo, says whose books the bank account's are, and tries two months."""
    facts = build(service)
    key, account = facts["api_key"], facts["banking"]["account_id"]
    settings = {"connection_id": facts["ledger"]["connection_id"], "konto": "1200"}
    answer = service.request("PUT", f"/v2/reconciliation/accounts/{account}", key, json=settings)
    assert answer.status_code == 200, answer.text
    asked = {"account_id": account, "from_date": (today - timedelta(days=60)).isoformat(), "limit": 500}
    answer = service.request("POST", "/v2/reconciliation/runs", key, json=asked)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()["data"]
    assert len(found["data"]) == found["transactions"]
    return found


def test_a_run_finds_something_of_every_class_and_nothing_wrong(service: Service, today: date) -> None:
    found = run_of(service, today)
    best = [(row, row["proposals"][0]) for row in found["data"] if row["proposals"]]
    clear = {
        row["amount"]: (proposal["evidence_class"], [(line["beleg"], line["amount"]) for line in proposal["lines"]])
        for row, proposal in best
        if proposal["evidence_class"] != "C"
    }
    # The year is that of the documents, also in January.
    assert clear == {
        -148.75: ("A1", [("20417", -148.75)]),
        1284.65: ("A2", [("RE-2026-0701", 1284.65)]),
        2356.20: ("A2", [("RE-2026-0702", 2356.20)]),
        -172.55: ("A2", [("TN-2026-88421", -172.55)]),
        932.96: ("A3", [("RE-2026-0703", 952.00), ("RE-2026-0703", -19.04)]),
        1489.88: ("A4", [("RE-2026-0704", 418.88), ("RE-2026-0705", 1071.00)]),
        693.75: ("B1", [("RE-2026-0706", 693.75)]),
        327.37: ("B2", [("RE-2026-0707", 327.37)]),
    }
    # What remains is for a person: regular costs that a rule fits, and two suppliers by their name only.
    by_rule = [(row["amount"], lines(proposal)) for row, proposal in best if lines(proposal)[0][0] == "ledger_account"]
    assert {(kinds[0][1], amount) for amount, kinds in by_rule} == {
        ("49700000", -12.90), ("17400000", -1980.0), ("17400000", -2121.0), ("17400000", -2262.0), ("42100000", -2380.0),
    }  # fmt: skip
    partners = {*trade.DEBTORS, *trade.CREDITORS}
    by_name = {row["name"] for row, proposal in best if proposal["evidence_class"] == "C"} & partners
    assert by_name == {"Telekomnetz AG", "Stadtwerke Musterstadt"}
    # All else that partners paid or were paid is booked already, and recognised.
    others = [row for row in found["data"] if row["name"] in partners and not row["proposals"]]
    assert found["booked"] == len(others) > 40


def test_the_company_has_one_name_in_its_books_at_its_bank_and_on_its_invoices(service: Service) -> None:
    facts = build(service)
    (name,) = service.db.read_now(
        lambda tx: tx.one("SELECT name FROM organizations WHERE id = ?", facts["organization_id"])
    ) or ("",)

    def read(path: str) -> Any:
        return service.get(path, facts["api_key"]).json()

    seller = read("/v2/mobility/seller")["seller"]
    accounts = [account["extra"] for account in read("/v2/banking/accounts")["data"] if account["extra"].get("iban")]
    books = [connection["bezeichnung"] for connection in read("/v2/ledger-duo/connections")["connections"]]
    assert (seller["name"], {extra["holder_name"] for extra in accounts}) == (name, {name})
    assert name in books
