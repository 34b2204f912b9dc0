"""Every list that comes in pages can be walked by its `Link` headers alone: nothing twice, nothing left out, nothing asked in vain."""

from __future__ import annotations

from typing import Any

import httpx
import msgspec
import pytest

from kontobahn.access.principal import Principal
from kontobahn.api.declare import Endpoint
from kontobahn.db import Tx
from kontobahn.ids import new_id
from kontobahn.ledger import connections, transmissions
from kontobahn.ledger.provider import Author, Outgoing
from kontobahn.payables.handover import HANDOVERS, HandoverRow
from kontobahn.payables.run_store import RUNS, RunRow
from tests.assistants.assistant import let_in, to_prepare
from tests.bank_builder import Bank, account_id, facts, order
from tests.harness import ACTOR, Organization, Service
from tests.ledger_builder import KASSENBUCH, Books, entry, line
from tests.openapi_samples import REAL, operation
from tests.received_invoices import as_xml
from tests.reconciliation_desk import Clerk, item, paid
from tests.spec_pages import on_sqlite

PAGED = [endpoint for endpoint in REAL if endpoint.pages_by]
OF_MATCHING = [endpoint for endpoint in PAGED if endpoint.path.startswith("/v2/reconciliation/")]
ROWS, LIMIT = 5, 2
BOOKING = {
    "umsatz": 119, "sollHabenKennzeichen": "SOLL", "konto": "10010", "gegenkonto": "8400", "belegdatum": "2026-02-01",
}  # fmt: skip


def address_of_next(answer: httpx.Response) -> str | None:
    return answer.links["next"]["url"] if "link" in answer.headers else None


def _insert(tx: Tx, run: RunRow, handover: HandoverRow, outgoing: Outgoing) -> None:
    RUNS.insert(tx, run)
    HANDOVERS.insert(tx, handover)
    transmissions.insert(tx, outgoing, Author("req", "API"), run.organization_id)


def filled(service: Service, owner: Organization) -> dict[str, dict[str, str]]:
    """Makes at least ROWS of everything, and returns the parameters of each list."""
    connection = Bank(service).connected(owner, *(facts(number, f"Rechnung {number}") for number in range(1, ROWS + 1)))
    account = account_id(service, owner)
    endpoint = service.post("/v2/banking/webhook-endpoints", owner.key, json={"url": "https://93.184.216.34/"}).json()
    endpoint_id = endpoint["data"]["id"]
    books = Books(service, owner)
    let_in(service, owner)
    kept = service.db.read_now(connections.find, Principal(owner.id, "owner", (owner.id,)), books.connection_id)
    for number in range(ROWS):
        paid = service.post("/v2/banking/payments", owner.key, json=order(account, reference=f"R{number}"))
        assert paid.status_code == 201, paid.text
        assert service.post(f"/v2/banking/webhook-endpoints/{endpoint_id}/test", owner.key).status_code == 201
        booked = books.send("/v2/ledger-rewe/buchungen", {"buchungen": [{**BOOKING, "belegfeld1": f"R{number}"}]})
        assert booked.status_code == 201, booked.text
        assert books.send(KASSENBUCH, entry(line(10 + number))).status_code == 201
        waits = service.post("/v2/assistants/payments", owner.key, json=to_prepare(account, f"R{number}"))
        assert waits.status_code == 201, waits.text
        received = service.post("/v2/payables/files", owner.key, content=as_xml(number=f"R{number}"))
        assert received.status_code == 201, received.text
        run = RunRow(
            owner.id, new_id(), int(account), "SEPA", None, 0, 0, ACTOR.name, owner.id, None, None, service.clock.now()
        )
        handover = HandoverRow(owner.id, new_id(), books.connection_id, "1-1", 0, 0, ACTOR.name, service.clock.now())
        sent = Outgoing(connection=kept, client_id="1-1", kind="KASSENBUCH", title=f"R{number}", content="{}")
        service.db.write_now(_insert, run, handover, sent)
    ledger = {"connectionId": books.connection_id}
    year = {**ledger, "geschaeftsjahrStartDatum": "2026-01-01"}
    by_id = {"sort": "id"}
    return {
        "list_kassenbucheintraege": {**ledger, "kassenname": "Hauptkasse"},
        "list_buchungen": year,
        "list_konten": year,
        "list_imports": ledger,
        "list_uebermittlungen": ledger,
        # An odd spelling is understood as everywhere, and one that is already there is replaced.
        "list_transactions": {**by_id, "connectionId": connection.id, "FromId": "0"},
        "list_transaction_changes": {"account_id": account, "cursor": ""},
        "list_payments": by_id,
        "list_payables": {},
        "list_payment_runs": {},
        "list_payables_handovers": {},
        "list_prepared": {},
        "list_events": {"from_date": "2026-01-01", "event": "webhook_test"},
        "list_webhook_deliveries": {"id": endpoint_id},
    }


def test_every_list_with_a_position_says_where_its_next_page_is() -> None:
    positioned = {item.name for item in REAL if {"from_id", "from_code", "cursor"} & set(item.query.__struct_fields__)}
    assert {endpoint.name for endpoint in PAGED} == positioned


def test_every_list_is_walked_by_its_links(service: Service) -> None:
    owner = service.organization(credits_granted=10_000)
    parameters = filled(service, owner)
    of_matching = {endpoint.handler.__name__ for endpoint in OF_MATCHING}
    assert parameters.keys() | {"list_banks"} | of_matching == {endpoint.handler.__name__ for endpoint in PAGED}
    for endpoint in PAGED:
        if endpoint.handler.__name__ in parameters:
            query = dict(parameters[endpoint.handler.__name__])
            check_walk(service, owner, endpoint.path.format(id=query.pop("id", "")), query)


def test_the_lists_of_matching_are_walked_by_their_links(service: Service) -> None:
    ibans = ("DE27100777770209299700", "DE75512108001245126199", "DE12500105170648489890")
    movements = [paid(100 * number, f"Teil {number}", f"Payer {number}", ibans[number - 1]) for number in (1, 2, 3)]
    desk = Clerk(service, *movements, booked_by="kontobahn")
    desk.store_run()
    for number in (1, 2, 3):
        assert desk.by_hand(number, item("RE-2026-00124", number)).status_code == 201
        batch = desk.call("POST", "batches", json={"account_id": desk.account})
        assert batch.status_code == 201, batch.text
    for endpoint in OF_MATCHING:
        has_account = "account_id" in endpoint.query.__struct_fields__
        query = {"account_id": desk.account} if has_account else {"connection_id": desk.books.connection_id}
        check_walk(service, desk.owner, endpoint.path, query)


@on_sqlite
def test_the_list_of_banks_is_walked_by_its_links(service: Service) -> None:
    check_walk(service, service.organization(), "/v2/banking/providers", {})


WARNED = [endpoint for endpoint in PAGED if endpoint.walk_warning]


def test_every_list_with_several_orders_warns_of_a_walk_in_the_wrong_one() -> None:
    ordered = {item.name for item in PAGED if item.pages_by == "from_id" and "sort" in item.query.__struct_fields__}
    # A report of days, whose pages follow each other in either order.
    ordered.discard("GET /v2/ledger-duo/kassenbuch")
    assert {endpoint.name for endpoint in WARNED} == ordered
    for endpoint in PAGED:
        headers = operation(endpoint)["responses"]["200"]["headers"]
        assert ("Warning" in headers) == (endpoint in WARNED)


@pytest.mark.parametrize("endpoint", WARNED, ids=lambda endpoint: endpoint.path)
def test_a_walk_by_id_in_another_order_is_warned(service: Service, endpoint: Endpoint) -> None:
    owner = service.organization()
    Bank(service).connected(owner, facts(1, "neu", "2026-03-01"))
    account = {"account_id": account_id(service, owner)}
    (default,) = (item.default for item in msgspec.structs.fields(endpoint.query) if item.name == "sort")
    for spelling in ("from_id", "FromId"):
        for query in ({spelling: "0"}, {spelling: "1", "sort": default}):
            answer = service.get(endpoint.path, owner.key, params={**account, **query})
            assert answer.status_code == 200
            assert answer.headers["warning"] == f'299 - "{endpoint.walk_warning}"'
    for query in ({}, {"from_id": ""}, {"sort": default}, {"sort": "id", "from_id": "0"}):
        assert "warning" not in service.get(endpoint.path, owner.key, params={**account, **query}).headers


def check_walk(service: Service, owner: Organization, path: str, query: dict[str, str]) -> None:
    whole = service.get(path, owner.key, params=query)
    assert whole.status_code == 200, whole.text
    assert address_of_next(whole) is None, path
    rows, walked, pages = whole.json()["data"], list[Any](), 0
    address: str | None = str(httpx.URL(service.base_url + path, params={**query, "limit": str(LIMIT)}))
    while address is not None:
        assert address.startswith(service.base_url + path)
        answer = service.get(address, owner.key)
        assert answer.status_code == 200, (address, answer.text)
        walked += answer.json()["data"]
        address, pages = address_of_next(answer), pages + 1
    assert len(rows) >= LIMIT + 1, path
    assert walked == rows, path
    assert pages == -(-len(rows) // LIMIT), path


def test_a_list_by_date_has_no_link_because_an_id_does_not_continue_it(service: Service) -> None:
    owner = service.organization(credits_granted=10_000)
    filled(service, owner)
    account = account_id(service, owner)
    for path, query in (("/v2/banking/transactions", {"account_id": account}), ("/v2/banking/payments", {})):
        answer = service.get(path, owner.key, params={**query, "limit": "2"})
        assert len(answer.json()["data"]) == LIMIT
        assert address_of_next(answer) is None, path
