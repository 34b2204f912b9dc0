"""The recipes of the tenancy matrix for received invoices: what has an id there, and how it is made."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from kontobahn.access import factors
from kontobahn.access.principal import Principal
from kontobahn.clock import SECOND
from kontobahn.outbound import Rule
from tests.harness import ACTOR, Organization, Service
from tests.paid_invoices import Payer
from tests.received_invoices import OTHER_IBAN, Inbox, as_xml, from_seller, paid_to
from tests.tenancy_recipes import Recipe, of_organization

_BASE = "/v2/payables"
# No server answers there.
_MAILBOX = {"host": "imap.muster.invalid", "username": "rechnung@muster.example", "password": "geheim genug"}


def payable(service: Service, owner: Organization) -> dict[str, str]:
    return {"id": Inbox(service, owner).received()["id"]}


def _of_nobody(service: Service, owner: Organization) -> dict[str, str]:
    """One whose creditor is not known."""
    return {"id": Inbox(service, owner).received(as_xml(from_seller(vat_id="DE811569869")))["id"]}


def _books(service: Service, owner: Organization) -> dict[str, str]:
    return {"connection_id": Inbox(service, owner).books.connection_id}


def stopped(service: Service, owner: Organization) -> tuple[str, str]:
    """An invoice that a changed IBAN stops, and the session of somebody with a second factor."""
    payable = Inbox(service, owner).received(as_xml(paid_to(OTHER_IBAN)))
    user = service.user(owner, f"{owner.id}@muster.example")
    session = service.session(user.email)
    principal = Principal(owner.id, "owner", (owner.id,), user_id=user.id)
    secret, step = b"secret of an app", service.clock.now() // SECOND // factors.STEP_SECONDS
    service.db.write_now(factors.add_totp, service.vault, principal, secret, factors.totp(secret, step), "App", ACTOR)
    return payable["id"], session


def unread_file(service: Service, owner: Organization) -> dict[str, str]:
    return {"id": Inbox(service, owner).send(b"<html>Mahnung</html>").json()["file_id"]}


def _run(service: Service, owner: Organization) -> dict[str, str]:
    payer = Payer(service, owner)
    return {"id": payer.run(payer.released())["id"]}


def _run_without_file(service: Service, owner: Organization) -> dict[str, str]:
    """One whose order file was discarded."""
    payer = Payer(service, owner)
    run = payer.run(payer.released())
    discarded = service.request("DELETE", f"/v2/banking/order-files/{run['order_file_ids'][0]}", owner.key)
    assert discarded.status_code == 200, discarded.text
    return {"id": run["id"]}


def to_hand_over(service: Service, owner: Organization) -> dict[str, str]:
    """Books with an invoice that waits to be handed over."""
    inbox = Inbox(service, owner)
    payable = inbox.received()
    accounts = {"accounts": [{"konto": "4930", "amount": 33.02}]}
    assert service.request("PUT", f"{_BASE}/{payable['id']}/booking", owner.key, json=accounts).status_code == 200
    assert inbox.decide(payable, "release").status_code == 200
    return {"connection_id": inbox.books.connection_id}


def _handed_over(service: Service, owner: Organization) -> dict[str, str]:
    answer = service.post(f"{_BASE}/handovers", owner.key, json=to_hand_over(service, owner))
    return {"id": answer.json()["data"]["id"]}


def mailbox_of(service: Service, owner: Organization) -> dict[str, str]:
    assert service.request("PUT", f"{_BASE}/mailbox", owner.key, json=_MAILBOX).status_code == 200
    return of_organization(service, owner)


def at_an_address(service: Service, owner: Organization) -> dict[str, Any]:
    """An invoice that lies at an address which the service may reach."""

    class Files(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = as_xml()
            self.send_response(200)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Files)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    service.application.outbound.rule = Rule(frozenset({("127.0.0.1", server.server_port)}))
    return {"address": f"http://127.0.0.1:{server.server_port}/rechnung.xml"}


PAYABLES_RECIPES: dict[tuple[str, str], Recipe] = {
    (f"GET {_BASE}", "organization_id"): Recipe(of_organization),
    (f"GET {_BASE}/files/{{id}}", "id"): Recipe(unread_file),
    (f"GET {_BASE}/settings", "organization_id"): Recipe(of_organization),
    (f"GET {_BASE}/{{id}}", "id"): Recipe(payable),
    (f"GET {_BASE}/{{id}}/document", "id"): Recipe(payable),
    (f"GET {_BASE}/{{id}}/file", "id"): Recipe(payable),
    (f"GET {_BASE}/{{id}}/history", "id"): Recipe(payable),
    (f"POST {_BASE}/files", "connection_id"): Recipe(_books, content=as_xml()),
    (f"POST {_BASE}/files", "organization_id"): Recipe(of_organization, content=as_xml()),
    (f"POST {_BASE}/{{id}}/creditor", "id"): Recipe(_of_nobody, body={"konto": "70001"}),
    (f"POST {_BASE}/{{id}}/hold", "id"): Recipe(payable, body={}),
    (f"POST {_BASE}/{{id}}/reject", "id"): Recipe(payable, body={"reason": "nicht bestellt"}, used_up=True),
    (f"POST {_BASE}/{{id}}/release", "id"): Recipe(payable, body={}, used_up=True),
    (f"GET {_BASE}/{{id}}/booking", "id"): Recipe(payable),
    (f"PUT {_BASE}/{{id}}/booking", "id"): Recipe(
        payable, body={"accounts": [{"konto": "4930", "amount": 33.02, "steuer": "9"}]}
    ),
    (f"GET {_BASE}/handovers", "organization_id"): Recipe(of_organization),
    (f"GET {_BASE}/handovers/{{id}}/file", "id"): Recipe(_handed_over),
    (f"GET {_BASE}/mailbox", "organization_id"): Recipe(mailbox_of),
    (f"PUT {_BASE}/mailbox", "organization_id"): Recipe(of_organization, body=_MAILBOX),
    (f"POST {_BASE}/mailbox/readings", "organization_id"): Recipe(mailbox_of, body={"trial": True}),
    (f"DELETE {_BASE}/mailbox", "organization_id"): Recipe(mailbox_of, used_up=True),
    (f"GET {_BASE}/due", "organization_id"): Recipe(of_organization),
    (f"GET {_BASE}/payment-runs", "organization_id"): Recipe(of_organization),
    (f"GET {_BASE}/payment-runs/{{id}}", "id"): Recipe(_run),
    (f"POST {_BASE}/payment-runs/{{id}}/order-file", "id"): Recipe(_run_without_file, used_up=True),
    (f"PUT {_BASE}/settings", "organization_id"): Recipe(of_organization, body={}),
}
