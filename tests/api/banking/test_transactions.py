"""Transactions: which ones a list covers, in which order, and what it costs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.bank_builder import Bank, account_facts, account_id, facts
from tests.harness import Organization, Service

LIST = "/v2/banking/transactions"


@pytest.fixture
def bank(service: Service) -> Bank:
    return Bank(service)


@pytest.fixture
def owner(service: Service) -> Organization:
    return service.organization()


def ids(answer: Any) -> list[str]:
    return [item["id"] for item in answer.json()["data"]]


def test_one_of_connection_and_account_is_required(service: Service, owner: Organization) -> None:
    answer = service.get(LIST, owner.key)
    assert answer.status_code == 400
    assert "connection_id" in answer.json()["error"]
    assert "account_id" in answer.json()["error"]
    assert service.balance(owner).spent == 0


def test_a_list_has_every_field_of_the_contract(service: Service, bank: Bank, owner: Organization) -> None:
    bank.connected(owner, facts(-12_34, "EREF+ABC MREF+M1 SVWZ+Miete März", extra={"payee": "Vermieter"}))
    [item] = service.get(LIST, owner.key, params={"account_id": account_id(service, owner)}).json()["data"]
    assert item["amount"] == -12.34
    assert item["currency_code"] == "EUR"
    assert item["made_on"] == "2026-03-01"
    assert item["status"] == "posted"
    assert item["mode"] == "normal"
    assert item["category"] == "uncategorized"
    assert item["payment_id"] is None
    assert item["duplicated"] is False
    assert item["description"] == "EREF+ABC MREF+M1 SVWZ+Miete März"
    assert set(item["description_parsed"]) == {
        "cred",
        "mref",
        "kref",
        "debt",
        "svwz",
        "abwa",
        "abwe",
        "bic",
        "oamt",
        "coam",
        "purp",
    }
    assert item["description_parsed"]["mref"] == "M1"
    assert item["description_parsed"]["svwz"] == "Miete März"
    assert item["extra"]["end_to_end_id"] == "ABC"
    assert item["extra"]["payee"] == "Vermieter"
    assert set(item["extra"]) - {"bank_reference", "gvc", "primanota", "return_reason"} == {
        "time", "payee", "payer", "additional", "merchant_id", "posting_date", "end_to_end_id", "payee_information",
        "payer_information", "account_balance_snapshot", "categorization_confidence",
    }  # fmt: skip


def test_by_value_date_then_id_or_by_id(service: Service, bank: Bank, owner: Organization) -> None:
    row = bank.connected(owner, facts(1, "a", "2026-03-02"), facts(2, "b", "2026-03-01"))
    bank.report(row, facts(1, "a", "2026-03-02"), facts(2, "b", "2026-03-01"), facts(3, "late", "2026-02-01"))
    by_date = service.get(LIST, owner.key, params={"connection_id": row.id}).json()["data"]
    assert [item["description"] for item in by_date] == ["late", "b", "a"]
    by_id = service.get(LIST, owner.key, params={"connection_id": row.id, "sort": "id"}).json()["data"]
    assert [item["description"] for item in by_id] == ["a", "b", "late"]
    assert [int(item["id"]) for item in by_id] == sorted(int(item["id"]) for item in by_id)


def test_from_id_is_exclusive_and_compared_as_a_number(service: Service, bank: Bank, owner: Organization) -> None:
    row = bank.connected(owner, *(facts(number, f"Nr. {number}") for number in range(1, 13)))
    query = {"connection_id": row.id, "sort": "id", "limit": "5"}
    seen: list[str] = []
    while page := ids(service.get(LIST, owner.key, params={**query, "from_id": seen[-1] if seen else "0"})):
        seen += page
    assert len(seen) == len(set(seen)) == 12
    assert ids(service.get(LIST, owner.key, params={**query, "from_id": "9"})) == seen[:5]
    refused = service.get(LIST, owner.key, params={**query, "from_id": "abc"})
    assert refused.status_code == 400
    assert "from_id" in refused.json()["error"]


@pytest.mark.either_engine
def test_a_list_by_id_is_walked_by_its_links_whatever_it_is_of(
    service: Service, bank: Bank, owner: Organization
) -> None:
    both = [account_facts("giro"), account_facts("savings", None, name="Tagesgeld", nature="savings")]
    bookings = [facts(number, f"Nr. {number}", account_ref=both[number % 2].provider_ref) for number in range(1, 12)]
    row = bank.connected(owner, *bookings, accounts=both)

    def walked(**query: str) -> list[str]:
        query = {**query, "sort": "id", "limit": "2"}
        answer = service.get(LIST, owner.key, params=query)
        found = ids(answer)
        while "next" in answer.links and len(found) < len(bookings):
            answer = service.get(answer.links["next"]["url"], owner.key)
            found += ids(answer)
        return found

    of_account = {"account_id": account_id(service, owner)}
    for query in (of_account, {"connection_id": row.id}, {"connection_id": row.id, "from_date": "2026-01-01"}):
        assert walked(**query) == ids(service.get(LIST, owner.key, params={**query, "sort": "id"}))


@pytest.mark.either_engine
def test_days_are_inclusive_and_must_not_run_backwards(service: Service, bank: Bank, owner: Organization) -> None:
    row = bank.connected(owner, *(facts(1, day, f"2026-03-0{day}") for day in "12345"))
    query = {"connection_id": row.id, "from_date": "2026-03-02", "to_date": "2026-03-04"}
    listed = service.get(LIST, owner.key, params=query).json()["data"]
    assert [item["made_on"] for item in listed] == ["2026-03-02", "2026-03-03", "2026-03-04"]
    refused = service.get(LIST, owner.key, params={**query, "from_date": "2026-03-05"})
    assert refused.status_code == 400
    assert "from_date" in refused.json()["error"]
    assert service.get(LIST, owner.key, params={**query, "to_date": "2026-02-31"}).status_code == 400


def test_a_connection_covers_its_accounts_in_one_order(service: Service, bank: Bank, owner: Organization) -> None:
    both = [account_facts("giro"), account_facts("savings", None, name="Tagesgeld", nature="savings")]
    row = bank.connected(
        owner, facts(1, "a", "2026-03-03"), facts(2, "b", "2026-03-01", account_ref="savings"), accounts=both
    )
    bank.report(row, facts(1, "a", "2026-03-03"), facts(3, "c", "2026-03-02"),
              facts(2, "b", "2026-03-01", account_ref="savings"), accounts=both)  # fmt: skip
    first, second = account_id(service, owner), account_id(service, owner, 1)

    def texts(**query: str) -> list[str]:
        return [item["description"] for item in service.get(LIST, owner.key, params=query).json()["data"]]

    assert texts(connection_id=row.id) == ["b", "c", "a"]
    assert texts(connection_id=row.id, sort="id") == ["a", "b", "c"]
    assert texts(connection_id=row.id, sort="id", limit="2") == ["a", "b"]
    assert texts(account_id=first) == ["c", "a"]
    assert texts(connection_id=row.id, account_id=second) == ["b"]


@pytest.mark.either_engine
def test_an_account_of_another_connection_is_refused(service: Service, bank: Bank, owner: Organization) -> None:
    bank.connected(owner, ref="one")
    other = bank.connected(owner, ref="two")
    refused = service.get(LIST, owner.key, params={"connection_id": other.id, "account_id": account_id(service, owner)})
    assert refused.status_code == 400
    assert "account_id" in refused.json()["error"]
    assert service.balance(owner).spent == 0


def test_each_call_costs_one_credit(service: Service, bank: Bank, owner: Organization) -> None:
    bank.connected(owner, facts(1))
    account = account_id(service, owner)
    [item] = service.get(LIST, owner.key, params={"account_id": account}).json()["data"]
    one = service.get(f"{LIST}/{item['id']}", owner.key, params={"account_id": account})
    assert one.json() == {"data": item}
    assert one.headers["x-credits-charged"] == "1"
    assert service.get(f"{LIST}/{item['id']}", owner.key).status_code == 400
    assert service.get(f"{LIST}/999", owner.key, params={"account_id": account}).status_code == 404
    assert service.balance(owner).spent == 2


# --- The feed of changes


def test_the_feed_reports_what_an_id_cursor_cannot(service: Service, bank: Bank, owner: Organization) -> None:
    waiting = facts(-5_00, "Karte", "2026-03-01", status="pending")
    row = bank.connected(owner, waiting, facts(1, "bleibt"))
    first = _feed(service, owner, "")
    assert [(item["change"], item["transaction"]["status"]) for item in first["data"]] == [
        ("added", "pending"), ("added", "posted"),
    ]  # fmt: skip
    service.clock.advance(seconds=60)
    bank.report(row, facts(-5_00, "Karte", "2026-03-03"), facts(1, "bleibt"))
    [change] = _feed(service, owner, first["cursor"])["data"]
    assert change["change"] == "modified"
    assert change["id"] == first["data"][0]["id"]
    assert change["transaction"]["status"] == "posted"
    assert change["transaction"]["made_on"] == "2026-03-03"
    assert change["transaction"]["updated_at"] > change["transaction"]["created_at"]


def test_the_feed_reports_what_was_removed(service: Service, bank: Bank, owner: Organization) -> None:
    row = bank.connected(owner, facts(-5_00, "Reservierung", status="pending"), facts(1, "bleibt"))
    cursor = _feed(service, owner, "")["cursor"]
    bank.report(row, facts(1, "bleibt"))
    withdrawn = _feed(service, owner, cursor)
    assert [(item["change"], item["transaction"]) for item in withdrawn["data"]] == [("removed", None)]
    service.request("DELETE", f"/v2/banking/connections/{row.id}", owner.key)
    assert [item["change"] for item in _feed(service, owner, withdrawn["cursor"])["data"]] == ["removed"]
    # A reader that starts now never saw them.
    assert _feed(service, owner, "")["data"] == []


def test_the_feed_comes_in_pages(service: Service, bank: Bank, owner: Organization) -> None:
    bank.connected(owner, *(facts(number, f"Nr. {number}") for number in range(1, 8)))
    cursor, seen, has_more = "", [], True
    while has_more:
        page = _feed(service, owner, cursor, limit="3")
        seen += [item["id"] for item in page["data"]]
        cursor, has_more = page["cursor"], page["has_more"]
    assert len(seen) == len(set(seen)) == 7
    assert _feed(service, owner, cursor) == {"data": [], "cursor": cursor, "has_more": False}


def _feed(service: Service, owner: Organization, cursor: str, **more: str) -> dict[str, Any]:
    answer = service.get(f"{LIST}/changes", owner.key, params={"cursor": cursor, **more})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())
