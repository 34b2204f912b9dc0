"""Reconciliation in the demo: accounts set up, rules, a run, and what somebody has confirmed and handed over since.

By the same calls as everybody's: what has arrived lately is proposed for. All that is no case of `trade.py` is confirmed and booked, so
the cases are what waits.
"""

from __future__ import annotations

from datetime import date
from typing import Any, NamedTuple

from kontobahn.access.audit import Actor
from kontobahn.access.principal import Principal
from kontobahn.api.call import Call, Context
from kontobahn.api.declare import Endpoint
from kontobahn.db import Tx
from kontobahn.demo.story import CARD, GIRO, SAVINGS, TRANSIT, Story, number
from kontobahn.demo.trade import MATCHED
from kontobahn.ids import new_id
from kontobahn.money import to_minor
from kontobahn.reconciliation import accounts, batches, knowledge, proposals, runs, transactions
from kontobahn.reconciliation.accounts import NewReconciliationSettings
from kontobahn.reconciliation.batch_store import NewBatch
from kontobahn.reconciliation.proposals import MAX_CONFIRMATIONS, NewConfirmations
from kontobahn.reconciliation.runs import NewRun
from kontobahn.reconciliation.store import BookedBy, Client, RuleRow
from kontobahn.reconciliation.transactions import ReconciledTransaction, ReconciledTransactionsQuery

# Name, text of the movement, ledger account.
_RULES = (
    ("Kontoführung", "Entgelte vom", "4970"),
    ("Löhne und Gehälter", "Lohn/Gehalt", "1740"),
    ("Lohnsteuer", "Lohnsteuer", "1741"),
    ("Sozialversicherung", "SV-Beitraege", "1742"),
    ("Miete", "Miete", "4210"),
    ("Betriebshaftpflicht", "Betriebshaftpflicht", "4360"),
    ("Umsatzsteuer des Vorjahres", "Umsatzst. 12/", "1790"),
    ("Umsatzsteuer-Vorauszahlung", "Umsatzst.", "1780"),
    ("Körperschaftsteuer", "Koerperschaftsteuer", "2200"),
    ("Gewerbesteuer", "Gewerbesteuer", "4320"),
    ("Kreditkarte", "Kreditkartenabrechnung", CARD),
    ("Bargeld", "Bargeldauszahlung", TRANSIT),
    ("Rücklage", "Ruecklage Tagesgeld", TRANSIT),
)


def add_rules(tx: Tx, client: Client, actor: Actor) -> None:
    rows = [
        RuleRow(*client, place, new_id(), name, text, "", "any", None, None, number(konto))
        for place, (name, text, konto) in enumerate(_RULES)
    ]
    knowledge.replace_rules(tx, client, rows, actor)


class Books(NamedTuple):
    """Books, and the bank account that is matched with them."""

    connection_id: str
    client_id: str
    account_id: str


class Desk(NamedTuple):
    """Somebody who matches payments."""

    context: Context
    principal: Principal

    async def ask(self, endpoint: Endpoint, **arguments: Any) -> Any:
        """Makes a call of the API in this person's name. It costs nothing: nobody has asked for it."""
        call = Call(self.context, endpoint, self.principal, "req_demo", "127.0.0.1", "demo")
        call.price = 0
        return await endpoint.handler(call, **arguments)

    async def set_up(self, books: Books, konto: str, start: date, booked_by: BookedBy = "kontobahn") -> None:
        settings = NewReconciliationSettings(
            connection_id=books.connection_id, client_id=books.client_id, konto=konto, fee_konto="4970",
            transfer_konto=TRANSIT, start_date=start, booked_by=booked_by,
        )  # fmt: skip
        await self.ask(accounts.set_up_account, account_id=books.account_id, body=settings)

    async def propose(self, books: Books, start: date) -> list[ReconciledTransaction]:
        run = NewRun(account_id=books.account_id, from_date=start, trial=False, limit=0)
        await self.ask(runs.run_matching, body=run)
        asked = ReconciledTransactionsQuery(status="proposed", account_id=books.account_id, limit=500)
        found: list[ReconciledTransaction] = (
            await self.ask(transactions.list_reconciled_transactions, query=asked)
        ).data
        return found

    async def confirm(self, rows: list[ReconciledTransaction]) -> None:
        ids = [row.best_proposal.id for row in rows if row.best_proposal]
        for place in range(0, len(ids), MAX_CONFIRMATIONS):
            body = NewConfirmations(ids=ids[place : place + MAX_CONFIRMATIONS])
            answered = await self.ask(proposals.confirm_proposals, body=body)
            assert all(one.error is None for one in answered.data), answered

    async def hand_over(self, books: Books, rows: list[ReconciledTransaction]) -> None:
        """A batch for each fiscal year."""
        for year in sorted({row.made_on.year for row in rows if row.made_on}):
            last = max(row.made_on for row in rows if row.made_on and row.made_on.year == year)
            await self.ask(batches.create_batch, body=NewBatch(account_id=books.account_id, to_date=last))


async def match_recent(desk: Desk, books: Books, savings_id: str, told: Story) -> None:
    start = told.start_of_waiting
    await desk.set_up(books, GIRO, start)
    await desk.set_up(books._replace(account_id=savings_id), SAVINGS, told.today)
    proposed = await desk.propose(books, start)
    usual = {(move.day, move.cents) for move in told.moves if move.case is None or move.case in MATCHED}
    sure = [row for row in proposed if row.amount is not None and (row.made_on, to_minor(row.amount)) in usual]
    await desk.confirm(sure)
    await desk.hand_over(books, sure)
