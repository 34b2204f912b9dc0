"""Records what the demo answers to every call, as the examples of the documentation page: `make examples`.

A demo of its own is started on loopback and every call made once, with the document's own bodies. Lists are cut to two rows, but for
reports, whose rows must add up; secrets and the address are replaced. A test holds what was recorded to the document: run it again
when an answer has changed.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "src" / "kontobahn" / "api" / "recorded_answers.json"
PORT = 18190
MAX_ROWS = 2
# Reports whose rows make up their sums; of the first two, those of one person account with few items.
OF_ONE_ACCOUNT = ("get_opos", "get_faelligkeiten")
WHOLE = (*OF_ONE_ACCOUNT, "get_umsatzsteuer", "get_bwa", "get_invoice")
# Calls that others need first, and calls that leave nothing behind; the rest in the document's order between them.
FIRST = ["sign_in", "invite", "accept_invitation", "create_buchungen", "create_webhook_endpoint", "set_webhook_url",
         "send_test_event", "send_test_event_to_endpoint", "import_statements", "create_payment", "create_customer", "create_tickets",
         "create_invoice"]  # fmt: skip
# Why a call has no recorded answer.
LEFT_OUT = {
    "create_import": "the demo has its files already",
    "refresh_bank_connection": "the bank allows none so soon",
    "create_order_file": "the demo has no account that is kept by files",
    "get_order_file": "the demo has no account that is kept by files",
    "discard_order_file": "the demo has no account that is kept by files",
    "submit_order_file": "the demo has no account that is kept by files",
    "get_order_file_submission": "the demo has no account that is kept by files",
    "list_uebermittlungen": "the demo has no accounting provider that takes its time",
    "get_uebermittlung": "the demo has no accounting provider that takes its time",
    "receive_webhook": "banks make it",
    "join_as_adviser": "the demo has no adviser who is invited",
    "list_client_access": "the demo has no adviser with access",
    "give_client_access": "the demo has no adviser with access",
    "withdraw_client_access": "the demo has no adviser with access",
    "confirm_session": "it would replace the token that the other calls are made with",
    "save_logo": "the demo has no picture to send",
    "delete_logo": "the demo has no picture to send",
    "receive_webhook_of_kind": "banks make it",
    **dict.fromkeys(
        ("preview_account_merge", "create_account_merge", "list_account_merges", "undo_account_merge"),
        "no account of the demo stands twice",
    ),
    **dict.fromkeys(
        (
            "get_assistant_settings",
            "set_assistant_settings",
            "prepare_payment",
            "prepare_cash_entry",
            "list_prepared",
            "get_prepared",
            "withdraw_prepared",
        ),
        "the demo lets no assistant in by itself",
    ),
    "get_assistant_access": "its credits depend on what was called before",
    "list_assistant_books": "which books answer depends on the calls before",
    "receive_by_address": "the demo reaches no address outside",
    **dict.fromkeys(
        (
            "reject_payable",
            "assign_creditor",
            "confirm_stop",
            "create_payment_run",
            "list_payment_runs",
            "get_payment_run",
            "create_run_order_file",
            "get_payable_booking",
            "accept_accounts",
            "create_payables_handover",
            "list_payables_handovers",
            "get_payables_mailbox",
            "set_payables_mailbox",
            "read_payables_mailbox",
            "remove_payables_mailbox",
            "set_payables_settings",
        ),
        "whoever tries the demo decides about its invoices, and pays them",
    ),
    **dict.fromkeys(
        ("receive_file", "create_payable"),
        "its files have come in already",
    ),
    **dict.fromkeys(
        (
            "set_up_account",
            "list_set_up_accounts",
            "run_matching",
            "list_reconciled_transactions",
            "get_reconciled_transaction",
            "set_transaction_status",
            "confirm_proposal",
            "reject_proposal",
            "confirm_proposals",
            "list_matches",
            "get_match",
            "create_match",
            "undo_match",
            "list_knowledge",
            "delete_knowledge",
            "list_rules",
            "put_rules",
            "get_report",
            "create_batch",
            "list_batches",
            "get_batch",
            "list_batch_bookings",
        ),
        "its declaration has an example: one payment from proposal to match, with its reasons",
    ),
}
LAST = ["cancel_payment", "revoke_invitation", "reset_password", "change_role", "delete_user", "change_password",
        "end_session", "undo_import", "delete_webhook_endpoint", "delete_bank_connection"]  # fmt: skip
SECRETS = {
    "token": "kb_example_0123456789",
    "pending_token": "kb_example_0123456789",
    "secret": "whsec_ZXhhbXBsZS1vbmx5LW5vdC1hLXNlY3JldA==",
}

STATEMENT = b""":20:KONTOBAHN
:25:12030000/0000202051
:28C:1/1
:60F:C260301EUR1000,00
:61:2603020302C119,00NTRFNONREF
:86:166?20Rechnung RE-2026-0042?32Muster GmbH
:62F:C260302EUR1119,00
-
"""


class Recorder:
    def __init__(self, facts: dict[str, Any], document: dict[str, Any]) -> None:
        self.base, self.key = facts["base_url"], facts["api_key"]
        self.document = document
        self.session = ""
        self.recorded: dict[str, Any] = {}
        ledger, banking = facts["ledger"], facts["banking"]
        # Values of parameters and fields by name, and ids by what their path begins with.
        self.values = {
            "connectionId": ledger["connection_id"], "kassenname": ledger["kassenname"], "account_id": banking["account_id"],
            "geschaeftsjahrStartDatum": ledger["fiscal_years"][-1], "email": facts["user"]["email"],
            "password": facts["user"]["password"], "old_password": facts["user"]["password"], "provider": "sandbox",
        }  # fmt: skip
        self.ids = {
            "/v2/banking/connections/": banking["connection_id"], "/v2/banking/accounts/": banking["account_id"],
            "/v2/banking/payments/": banking["payment_id"], "/v2/mobility/customers/": facts["mobility"]["customer_id"],
        }  # fmt: skip

    def run(self) -> None:
        calls = {
            operation["operationId"]: (method.upper(), path, operation)
            for path, methods in self.document["paths"].items()
            for method, operation in methods.items()
        }
        between = [name for name in calls if name not in (*FIRST, *LAST)]
        for name in [name for name in (*FIRST, *between, *LAST) if name not in LEFT_OUT]:
            method, path, operation = calls[name]
            answers = next(item for status, item in operation["responses"].items() if status < "300")["content"]
            if "application/json" in answers:
                self.record(name, method, path, operation)

    def record(self, name: str, method: str, path: str, operation: dict[str, Any]) -> None:
        try:
            answer = self.call(name, method, path, operation)
        except urllib.error.HTTPError as error:
            raise SystemExit(f"{name} was refused: {error.read().decode()}") from None
        self.recorded[name] = self.shown(answer, most=None if name in WHOLE else MAX_ROWS)
        self.remember(name, path, answer)

    def call(self, name: str, method: str, path: str, operation: dict[str, Any]) -> Any:
        wanted = {item["name"]: item for item in operation["parameters"] if item["in"] != "header"}
        needed = [key for key, item in wanted.items() if item.get("required")] + operation.get("x-required-one-of", [])[
            :1
        ]
        query = {}
        for key in needed:
            if "{" + key + "}" in path:
                path = path.replace("{" + key + "}", quote(str(self.id_of(path, key)), safe=""))
            elif key in wanted:
                query[key] = self.values[key]
        if name in OF_ONE_ACCOUNT:
            query["kontonummer"] = self.account_with_few_items(query)
        headers = {"x-api-key": self.key} if operation["security"] else {}
        if re.search(r"/(sessions|password)(/[^/]+)?$", path) and operation["security"]:
            headers = {"authorization": f"Bearer {self.session}"}
        content = operation.get("requestBody", {}).get("content", {})
        body: Any = STATEMENT if "multipart/form-data" in content else None
        if "application/json" in content:
            body = self.body(name, content["application/json"]["example"])
        return self.send(method, f"{path}?{urlencode(query)}", headers, body)

    def account_with_few_items(self, query: dict[str, str]) -> str:
        path = f"/v2/ledger-rewe-read/opos?{urlencode(query)}"
        found = self.send("GET", path, {"x-api-key": self.key}, None)["data"]["konten"]
        return str(min((len(konto["posten"]), konto["kontonummer"]) for konto in found if len(konto["posten"]) > 1)[1])

    def send(self, method: str, path: str, headers: dict[str, str], body: Any) -> Any:
        if isinstance(body, dict):
            headers, body = {**headers, "content-type": "application/json"}, json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, body, headers, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read(), parse_float=_Number)

    def body(self, name: str, example: dict[str, Any]) -> dict[str, Any]:
        if name in ("invite", "create_customer", "update_customer", "save_seller"):
            return example
        known = self.values | (
            {"password": "correct horse battery staple"} if name in ("accept_invitation", "reset_password") else {}
        )
        return {key: known.get(key, value) for key, value in example.items()}

    def id_of(self, path: str, key: str) -> str:
        if key != "id":
            return str(self.values[key])
        prefix = path.partition("{id}")[0]
        return str(self.ids[prefix])

    def remember(self, name: str, path: str, answer: Any) -> None:
        data = answer.get("data", answer) if isinstance(answer, dict) else answer
        first = data[0] if isinstance(data, list) and data else data
        if not isinstance(first, dict):
            return
        if name == "sign_in":
            self.session = first["token"]
        if name in ("invite", "create_password_link"):
            self.values["token"] = first["token"]
        if name == "list_invitations":
            # The one before was accepted and cannot be revoked; this one can.
            example = {"email": "max@muster.example"}
            made = self.send("POST", "/v2/auth/invitations", {"x-api-key": self.key}, example)
            self.ids["/v2/auth/invitations/"] = made["data"]["id"]
        if name == "accept_invitation":
            self.ids["/v2/auth/users/"] = first["id"]
        if name == "list_kassenbucheintraege":
            self.values["nummer"] = first["nummer"]
        if name == "create_payment":
            self.ids["/v2/banking/payments/"] = first["id"]
        if name == "create_customer":
            # Whose invoice has the one ticket that is added next, not the many of the demo's own customer.
            self.ids["/v2/mobility/customers/"] = first["id"]
        if name == "create_tickets":
            self.ids["/v2/mobility/tickets/"] = first["id"]
        if name == "send_test_event_to_endpoint":
            self.values["event_id"] = first["id"]
        if "id" in first and "{" not in path and first["id"] is not None:
            self.ids.setdefault(f"{path}/", first["id"])

    def shown(self, value: Any, name: str = "", *, most: int | None) -> Any:
        if isinstance(value, dict):
            return {key: self.shown(item, key, most=most) for key, item in value.items()}
        if isinstance(value, list):
            return [self.shown(item, most=most) for item in value[:most]]
        if isinstance(value, str) and name in SECRETS:
            return SECRETS[name]
        return value.replace(self.base, "https://kontobahn.example") if isinstance(value, str) else value


class _Number(float):
    """A number that is written as it came: 119.00 stays 119.00."""

    def __new__(cls, text: str) -> _Number:
        made = super().__new__(cls, text)
        made.text = text
        return made

    text: str


def wait_for(url: str) -> Any:
    for _ in range(600):
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return json.load(answer)
        except OSError:
            time.sleep(0.2)
    raise SystemExit(f"{url} does not answer.")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="kontobahn-answers-") as folder:
        command = [str(ROOT / ".venv/bin/kontobahn"), "serve", "--demo", "--port", str(PORT), "--data", folder]
        own = {**os.environ, "KONTOBAHN_LIMIT_AUTH_REQUESTS": "1000"}
        process = subprocess.Popen(command, env=own, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            document = wait_for(f"http://127.0.0.1:{PORT}/openapi.json")
            recorder = Recorder(json.loads((Path(folder) / "demo.json").read_text("utf-8")), document)
            recorder.run()
        finally:
            process.terminate()
            process.wait(30)
    TARGET.write_text(_written(recorder.recorded) + "\n", "utf-8")
    print(f"{len(recorder.recorded)} answers are in {TARGET.relative_to(ROOT)}.")


def _written(value: Any, depth: int = 0) -> str:
    """JSON with a line for each answer's row, numbers as they came."""
    pad = " " * (depth + 1)
    if isinstance(value, dict) and depth < 1:
        rows = [f"{pad}{json.dumps(key)}: {_written(item, depth + 1)}" for key, item in sorted(value.items())]
        return "{\n" + ",\n".join(rows) + "\n}"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)}: {_written(item, depth + 1)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_written(item, depth + 1) for item in value) + "]"
    return value.text if isinstance(value, _Number) else json.dumps(value, ensure_ascii=False)


if __name__ == "__main__":
    main()
