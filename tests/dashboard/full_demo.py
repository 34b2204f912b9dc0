"""Additions to the demo, so that every page has something to show: invoices, a further receiver, an account kept by files."""

from __future__ import annotations

from kontobahn.clock import SystemClock, berlin_date
from tests.assistants.assistant import to_prepare
from tests.bank_builder import order
from tests.journeys.process import ServerProcess
from tests.received_invoices import as_xml
from tests.statement_builder import IBAN, Booking, Sheet, camt
from tests.waiting import PATIENCE_SECONDS

# A receiver of events where nobody listens: the setting `webhook_allow` must name it.
NOBODY = "127.0.0.1:9"
MATCHED_IBAN = "DE12500105170648489890"
TICKET = {"product": "Deutschlandticket", "holder_reference": "P-0815", "valid_from": "2026-03",
          "price_in_cents": 5800, "vat_rate": 7}  # fmt: skip


def fill(demo: ServerProcess) -> None:
    headers = {"x-api-key": demo.key}
    # The demo leaves its first invoice to be made by whoever tries it; another ticket waits for the next one.
    customer = f"/v2/mobility/customers/{demo.facts['mobility']['customer_id']}"
    endpoint = {"url": f"http://{NOBODY}/events", "description": "Buchhaltung"}
    for path, body in (
        (f"{customer}/invoice", None),
        (f"{customer}/tickets", {"tickets": [TICKET]}),
        ("/v2/banking/webhook-endpoints", endpoint),
    ):
        made = demo.http.post(path, json=body, headers=headers, timeout=PATIENCE_SECONDS)
        assert made.status_code == 201, made.text
    received = demo.http.post("/v2/payables/files", headers=headers, content=as_xml(), timeout=PATIENCE_SECONDS)
    assert received.status_code == 201, received.text
    _keep_an_account_by_files(demo)
    _pay_and_hand_over_an_invoice(demo)
    let_an_assistant_prepare(demo)
    reconcile(demo)


def _pay_and_hand_over_an_invoice(demo: ServerProcess) -> None:
    """A payment run, and what an adviser gets of it."""
    headers, base = {"x-api-key": demo.key}, "/v2/payables"
    payable = demo.get(f"{base}?status=to_release").json()["data"][0]
    demo.http.post(f"{base}/{payable['id']}/release", headers=headers, json={}).raise_for_status()
    accounts = demo.get("/v2/banking/accounts").json()["data"]
    [account_id] = [account["id"] for account in accounts if account["extra"]["iban"] == IBAN]
    run = {"account_id": account_id, "payable_ids": [payable["id"]]}
    demo.http.post(f"{base}/payment-runs", headers=headers, json=run).raise_for_status()
    booked = {"accounts": [{"konto": "4930", "amount": payable["total"]}]}
    demo.http.put(f"{base}/{payable['id']}/booking", headers=headers, json=booked).raise_for_status()
    books = {"connection_id": demo.facts["ledger"]["connection_id"]}
    demo.http.post(f"{base}/handovers", headers=headers, json=books).raise_for_status()


def let_an_assistant_prepare(demo: ServerProcess) -> None:
    user = {"email": demo.facts["user"]["email"], "password": demo.facts["user"]["password"]}
    token = demo.http.post("/v2/auth/sessions", json=user).raise_for_status().json()["data"]["token"]
    as_person = {"authorization": f"Bearer {token}"}
    demo.http.put("/v2/assistants/settings", headers=as_person, json={"enabled": True}).raise_for_status()
    account_id = demo.get("/v2/banking/accounts").json()["data"][0]["id"]
    body = to_prepare(account_id)
    demo.http.post("/v2/assistants/payments", headers={"x-api-key": demo.key}, json=body).raise_for_status()


def reconcile(demo: ServerProcess) -> None:
    """Payments of two invoices of the demo: one is matched and handed over, the other waits with its proposals."""
    headers = {"x-api-key": demo.key}
    books = demo.facts["ledger"]["connection_id"]
    found = demo.get(f"/v2/ledger-rewe-read/opos?connectionId={books}&filter=debitors").json()["data"]["konten"]
    items = [
        item for konto in found for item in konto["posten"] if item["saldo"] > 2 and item["beleg"] != "EB-RESIDUAL"
    ]
    items.sort(key=lambda item: (item["saldo"], item["beleg"]))
    # The demo is dated from today, and no invoice is paid before its day.
    today = berlin_date(SystemClock().now())
    bookings = [
        Booking(round(items[0]["saldo"] * 100), f"Rechnung {items[0]['beleg']}", booked=today, valued=today),
        Booking(100, f"Rechnung {items[1]['beleg']}", booked=today, valued=today),
    ]
    sheet = Sheet(bookings, iban=MATCHED_IBAN, day=today)
    demo.http.post("/v2/banking/statements", headers=headers, content=camt(sheet)).raise_for_status()
    accounts = demo.get("/v2/banking/accounts").json()["data"]
    [account_id] = [account["id"] for account in accounts if account["extra"]["iban"] == MATCHED_IBAN]
    base = "/v2/reconciliation"
    settings = {"connection_id": books, "konto": "1200", "booked_by": "kontobahn"}
    demo.http.put(f"{base}/accounts/{account_id}", headers=headers, json=settings).raise_for_status()
    run = {"account_id": account_id, "trial": False, "from_date": today.isoformat(), "to_date": today.isoformat()}
    demo.http.post(f"{base}/runs", headers=headers, json=run).raise_for_status()
    first = demo.get(f"{base}/transactions?status=proposed&account_id={account_id}").json()["data"][0]["best_proposal"]
    demo.http.post(f"{base}/proposals/{first['id']}/confirm", headers=headers).raise_for_status()
    rule = {"name": "Miete", "konto": "4210", "text": "Miete"}
    demo.http.put(f"{base}/rules?connection_id={books}", headers=headers, json={"rules": [rule]}).raise_for_status()
    batch = {"account_id": account_id, "to_date": today.isoformat()}
    demo.http.post(f"{base}/batches", headers=headers, json=batch).raise_for_status()


def _keep_an_account_by_files(demo: ServerProcess) -> None:
    """A file that was read, and payments that are uploaded as files."""
    headers = {"x-api-key": demo.key}
    demo.http.post("/v2/banking/statements", headers=headers, content=camt(Sheet([Booking(1)]))).raise_for_status()
    accounts = demo.get("/v2/banking/accounts").json()["data"]
    [account_id] = [account["id"] for account in accounts if account["extra"]["iban"] == IBAN]
    made = [demo.http.post("/v2/banking/payments", headers=headers, json=order(account_id)) for _ in range(2)]
    limit = {"amount": "5000.00"}
    demo.http.put("/v2/banking/payment-limit", headers=headers, json=limit).raise_for_status()
    # Waits for a second person.
    large = order(account_id, amount="5000.01")
    demo.http.post("/v2/banking/payments", headers=headers, json=large).raise_for_status()
    body = {"payment_ids": [made[0].json()["data"]["id"]]}
    demo.http.post("/v2/banking/order-files", headers=headers, json=body).raise_for_status()
