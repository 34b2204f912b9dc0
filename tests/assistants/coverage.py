"""The calls of the API that each tool answers with, and why the other calls have none. A call that stands nowhere here is noticed."""

from __future__ import annotations

# Whoever adds a call asks whether an assistant should have it, and writes the answer here.
BY_TOOL: dict[str, tuple[str, ...]] = {
    "access": ("GET /v2/assistants/access", "GET /v2/assistants/books"),
    "needs_attention": (
        "GET /v2/banking/connections", "GET /v2/banking/payments", "GET /v2/payables", "GET /v2/assistants/prepared",
        "GET /v2/reconciliation/transactions",
    ),
    "balances": ("GET /v2/banking/accounts",),
    "movements": ("GET /v2/banking/accounts", "GET /v2/banking/transactions"),
    "payment_status": ("GET /v2/banking/payments", "GET /v2/banking/payments/{id}/history"),
    "open_items": ("GET /v2/assistants/books", "GET /v2/ledger-rewe-read/faelligkeiten"),
    "vat_and_profit": (
        "GET /v2/assistants/books", "GET /v2/ledger-rewe-read/umsatzsteuer", "GET /v2/ledger-rewe-read/bwa"
    ),
    "account_history": ("GET /v2/assistants/books", "GET /v2/ledger-rewe-read/buchungen"),
    "unmatched_movements": ("GET /v2/reconciliation/transactions",),
    "decide_match": (
        "POST /v2/reconciliation/proposals/{id}/confirm", "POST /v2/reconciliation/proposals/{id}/reject"
    ),
    "received_invoices": ("GET /v2/payables",),
    "add_receipt": ("POST /v2/payables/files/by-address",),
    "prepare_cash_entry": ("GET /v2/assistants/books", "POST /v2/assistants/cash-entries"),
    "prepare_payment": ("POST /v2/assistants/payments",),
}  # fmt: skip

# Whole areas, by the beginning of their paths.
AREAS: dict[str, str] = {
    "/v2/auth/": "people, passwords and sessions are not for assistants",
    "/v2/mobility/": "not asked about so far: invoices that are written here are in the open items",
    "/v2/banking/webhook": "where events go, and their secrets, are set up by whoever programs the receiver",
    "/v2/payables/mailbox": "a mailbox and its password are set up by a person",
    "/v2/banking/events": "for programs that follow changes; a person asks what needs attention",
}

WITHOUT_TOOL: dict[str, tuple[str, ...]] = {
    "money moves by people alone": (
        "POST /v2/banking/payments", "POST /v2/banking/payments/{id}/cancel", "GET /v2/banking/payments/{id}/order",
        "POST /v2/banking/order-files", "GET /v2/banking/order-files/{id}/file", "DELETE /v2/banking/order-files/{id}",
        "POST /v2/banking/order-files/{id}/submission",
        "POST /v2/payables/payment-runs", "POST /v2/payables/payment-runs/{id}/order-file",
        "POST /v2/payables/{id}/release", "POST /v2/payables/{id}/confirmations",
    ),
    "it asks the bank, and fails with it; `payment_status` tells what is stored": ("GET /v2/banking/payments/{id}",),
    "rights and limits are a person's": (
        "GET /v2/banking/payment-limit", "PUT /v2/banking/payment-limit", "GET /v2/assistants/settings",
        "PUT /v2/assistants/settings", "GET /v2/payables/settings", "PUT /v2/payables/settings",
        "GET /v2/reconciliation/rules", "PUT /v2/reconciliation/rules",
    ),
    "banks are connected and removed by people": (
        "GET /v2/banking/providers", "POST /v2/banking/connect", "POST /v2/banking/connections/{id}/reconnect",
        "DELETE /v2/banking/connections/{id}", "POST /v2/banking/connections/{id}/refresh",
        "GET /v2/banking/account-merges", "GET /v2/banking/account-merges/preview", "POST /v2/banking/account-merges",
        "POST /v2/banking/account-merges/{id}/undo",
    ),
    "it books without a person": (
        "POST /v2/ledger-duo/kassenbuch-advanced", "POST /v2/ledger-duo/kassenbuch/{nummer}/storno",
        "POST /v2/ledger-rewe/personenkonto", "POST /v2/ledger-rewe/buchungen", "POST /v2/ledger-rewe/imports/{id}/undo",
        "POST /v2/reconciliation/batches", "POST /v2/reconciliation/matches", "POST /v2/reconciliation/confirmations",
        "POST /v2/reconciliation/matches/{id}/undo", "PUT /v2/reconciliation/transactions/{id}",
        "PUT /v2/reconciliation/accounts/{account_id}", "DELETE /v2/reconciliation/knowledge/{id}",
        "POST /v2/payables", "POST /v2/payables/{id}/reject", "POST /v2/payables/{id}/hold",
        "POST /v2/payables/{id}/creditor", "PUT /v2/payables/{id}/booking", "POST /v2/payables/handovers",
    ),
    "it takes or gives a file": (
        "POST /v2/ledger-rewe/imports", "GET /v2/ledger-rewe/exports", "POST /v2/banking/statements",
        "POST /v2/payables/files", "GET /v2/payables/files/{id}", "GET /v2/payables/{id}/file",
        "GET /v2/payables/handovers/{id}/file",
        "GET /v2/payables/{id}/document", "GET /v2/ledger-duo/belegbilder/{id}", "GET /v2/reconciliation/batches/{id}/extf",
    ),
    "a list or a single row of what a tool tells by task": (
        "GET /v2/ledger-rewe-read/opos", "GET /v2/ledger-rewe-read/konten", "GET /v2/ledger-rewe-read/susa",
        "GET /v2/ledger-rewe-read/zahlungsbedingungen", "GET /v2/ledger-rewe-read/connections",
        "GET /v2/ledger-rewe-read/permissions", "GET /v2/ledger-duo/connections", "GET /v2/ledger-duo/kassenbuch",
        "GET /v2/ledger-duo/kassenbuecher", "GET /v2/ledger-duo/rechnungsordner", "GET /v2/ledger-duo/belegtypen",
        "GET /v2/ledger-duo/uebermittlungen", "GET /v2/ledger-duo/uebermittlungen/{id}", "GET /v2/ledger-rewe/imports",
        "GET /v2/ledger-rewe/imports/{id}", "GET /v2/banking/connections/{id}", "GET /v2/banking/accounts/{id}",
        "GET /v2/banking/transactions/{id}", "GET /v2/banking/transactions/changes", "GET /v2/banking/imports",
        "GET /v2/banking/imports/{id}", "GET /v2/banking/order-files", "GET /v2/banking/order-files/{id}",
        "GET /v2/banking/order-files/{id}/submission",
        "GET /v2/payables/{id}", "GET /v2/payables/{id}/history", "GET /v2/payables/{id}/booking", "GET /v2/payables/due",
        "GET /v2/payables/handovers",
        "GET /v2/payables/payment-runs", "GET /v2/payables/payment-runs/{id}", "GET /v2/reconciliation/accounts",
        "GET /v2/reconciliation/transactions/{id}", "GET /v2/reconciliation/matches", "GET /v2/reconciliation/matches/{id}",
        "GET /v2/reconciliation/knowledge", "GET /v2/reconciliation/report", "GET /v2/reconciliation/batches",
        "GET /v2/reconciliation/batches/{id}", "GET /v2/reconciliation/batches/{id}/bookings",
        "GET /v2/assistants/prepared/{id}",
    ),
    "it runs by itself; an assistant waits for its outcome": ("POST /v2/reconciliation/runs",),
    "what an assistant prepared is refused by the person": ("POST /v2/assistants/prepared/{id}/withdraw",),
}  # fmt: skip


def area_of(call: str) -> str | None:
    """Returns why none of the calls of an area has a tool; None if its calls are judged one by one."""
    path = call.partition(" ")[2]
    return next((reason for beginning, reason in AREAS.items() if path.startswith(beginning)), None)
