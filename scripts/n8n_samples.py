"""Values with which each operation of the n8n node is tried: ids that the demo has, otherwise what the OpenAPI document shows."""

from __future__ import annotations

import json
import urllib.error
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from scripts.record_answers import LAST, STATEMENT

TABLE = Path(__file__).resolve().parent.parent / "clients" / "n8n" / "nodes" / "Kontobahn" / "operations.json"
# Lists whose first row gives the id for the calls below a path.
IDS = {
    "/v2/banking/transactions/": "/v2/banking/transactions?account_id={account_id}&limit=1",
    "/v2/banking/events/": "/v2/banking/events?limit=1",
    "/v2/banking/imports/": "/v2/banking/imports?limit=1",
    "/v2/reconciliation/transactions/": "/v2/reconciliation/transactions?limit=1",
    "/v2/ledger-rewe/imports/": "/v2/ledger-rewe/imports?connectionId={connectionId}&limit=1",
}
# Calls that would take away what others need.
AT_THE_END = (*LAST, "delete_logo", "withdraw_client_access", "discard_order_file", "set_assistant_settings", "undo_account_merge",
              "update_customer", "set_payment_limit", "set_webhook_url", "rotate_webhook_secret")  # fmt: skip


class Samples:
    def __init__(self, call: Callable[..., Any], facts: dict[str, Any], document: dict[str, Any]) -> None:
        self.call = call
        self.table = json.loads(TABLE.read_text("utf-8"))
        self.documented = {
            operation["operationId"]: operation
            for methods in document["paths"].values()
            for operation in methods.values()
        }
        self.known = {
            "connectionId": facts["ledger"]["connection_id"], "kassenname": facts["ledger"]["kassenname"],
            "account_id": facts["banking"]["account_id"], "geschaeftsjahrStartDatum": facts["ledger"]["fiscal_years"][-1],
        }  # fmt: skip
        self.file = STATEMENT
        self.found: dict[str, str] = {}
        self.operations = [
            (resource["value"], operation)
            for resource in self.table["resources"]
            for operation in resource["operations"]
        ]
        # As the service's log of requests names them.
        self.calls = [f"{operation['method']} {operation['path']}" for _, operation in self.operations]

    def nodes(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """A name and parameters for each operation: reading first, and last what takes something away."""

        def place(one: tuple[str, dict[str, Any]]) -> tuple[bool, bool]:
            return one[1]["call"] in AT_THE_END, one[1]["method"] != "GET"

        for resource, operation in sorted(self.operations, key=place):
            chosen: dict[str, Any] = {"resource": resource, "operation": operation["value"]}
            additional = {}
            for field in operation["fields"]:
                value = self.value(operation, field)
                if value is None:
                    continue
                if field.get("required") or field.get("shown"):
                    chosen[field["name"]] = value
                elif field["in"] == "body":
                    additional[field["name"]] = value
            yield operation["call"], chosen | {"additionalFields": additional}

    def value(self, operation: dict[str, Any], field: dict[str, Any]) -> Any:
        documented = self.documented[operation["call"]]
        if field["in"] == "body":
            value = documented["requestBody"]["content"]["application/json"]["example"].get(field["name"])
        else:
            value = next(item.get("example") for item in documented["parameters"] if item["name"] == field["name"])
        if field["name"] in self.known and value is not None:
            value = self.known[field["name"]]
        if field["name"] == "id":
            value = self.first(operation["path"], field) or value
        elif field.get("search") in ("users", "ledgerConnections", "bankConnections", "ticketCustomers"):
            value = (self.searched(field["search"]) or value) if value is not None else None
        if value is not None and field.get("search"):
            return {"__rl": True, "mode": "id", "value": str(value)}
        return json.dumps(value) if field["kind"] == "json" and value is not None else value

    def first(self, path: str, field: dict[str, Any]) -> str:
        if field.get("search"):
            return self.searched(field["search"])
        source = IDS.get(path.partition("{id}")[0])
        return self.row(source.format(**self.known), "id") if source else ""

    def searched(self, name: str) -> str:
        search = self.table["searches"][name]
        query = {key: self.known[source] for key, source in search.get("given", {}).items() if source in self.known}
        return self.row(f"{search['path']}?{urlencode(query)}", search["value"])

    def row(self, path: str, field: str) -> str:
        if path not in self.found:
            try:
                answer = self.call("GET", path)
            except urllib.error.HTTPError as refusal:
                raise SystemExit(f"{path}: {refusal.code} {refusal.read().decode()}") from None
            rows = answer if isinstance(answer, list) else answer.get("data", answer.get("connections"))
            self.found[path] = str(rows[0][field]) if rows else ""
        return self.found[path]
