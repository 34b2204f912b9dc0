"""Somebody whose accounts are connected, as callers see them; for tests of the providers."""

from __future__ import annotations

from typing import Any

import httpx

from tests.harness import Organization, Service


class Customer:
    service: Service
    owner: Organization
    token: str

    def connection(self) -> dict[str, Any]:
        answer = self.service.get(f"/v2/banking/connections/{self.token}", self.owner.key)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()["data"]
        return found

    def refresh(self) -> httpx.Response:
        return self.service.post(f"/v2/banking/connections/{self.connection()['id']}/refresh", self.owner.key)

    def accounts(self) -> list[dict[str, Any]]:
        answer = self.service.get(
            "/v2/banking/accounts", self.owner.key, params={"connection_id": self.connection()["id"]}
        )
        assert answer.status_code == 200, answer.text
        found: list[dict[str, Any]] = answer.json()["data"]
        return found

    def bookings(self) -> list[tuple[float, str, str]]:
        """Amount, purpose and status of each transaction."""
        return sorted((one["amount"], one["description_parsed"]["svwz"], one["status"]) for one in self.listed())

    def listed(self) -> list[dict[str, Any]]:
        params = {"connection_id": self.connection()["id"], "limit": 10_000}
        answer = self.service.get("/v2/banking/transactions", self.owner.key, params=params)
        assert answer.status_code == 200, answer.text
        found: list[dict[str, Any]] = answer.json()["data"]
        return found
