"""Bank connections: how they stand, for how long the consent lasts, connecting and renewing at the bank, refreshing, deleting."""

from __future__ import annotations

import re
from typing import Annotated, NamedTuple

from msgspec import Meta, Struct
from starlette.responses import Response

from kontobahn.access.principal import Principal
from kontobahn.banking.bank_line import Ability, WaitingOrder
from kontobahn.banking.connect import routes as connect_routes
from kontobahn.banking.connect.routes import Connect, ConnectAnswer, ConnectQuery, Reconnect
from kontobahn.banking.connections import accounts, line, routes, store
from kontobahn.banking.connections.accounts import AccountRow
from kontobahn.banking.connections.store import TOKEN_PREFIX, ConnectionRow, find
from kontobahn.banking.payments import order_files
from kontobahn.banking.provider import FILES, SANDBOX, Banking
from kontobahn.banking.reports.refresh import Refresh, refresh_bank_connection
from kontobahn.dashboard import bank_words, figures
from kontobahn.dashboard.declare import ROOT, action, page
from kontobahn.dashboard.figures import money
from kontobahn.dashboard.refusals import refusal
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import N_, _, ngettext
from kontobahn.db import Tx
from kontobahn.errors import Conflict, NotFound, Unavailable

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


# The company's own line to its bank: rights in words, orders that wait for a signature, signing, new keys, locking the
# access.


_ORDER_ID = re.compile(r"[A-Z][A-Z0-9]{3}")
# By kind: what the right is for.
RIGHTS = {
    "camt.053": N_("fetch account statements (camt.053)"),
    "mt940": N_("fetch account statements (MT940)"),
    "camt.052": N_("fetch the transactions of the day (camt.052)"),
    "camt.054": N_("fetch notifications of single credits (camt.054)"),
    "pain.002": N_("fetch reports on orders (pain.002)"),
    "payee_checks": N_("fetch results of the payee check (VPZ)"),
    "transfers": N_("send transfers"),
    "checked_transfers": N_("send transfers with a check of the payees"),
    "instant_transfers": N_("send instant transfers"),
    "checked_instant_transfers": N_("send instant transfers with a check of the payees"),
}
# By kind: what an order that waits is.
KINDS = {
    "transfers": N_("transfers"),
    "checked_transfers": N_("transfers with a check of the payees"),
    "instant_transfers": N_("instant transfers"),
    "checked_instant_transfers": N_("instant transfers with a check of the payees"),
}
CLASSES = {
    "E": N_("signs alone"),
    "A": N_("signs with another person"),
    "B": N_("signs with another person"),
    "T": N_("submits orders and releases nothing"),
}
UNKNOWN = N_("The bank's answer is missing. Look at the list: it shows whether the bank has done it.")


class Seen(Struct):
    """The hash of what the person was shown."""

    digest: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


async def _row(visit: Visit, connection_id: str) -> ConnectionRow:
    if len(connection_id) > MAX_ID_LENGTH:
        raise NotFound("Connection not found.")
    row = await visit.read(find, visit.principal, connection_id)
    line.line_of(visit.context, row)
    return row


def _address(row: ConnectionRow, rest: str = "") -> str:
    return f"{ROOT}/connections/{row.id}/line{rest}"


@page("/connections/{id}/line", help="bank-line")
async def bank_line(visit: Visit, id: str) -> Response:
    row = await _row(visit, id)
    facts = await line.facts(visit.context, row)
    return visit.show(
        "bank_line.html", row=row, facts=facts, name=bank_words.bank_name(row), address=_address(row),
        rights=[(_(RIGHTS[found.kind]), found, _class_words(found)) for found in facts.abilities or ()],
    )  # fmt: skip


def _class_words(ability: Ability) -> str:
    found = [_(CLASSES[name]) if name in CLASSES else name for name in ability.signature_class.split(", ") if name]
    return ", ".join(dict.fromkeys(found))


@action("/connections/{id}/line/ask")
async def ask_rights(visit: Visit, id: str) -> Response:
    row = await _row(visit, id)
    try:
        await line.ask_rights(visit.context, row)
    except (Conflict, Unavailable) as error:
        return visit.redirect(_address(row), refusal(str(error)), "bad")
    return visit.redirect(_address(row), _("The bank has told what you may do."))


@action("/connections/{id}/line/signing", role="owner", factor=True)
async def allow_signing(visit: Visit, id: str) -> Response:
    row = await _row(visit, id)
    allowed = visit.form.text("allowed") == "1"
    await line.allow_signing(visit.context, row, visit.actor, allowed=allowed)
    done = _("Orders can be signed here now.") if allowed else _("Orders can no longer be signed here.")
    return visit.redirect(_address(row), done)


# --- Orders that wait


@page("/connections/{id}/line/orders", help="bank-line")
async def waiting_orders(visit: Visit, id: str) -> Response:
    row = await _row(visit, id)
    found, problem = list[WaitingOrder](), ""
    try:
        found = await line.waiting(visit.context, row)
    except (Conflict, Unavailable) as error:
        problem = refusal(str(error))
    return visit.show(
        "bank_line_orders.html", row=row, name=bank_words.bank_name(row), address=_address(row), problem=problem,
        orders=[(order, refusal(order.why_not), await _file_id(visit, row, order)) for order in found],
        sum_of=_sum_of, kind_of=_kind_of,
    )  # fmt: skip


async def _file_id(visit: Visit, row: ConnectionRow, order: WaitingOrder) -> int | None:
    if order.message_id is None:
        return None
    file = await visit.read(order_files.by_message_id, row.organization_id, order.message_id)
    return None if file is None else file.id


def _kind_of(order: WaitingOrder) -> str:
    """Words for the order; the bank's own letters if it is of another kind than we send."""
    return _(KINDS[order.kind]) if order.kind in KINDS else order.kind


def _sum_of(order: WaitingOrder) -> str:
    return "–" if order.amount is None else money(order.amount, order.currency_code or "EUR")


def _in_words(order: WaitingOrder) -> list[str]:
    found = [
        _(
            "Order %(id)s (%(kind)s), sent by %(sender)s.",
            id=order.order_id,
            kind=_kind_of(order),
            sender=order.sender or "–",
        )
    ]
    if order.payments is None:
        found.append(_("Sum: %(sum)s.", sum=_sum_of(order)))
    else:
        found.append(
            ngettext("One payment, %(sum)s.", "%(num)s payments, %(sum)s.", order.payments, sum=_sum_of(order))
        )
    found.append(_("Signatures: %(done)s of %(needed)s.", done=order.done, needed=order.needed))
    if order.signers:
        found.append(_("Signed by: %(names)s.", names=", ".join(order.signers)))
    return found  # fmt: skip


async def _ask(visit: Visit, id: str, order_id: str, *, signs: bool) -> Response:
    """Shows what the bank has, before it is signed or cancelled."""
    row = await _row(visit, id)
    if not _ORDER_ID.fullmatch(order_id):
        raise NotFound("There is no such page.")
    try:
        order = await line.waiting_order(visit.context, row, order_id)
        if signs and order.why_not:
            raise Conflict(f"{order.why_not}.")
    except (Conflict, Unavailable) as error:
        return visit.redirect(_address(row, "/orders"), refusal(str(error)), "bad")
    file_id = await _file_id(visit, row, order)
    return visit.show(
        "bank_line_sign.html", order=order, signs=signs, facts=_in_words(order), back=_address(row, "/orders"), file_id=file_id
    )  # fmt: skip


@page("/connections/{id}/line/orders/{order_id}/sign", role="member", help="bank-line")
async def ask_to_sign(visit: Visit, id: str, order_id: str) -> Response:
    return await _ask(visit, id, order_id, signs=True)


@page("/connections/{id}/line/orders/{order_id}/cancel", role="member", help="bank-line")
async def ask_to_cancel(visit: Visit, id: str, order_id: str) -> Response:
    return await _ask(visit, id, order_id, signs=False)


@action("/connections/{id}/line/orders/{order_id}/sign", role="member", factor=True)
async def sign(visit: Visit, id: str, order_id: str) -> Response:
    return await _do(visit, id, order_id, signs=True)


@action("/connections/{id}/line/orders/{order_id}/cancel", role="member", factor=True)
async def cancel(visit: Visit, id: str, order_id: str) -> Response:
    return await _do(visit, id, order_id, signs=False)


async def _do(visit: Visit, id: str, order_id: str, *, signs: bool) -> Response:
    row = await _row(visit, id)
    seen = visit.form.read(Seen)
    if seen is None or not _ORDER_ID.fullmatch(order_id):
        raise NotFound("There is no such page.")
    back = _address(row, "/orders")
    try:
        order = await line.waiting_order(visit.context, row, order_id)
        done = await (line.sign if signs else line.cancel)(visit.context, row, order, seen.digest, visit.actor)
    except (Conflict, Unavailable) as error:
        return visit.redirect(back, refusal(str(error)), "bad")
    if done == "unknown":
        return visit.redirect(back, _(UNKNOWN), "bad")
    return visit.redirect(back, _("The bank has your signature.") if signs else _("The bank has cancelled the order."))


# --- Keys


@page("/connections/{id}/line/keys", role="admin", help="bank-line")
async def ask_to_change_keys(visit: Visit, id: str) -> Response:
    row = await _row(visit, id)
    return visit.ask_first(
        title=_("Give %(bank)s new keys?", bank=bank_words.bank_name(row)),
        text=_("New keys are made here and sent to the bank, signed with the present ones. No letter is needed."),
        removes=[_("The present keys hold until the bank has confirmed the new ones; after that they are worth nothing.")],
        button=_("Change the keys"),
        ends=False,
        back=_address(row),
    )  # fmt: skip


@action("/connections/{id}/line/keys", role="admin", factor=True)
async def change_keys(visit: Visit, id: str) -> Response:
    row = await _row(visit, id)
    try:
        if await line.change_keys(visit.context, row, visit.actor):
            return visit.redirect(_address(row), _("The bank has the new keys."))
    except (Conflict, Unavailable) as error:
        return visit.redirect(_address(row), refusal(str(error)), "bad")
    text = _("The bank has not confirmed the new keys. The present ones go on being used; try again later.")
    return visit.redirect(_address(row), text, "bad")


@page("/connections/{id}/line/suspend", role="admin", help="bank-line")
async def ask_to_suspend(visit: Visit, id: str) -> Response:
    row = await _row(visit, id)
    return visit.ask_first(
        title=_("Have %(bank)s lock this access?", bank=bank_words.bank_name(row)),
        text=_("Do this if the keys may have fallen into the wrong hands. The bank then takes nothing more from this user."),
        removes=[
            _("No statements are fetched and no orders are sent any more. What is here already stays."),
            _("This cannot be undone here: the bank has to activate you again, with new keys and a new letter."),
        ],
        button=_("Lock the access"),
        back=_address(row),
    )  # fmt: skip


@action("/connections/{id}/line/suspend", role="admin", factor=True)
async def suspend(visit: Visit, id: str) -> Response:
    row = await _row(visit, id)
    try:
        done = await line.suspend(visit.context, row, visit.actor)
    except (Conflict, Unavailable) as error:
        return visit.redirect(_address(row), refusal(str(error)), "bad")
    if done == "unknown":
        text = _("The bank's answer is missing: whether it has locked the access is not known. Try again.")
        return visit.redirect(_address(row), text, "bad")
    return visit.redirect(_address(row), _("The bank has locked the access."))
