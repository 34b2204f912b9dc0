"""Bank connections: how they stand, for how long the consent lasts, connecting and renewing at the bank, refreshing, deleting."""

from __future__ import annotations

from typing import NamedTuple

from starlette.responses import Response

from kontobahn.access.principal import Principal
from kontobahn.banking.connect import routes as connect_routes
from kontobahn.banking.connect.routes import Connect, ConnectAnswer, ConnectQuery, Reconnect
from kontobahn.banking.connections import accounts, line, routes, store
from kontobahn.banking.connections.accounts import AccountRow
from kontobahn.banking.connections.store import TOKEN_PREFIX, ConnectionRow
from kontobahn.banking.provider import FILES, SANDBOX, Banking
from kontobahn.banking.reports.refresh import Refresh, refresh_bank_connection
from kontobahn.dashboard import bank_words, figures
from kontobahn.dashboard.declare import ROOT, action, page
from kontobahn.dashboard.refusals import refusal
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import N_, _, ngettext
from kontobahn.db import Tx
from kontobahn.errors import NotFound

PATH = f"{ROOT}/connections"
MAX_ID_LENGTH = 64
ANOTHER = N_("you sign in at your bank once; after that, transactions arrive by themselves.")
# By the name in the setting: the name that people know, and one sentence.
PROVIDERS = {
    "fints": ("FinTS", N_("directly to German banks with your online banking login, without anybody in between.")),
    "ebics": (
        "EBICS",
        N_(
            "your company's own line to its bank, by keys and a letter: statements come daily, and orders wait there until you sign them."
        ),
    ),
    "enable_banking": (
        "Enable Banking",
        N_("a licensed company between you and banks in Europe; you sign in at your bank."),
    ),
    "salt_edge": ("Salt Edge", N_("a licensed company between you and banks worldwide; you sign in at your bank.")),
    SANDBOX: ("Sandbox", N_("a bank to try things out. Its accounts do not exist, and no money moves.")),
}


class Facts(NamedTuple):
    connection: ConnectionRow
    accounts: list[AccountRow]


@page("/connections", poll=5, help="connections")
async def bank_connections(visit: Visit) -> Response:
    lines = await visit.read(_lines, visit.organization_id)
    return visit.show(
        "bank_connections.html", lines=lines, bank_words=bank_words, now=visit.now, files=FILES, sandbox=SANDBOX
    )


def _lines(tx: Tx, organization_id: str) -> list[Facts]:
    by_connection = accounts.by_connection(tx, organization_id)
    return [Facts(row, by_connection.get(row.id, [])) for row in store.listing(tx, (organization_id,))]


@page("/connections/new", role="bookkeeping", help="connections")
async def connect_page(visit: Visit) -> Response:
    names = visit.context.part(Banking).connect_providers
    told = [PROVIDERS.get(name, (name, ANOTHER)) for name in names]
    return visit.show(
        "bank_connect.html",
        providers=[(name, _(sentence)) for name, sentence in told],
        goes_directly="fints" in names,
    )


@action("/connections/new")
async def connect(visit: Visit) -> Response:
    with visit.form.refusals():
        body = Connect(
            return_to=f"{visit.context.settings.base_url}{PATH}/return", customer_user_agent=visit.device[:300]
        )
        started: ConnectAnswer = await visit.ask(
            connect_routes.start_connect, query=ConnectQuery(organization_id=visit.organization_id), body=body
        )
        return visit.leave(started.connect_url, _("On the way to the bank"))
    response: Response = await connect_page.handler(visit)
    return response


@page("/connections/return", role="bookkeeping")
async def returned(visit: Visit) -> Response:
    """The page that the bank's pages lead back to, with the outcome in the address."""
    token = visit.query.get("pending_token", [""])[-1][:MAX_ID_LENGTH]
    error = visit.query.get("error_class", [""])[-1][:100]
    row = None
    if token.startswith(TOKEN_PREFIX):
        try:
            row = await visit.read(store.find, visit.principal, token)
        except NotFound:
            row = None
    where = PATH if row is None else f"{PATH}/{row.id}"
    if error:
        return visit.redirect(where, _("Not connected: %(why)s", why=bank_words.error_words(error)), "bad")
    if row is None:
        return visit.redirect(PATH)
    if row.status == "active":
        return visit.redirect(where, _("%(bank)s is connected.", bank=bank_words.bank_name(row)))
    return visit.redirect(where)


@page("/connections/{id}", poll=5, help="connections")
async def bank_connection(visit: Visit, id: str) -> Response:
    facts = await visit.read(_facts, visit.principal, id)
    row = facts.connection
    if row.id != id:
        # A connect flow that has become a connection.
        return visit.redirect(f"{PATH}/{row.id}")
    return visit.show(
        "bank_connection.html",
        facts=facts,
        row=row,
        state=bank_words.connection_state(row, visit.now),
        consent=bank_words.consent(row, visit.now),
        bank_words=bank_words,
        files=FILES,
        has_line=line.has_line(visit.context, row),
        not_read=[refusal(sentence) for sentence in row.sentences_not_read],
        may_refresh=row.status == "active" and row.provider != FILES and row.next_refresh_possible_at <= visit.now,
    )


def _facts(tx: Tx, principal: Principal, connection_id: str) -> Facts:
    row = _find(tx, principal, connection_id)
    return Facts(row, accounts.of_connection(tx, row.organization_id, row.id))


def _find(tx: Tx, principal: Principal, connection_id: str) -> ConnectionRow:
    if len(connection_id) > MAX_ID_LENGTH:
        raise NotFound("Connection not found.")
    return store.find(tx, principal, connection_id)


@action("/connections/{id}/refresh")
async def refresh(visit: Visit, id: str) -> Response:
    with visit.form.refusals():
        # The person waits for it; behind a socket of this machine there is no address.
        address = visit.exchange.ip if visit.exchange.ip != "unknown" else None
        body = Refresh(customer_ip_address=address, customer_user_agent=visit.device[:300])
        await visit.ask(refresh_bank_connection, id=id, body=body)
        return visit.redirect(f"{PATH}/{id}", _("The bank is being asked. Anything new will appear here in a moment."))
    return visit.redirect(f"{PATH}/{id}", visit.form.errors[""], "bad")


@action("/connections/{id}/reconnect")
async def reconnect(visit: Visit, id: str) -> Response:
    with visit.form.refusals():
        body = Reconnect(
            return_to=f"{visit.context.settings.base_url}{PATH}/return", customer_user_agent=visit.device[:300]
        )
        started: ConnectAnswer = await visit.ask(connect_routes.reconnect_bank_connection, id=id, body=body)
        return visit.leave(started.connect_url, _("On the way to the bank"))
    return visit.redirect(f"{PATH}/{id}", visit.form.errors[""], "bad")


@page("/connections/{id}/delete", role="bookkeeping", help="connections")
async def ask_to_delete(visit: Visit, id: str) -> Response:
    facts = await visit.read(_facts, visit.principal, id)
    row = facts.connection
    shared = await visit.read(accounts.shared_ids, row.organization_id, row.id)
    removes = [
        _("%(name)s (%(iban)s) with %(count)s", name=account.name, iban=figures.iban(account.iban) or "–",
          count=ngettext("one transaction", "%(num)s transactions", account.posted + account.pending))
        for account in facts.accounts
        if account.id not in shared
    ]  # fmt: skip
    removes += [
        _("Not the account %(name)s: it stays with its transactions, because another connection reaches it.", name=account.name)
        for account in facts.accounts
        if account.id in shared
    ]  # fmt: skip
    if row.provider != FILES and row.status != "pending_connect":
        removes.append(_("Access at the bank ends. To see the accounts again, connect the bank again."))
    return visit.ask_first(
        title=_("Delete the connection to %(bank)s?", bank=bank_words.bank_name(row)),
        text=_("This cannot be undone. Payments that were made stay in the list of payments.") + " "
        + (_("This will be removed:") if removes else _("Nothing was connected yet.")),
        removes=removes,
        button=_("Delete the connection"),
        back=f"{PATH}/{row.id}",
    )  # fmt: skip


@action("/connections/{id}/delete", confirm=True)
async def delete(visit: Visit, id: str) -> Response:
    row = await visit.read(_find, visit.principal, id)
    with visit.form.refusals():
        await visit.ask(routes.delete_bank_connection, id=row.id)
        return visit.redirect(PATH, _("The connection to %(bank)s has been deleted.", bank=bank_words.bank_name(row)))
    response: Response = await ask_to_delete.handler(visit, id)
    return response
