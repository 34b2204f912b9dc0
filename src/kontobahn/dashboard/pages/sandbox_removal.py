"""Removing everything of the sandbox bank: what was matched is undone, in the books too, then its accounts and payments go.

The page is there wherever something of that bank is, also after it was switched off.
"""

from __future__ import annotations

from datetime import date
from typing import NamedTuple

from starlette.responses import Response

from kontobahn.access import audit
from kontobahn.access.audit import Actor
from kontobahn.banking.connections import accounts
from kontobahn.banking.connections import store as connections
from kontobahn.banking.connections.accounts import AccountRow
from kontobahn.banking.connections.routes import end_accesses
from kontobahn.banking.connections.store import ConnectionRow
from kontobahn.banking.payments import store as payments
from kontobahn.banking.provider import SANDBOX
from kontobahn.dashboard import bank_words
from kontobahn.dashboard.declare import ROOT, action, page
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import _, ngettext
from kontobahn.db import Tx
from kontobahn.reconciliation import batches, matches, store
from kontobahn.reconciliation.batch_store import NewBatch
from kontobahn.reconciliation.matches import NewMatchUndo
from kontobahn.reconciliation.store import MatchRow

BACK = f"{ROOT}/connections"
REASON = "sandbox"
FIRST_DAY, LAST_DAY = "0001-01-01", "9999-12-31"
# Fiscal years whose bookings are taken back, each with as many batches as it takes.
MAX_BATCHES = 200


class Found(NamedTuple):
    connections: list[ConnectionRow]
    accounts: list[AccountRow]


@page("/sandbox/remove", role="admin", help="sandbox")
async def ask_to_remove(visit: Visit) -> Response:
    found = await visit.read(_found, visit.organization_id)
    if not found.connections:
        return visit.redirect(BACK, _("There is nothing of the sandbox bank here."))
    removes = [
        _("%(bank)s with %(count)s", bank=bank_words.bank_name(row), count=ngettext(
            "one account", "%(num)s accounts", sum(one.connection_id == row.id for one in found.accounts)))
        for row in found.connections
    ]  # fmt: skip
    removes += [
        _("Their transactions, and all payments at the sandbox bank."),
        _(
            "Matches with documents are undone. What was booked from them is reversed in the books, and stays visible there."
        ),
    ]
    return visit.ask_first(
        title=_("Remove everything of the sandbox bank?"),
        text=_("No real account is touched. This cannot be undone. This will be removed:"),
        removes=removes,
        button=_("Remove everything of the sandbox bank"),
        back=BACK,
    )


def _found(tx: Tx, organization_id: str) -> Found:
    rows = [row for row in connections.listing(tx, (organization_id,)) if row.provider == SANDBOX]
    ids = {row.id for row in rows}
    return Found(rows, [row for row in accounts.of_organization(tx, organization_id) if row.connection_id in ids])


@action("/sandbox/remove", role="admin", confirm=True)
async def remove(visit: Visit) -> Response:
    """Each step leaves everything in order: whoever is interrupted begins again."""
    with visit.form.refusals():
        for account in (await visit.read(_found, visit.organization_id)).accounts:
            await _take_back(visit, account)
        await visit.write(_remove, visit.organization_id, visit.actor)
        await end_accesses(visit.context)
        return visit.redirect(BACK, _("Everything of the sandbox bank has been removed."))
    response: Response = await ask_to_remove.handler(visit)
    return response


async def _take_back(visit: Visit, account: AccountRow) -> None:
    """Undoes the account's matches, and has the books reverse what they have of them."""
    while found := await visit.read(_live, account):
        for row in found:
            await visit.ask(matches.undo_match, id=row.id, body=NewMatchUndo(reason=REASON))
    for _batch in range(MAX_BATCHES):
        day = await visit.read(store.reversal_wanted_on, account.organization_id, account.id)
        if day is None:
            return
        body = NewBatch(account_id=str(account.id), to_date=date.fromisoformat(day))
        await visit.ask(batches.create_batch, body=body)


def _live(tx: Tx, account: AccountRow) -> list[MatchRow]:
    return store.matches_between(tx, account.organization_id, account.id, FIRST_DAY, LAST_DAY)


def _remove(tx: Tx, organization_id: str, actor: Actor) -> None:
    found = _found(tx, organization_id)
    for account in found.accounts:
        store.forget_account(tx, organization_id, account.id)
    for row in found.connections:
        connections.remove(tx, organization_id, row.id)
    paid = payments.remove_of_provider(tx, organization_id, SANDBOX)
    audit.record(
        tx, organization_id, actor, "sandbox.remove", organization_id,
        connections=len(found.connections), accounts=len(found.accounts), payments=paid,
    )  # fmt: skip
