"""The tenancy matrix: every call that takes an id, made by its owner, a stranger, agencies and a revoked key.

Which calls take an id is read from the OpenAPI document, so a new one without a recipe here fails the test. A stranger's answer
for a real id must be byte-identical to the answer for an id that nobody has.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import httpx
import msgspec
import pytest

from kontobahn.access import keys
from kontobahn.api.openapi import build_openapi
from kontobahn.app import all_endpoints
from kontobahn.banking.connections.store import ConnectionRow
from kontobahn.ledger import transmissions
from kontobahn.ledger.connections import find_for_operator
from kontobahn.ledger.provider import Author, Outgoing
from kontobahn.settings import load
from tests.api.ledger.files import IMPORTS, INVOICE, file, imported
from tests.assistants.recipes import ASSISTANT_RECIPES
from tests.bank_builder import Bank, account_id, facts, order
from tests.file_bank import FileBank
from tests.harness import ACTOR, START, Organization, Service
from tests.ledger_builder import KASSENBUCH, Books, entry, line
from tests.mobility_builder import CUSTOMER, SELLER, Shop, png, ticket
from tests.payables_recipes import PAYABLES_RECIPES
from tests.reconciliation_recipes import RECONCILIATION_RECIPES
from tests.statement_builder import Booking, Sheet, camt
from tests.tenancy_recipes import WEBHOOK_RECIPES, Recipe, of_organization

SAME_REQUEST_ID = {"x-request-id": "tenancy"}


def _user(service: Service, owner: Organization) -> dict[str, str]:
    return {"id": service.user(owner, f"{owner.id[-12:]}@muster.example", role="member").id}


def _invitation(service: Service, owner: Organization) -> dict[str, str]:
    made = service.post("/v2/auth/invitations", owner.key, json={"email": "a@b.de"})
    return {"id": made.json()["data"]["id"]}


def _adviser(service: Service, owner: Organization) -> dict[str, str]:
    """Somebody of another organisation who has access to this one."""
    person = service.user(service.organization("Kanzlei"), f"{owner.id[-12:]}@kanzlei.example", role="member")
    service.give_access(person, owner, "read_only")
    return {"user_id": person.id, "organization_id": owner.id}


def _session(service: Service, owner: Organization) -> dict[str, str]:
    user = service.user(owner, f"{owner.id[-12:]}@muster.example", role="admin")
    token = service.session(user.email)
    _sessions[owner.key] = token
    return {"id": service.get("/v2/auth/sessions", token).json()["data"][0]["id"]}


# A session is ended by its own person, not by the organisation's key.
_sessions: dict[str, str] = {}


def _books(service: Service, owner: Organization) -> dict[str, str]:
    return Books(service, owner).query()


def _year(service: Service, owner: Organization) -> dict[str, str]:
    return Books(service, owner).query(geschaeftsjahrStartDatum="2026-01-01")


def _image(service: Service, owner: Organization) -> dict[str, str]:
    books = Books(service, owner)
    receipt = {"content": "JVBERi0xLjcK", "dateiname": "Quittung.pdf"}
    made = books.send(KASSENBUCH, entry(line(1), belegbilder=[receipt]))
    return books.query(id=made.json()["belegbilder"][0]["id"])


def _transmission(service: Service, owner: Organization) -> dict[str, str]:
    books = Books(service, owner)
    connection = service.db.read_now(find_for_operator, books.connection_id)
    outgoing = Outgoing(connection, "29098-55003", "KASSENBUCH", "Hauptkasse", "{}")
    made = service.db.write_now(transmissions.insert, outgoing, Author("req", "API"), owner.id)
    # It waits for a day on which somebody has signed in; here nobody ever does.
    return {"connectionId": books.connection_id, "id": made.id}


def _import(service: Service, owner: Organization) -> dict[str, str]:
    books = Books(service, owner)
    return books.query(id=imported(books, file(INVOICE))["id"])


def _undo_last(service: Service, owner: Organization, mine: dict[str, str]) -> None:
    last = service.get(IMPORTS, owner.key, params=mine).json()["data"][0]["id"]
    assert service.post(f"{IMPORTS}/{last}/undo", owner.key, params=mine).status_code == 201


def _cash_book(service: Service, owner: Organization) -> dict[str, str]:
    return Books(service, owner).query(kassenname="Hauptkasse")


def _cash_entry(service: Service, owner: Organization) -> dict[str, str]:
    books = Books(service, owner)
    books.send(KASSENBUCH, _CASH_ENTRY)
    return books.query(nummer="1")


def _seller(service: Service, owner: Organization) -> dict[str, str]:
    Shop(service, owner)
    return {"organization_id": owner.id}


def _logo(service: Service, owner: Organization) -> dict[str, str]:
    sent = service.request("PUT", "/v2/mobility/seller/logo", owner.key, content=png())
    assert sent.status_code == 200, sent.text
    return {"organization_id": owner.id}


def _mobility_customer(service: Service, owner: Organization) -> dict[str, str]:
    return {"id": Shop(service, owner).customer()}


def _open_ticket(service: Service, owner: Organization) -> dict[str, str]:
    return {"id": Shop(service, owner).customer(ticket())}


def _another_ticket(service: Service, owner: Organization, mine: dict[str, str]) -> None:
    Shop(service, owner).add(mine["id"], ticket(valid_from="2026-09"))


def _cancel_all(service: Service, owner: Organization, mine: dict[str, str]) -> None:
    shop = Shop(service, owner)
    for item in shop.tickets(mine["id"]):
        shop.ok(shop.post(f"/tickets/{item['id']}/cancel"))


def _mobility_ticket(service: Service, owner: Organization) -> dict[str, str]:
    shop = Shop(service, owner)
    return {"id": shop.add(shop.customer(), ticket())[0]["id"]}


def _invoices_of_customer(service: Service, owner: Organization) -> dict[str, str]:
    return {"customer_id": Shop(service, owner).customer(ticket())}


def _mobility_invoice(service: Service, owner: Organization) -> dict[str, str]:
    shop = Shop(service, owner)
    return {"id": shop.invoice(shop.customer(ticket()))["id"]}


_CASH_ENTRY = entry(line(1))
_BOOKINGS = {
    "buchungen": [
        {"umsatz": 1, "sollHabenKennzeichen": "SOLL", "konto": "1000", "gegenkonto": "8400", "belegdatum": "2026-01-15"}
    ]
}


_REVERSAL = {"kassenname": "Hauptkasse", "grund": "Irrtum"}
_PERSON = {
    "personenkontoNummer": "10010", "kontaktTyp": "COMPANY", "kontenrahmen": "SKR03", "kontonummernLaenge": 4,
    "geschaeftsjahrStartDatum": "2026-01-01", "firmenname": "Beispiel GmbH",
}  # fmt: skip


def _bank(service: Service, owner: Organization) -> tuple[Bank, ConnectionRow]:
    bank = Bank(service)
    row = bank.connected(owner, facts(1), owner_user_id=None, next_refresh_possible_at=START)
    return bank, row


def _bank_connection(service: Service, owner: Organization) -> dict[str, str]:
    return {"id": _bank(service, owner)[1].id}


def _of_bank_connection(service: Service, owner: Organization) -> dict[str, str]:
    return {"connection_id": _bank(service, owner)[1].id}


def _bank_account(service: Service, owner: Organization) -> dict[str, str]:
    _bank(service, owner)
    return {"id": account_id(service, owner)}


def _statement_import(service: Service, owner: Organization) -> dict[str, str]:
    imported = service.post("/v2/banking/statements", owner.key, content=camt(Sheet([Booking(1)])))
    return {"id": imported.json()["data"]["id"]}


def _of_bank_account(service: Service, owner: Organization) -> dict[str, str]:
    _bank(service, owner)
    return {"account_id": account_id(service, owner)}


def _transaction(service: Service, owner: Organization) -> dict[str, str]:
    account = _of_bank_account(service, owner)
    [item] = service.get("/v2/banking/transactions", owner.key, params=account).json()["data"]
    return {"id": item["id"], **account}


def _payment(service: Service, owner: Organization) -> dict[str, str]:
    account = _of_bank_account(service, owner)["account_id"]
    made = service.post("/v2/banking/payments", owner.key, json=order(account)).json()["data"]
    return {"id": made["id"]}


def _file_payment(service: Service, owner: Organization) -> dict[str, str]:
    return {"id": FileBank(service, owner).pay()["id"]}


def _order_file(service: Service, owner: Organization) -> dict[str, str]:
    body = {"payment_ids": [_file_payment(service, owner)["id"]]}
    return {"id": service.post("/v2/banking/order-files", owner.key, json=body).json()["data"]["id"]}


RECIPES: dict[tuple[str, str], Recipe] = {
    **WEBHOOK_RECIPES,
    **RECONCILIATION_RECIPES,
    **PAYABLES_RECIPES,
    **ASSISTANT_RECIPES,
    ("DELETE /v2/auth/users/{id}", "id"): Recipe(_user, agency_may=False),
    ("PUT /v2/auth/users/{id}", "id"): Recipe(_user, body={"role": "admin"}, agency_may=False),
    ("DELETE /v2/auth/invitations/{id}", "id"): Recipe(_invitation, agency_may=False),
    ("DELETE /v2/auth/sessions/{id}", "id"): Recipe(_session, agency_may=False),
    ("GET /v2/ledger-rewe-read/connections", "organization_id"): Recipe(of_organization),
    ("POST /v2/auth/users/{id}/password-link", "id"): Recipe(_user, agency_may=False),
    ("DELETE /v2/auth/client-access/{user_id}/{organization_id}", "organization_id"): Recipe(
        _adviser, agency_may=False
    ),
    ("DELETE /v2/auth/client-access/{user_id}/{organization_id}", "user_id"): Recipe(_adviser, agency_may=False),
    ("PUT /v2/auth/client-access/{user_id}/{organization_id}", "organization_id"): Recipe(
        _adviser, body={"role": "member"}, agency_may=False
    ),
    ("PUT /v2/auth/client-access/{user_id}/{organization_id}", "user_id"): Recipe(
        _adviser, body={"role": "member"}, agency_may=False
    ),
    ("GET /v2/ledger-duo/connections", "organization_id"): Recipe(of_organization),
    ("GET /v2/ledger-duo/belegbilder/{id}", "connectionId"): Recipe(_image),
    ("GET /v2/ledger-duo/belegbilder/{id}", "id"): Recipe(_image),
    ("GET /v2/ledger-duo/belegtypen", "connectionId"): Recipe(_books),
    ("GET /v2/ledger-duo/kassenbuch", "connectionId"): Recipe(_cash_book),
    ("POST /v2/ledger-duo/kassenbuch/{nummer}/storno", "connectionId"): Recipe(
        _cash_entry, body=_REVERSAL, used_up=True
    ),
    ("GET /v2/ledger-duo/kassenbuecher", "connectionId"): Recipe(_books),
    ("GET /v2/ledger-duo/rechnungsordner", "connectionId"): Recipe(_books),
    ("GET /v2/ledger-duo/uebermittlungen", "connectionId"): Recipe(_books),
    ("GET /v2/ledger-duo/uebermittlungen/{id}", "connectionId"): Recipe(_transmission),
    ("GET /v2/ledger-duo/uebermittlungen/{id}", "id"): Recipe(_transmission),
    ("GET /v2/ledger-rewe-read/buchungen", "connectionId"): Recipe(_year),
    ("GET /v2/ledger-rewe-read/faelligkeiten", "connectionId"): Recipe(_books),
    ("GET /v2/ledger-rewe-read/konten", "connectionId"): Recipe(_year),
    ("GET /v2/ledger-rewe-read/opos", "connectionId"): Recipe(_books),
    ("GET /v2/ledger-rewe-read/permissions", "connectionId"): Recipe(_books),
    ("GET /v2/ledger-rewe-read/susa", "connectionId"): Recipe(_year),
    ("GET /v2/ledger-rewe-read/umsatzsteuer", "connectionId"): Recipe(_year),
    ("GET /v2/ledger-rewe-read/bwa", "connectionId"): Recipe(_year),
    ("GET /v2/ledger-rewe-read/zahlungsbedingungen", "connectionId"): Recipe(_year),
    ("POST /v2/ledger-duo/kassenbuch-advanced", "connectionId"): Recipe(_books, body=_CASH_ENTRY),
    ("POST /v2/ledger-rewe/personenkonto", "connectionId"): Recipe(_books, body=_PERSON),
    ("GET /v2/ledger-rewe/exports", "connectionId"): Recipe(_year),
    ("GET /v2/ledger-rewe/imports", "connectionId"): Recipe(_books),
    ("GET /v2/ledger-rewe/imports/{id}", "connectionId"): Recipe(_import),
    ("GET /v2/ledger-rewe/imports/{id}", "id"): Recipe(_import),
    ("POST /v2/ledger-rewe/imports", "connectionId"): Recipe(_books, content=file(INVOICE), again=_undo_last),
    ("POST /v2/ledger-rewe/imports/{id}/undo", "connectionId"): Recipe(_import, used_up=True),
    ("POST /v2/ledger-rewe/imports/{id}/undo", "id"): Recipe(_import, used_up=True),
    ("POST /v2/ledger-rewe/buchungen", "connectionId"): Recipe(_books, body=_BOOKINGS, again=_undo_last),
    ("GET /v2/banking/connections", "organization_id"): Recipe(of_organization),
    ("POST /v2/banking/connect", "organization_id"): Recipe(of_organization, body={}),
    ("GET /v2/banking/connections/{id}", "id"): Recipe(_bank_connection),
    ("DELETE /v2/banking/connections/{id}", "id"): Recipe(_bank_connection, used_up=True),
    ("POST /v2/banking/connections/{id}/refresh", "id"): Recipe(_bank_connection, used_up=True),
    ("POST /v2/banking/connections/{id}/reconnect", "id"): Recipe(_bank_connection),
    ("GET /v2/banking/accounts", "organization_id"): Recipe(of_organization),
    ("GET /v2/banking/accounts", "connection_id"): Recipe(_of_bank_connection),
    ("GET /v2/banking/accounts/{id}", "id"): Recipe(_bank_account, unknown="777"),
    ("POST /v2/banking/statements", "organization_id"): Recipe(of_organization, content=camt(Sheet([Booking(1)]))),
    ("GET /v2/banking/imports", "organization_id"): Recipe(of_organization),
    ("GET /v2/banking/imports/{id}", "id"): Recipe(_statement_import),
    ("GET /v2/banking/transactions", "connection_id"): Recipe(_of_bank_connection),
    ("GET /v2/banking/transactions", "account_id"): Recipe(_of_bank_account, unknown="777"),
    ("GET /v2/banking/transactions/changes", "organization_id"): Recipe(of_organization),
    ("GET /v2/banking/transactions/changes", "connection_id"): Recipe(_of_bank_connection),
    ("GET /v2/banking/transactions/changes", "account_id"): Recipe(_of_bank_account, unknown="777"),
    ("GET /v2/banking/transactions/{id}", "id"): Recipe(_transaction, unknown="777"),
    ("GET /v2/banking/transactions/{id}", "account_id"): Recipe(_transaction, unknown="777"),
    ("DELETE /v2/banking/order-files/{id}", "id"): Recipe(_order_file, unknown="777"),
    ("GET /v2/banking/order-files", "organization_id"): Recipe(of_organization),
    ("GET /v2/banking/order-files", "account_id"): Recipe(_of_bank_account, unknown="777"),
    ("GET /v2/banking/order-files/{id}", "id"): Recipe(_order_file, unknown="777"),
    ("GET /v2/banking/order-files/{id}/file", "id"): Recipe(_order_file, unknown="777"),
    ("GET /v2/banking/order-files/{id}/submission", "id"): Recipe(_order_file, unknown="777"),
    # Files of accounts that are kept by files are uploaded by people.
    ("POST /v2/banking/order-files/{id}/submission", "id"): Recipe(_order_file, unknown="777", refused=409),
    ("GET /v2/banking/payments", "organization_id"): Recipe(of_organization),
    ("GET /v2/banking/payments", "connection_id"): Recipe(_of_bank_connection),
    ("GET /v2/banking/payments", "account_id"): Recipe(_of_bank_account, unknown="777"),
    ("GET /v2/banking/payments/{id}", "id"): Recipe(_payment, unknown="777"),
    ("GET /v2/banking/payments/{id}/history", "id"): Recipe(_payment, unknown="777"),
    ("GET /v2/banking/payments/{id}/order", "id"): Recipe(_file_payment, unknown="777"),
    ("GET /v2/mobility/customers", "organization_id"): Recipe(of_organization),
    ("GET /v2/mobility/customers/{id}", "id"): Recipe(_mobility_customer),
    ("GET /v2/mobility/invoices", "customer_id"): Recipe(_invoices_of_customer),
    ("GET /v2/mobility/invoices", "organization_id"): Recipe(of_organization),
    ("GET /v2/mobility/invoices/{id}", "id"): Recipe(_mobility_invoice),
    ("GET /v2/mobility/invoices/{id}/pdf", "id"): Recipe(_mobility_invoice),
    ("GET /v2/mobility/invoices/{id}/xml", "id"): Recipe(_mobility_invoice),
    ("GET /v2/mobility/seller", "organization_id"): Recipe(of_organization),
    ("POST /v2/banking/payments/{id}/cancel", "id"): Recipe(_payment, unknown="777"),
    ("POST /v2/mobility/customers", "organization_id"): Recipe(of_organization, body=CUSTOMER),
    ("POST /v2/mobility/customers/{id}/invoice", "id"): Recipe(_open_ticket, again=_another_ticket),
    ("POST /v2/mobility/customers/{id}/tickets", "id"): Recipe(
        _mobility_customer, body={"tickets": [ticket()]}, again=_cancel_all
    ),
    ("POST /v2/mobility/tickets/{id}/cancel", "id"): Recipe(_mobility_ticket),
    ("PUT /v2/mobility/customers/{id}", "id"): Recipe(_mobility_customer, body=CUSTOMER),
    ("PUT /v2/mobility/seller", "organization_id"): Recipe(_seller, body=SELLER),
    ("GET /v2/mobility/seller/logo", "organization_id"): Recipe(_logo),
    ("PUT /v2/mobility/seller/logo", "organization_id"): Recipe(of_organization, content=png()),
    ("DELETE /v2/mobility/seller/logo", "organization_id"): Recipe(_logo, used_up=True),
}
# Names that look like an id of ours and are none, and why.
EXEMPT = {
    "provider": "names one of the installation's providers, which prove themselves by a signature",
    "kind": "the kind of news that a delivery brings, at the end of its address; its signature covers the address",
    "from_id": "a place in a list that the caller has been given already",
    "nummer": "counts the entries of a cash book, which is looked for inside the caller's connection only",
    "clientId": "the adviser's and client's number at the provider, which is looked for inside the caller's connection only",
    "client_id": "the same",
}


# For a person who is signed in, or for what a test has to serve; held where they are tested.
FOR_PEOPLE = {
    ("POST /v2/payables/files/by-address", "organization_id"): "tests/api/payables/test_by_address.py",
    ("POST /v2/payables/{id}/confirmations", "id"): "tests/api/payables/test_decisions.py",
}


@cache
def id_taking_calls() -> list[tuple[str, str]]:
    """Every operation and parameter of the document whose name says that it is an id."""
    document = msgspec.json.decode(build_openapi(all_endpoints(), load({})))
    found = []
    for path, item in document["paths"].items():
        for method, operation in item.items():
            for parameter in operation.get("parameters", ()):
                name, where = parameter["name"], parameter["in"]
                if where == "path" or (where == "query" and re.search(r"(^id|_id|Id)$", name)):
                    found.append((f"{method.upper()} {path}", name))
    return sorted(found)


def test_every_call_that_takes_an_id_has_a_recipe() -> None:
    assert [call for call in id_taking_calls() if call[1] not in EXEMPT] == sorted({*RECIPES, *FOR_PEOPLE})


def test_a_client_number_is_only_ever_asked_for_beside_a_connection() -> None:
    calls = id_taking_calls()
    for client, connection in (("clientId", "connectionId"), ("client_id", "connection_id")):
        taking_clients = [name for name, parameter in calls if parameter == client]
        assert taking_clients
        assert [name for name in taking_clients if (name, connection) not in calls] == []


def test_every_list_can_be_narrowed_to_one_organisation() -> None:
    """Choice 33; but where an id says already whose list it is, where only the caller's own people are, or nobody's things."""
    for endpoint in all_endpoints():
        names = endpoint.query_decoder.names
        required = {item.encode_name for item in msgspec.structs.fields(endpoint.query) if item.required}
        of_an_id = (required | {*endpoint.one_of}) & {"connectionId", "connection_id", "account_id"}
        if endpoint.method != "GET" or endpoint.path_parameters or of_an_id:
            continue
        if not endpoint.path.startswith("/v2/auth/") and endpoint.path != "/v2/banking/providers":
            assert "organization_id" in names, endpoint.name


def ask(service: Service, call: tuple[str, str], key: str, parameters: dict[str, str]) -> httpx.Response:
    method, _, path = call[0].partition(" ")
    query = {name: value for name, value in parameters.items() if f"{{{name}}}" not in path}
    options: dict[str, Any] = {"headers": SAME_REQUEST_ID, "params": query}
    if RECIPES[call].body is not None:
        options["json"] = RECIPES[call].body | {name: query.pop(name) for name in RECIPES[call].in_body}
    if RECIPES[call].content is not None:
        options["content"] = RECIPES[call].content
    return service.request(method, path.format(**parameters), key, **options)


def comparable(answer: httpx.Response) -> tuple[int, bytes, dict[str, str]]:
    """All of an answer but the time and the count of calls."""
    passing = ("date", "ratelimit-remaining", "ratelimit-reset")
    return (
        answer.status_code,
        answer.content,
        {name: text for name, text in answer.headers.items() if name not in passing},
    )


@pytest.mark.parametrize("call", sorted(RECIPES), ids=lambda call: f"{call[0]} {call[1]}")
@pytest.mark.either_engine
def test_nobody_but_the_owner_and_its_agency_gets_at_an_id(service: Service, call: tuple[str, str]) -> None:
    recipe = RECIPES[call]
    owner, stranger = service.organization("Eigner"), service.organization("Fremder")
    inside, outside = service.agency(owner), service.agency(stranger)
    mine, theirs = recipe.make(service, owner), recipe.make(service, stranger)
    wanted, nobodys = {call[1]: mine[call[1]]}, {call[1]: recipe.unknown}

    for who, status in ((stranger, 404), (outside, 403), *(() if recipe.agency_may else ((inside, 403),))):
        # Whatever else the call takes is the caller's own.
        real, unknown = (ask(service, call, who.key, {**theirs, **value}) for value in (wanted, nobodys))
        assert real.status_code == status, real.text
        assert comparable(real) == comparable(unknown)
        assert mine[call[1]] not in real.text

    assert ask(service, call, _sessions.get(owner.key, owner.key), {**mine, **nobodys}).status_code == 404
    revoked = service.db.write_now(keys.create, service.vault, owner.id, "revoked", ACTOR, role="owner")
    service.db.write_now(keys.revoke, owner.id, revoked.key.id, ACTOR)
    assert ask(service, call, revoked.secret, mine).status_code == 401

    if recipe.agency_may and not recipe.used_up:
        allowed = ask(service, call, inside.key, mine)
        assert allowed.status_code < 300 or allowed.status_code == recipe.refused, allowed.text
        recipe.again(service, owner, mine)
    # Last, because it may use the thing up: after all these attempts it is still the owner's.
    done = ask(service, call, _sessions.get(owner.key, owner.key), mine)
    assert done.status_code < 300 or done.status_code == recipe.refused, done.text
