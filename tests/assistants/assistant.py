"""An assistant that asks: a key that was let in, and the messages of the protocol as they go over the wire."""

from __future__ import annotations

from typing import Any

import httpx

from kontobahn.access import keys
from kontobahn.access.principal import Role, Scope
from kontobahn.assistants import access
from tests.harness import ACTOR, Organization, Service

NEWEST, EARLIER = "2026-07-28", "2025-11-25"


def let_in(service: Service, owner: Organization) -> None:
    service.db.write_now(access.switch, owner.id, True, ACTOR)


def to_prepare(account_id: str, purpose: str = "Rechnung 4711", **more: Any) -> dict[str, Any]:
    """The body of a payment to prepare."""
    return {
        "account_id": account_id, "amount": "12.34", "creditor_name": "Papier GmbH",
        "creditor_iban": "DE75512108001245126199", "description": purpose, **more,
    }  # fmt: skip


def cash_entry(connection_id: str, **more: Any) -> dict[str, Any]:
    """The body of a cash entry to prepare."""
    return {
        "connection_id": connection_id, "kassenname": "Hauptkasse", "date": "2026-02-13", "amount": 119,
        "text": "Barverkauf", "gegenkonto": "8400", **more,
    }  # fmt: skip


class Assistant:
    def __init__(
        self, service: Service, owner: Organization, scopes: tuple[Scope, ...] | None = None, role: Role = "admin"
    ) -> None:
        self.service, self.owner = service, owner
        let_in(service, owner)
        self.key = service.db.write_now(
            keys.create, service.vault, owner.id, "assistant", ACTOR, role=role, scopes=scopes
        ).secret

    def post(
        self, message: dict[str, Any], *, path: str = "/mcp", headers: dict[str, str] | None = None
    ) -> httpx.Response:
        usual = {
            "authorization": f"Bearer {self.key}", "accept": "application/json, text/event-stream",
            "mcp-protocol-version": EARLIER,
        }  # fmt: skip
        return self.service.http.post(path, json=message, headers=usual | (headers or {}))

    def ask(self, method: str, path: str = "/mcp", **params: Any) -> Any:
        answer = self.post({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, path=path)
        assert answer.status_code == 200, answer.text
        return answer.json()["result"]

    def tools(self, path: str = "/mcp") -> list[dict[str, Any]]:
        return list(self.ask("tools/list", path)["tools"])

    def call(self, tool: str, **arguments: Any) -> str:
        """Returns the text of a tool that succeeds."""
        result = self.ask("tools/call", name=tool, arguments=arguments)
        assert not result.get("isError"), result
        return str(result["content"][0]["text"])

    def refusal(self, tool: str, **arguments: Any) -> str:
        result = self.ask("tools/call", name=tool, arguments=arguments)
        assert result.get("isError"), result
        return str(result["content"][0]["text"])
