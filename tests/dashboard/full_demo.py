"""What the demo lacks, so that every page has something to show: an invoice, a further receiver, an account kept by files."""

from __future__ import annotations

from tests.bank_builder import order
from tests.journeys.process import ServerProcess
from tests.statement_builder import IBAN, Booking, Sheet, camt
from tests.waiting import PATIENCE_SECONDS

# A receiver of events where nobody listens: the setting `webhook_allow` must name it.
NOBODY = "127.0.0.1:9"
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
    _keep_an_account_by_files(demo)


def _keep_an_account_by_files(demo: ServerProcess) -> None:
    """A file that was read, and payments that are uploaded as files."""
    headers = {"x-api-key": demo.key}
    demo.http.post("/v2/banking/statements", headers=headers, content=camt(Sheet([Booking(1)]))).raise_for_status()
    accounts = demo.get("/v2/banking/accounts").json()["data"]
    [account_id] = [account["id"] for account in accounts if account["extra"]["iban"] == IBAN]
    made = [demo.http.post("/v2/banking/payments", headers=headers, json=order(account_id)) for _ in range(2)]
    body = {"payment_ids": [made[0].json()["data"]["id"]]}
    demo.http.post("/v2/banking/order-files", headers=headers, json=body).raise_for_status()
