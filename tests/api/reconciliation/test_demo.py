"""The demo is one world: its bank, its books, its tickets and its matching tell the same story, whatever the day."""

from __future__ import annotations

from collections import Counter
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import pytest

from kontobahn.access import keys
from kontobahn.clock import berlin_date
from kontobahn.demo import trade, world
from kontobahn.payables import store
from tests.harness import ACTOR, Service

# What both engines do alike is tried on one; building the demo is most of the time.
pytestmark = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
# An ordinary day; the first of a year; a day that most years lack; the end of a month, on a Sunday; the day after December's VAT is paid.
DAYS = ("2026-11-16", "2027-01-01", "2028-02-29", "2026-05-31", "2027-01-12")
READ = "/v2/ledger-rewe-read"


class Demo:
    def __init__(self, service: Service, today: date) -> None:
        self.service, self.today = service, today
        self.facts = world.make(service.settings, service.db, service.vault, service.clock, "a long enough password")
        self.books = {
            "connectionId": self.facts["ledger"]["connection_id"],
            "clientId": self.facts["ledger"]["client_id"],
        }
        self.account_id = self.facts["banking"]["account_id"]

    def get(self, path: str, key: str = "api_key", **query: Any) -> Any:
        answer = self.service.get(path, self.facts[key], params=query)
        assert answer.status_code == 200, answer.text
        found = answer.json()
        return found["data"] if isinstance(found, dict) else found

    def balance_in_books(self, konto: str) -> Decimal:
        start = self.facts["ledger"]["fiscal_years"][-1]
        rows = self.get(f"{READ}/susa", **self.books, geschaeftsjahrStartDatum=start, kontonummer=konto)
        saldo = rows[0]["saldo"] if rows else {"betrag": 0, "sollHabenKennzeichen": "SOLL"}
        return cents_of(saldo["betrag"]) * (1 if saldo["sollHabenKennzeichen"] == "SOLL" else -1)

    def waiting(self) -> list[dict[str, Any]]:
        asked = {"account_id": self.account_id, "limit": 500}
        found = [self.get("/v2/reconciliation/transactions", status=status, **asked) for status in ("open", "proposed")]
        return [row for rows in found for row in rows]


def cents_of(amount: Any) -> Decimal:
    return Decimal(str(amount)).quantize(Decimal("0.01"))


@pytest.fixture(params=DAYS)
def demo(service: Service, request: pytest.FixtureRequest) -> Demo:
    days = date.fromisoformat(request.param) - berlin_date(service.clock.now())
    service.clock.advance(seconds=days.total_seconds())
    return Demo(service, berlin_date(service.clock.now()))


def test_bank_books_tickets_and_matching_tell_one_story(demo: Demo) -> None:
    accounts = {account["name"]: cents_of(account["balance"]) for account in demo.get("/v2/banking/accounts")}
    waiting = demo.waiting()
    not_booked = sum(cents_of(row["amount"]) for row in waiting)
    assert demo.balance_in_books("1200") + not_booked == accounts["Geschäftskonto"] > 0
    assert demo.balance_in_books("1210") == accounts["Tagesgeld"]
    assert demo.balance_in_books("1730") == accounts["Firmenkreditkarte"]
    assert demo.balance_in_books("1360") == 0

    best = [row["best_proposal"] for row in waiting]
    clear = Counter(one["evidence_class"] for one in best if one["clear"])
    assert clear == {"A1": 1, "A2": 17, "A3": 1, "A4": 1}
    assert Counter(one["evidence_class"] for one in best if not one["clear"]) == {"B1": 2, "B2": 1, "C": 2}
    assert demo.get("/v2/reconciliation/batches", account_id=demo.account_id)

    check_open_items(demo)
    check_vat(demo)
    check_troubles(demo)
    check_inbox(demo)
    check_clients(demo)


def check_open_items(demo: Demo) -> None:
    """Customers mostly pay: few are late by more than a month, one by half a year."""
    konten = demo.get(f"{READ}/faelligkeiten", **demo.books, filter="debitors")["konten"]
    late = {
        item["beleg"]: (konto["bezeichnung"], item["tageUeberfaellig"]) for konto in konten for item in konto["posten"]
    }
    assert 25 < len(late) < 50
    very_late = [found for found in late.values() if found[1] > 60]
    assert [name for name, _ in very_late] == [trade.VERY_LATE]
    assert sum(days > 30 for _, days in late.values()) <= 3
    assert all(beleg.startswith("RE-") for beleg in late)


def check_vat(demo: Demo) -> None:
    """The tax office was paid what the books owed for the month."""
    asked = {"account_id": demo.account_id, "from_date": (demo.today - timedelta(days=118)).isoformat(), "limit": 500}
    rows = [row for row in demo.get("/v2/banking/transactions", **asked) if "Umsatzst. " in row["description"]]
    assert len(rows) in (3, 4)
    for row in rows:
        month, year = row["description"].split("Umsatzst. ")[1][:7].split("/")
        first = date(int(year), int(month), 1)
        last = (first + timedelta(days=32)).replace(day=1) - timedelta(days=1)
        months = {
            "geschaeftsjahrStartDatum": f"{year}-01-01",
            "vonDatum": first.isoformat(),
            "bisDatum": last.isoformat(),
        }
        figures = demo.get(f"{READ}/umsatzsteuer", **demo.books, **months)
        owed = cents_of(figures["summeUmsatzsteuer"]) - cents_of(figures["summeVorsteuer"])
        assert -cents_of(row["amount"]) == owed > 0


def check_troubles(demo: Demo) -> None:
    """A consent that ends soon, one event that was given up, one file that was refused."""
    ends = [connection["consent_expires_at"][:10] for connection in demo.get("/v2/banking/connections")]
    assert sorted(date.fromisoformat(day) - demo.today for day in ends) == [timedelta(days=9), timedelta(days=180)]
    [receiver] = demo.get("/v2/banking/webhook-endpoints")
    deliveries = demo.get(f"/v2/banking/webhook-endpoints/{receiver['id']}/deliveries")
    assert (receiver["status"], [event["delivery"]["state"] for event in deliveries]) == ("active", ["failed"])
    [refused] = demo.get("/v2/banking/imports")
    assert (refused["file"], refused["status"]) == (world.REFUSED_FILE, "failed")


def check_inbox(demo: Demo) -> None:
    """Eight invoices of known suppliers: two with something wrong, one with another IBAN; and a PDF that waits to be typed."""
    received = demo.get("/v2/payables")
    assert Counter(payable["status"] for payable in received) == {"to_release": 7, "needs_person": 1}
    assert all(payable["creditor"]["konto"] for payable in received)
    found = sorted(finding["rule"] for payable in received for finding in payable["findings"])
    assert found == ["BR-CO-15", "UStG-14-4-6"]
    assert [payable["stops"] for payable in received if payable["stops"]] == [["iban_changed"]]
    assert sum(bool(payable["terms"]) for payable in received) == 1
    [waiting] = demo.service.db.read_now(store.latest_unread, demo.facts["organization_id"], 10)
    assert None not in waiting.row.proposed


def check_clients(demo: Demo) -> None:
    """Six clients, each in another state."""
    service, facts = demo.service, demo.facts
    session = service.session(**facts["adviser"])
    access = service.get("/v2/auth/client-access", session).json()["data"]
    ids = {row["organization_name"]: row["organization_id"] for row in access}
    assert len(ids) == 6
    key = service.db.write_now(
        keys.create, service.vault, facts["agency_organization_id"], "all clients", ACTOR, clients=tuple(ids.values())
    )
    facts["board"] = key.secret

    def states(path: str, name: str) -> Counter[str]:
        return Counter(row["status"] for row in demo.get(path, "board", organization_id=ids[name]))

    matching = {name: states("/v2/reconciliation/transactions", name) for name in ids}
    assert matching.pop("Demo Handels GmbH")["matched"] >= 3
    assert matching == {
        "Bäckerei Morgenrot GmbH": {"matched": 2}, "Kaffeerösterei Bohnenglück GmbH": {"proposed": 1},
        "Physiopraxis Balance GbR": {}, "Schlosserei Eisenhart e. K.": {"proposed": 4}, "Zweite Muster UG": {},
    }  # fmt: skip
    assert {name: states("/v2/banking/connections", name) for name in ids} == {
        "Bäckerei Morgenrot GmbH": {"active": 1}, "Kaffeerösterei Bohnenglück GmbH": {"active": 1},
        "Schlosserei Eisenhart e. K.": {"active": 1}, "Physiopraxis Balance GbR": {"inactive": 1},
        "Demo Handels GmbH": {"active": 2}, "Zweite Muster UG": {},
    }  # fmt: skip
    assert states("/v2/banking/imports", "Kaffeerösterei Bohnenglück GmbH") == {"failed": 1}


def test_the_company_has_one_name_in_its_books_at_its_bank_and_on_its_invoices(service: Service) -> None:
    demo = Demo(service, berlin_date(service.clock.now()))
    answer = service.get("/v2/mobility/seller", demo.facts["api_key"]).json()
    accounts = [account["extra"] for account in demo.get("/v2/banking/accounts") if account["extra"].get("iban")]
    answered = service.get("/v2/ledger-duo/connections", demo.facts["api_key"]).json()["connections"]
    name = answer["seller"]["name"]
    assert {extra["holder_name"] for extra in accounts} == {name}
    assert name in [connection["bezeichnung"] for connection in answered]
    # Tickets are invoiced under numbers of their own.
    assert answer["seller"]["invoice_number_prefix"] == "JT-{year}-"
