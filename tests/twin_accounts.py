"""One account at a bank that stands twice, from before one IBAN was one account."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from kontobahn.banking.connections.store import ConnectionRow
from kontobahn.db import Tx
from tests.bank_builder import IBAN, SECOND_IBAN, Bank, account_facts, facts
from tests.file_bank import import_file
from tests.harness import Organization, Service
from tests.statement_builder import DAY as STATED
from tests.statement_builder import Booking, Sheet, camt

ACCOUNTS, MERGES, TRANSACTIONS = "/v2/banking/accounts", "/v2/banking/account-merges", "/v2/banking/transactions"
TODAY = STATED.isoformat()
DAYS = [STATED + timedelta(days=number) for number in range(4)]
SHEET = Sheet([Booking(500_00, "Miete", end_to_end_id="E-1"), Booking(-20_00, "Gas", end_to_end_id="E-2")])
RENT = facts(500_00, "SVWZ+Miete", TODAY, provider_ref="r-1", end_to_end_id="E-1")
GAS = facts(-20_00, "SVWZ+Gas", TODAY, provider_ref="r-2", end_to_end_id="E-2")
EARLIER = facts(7_00, "SVWZ+Frueher", "2026-02-01", provider_ref="r-0")
LATER = facts(-3_00, "SVWZ+Porto", "2026-03-09", provider_ref="r-3")


def rows_of(service: Service, sql: str) -> list[tuple[Any, ...]]:
    def read(tx: Tx) -> list[tuple[Any, ...]]:
        return tx.all(sql)

    return service.db.read_now(read)


class Twins:
    """One account at a bank that stands twice here, from before it was one: by files, and by a connection."""

    def __init__(self, service: Service, owner: Organization, *reported: Any, sheet: Sheet | None = SHEET) -> None:
        self.service, self.owner = service, owner
        self.bank = Bank(service)
        self.connection: ConnectionRow = self.bank.connected(
            owner, *reported, accounts=[account_facts(iban=SECOND_IBAN)]
        )
        if sheet is not None:
            import_file(service, owner, camt(sheet))
        service.db.write_now(
            lambda tx: tx.run("UPDATE banking_accounts SET iban = ? WHERE organization_id = ?", IBAN, owner.id)
        )
        self.fetched, *rest = (row["id"] for row in self.listed())
        self.filed = rest[0] if rest else ""

    def listed(self, path: str = ACCOUNTS, **query: str) -> list[dict[str, Any]]:
        answer = self.service.get(path, self.owner.key, params=query)
        assert answer.status_code == 200, answer.text
        return list(answer.json()["data"])

    def amounts(self, account: str) -> list[float]:
        return sorted(row["amount"] for row in self.listed(TRANSACTIONS, account_id=account))

    def preview(self, account: str = "", merged: str = "") -> dict[str, Any]:
        query = {"account_id": account or self.fetched, "merged_account_id": merged or self.filed}
        answer = self.service.get(f"{MERGES}/preview", self.owner.key, params=query)
        assert answer.status_code == 200, answer.text
        return dict(answer.json()["data"])

    def send(self, account: str = "", merged: str = "", key: str = "") -> Any:
        body = {"account_id": account or self.fetched, "merged_account_id": merged or self.filed}
        return self.service.post(MERGES, key or self.owner.key, json=body)

    def merge(self, account: str = "", merged: str = "") -> dict[str, Any]:
        answer = self.send(account, merged)
        assert answer.status_code == 201, answer.text
        return dict(answer.json()["data"])

    def undo(self, made: dict[str, Any]) -> Any:
        return self.service.post(f"{MERGES}/{made['id']}/undo", self.owner.key)

    def state(self) -> Any:
        """All that is known of the accounts, but for the times and numbers of changes."""
        rows = [
            (row["id"], row["balance"], row["extra"]["transactions_count"], row["extra"]["iban"])
            for row in self.listed()
        ]
        bookings = {
            account: sorted(
                (one["id"], one["account_id"], one["amount"], one["payment_id"], str(one["extra"]))
                for one in self.listed(TRANSACTIONS, account_id=account)
            )
            for account, *_ in rows
        }
        tables = [
            rows_of(self.service, sql)
            for sql in (
                "SELECT account_id, position, identity, span FROM banking_statements ORDER BY 1, 2",
                "SELECT * FROM banking_statement_spans ORDER BY account_id, number",
                "SELECT connection_id, provider_ref, account_id FROM banking_account_sources ORDER BY 1, 2",
                "SELECT id, statement, booked_on, balance_minor, source, provider_ref FROM banking_transactions ORDER BY 1",
                "SELECT id, account_id FROM banking_payments ORDER BY 1",
                "SELECT id, account_id FROM banking_account_aliases ORDER BY 1",
                "SELECT id, account_id FROM recon_matches ORDER BY 1",
                "SELECT account_id, konto FROM recon_accounts ORDER BY 1",
            )
        ]
        return rows, bookings, tables
