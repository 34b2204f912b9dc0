"""Accounts that stand twice: what making them one would do, doing it, and undoing it."""

from __future__ import annotations

from msgspec import Struct
from starlette.responses import Response

from kontobahn.banking.connections import accounts
from kontobahn.banking.connections.accounts import AccountRow
from kontobahn.banking.merges import store as merges
from kontobahn.clock import DAY
from kontobahn.dashboard.declare import ROOT, action, numeric, page
from kontobahn.dashboard.refusals import refusal
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import _, ngettext
from kontobahn.db import Tx
from kontobahn.reconciliation import account_merges
from kontobahn.reconciliation.account_merges import AccountMerge, MergeQuery, NewAccountMerge

BACK = f"{ROOT}/accounts"
LIST = f"{BACK}/merges"


class Wanted(Struct):
    account_id: str = ""
    merged_account_id: str = ""


@page("/accounts/merge", role="admin", help="merges")
async def show_merge(visit: Visit) -> Response:
    wanted = visit.filters(Wanted).wanted
    query = MergeQuery(account_id=numeric(wanted.account_id), merged_account_id=numeric(wanted.merged_account_id))
    with visit.form.refusals():
        shown = (await visit.ask(account_merges.preview_account_merge, query=query)).data
        rows = await visit.read(_rows, visit.organization_id)
        return visit.show(
            "account_merge.html",
            200 if visit.form.is_good else 422,
            shown=shown,
            account=rows[shown.account_id],
            merged=rows[shown.merged_account_id],
            follows=_follows(shown),
            problems=[refusal(sentence) for sentence in shown.problems],
            days=merges.UNDONE_WITHIN // DAY,
            limit=account_merges.SHOWN,
        )
    return visit.redirect(BACK, _("These two accounts cannot be merged."), "bad")


def _rows(tx: Tx, organization_id: str) -> dict[str, AccountRow]:
    return {str(row.id): row for row in accounts.of_organization(tx, organization_id)}


def _follows(shown: account_merges.AccountMergePreview) -> list[str]:
    """Says what comes to the account that stays beside its bookings."""
    counts = shown.counts
    found = [
        (counts.connections, ngettext("one bank connection", "%(num)s bank connections", counts.connections)),
        (counts.statements, ngettext("one statement", "%(num)s statements", counts.statements)),
        (counts.payments, ngettext("one payment", "%(num)s payments", counts.payments)),
        (counts.order_files, ngettext("one payment file", "%(num)s payment files", counts.order_files)),
        (shown.matches, ngettext("one match with documents", "%(num)s matches with documents", shown.matches)),
        (shown.batches, ngettext("one hand-over", "%(num)s hand-overs", shown.batches)),
    ]
    return [text for count, text in found if count]


@action("/accounts/merge", role="admin", confirm=True)
async def make_merge(visit: Visit) -> Response:
    wanted = visit.filters(Wanted).wanted
    with visit.form.refusals():
        body = NewAccountMerge(
            account_id=numeric(wanted.account_id), merged_account_id=numeric(wanted.merged_account_id)
        )
        made: AccountMerge = (await visit.ask(account_merges.create_account_merge, body=body)).data
        return visit.redirect(f"{BACK}/{made.account_id}", _("The two accounts are one now."))
    response: Response = await show_merge.handler(visit)
    return response


@page("/accounts/merges", role="admin", help="merges")
async def list_merges(visit: Visit) -> Response:
    found = await visit.read(account_merges.listing, (visit.organization_id,))
    rows = await visit.read(_rows, visit.organization_id)
    return visit.show(
        "account_merges.html",
        merges=[(one, rows.get(one.account_id), refusal(one.undo_problem or "")) for one in found],
    )


@page("/accounts/merges/{id}/undo", role="admin", help="merges")
async def ask_to_undo(visit: Visit, id: str) -> Response:
    found = await visit.read(merges.find, visit.principal, id)
    return visit.ask_first(
        title=_("Make two accounts of one again?"),
        text=_("Both accounts get back what they had. What has come since goes to the account whose bank connection brought it:"),
        removes=[
            _("Bookings that both had stand in both again."),
            _("Both connections are fetched again from the beginning."),
            _("Matches stay with their transaction."),
        ],
        button=_("Undo the merge"),
        back=f"{BACK}/{found.account_id}",
    )  # fmt: skip


@action("/accounts/merges/{id}/undo", role="admin", confirm=True)
async def undo_merge(visit: Visit, id: str) -> Response:
    with visit.form.refusals():
        await visit.ask(account_merges.undo_account_merge, id=id)
        return visit.redirect(BACK, _("The accounts are two again."))
    response: Response = await ask_to_undo.handler(visit, id)
    return response
